"""The station of verbs that an evaluator uses: one that runs, or with --sim a simulated one."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.nodes.remote.desk import RemoteDesk


def add_desk_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of :func:`desk_of`."""
    parser.add_argument('--namespace', default='', help='namespace of the station')
    parser.add_argument('--wait', type=float, metavar='S',
                        help='seconds to wait for the session node (default 5, with --sim 60)')
    parser.add_argument('--sim', action='store_true',
                        help='start a simulated station with recorder and session node as well')
    parser.add_argument('--policies', type=Path, metavar='FILE',
                        help='with --sim: YAML file with the pool (default: example policies)')
    parser.add_argument('--data', type=Path, metavar='DIR',
                        help='with --sim: where sessions are kept (default: ~/arena)')
    parser.add_argument('--task', help='with --sim: task of the simulated scene')
    parser.add_argument('--seed', type=int, help='with --sim: variation of the scene')
    parser.add_argument('--max-steps', type=int, help='with --sim: length of a rollout')


@contextmanager
def desk_of(args: argparse.Namespace) -> 'Iterator[RemoteDesk]':
    """Give a desk of the station's session node; a simulated station ends with it."""
    from arena_robot.nodes.discovery import stay_local
    from arena_robot.nodes.remote.desk import RemoteDesk
    from arena_robot.nodes.simulation.simulated_station import SimulatedStation
    stay_local()
    station = SimulatedStation(
        args.policies, args.data, task=args.task, seed=args.seed, max_steps=args.max_steps,
        namespace=args.namespace) if args.sim else nullcontext()
    wait_s = args.wait or (60.0 if args.sim else 5.0)
    with station, RemoteDesk(namespace=args.namespace, patience_s=wait_s) as desk:
        yield desk
