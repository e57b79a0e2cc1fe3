"""
Run a session from the terminal: instruction, A, reset, B, preference, review, submit.

Uses a running session node; the web page (`arena console`) can show the same session at the same
time. While a policy runs, `t` or the space bar stops the arm at once and `d` ends the rollout as
done.

    arena session                     be the evaluator
    arena session --watch             watch only
    arena session --sim --auto        a simulated station and a scripted evaluator
"""

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.nodes.remote.desk import RemoteDesk

VERB = 'session'
HELP = 'run an A/B session from the terminal'


TOKEN_VARIABLE = 'ARENA_EVALUATOR_TOKEN'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--evaluator', default='', help='name of the evaluator (default: prompt; '
                        f'with a server, the personal token in ${TOKEN_VARIABLE} says it)')
    parser.add_argument('--instruction', default='', help='the task (default: prompt)')
    parser.add_argument('--auto', action='store_true',
                        help='a scripted evaluator that scores by the simulator')
    parser.add_argument('--sessions', type=int, default=1, metavar='N',
                        help='with --auto: how many sessions to run')
    parser.add_argument('--watch', action='store_true', help='watch without control')
    parser.add_argument('--take-over', action='store_true',
                        help='take control from whoever has it')
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


def run(args: argparse.Namespace) -> int:
    """Run one session, or several with ``--auto``."""
    from arena_robot.cli.station_watch import StationWatch, end_by_signals
    from arena_robot.nodes.discovery import stay_local
    from arena_robot.nodes.remote.desk import RemoteDesk
    from arena_robot.nodes.simulation.simulated_station import SimulatedStation
    end_by_signals()
    stay_local()
    with ExitStack() as stack:
        if args.sim:
            stack.enter_context(SimulatedStation(
                args.policies, args.data, task=args.task, seed=args.seed,
                max_steps=args.max_steps, namespace=args.namespace))
        wait_s = args.wait or (60.0 if args.sim else 5.0)
        desk = stack.enter_context(RemoteDesk(namespace=args.namespace, patience_s=wait_s))
        with StationWatch(desk):
            return run_with(desk, args)


def run_with(desk: 'RemoteDesk', args: argparse.Namespace) -> int:
    """Watch, lead or follow sessions at a desk."""
    from arena_robot.cli.session_terminal import Terminal
    from arena_robot.session.evaluator.desk import Button
    terminal = Terminal(desk)
    if args.watch:
        return terminal.watch()
    desk.take('terminal', args.take_over)
    evaluator = args.evaluator
    if token := os.environ.get(TOKEN_VARIABLE, ''):
        evaluator = desk.press(Button.SIGN_IN, token)
    if not args.auto:
        return terminal.lead(evaluator, args.instruction)
    desk.watch_oracle()
    for _ in range(args.sessions):
        instruction = args.instruction or str(desk.oracle['instruction'])
        code = terminal.follow(evaluator or 'script', instruction,
                               lambda: float(desk.oracle['progress']))
        if code:
            return code
    return 0
