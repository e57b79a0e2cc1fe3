"""
Derive steps.npz, one MP4 per view and episode.json from the bag of an episode.

Can be run again: the bag is only read, the derived files are replaced.
"""

import argparse
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.worker_arguments import add_worker_arguments, workers

if TYPE_CHECKING:
    from arena_robot.records.episode_file import EpisodeFile

VERB = 'episode derive'
HELP = 'write steps.npz, videos and episode.json from the bag of an episode'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folders and what to leave out."""
    parser.add_argument('folder', type=Path, nargs='+', help='an episode, such as …/A, or a '
                        'session with episodes in it')
    parser.add_argument('--no-videos', action='store_true', help='write no videos')
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Derive and name the files."""
    from arena_robot.records.episode_file import EPISODE_FILE, episodes

    folders = [f for place in args.folder for f in episodes(place)]
    for folder, summary in zip(folders, _derived(args, folders), strict=True):
        files = [v.file for v in summary.views.values() if v.file]
        print(f'{folder}: {summary.steps} steps, {len(summary.views)} views, '
              f"ended: {summary.end_reason or 'unknown'}")
        print(f"  wrote {EPISODE_FILE} steps.npz {' '.join(files)}".rstrip())
    return 0


def _derived(args: argparse.Namespace, folders: list[Path]) -> Iterator['EpisodeFile']:
    from arena_robot.cli.progress_bar import ProgressBar
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
        found = at_work.map(work, folders,
                            lambda done, _: bar.show(done, len(folders), 'episodes'))
    yield from found
