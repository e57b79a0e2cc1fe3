"""List the tasks of the simulated station: name, kind, and wordings of the instruction."""

import argparse

VERB = 'sim tasks'
HELP = 'list the tasks of the simulated station'
_SEEDS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--wordings', action='store_true', help='print every wording found')


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from arena_robot.drivers.sim.station import make_task
    from arena_robot.drivers.sim.tasks import TASKS
    for name, task in TASKS.rows().items():
        wordings = sorted({make_task(name, seed).setup.instruction for seed in range(_SEEDS)})
        print(f'{name:14} {task.category:15} {wordings[0]}')
        if args.wordings:
            for wording in wordings[1:]:
                print(f"{'':30} {wording}")
    return 0
