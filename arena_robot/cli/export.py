"""
Write episodes in other data formats: DROID, RoboArena, LeRobot.

droid: trajectory.h5 and MP4s, one folder per episode. roboarena: the tree of RoboArena's data
dumps. lerobot: one LeRobotDataset v3.0 with all episodes, or one for each action space in a folder
with its name. Policies are named A and B until the
session's session.json contains the reveal. --jobs and --cluster are for droid and roboarena: a
LeRobotDataset grows episode by episode.
"""

import argparse
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.worker_arguments import add_worker_arguments, workers

if TYPE_CHECKING:
    from arena_robot.recording.formats.exporting import ExportSource
    from arena_robot.records.roboarena import RoboArenaSession

VERB = 'export'
HELP = 'write episodes as DROID, RoboArena or LeRobot data'
FORMATS = ('droid', 'roboarena', 'lerobot')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add sources, format and place."""
    parser.add_argument('folder', type=Path, nargs='+', help='sessions or episodes')
    parser.add_argument('--format', choices=FORMATS, required=True)
    parser.add_argument('--output', type=Path, help='folder to write into; default: '
                        'export/<format> here')
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Export and name what was written."""
    from arena_robot.cli.progress_bar import ProgressBar
    from arena_robot.recording.formats.exporting import sources

    output = args.output or Path('export') / args.format
    groups = [sources(place) for place in args.folder]
    found = [source for group in groups for source in group]
    if args.format == 'droid':
        from arena_robot.recording.formats.droid import export_droid
        with ProgressBar() as bar:
            written = workers(args).map(
                functools.partial(export_droid, output=output), found,
                lambda done, folder: bar.show(done, len(found), folder.name))
    elif args.format == 'roboarena':
        written = _roboarena(args, groups, output)
    else:
        from arena_robot.recording.formats.lerobot import export_lerobot
        written = export_lerobot(found, output, workers(args))
    for folder in written:
        print(folder)
    print(f'{len(found)} episodes exported as {args.format}')
    return 0


def _roboarena(args: argparse.Namespace, groups: 'Sequence[list[ExportSource]]',
               output: Path) -> list[Path]:
    from arena_robot.cli.progress_bar import ProgressBar
    from arena_robot.recording.formats.roboarena import unfinished, write_rollouts
    from arena_robot.records.roboarena_files import add_session, session_folder

    with ProgressBar() as bar, unfinished(output) as work:
        def finish(done: int, made: 'tuple[RoboArenaSession, dict[str, str], Path]') -> None:
            add_session(output, *made)
            bar.show(done, len(groups), made[0].session_id)

        made = workers(args).map(
            functools.partial(write_rollouts, output=output, work=work), groups, finish)
    return [session_folder(output, session.session_id) for session, *_ in made]
