"""
Write episodes in the layouts that other people's tools read.

droid: trajectory.h5 and MP4s, one folder an episode. roboarena: the tree of RoboArena's data
dumps. lerobot: one LeRobotDataset v3.0 with all episodes. Policies are named once the session's
session.json holds the reveal, and are A and B before.
"""

import argparse
from pathlib import Path

VERB = 'export'
HELP = 'write episodes as DROID, RoboArena or LeRobot data'
FORMATS = ('droid', 'roboarena', 'lerobot')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add sources, format and place."""
    parser.add_argument('folder', type=Path, nargs='+', help='sessions or episodes')
    parser.add_argument('--format', choices=FORMATS, required=True)
    parser.add_argument('--output', type=Path, help='folder to write into; default: '
                        'export/<format> here')


def run(args: argparse.Namespace) -> int:
    """Export and name what was written."""
    from arena_robot.recording.formats.session_words import sources

    output = args.output or Path('export') / args.format
    groups = [sources(place) for place in args.folder]
    found = [source for group in groups for source in group]
    if args.format == 'droid':
        from arena_robot.recording.formats.droid import export_droid
        written = [export_droid(source, output) for source in found]
    elif args.format == 'roboarena':
        from arena_robot.recording.formats.roboarena import export_roboarena
        written = [export_roboarena(group, output) for group in groups]
    else:
        from arena_robot.recording.formats.lerobot import export_lerobot
        written = [export_lerobot(found, output)]
    for folder in written:
        print(folder)
    print(f'{len(found)} episodes exported as {args.format}')
    return 0
