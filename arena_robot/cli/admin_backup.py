"""
Back up a server on its own machine; it may run meanwhile.

    arena admin backup /backups/arena --config /etc/arena/server.yaml
    arena admin backup /backups/arena --data arena-data

The folder gets a snapshot of the database, the keys of the data folder and all uploaded files.
Repeated with the same folder, it copies only files that are new. `arena admin restore` puts it
back and checks it. See docs/operations.md.
"""

import argparse
from pathlib import Path

from arena_robot.cli.server_place import add_place, config_at

VERB = 'admin backup'
HELP = 'back up a server, which may run meanwhile'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder of the backup')
    add_place(parser)


def run(args: argparse.Namespace) -> int:
    """Write the backup, and print what it holds."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.backup import back_up

    config = config_at(args)
    found = back_up(config, args.folder, SystemClock())
    print(f'{args.folder}: {found.sessions} sessions, {found.files} files, '
          f'{found.bytes / 1e6:.1f} MB, schema {found.schema}')
    if found.unchecked:
        print(f'note: {found.unchecked}')
    return 0
