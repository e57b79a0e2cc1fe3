"""
Read a RoboArena data dump, or the tables sessions.csv and episodes.csv, into session records.

Writes <output>/<session>/session.json for each session, and both tables for `arena rank`. With
--server-data the sessions also go into that arena server's database, where they count in its
rankings; its policies are retired, so they are never assigned. Invalid rows are left out and
listed on standard error.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.records.roboarena import RoboArenaSession

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
    parser.add_argument('--database', metavar='URL', help='its database, if not in that folder')


def run(args: argparse.Namespace) -> int:
    """Import and count."""
    from arena_robot.cli.refused import tell_refused
    from arena_robot.records.importing import read_evaluations, write_evaluations
    from arena_robot.records.roboarena_files import dump_totals

    data = read_evaluations(args.source)
    tell_refused(data)
    sessions, count = data.sessions, len(data.sessions)
    write_evaluations(sessions, args.output, args.source.name)
    decided = sum(s.counts for s in sessions)
    rollouts = sum(len(s.rollouts) for s in sessions)
    print(f'{count} sessions, {decided} with a valid verdict, {rollouts} rollouts, written to '
          f'{args.output}')
    said = dump_totals(args.source).get('total_sessions', count)
    if said != count + len(data.refused):
        print(f'the dump says that it holds {said} sessions; the rest is missing on this disk')
    if args.server_data or args.database:
        _load(args, sessions)
    return 0


def _load(args: argparse.Namespace, sessions: 'Sequence[RoboArenaSession]') -> None:
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.tuning import loading
    with loading():
        from arena_robot.server.acceptance import enter_imported
        from arena_robot.server.config import ServerConfig
        from arena_robot.server.store.database import Database
        from arena_robot.server.store.evaluations import insert_evaluations
        from arena_robot.server.transparency.keys import LogKey
        from arena_robot.server.transparency.service import TransparencyLog

    clock = SystemClock()
    config = ServerConfig(data=args.server_data or Path(), database=args.database or '')
    with Database(config.database_url()) as database:
        done = insert_evaluations(database, clock, sessions)
        log = TransparencyLog(database, LogKey(config.data / 'log.key'), clock)
        enter_imported(database, log)
    print(f'the server has {done.sessions} more sessions and {done.episodes} more rollouts; '
          f'{done.known} sessions were there')
