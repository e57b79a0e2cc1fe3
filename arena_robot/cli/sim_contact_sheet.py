"""Render every task of the simulated station from all three cameras into one image."""

import argparse
from pathlib import Path

VERB = 'sim contact-sheet'
HELP = 'render all simulated tasks from all cameras into one image'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('out', type=Path, help='picture to write (.jpg or .png)')
    parser.add_argument('--tasks', default='all', metavar='A,B',
                        help='task names separated by commas (all)')
    parser.add_argument('--seed', type=int, default=0, help='variation of every task (its row)')
    parser.add_argument('--width', type=int, default=384, help='of one view, px (%(default)s)')
    parser.add_argument('--columns', type=int, default=2, help='tasks in a row (%(default)s)')
    parser.add_argument('--plain', action='store_true', help='without shadows, as for policies')


def run(args: argparse.Namespace) -> int:
    """Write the picture."""
    from arena_robot.drivers.sim.contact_sheet import contact_sheet, write_picture
    from arena_robot.drivers.sim.tasks import TASKS
    names = TASKS.names() if args.tasks == 'all' else args.tasks.split(',')
    sheet = contact_sheet(names, args.seed, args.width, args.columns, beauty=not args.plain)
    write_picture(args.out, sheet)
    print(f'{args.out}: {len(names)} tasks, {sheet.shape[1]}x{sheet.shape[0]}, '
          f'{args.out.stat().st_size / 1024:.0f} KiB')
    return 0
