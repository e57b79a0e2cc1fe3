"""
Restore a backup into an empty place, and check what came back.

    arena admin restore /backups/arena --config /etc/arena/server.yaml
    arena admin restore /backups/arena --data arena-data

Nothing is overwritten: the data folder and the database must be empty. The files of the backup
are compared with its SHA-256 sums before, the ledger, the log and the uploaded files are checked
afterwards. Then the server can be started. See docs/operations.md.
"""

import argparse
from pathlib import Path

from arena_robot.cli.server_place import add_place, config_at

VERB = 'admin restore'
HELP = 'restore a backup of a server, and check it'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder of the backup')
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Restore, and print what is there."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.restoring import restore

    config = config_at(args)
    found = restore(config, args.folder, SystemClock())
    print(f'{config.data}: {found.sessions} sessions, {found.files} files, '
          f'{found.bytes / 1e6:.1f} MB, schema {found.schema}; ledger, log and files are whole')
    if found.unchecked:
        print(f'note: {found.unchecked}')
    return 0
