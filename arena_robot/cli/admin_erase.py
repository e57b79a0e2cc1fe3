"""
Delete the files of a session on the server's own machine; the log keeps their hashes.

Somebody who is in the pictures may ask for it. The session goes on counting. Its page and the log
say that files were deleted, when and why; the reason is public, so it names nobody:

    arena admin erase SESSION --reason 'a person in the pictures asked for it' --by ada
    arena admin erase SESSION --slot B --reason 'a face is seen' --by ada --data arena-data

A backup that was made before still has the files: make a new one, and delete the old.
"""

import argparse

from arena_robot.cli.server_place import add_place, config_at

VERB = 'admin erase'
HELP = 'delete the files of a session; the log keeps their hashes'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('session', help='the id of the session')
    parser.add_argument('--slot', default='', choices=['A', 'B', '-'],
                        help="one slot, or - for the session's own files (default: all)")
    parser.add_argument('--reason', required=True, help='why; it is public')
    parser.add_argument('--by', required=True, metavar='NAME', help='who deletes, for the log')
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Delete, and say how many files."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.erasing import eraser_of
    from arena_robot.server.store.database import Database

    config = config_at(args)
    with Database(config.database_url()) as database:
        count = eraser_of(config, database, SystemClock()).erase(
            args.session, args.slot, args.reason, args.by)
    print(f'deleted {count} files of session {args.session}; make a backup, and delete older ones')
    return 0
