"""
Run a tournament on this machine: server, policies, simulated station, leaderboard.

Starts the arena server, serves example policies of different strength over gRPC and one over
the openpi protocol, starts the simulated DROID station with recorder and console, lets a
scripted evaluator compare the policies double-blind over several tasks, uploads, ranks, and
writes a report. Ctrl-C ends all processes; the same command continues.

    arena demo                              ten sessions, in some minutes
    arena demo --keep                       keep the site running afterwards
    arena demo --sessions 4 --tasks press_button,lift_cube --speed 1
"""

import argparse
from pathlib import Path

TASKS = 'press_button,lift_cube,knock_over,cube_in_bowl'


def demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument('--sessions', type=int, default=10, metavar='N',
                        help='A/B sessions in all (default %(default)s)')
    parser.add_argument('--tasks', default=TASKS, metavar='A,B,…',
                        help='tasks used in turn, of `arena sim tasks` '
                             '(default %(default)s)')
    parser.add_argument('--speed', type=float, default=3.0, metavar='X',
                        help='simulated per real second (default %(default)s)')
    parser.add_argument('--data', type=Path, default=Path('arena-demo'), metavar='DIR',
                        help='folder of all files; a run in it is continued (default '
                             '%(default)s)')
    parser.add_argument('--seed', type=int, default=1, help='of scenes and pairs (default 1)')
    parser.add_argument('--max-steps', type=int, default=150, metavar='N',
                        help='length of a rollout, 15 a second (default %(default)s)')
    parser.add_argument('--pool', default='examples', metavar='NAME',
                        help='which policies (default %(default)s)')
    parser.add_argument('--keep', action='store_true',
                        help='keep the site and the policies running until Ctrl-C')
    parser.add_argument('--no-console', action='store_true',
                        help="do not start the evaluator's page")


def run_demo(args: argparse.Namespace) -> int:
    """Run the demonstration."""
    from arena_robot.demo.plan import DemoOptions
    from arena_robot.demo.run import Demo
    options = DemoOptions(
        sessions=args.sessions, tasks=tuple(args.tasks.split(',')), speed=args.speed,
        data=args.data, seed=args.seed, max_steps=args.max_steps, pool=args.pool,
        keep=args.keep, console=not args.no_console)
    return Demo(options).run()
