"""
Derive steps.npz, one MP4 a view and episode.json from the bag of an episode.

Can be run again at any time: the bag is read, the derived files are replaced.
"""

import argparse
from pathlib import Path

VERB = 'episode derive'
HELP = 'make steps.npz, videos and episode.json from the bag of an episode'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folders and what to leave out."""
    parser.add_argument('folder', type=Path, nargs='+', help='an episode, such as …/A, or a '
                        'session with episodes in it')
    parser.add_argument('--no-videos', action='store_true', help='leave the videos out')


def run(args: argparse.Namespace) -> int:
    """Derive and name the files."""
    from arena_robot.cli.progress_bar import ProgressBar
    from arena_robot.recording.episode.derive import derive
    from arena_robot.recording.episode.folders import episodes

    for folder in [f for place in args.folder for f in episodes(place)]:
        with ProgressBar() as bar:
            summary = derive(folder, not args.no_videos, bar.show)
        files = [v['file'] for v in summary['views'].values() if v['file']]
        print(f"{folder}: {summary['steps']} steps, {len(summary['views'])} views, "
              f"ended: {summary['end_reason'] or 'unknown'}")
        print(f"  wrote episode.json steps.npz {' '.join(files)}".rstrip())
    return 0
