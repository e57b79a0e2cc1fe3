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
from typing import TYPE_CHECKING

from arena_robot.cli.desk_arguments import add_desk_arguments, desk_of

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
    parser.add_argument('--third-person', default='', choices=('left', 'right'),
                        help='outside camera that a policy with only one sees (default: the '
                             "station's)")
    parser.add_argument('--auto', action='store_true',
                        help='a scripted evaluator that scores by the simulator')
    parser.add_argument('--sessions', type=int, default=1, metavar='N',
                        help='with --auto: how many sessions to run')
    parser.add_argument('--watch', action='store_true', help='watch without control')
    parser.add_argument('--take-over', action='store_true',
                        help='take control from whoever has it')
    add_desk_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run one session, or several with ``--auto``."""
    from arena_robot.cli.station_watch import StationWatch, end_by_signals
    end_by_signals()
    with desk_of(args) as desk, StationWatch(desk):
        return run_with(desk, args)


def run_with(desk: 'RemoteDesk', args: argparse.Namespace) -> int:
    """Watch, lead or follow sessions at a desk."""
    from arena_robot.cli.session_terminal import Terminal
    from arena_robot.session.evaluator.desk import Button
    terminal = Terminal(desk, args.third_person)
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
