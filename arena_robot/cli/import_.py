"""
Read a RoboArena data dump, or the tables sessions.csv and episodes.csv, into session records.

Writes <output>/<session>/session.json for each session, and both tables for `arena rank`. With
--server-data the sessions also go into that arena server's database, where they count in its
rankings; its policies are retired, so nobody is assigned one.
"""

import argparse
from pathlib import Path

VERB = 'import'
HELP = 'read a RoboArena data dump or CSV tables into session records'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source and place."""
    parser.add_argument('source', type=Path, help='a data dump, a folder with sessions.csv, or '
                        'that file')
    parser.add_argument('--output', type=Path, default=Path('sessions'),
                        help='folder to write into (default: sessions)')
    parser.add_argument('--server-data', type=Path, metavar='DIR',
                        help='data folder of an arena server to load them into')
    parser.add_argument('--database', metavar='URL', help='its database, where it is elsewhere')


def run(args: argparse.Namespace) -> int:
    """Import and count."""
    from arena_robot.recording.formats.importing import dump_totals, read_any, write_records

    sessions = read_any(args.source)
    count = write_records(sessions, args.output, args.source.name)
    decided = sum(s.valid and bool(s.preference) for s in sessions)
    rollouts = sum(len(s.rollouts) for s in sessions)
    print(f'{count} sessions, {decided} with a valid verdict, {rollouts} rollouts, written to '
          f'{args.output}')
    said = dump_totals(args.source).get('total_sessions', count)
    if said != count:
        print(f'the dump says that it holds {said} sessions; the rest is missing on this disk')
    if args.server_data or args.database:
        _load(args)
    return 0


def _load(args: argparse.Namespace) -> None:
    from arena_robot.core.clock import SystemClock
    from arena_robot.server.config import ServerConfig
    from arena_robot.server.roboarena_csv import import_tables
    from arena_robot.server.store.database import Database

    config = ServerConfig(data=args.server_data or Path(), database=args.database or '')
    with Database(config.database_url()) as database:
        done = import_tables(database, SystemClock(), args.output)
    print(f'the server has {done.sessions} more sessions and {done.episodes} more rollouts; '
          f'{done.known} sessions were there')
