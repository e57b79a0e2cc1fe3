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

VERB = 'admin backup'
HELP = 'back up a server, which may run meanwhile'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('folder', type=Path, metavar='DIR', help='folder of the backup')
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--config', type=Path, metavar='FILE', help="the server's configuration")
    where.add_argument('--data', type=Path, metavar='DIR', default=Path('arena-data'),
                       help="the server's data folder (default %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Write the backup, and print what it holds."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.config import load
    from arena_robot.server.backup import back_up
    from arena_robot.server.config import ServerConfig

    config = load(ServerConfig, args.config) if args.config else ServerConfig(data=args.data)
    found = back_up(config, args.folder, SystemClock())
    print(f'{args.folder}: {found.sessions} sessions, {found.files} files, '
          f'{found.bytes / 1e6:.1f} MB, schema {found.schema}')
    return 0
