"""``--jobs`` and ``--cluster``: who does the work of verbs that do the same many times."""

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
    """Return who does the work; ConfigError when the arguments make no sense."""
    from arena_robot.core.parallel import Workers
    return Workers(args.jobs, args.cluster)
