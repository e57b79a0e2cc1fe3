"""Verbs on the folders of episodes: check, derive, recover."""

import argparse
import functools
from collections.abc import Iterator
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
