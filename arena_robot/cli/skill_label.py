"""
Make a dataset of labelled solutions by executing them on the simulated station.

  arena skill label skills.jsonl --jobs 2
  arena skill label skills.jsonl --tasks open_drawer,close_drawer --bases 8

Per task, base solutions are written and executed, then completions from every prefix of the first
one that succeeded. A prefix is good when a solution that succeeded begins with it. A call that
was interrupted goes on.
"""

import argparse
import json
from pathlib import Path

from arena_robot.cli.progress_bar import ProgressBar
from arena_robot.cli.skill_arguments import (
    add_learner_argument,
    add_policy_arguments,
    add_task_argument,
    executor,
    policy,
    specs,
)
from arena_robot.cli.worker_arguments import add_worker_arguments, workers

VERB = 'skill label'
HELP = 'execute solutions and label their prefixes'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('file', type=Path, metavar='FILE', help='the dataset (.jsonl)')
    parser.add_argument('--bases', type=int, default=3, metavar='N',
                        help='solutions per task (default %(default)s)')
    parser.add_argument('--completions', type=int, default=3, metavar='N',
                        help='from each prefix (default %(default)s)')
    parser.add_argument('--completed', choices=('first', 'random', 'all'), default='first',
                        help='which successful base solutions are completed (default %(default)s)')
    parser.add_argument('--pool', type=Path, metavar='FILE',
                        help='exemplars to begin with; successes join them')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='exemplars per prompt (default %(default)s)')
    parser.add_argument('--batch', type=int, default=4, metavar='N',
                        help='tasks after which the pool grows (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print the counts as JSON')
    add_task_argument(parser)
    add_policy_arguments(parser)
    add_learner_argument(parser)
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make the dataset and print its counts."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.dataset import LabelMakers, Provenance, counts, make_dataset
    from arena_robot.skills.labelling import CompletedBase, LabelSettings
    from arena_robot.skills.pool import read_pool

    if args.batch < 1:
        raise ConfigError(f'--batch must be at least 1, found {args.batch}')
    name, maker = policy(args)
    executor_name, executor_of = executor(args)
    tasks = specs(args)
    settings = LabelSettings(args.bases, args.completions, CompletedBase(args.completed),
                             args.exemplars, args.seed)
    about = Provenance(name, executor_name, settings, args.batch, tuple(one.name for one in tasks),
                       str(args.pool or 'pool'))
    with ProgressBar() as bar:
        data = make_dataset(args.file, tasks, about,
                            LabelMakers(maker, executor_of, settings),
                            read_pool(args.pool) if args.pool else None, workers(args), bar.show)
    found = counts(data.tasks)
    if args.json:
        print(json.dumps({'policy': name, 'executor': executor_name, **found}, indent=2))
    else:
        print(f'{args.file}: {found["tasks"]} tasks, {found["solutions"]} solutions, '
              f'{found["successful"]} successful ({found["claimed"]} by their own indicators), '
              f'{found["malformed"]} malformed\n{found["subtasks"]} prefixes, '
              f'{found["good_subtasks"]} good; ATSR {found["atsr"]:.3f}, ASSR '
              f'{found["assr"]:.3f}')
    return 0
