"""Verbs on the folders of episodes: check, derive, recover, export, view, import."""

import argparse
import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import json_text, sentences

if TYPE_CHECKING:
    from arena_robot.records.episode_file import EpisodeFile

_MARKS = {'ok': 'ok  ', 'warning': 'WARN', 'failure': 'FAIL'}


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folders, and the choice of JSON."""
    parser.add_argument('folder', type=Path, nargs='+', help='an episode, such as …/A, or a '
                        'session with episodes in it')
    parser.add_argument('--strict', action='store_true', help='also fail on warnings')
    add_worker_arguments(parser)


def run_check(args: argparse.Namespace) -> int:
    """
    Check the folder of an episode: schema, rates, skew, losses, stamps, journal, every file.

    Exit code 0 when nothing failed (warnings are allowed), 1 when something did.
    """
    from dataclasses import asdict

    from arena_robot.cli.terminal import ProgressBar
    from arena_robot.recording.episode.check import FindingLevel, check
    from arena_robot.records.episode_file import episodes

    folders = [folder for place in args.folder for folder in episodes(place)]
    with ProgressBar() as bar:
        reports = workers(args).map(check, folders, lambda done, report: bar.show(
            done, len(folders), report.folder.name))
    bad = {FindingLevel.FAILURE, FindingLevel.WARNING} if args.strict else {FindingLevel.FAILURE}
    if args.json:
        print(json_text([{'folder': str(r.folder), 'passed': r.passed,
                           'summary': asdict(r.summary),
                           'findings': [{'level': f.level.value, 'what': f.what, 'text': f.text}
                                        for f in r.findings]} for r in reports]))
    else:
        for report in reports:
            print(report.folder)
            for f in report.findings:
                print(f'  {_MARKS[f.level.value]}  {f.what:<22} {f.text}')
            print(f"  {'sound' if report.passed else 'NOT sound'}\n")
    return int(any(f.level in bad for r in reports for f in r.findings))


def derive_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folders and what to leave out."""
    parser.add_argument('folder', type=Path, nargs='+', help='an episode, such as …/A, or a '
                        'session with episodes in it')
    parser.add_argument('--no-videos', action='store_true', help='write no videos')
    add_worker_arguments(parser)


def run_derive(args: argparse.Namespace) -> int:
    """
    Derive steps.npz, one MP4 per view and episode.json from the bag of an episode.

    Can be run again: the bag is only read, the derived files are replaced.
    """
    from arena_robot.records.episode_file import EPISODE_FILE, episodes

    folders = [f for place in args.folder for f in episodes(place)]
    rows = []
    for folder, summary in zip(folders, _derived(args, folders), strict=True):
        files = [EPISODE_FILE, 'steps.npz', *(v.file for v in summary.views.values() if v.file)]
        rows.append({'folder': str(folder), 'steps': summary.steps, 'files': files,
                     'end_reason': summary.end_reason})
        if not args.json:
            print(f'{folder}: {summary.steps} steps, {len(summary.views)} views, ended: '
                  f"{summary.end_reason or 'unknown'}\n  wrote {' '.join(files)}")
    if args.json:
        print(json_text(rows))
    return 0


def _derived(args: argparse.Namespace, folders: list[Path]) -> Iterator['EpisodeFile']:
    from arena_robot.cli.terminal import ProgressBar
    from arena_robot.core.parallel import HERE
    from arena_robot.recording.episode.derive import derive

    at_work = workers(args)
    if at_work == HERE:
        for folder in folders:
            with ProgressBar() as bar:
                yield derive(folder, not args.no_videos, bar.show)
        return
    work = functools.partial(derive, videos=not args.no_videos)
    with ProgressBar() as bar:
        summaries = at_work.map(work, folders,
                                lambda done, _: bar.show(done, len(folders), 'episodes'))
    yield from summaries


def recover_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and where the copy goes."""
    parser.add_argument('folder', type=Path, help='the damaged episode, such as …/A, or a '
                        'session with damaged episodes in it')
    parser.add_argument('--output', type=Path, help='write the recovered bag here instead of '
                        'replacing the damaged one')
    parser.add_argument('--force', action='store_true', help='also copy a bag that is complete')


def run_recover(args: argparse.Namespace) -> int:
    """
    Recover an episode that was cut off or damaged: copy all that can be read into a complete bag.

    The damaged files are kept unchanged in <folder>_damaged, or stay where they are with --output.
    """
    from dataclasses import asdict

    from arena_robot.core.errors import DataError
    from arena_robot.recording.bag.recover import damages, is_complete, recover
    from arena_robot.records.episode_file import episodes

    folders = episodes(args.folder)
    if args.output and len(folders) > 1:
        raise DataError(f'--output takes one episode, {args.folder} holds {len(folders)}')
    rows = []
    say = sentences(args)
    for folder in folders:
        if is_complete(folder) and not damages(folder) and not args.force:
            say(f'{folder} is complete; nothing to do')
            continue
        saved = recover(folder, args.output)
        rows.append(asdict(saved))
        say(f'{saved.folder}: {saved.messages} messages of {saved.topics} topics saved, '
            f'{(saved.end_ns - saved.start_ns) * 1e-9:.1f} s\n'
            f'  {saved.bytes / 1e6:.1f} MB read in {saved.took_s:.1f} s '
            f'({saved.took_s / max(saved.bytes, 1) * 1e8:.1f} s per 100 MB)')
        for part in saved.skipped:
            say(f'  skipped: {part.bytes} bytes at {part.offset} of {part.file}: {part.reason}')
        say(f'  the damaged files are in {saved.damaged}\n'
            f'  next: arena episode derive {saved.folder}')
    if args.json:
        print(json_text(rows))
    return 0


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


def view_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to view, where the file goes, and what it names."""
    parser.add_argument('place', type=Path, metavar='EPISODE|SESSION', help='an episode, such as '
                        '…/A, or a session: its rollouts beside each other')
    parser.add_argument('--out', type=Path, metavar='FILE', help='the recording for Rerun; '
                        'default: SESSION.rrd or SESSION_SLOT.rrd here')
    parser.add_argument('--no-open', action='store_true', help='only write the file')
    parser.add_argument('--names', action='store_true', help='call the rollouts by their '
                        'policies; refused before the reveal')
    parser.add_argument('--foxglove', action='store_true', help='write a folder for Foxglove '
                        'instead: a bag with both rollouts, and its layout')


def run_view(args: argparse.Namespace) -> int:
    """
    Write a recording for the Rerun viewer, and open it: cameras, curves, chunks, clamps, verdict.

    Both rollouts of a session begin at second 0 of one timeline. They are called A and B; --names
    calls them by their policies, which is refused before the reveal. --foxglove writes a folder
    for Foxglove: a bag in which both rollouts begin at once, below /A and /B, and layout.json.
    """
    from arena_robot.recording.formats.exporting import sources

    found = sources(args.place)
    if args.foxglove:
        return _foxglove(args, found)
    from arena_robot.recording.formats.rerun_file import write_rerun
    slot = f'_{found[0].slot}' if len(found) == 1 else ''
    path = args.out or Path(f'{found[0].session.session_id}{slot}.rrd')
    write_rerun(found, path, args.names)
    print(json_text({'written': path, 'rollouts': [source.slot for source in found]})
          if args.json else f'{path}: {path.stat().st_size / 1e6:.1f} MB')
    if args.no_open:
        return 0
    if sys.platform == 'linux' and not {'DISPLAY', 'WAYLAND_DISPLAY'} & set(os.environ):
        sentences(args)(f'no display here: `rerun {path.name}` opens the file where there is one')
        return 0
    return subprocess.run([sys.executable, '-m', 'rerun', path], check=False).returncode


def _foxglove(args: argparse.Namespace, found: 'Sequence[ExportSource]') -> int:
    from arena_robot.core.errors import ConfigError
    from arena_robot.recording.formats.foxglove import write_foxglove

    if args.names:
        raise ConfigError('--names is for Rerun; in Foxglove the rollouts are /A and /B')
    bag, layout = write_foxglove(
        found, args.out or Path(f'{found[0].session.session_id}_foxglove'))
    print(json_text({'written': bag, 'layout': layout, 'rollouts': [
        source.slot for source in found]}) if args.json else f'open {bag} in Foxglove, and import '
        f'the layout {layout}')
    return 0


def import_arguments(parser: argparse.ArgumentParser) -> None:
    """Add source and place."""
    parser.add_argument('source', type=Path, help='a data dump, a folder with sessions.csv, that '
                        'file, a .csv of trials, or a LeRobotDataset v3')
    parser.add_argument('--output', type=Path, default=Path('sessions'),
                        help='folder to write into (default: sessions)')
    parser.add_argument('--server-data', type=Path, metavar='DIR',
                        help='data folder of an arena server to load them into')
    parser.add_argument('--database', metavar='URL', help='its database, if not in that folder')


def run_import(args: argparse.Namespace) -> int:
    """
    Read a RoboArena data dump, sessions.csv with episodes.csv, or a LeRobotDataset, into sessions.

    A .csv with the columns task, model, robot, trials and successes has independent trials, as
    RoboChallenge publishes them; they are paired by lot (docs/ranking.md).
    A LeRobotDataset v3 (a local folder) becomes episodes, for `arena audit`, `view` and `replay`.
    Writes <output>/<session>/session.json for each session, and both tables for `arena rank`. With
    --server-data the sessions also go into that arena server's database, where they count in its
    rankings; its policies are retired, so they are never assigned. Invalid rows are left out and
    listed on standard error.
    """
    from dataclasses import asdict

    from arena_robot.cli.terminal import tell_refused
    from arena_robot.records import roboarena_files

    if (args.source / 'meta' / 'info.json').is_file():
        return _import_lerobot(args)
    data = roboarena_files.read_evaluations(args.source)
    tell_refused(data)
    sessions, count = data.sessions, len(data.sessions)
    roboarena_files.write_evaluations(sessions, args.output, args.source.name)
    summary = {'sessions': count, 'valid': sum(s.counts for s in sessions),
               'rollouts': sum(len(s.rollouts) for s in sessions), 'output': str(args.output),
               'refused': list(data.refusals()), 'server': None}
    say = sentences(args)
    say(f"{count} sessions, {summary['valid']} with a valid verdict, {summary['rollouts']} "
        f'rollouts, written to {args.output}')
    declared = roboarena_files.dump_totals(args.source).get('total_sessions')
    if declared not in (None, count + len(data.refused)):
        say(f'the dump says that it holds {declared} sessions; the rest is missing on this disk')
    if args.server_data or args.database:
        done = _load(args, sessions)
        summary['server'] = asdict(done)
        say(f'the server has {done.sessions} more sessions and {done.episodes} more rollouts; '
            f'{done.known} sessions were there')
    if args.json:
        print(json_text(summary))
    return 0


def _import_lerobot(args: argparse.Namespace) -> int:
    from arena_robot.core.errors import ConfigError
    from arena_robot.recording.formats.lerobot_episodes import import_lerobot, read_lerobot

    if args.server_data or args.database:
        raise ConfigError('a LeRobotDataset has no sessions for a server; leave out --server-data '
                          'and --database')
    written = import_lerobot(read_lerobot(args.source), args.output)
    print(json_text({'written': [str(folder) for folder in written]}) if args.json else
          '\n'.join([*map(str, written), f'{len(written)} episodes, written to {args.output}']))
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
