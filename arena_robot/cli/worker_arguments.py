"""``--jobs`` and ``--cluster``: which processes work for verbs that repeat one task many times."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.core.parallel import Workers


def add_worker_arguments(parser: argparse.ArgumentParser, jobs: int = 1) -> None:
    """Declare the arguments; the results are the same for all of their values."""
    parser.add_argument('--jobs', type=int, default=jobs, metavar='N',
                        help='processes at once (default %(default)s)')
    parser.add_argument('--cluster', default='', metavar='URL',
                        help='work on an existing cluster instead: dask://host:port or '
                             'ray://host:port')


def workers(args: argparse.Namespace) -> 'Workers':
    """Return the workers; ConfigError when the arguments are invalid."""
    from arena_robot.core.parallel import Workers
    return Workers(args.jobs, args.cluster)
