"""Verbs that write and read the formats of others: export, import."""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import json_text, sentences

if TYPE_CHECKING:
    from arena_robot.recording.formats.exporting import ExportSource
    from arena_robot.records.roboarena import RoboArenaSession
    from arena_robot.server.store.evaluations import Imported

FORMATS = ('droid', 'roboarena', 'lerobot')


def export_arguments(parser: argparse.ArgumentParser) -> None:
    """Add sources, format and place."""
    parser.add_argument('folder', type=Path, nargs='+', help='sessions or episodes')
    parser.add_argument('--format', choices=FORMATS, required=True)
    parser.add_argument('--output', type=Path, help='folder to write into; default: '
                        'export/<format> here')
    add_worker_arguments(parser)


def run_export(args: argparse.Namespace) -> int:
    """
    Write episodes in other data formats: DROID, RoboArena, LeRobot.

    droid: trajectory.h5 and MP4s, one folder per episode. roboarena: the tree of RoboArena's data
    dumps. lerobot: one LeRobotDataset v3.0 with all episodes, or one for each action space, robot
    and rate in a folder with its name. Policies are named A and B until the session's
    session.json contains the reveal.
    """
    from arena_robot.cli.terminal import ProgressBar
    from arena_robot.recording.formats.exporting import sources

    output = args.output or Path('export') / args.format
    groups = [sources(place) for place in args.folder]
    episodes = [source for group in groups for source in group]
    if args.format == 'droid':
        from arena_robot.recording.formats.droid import export_droid
        with ProgressBar() as bar:
            written = workers(args).map(
                functools.partial(export_droid, output=output), episodes,
                lambda done, folder: bar.show(done, len(episodes), folder.name))
    elif args.format == 'roboarena':
        written = _roboarena(args, groups, output)
    else:
        from arena_robot.recording.formats.lerobot import export_lerobot
        written = export_lerobot(episodes, output, workers(args))
    print(json_text({'format': args.format, 'episodes': len(episodes),
                     'written': [str(folder) for folder in written]}) if args.json else
          '\n'.join([*map(str, written), f'{len(episodes)} episodes exported as {args.format}']))
    return 0


def _roboarena(args: argparse.Namespace, groups: 'Sequence[list[ExportSource]]',
               output: Path) -> list[Path]:
    from arena_robot.cli.terminal import ProgressBar
    from arena_robot.recording.formats.roboarena import unfinished, write_rollouts
    from arena_robot.records.roboarena_files import add_session, session_folder

    with ProgressBar() as bar, unfinished(output) as work:
        def finish(done: int, made: 'tuple[RoboArenaSession, dict[str, str], Path]') -> None:
            add_session(output, *made)
            bar.show(done, len(groups), made[0].session_id)

        made = workers(args).map(
            functools.partial(write_rollouts, output=output, work=work), groups, finish)
    return [session_folder(output, session.session_id) for session, *_ in made]


def import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source and place."""
    parser.add_argument('source', type=Path, help='a data dump, a folder with sessions.csv, or '
                        'that file')
    parser.add_argument('--output', type=Path, default=Path('sessions'),
                        help='folder to write into (default: sessions)')
    parser.add_argument('--server-data', type=Path, metavar='DIR',
                        help='data folder of an arena server to load them into')
    parser.add_argument('--database', metavar='URL', help='its database, if not in that folder')


def run_import(args: argparse.Namespace) -> int:
    """
    Read a RoboArena data dump, or the tables sessions.csv and episodes.csv, into session records.

    Writes <output>/<session>/session.json for each session, and both tables for `arena rank`. With
    --server-data the sessions also go into that arena server's database, where they count in its
    rankings; its policies are retired, so they are never assigned. Invalid rows are left out and
    listed on standard error.
    """
    from dataclasses import asdict

    from arena_robot.cli.terminal import tell_refused
    from arena_robot.records.importing import read_evaluations, write_evaluations
    from arena_robot.records.roboarena_files import dump_totals

    data = read_evaluations(args.source)
    tell_refused(data)
    sessions, count = data.sessions, len(data.sessions)
    write_evaluations(sessions, args.output, args.source.name)
    summary = {'sessions': count, 'valid': sum(s.counts for s in sessions),
               'rollouts': sum(len(s.rollouts) for s in sessions), 'output': str(args.output),
               'refused': list(data.refusals()), 'server': None}
    say = sentences(args)
    say(f"{count} sessions, {summary['valid']} with a valid verdict, {summary['rollouts']} "
        f'rollouts, written to {args.output}')
    declared = dump_totals(args.source).get('total_sessions', count)
    if declared != count + len(data.refused):
        say(f'the dump says that it holds {declared} sessions; the rest is missing on this disk')
    if args.server_data or args.database:
        done = _load(args, sessions)
        summary['server'] = asdict(done)
        say(f'the server has {done.sessions} more sessions and {done.episodes} more rollouts; '
            f'{done.known} sessions were there')
    if args.json:
        print(json_text(summary))
    return 0


def _load(args: argparse.Namespace, sessions: 'Sequence[RoboArenaSession]') -> 'Imported':
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.tuning import loading
    with loading():
        from arena_robot.server.config import ServerConfig
        from arena_robot.server.sessions.acceptance import enter_imported
        from arena_robot.server.store.database import Database
        from arena_robot.server.store.evaluations import insert_evaluations
        from arena_robot.server.transparency.keys import LogKey
        from arena_robot.server.transparency.log import TransparencyLog

    clock = SystemClock()
    config = ServerConfig(data=args.server_data or Path(), database=args.database or '')
    with Database(config.database_url()) as database:
        done = insert_evaluations(database, clock, sessions)
        log = TransparencyLog(database, LogKey(config.data / 'log.key'), clock)
        enter_imported(database, log)
    return done
