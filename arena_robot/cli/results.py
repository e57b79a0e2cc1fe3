"""
Export the results of an arena server: tables, and sessions with all their files.

    arena results --data arena-data --output out
    arena results --config server.yaml --output out --files
    arena export out/sessions/* --format roboarena --output dump

Writes sessions.csv and episodes.csv with the columns that `arena rank` reads; with --files every
finished session as a folder below sessions/, as a station keeps it. The server may be running.
"""

import argparse
import sys
from pathlib import Path

VERB = 'results'
HELP = 'export tables and sessions of an arena server'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--config', type=Path, metavar='FILE', help="the server's configuration")
    where.add_argument('--data', type=Path, metavar='DIR', default=Path('arena-data'),
                       help="the server's data folder (default %(default)s)")
    parser.add_argument('--output', type=Path, required=True, metavar='DIR')
    parser.add_argument('--files', action='store_true', help='bags, videos and steps too')


def run(args: argparse.Namespace) -> int:
    """Write what is there."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.config import load
    from arena_robot.server.blobs import Blobs
    from arena_robot.server.config import ServerConfig
    from arena_robot.server.roboarena_csv import export_tables
    from arena_robot.server.sealing import seal_of
    from arena_robot.server.session_folders import materialise
    from arena_robot.server.store.browse import Browse
    from arena_robot.server.store.database import Database
    from arena_robot.server.uploads import Uploads

    config = load(ServerConfig, args.config) if args.config else ServerConfig(data=args.data)
    key = config.key_path()
    with Database(config.database_url(), seal_of(key) if key.exists() else None) as database:
        for path in export_tables(database, args.output):
            print(path)
        if not args.files:
            return 0
        blobs = Blobs(config.blobs_url())
        blobs.open()
        uploads = Uploads(database, blobs, config.data / 'spool', SystemClock())
        count = 0
        for folder in materialise(Browse(database), uploads, blobs, args.output / 'sessions'):
            count += 1
            print(f'\r{count} sessions, the last {folder.name}', end='', file=sys.stderr)
        print(f'{count} sessions with their files in {args.output / "sessions"}')
    return 0
