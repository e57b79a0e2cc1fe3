"""
Recover an episode that was cut off or damaged: copy all that can be read into a complete bag.

The damaged files are kept unchanged in <folder>_damaged, or stay where they are with --output.
"""

import argparse
from pathlib import Path

VERB = 'episode recover'
HELP = 'recover an episode whose recording was cut off or damaged'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and where the copy goes."""
    parser.add_argument('folder', type=Path, help='the damaged episode, such as …/A, or a '
                        'session with damaged episodes in it')
    parser.add_argument('--output', type=Path, help='write the recovered bag here instead of '
                        'replacing the damaged one')
    parser.add_argument('--force', action='store_true', help='also copy a bag that is complete')


def run(args: argparse.Namespace) -> int:
    """Recover damaged episodes and print what was saved."""
    from arena_robot.core.errors import DataError
    from arena_robot.recording.bag.recover import damages, is_complete, recover
    from arena_robot.records.episode_file import episodes

    folders = episodes(args.folder)
    if args.output and len(folders) > 1:
        raise DataError(f'--output takes one episode, {args.folder} holds {len(folders)}')
    for folder in folders:
        if is_complete(folder) and not damages(folder) and not args.force:
            print(f'{folder} is complete; nothing to do')
            continue
        saved = recover(folder, args.output)
        print(f'{saved.folder}: {saved.messages} messages of {saved.topics} topics saved, '
              f'{(saved.end_ns - saved.start_ns) * 1e-9:.1f} s\n'
              f'  {saved.bytes / 1e6:.1f} MB read in {saved.took_s:.1f} s '
              f'({saved.took_s / max(saved.bytes, 1) * 1e8:.1f} s per 100 MB)')
        for part in saved.skipped:
            print(f'  skipped: {part.bytes} bytes at {part.offset} of {part.file}: {part.reason}')
        print(f'  the damaged files are in {saved.damaged}\n'
              f'  next: arena episode derive {saved.folder}')
    return 0
