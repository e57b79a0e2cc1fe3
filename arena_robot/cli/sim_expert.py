"""
Run the scripted expert on tasks of the simulated station and print the results.

The expert uses only the Arm and Gripper interfaces; object poses come from the simulator. Exit
code 1 when fewer than ``--at-least`` of the episodes succeed.
"""

import argparse
import time

from arena_robot.robots.arms import ROBOTS

VERB = 'sim expert'
HELP = 'run the scripted expert on tasks of the simulated station'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--tasks', default='all', metavar='A,B',
                        help='task names separated by commas (all)')
    parser.add_argument('--seeds', type=int, default=5, metavar='N',
                        help='episodes of each task (%(default)s)')
    parser.add_argument('--first-seed', type=int, default=0, metavar='N', help='(%(default)s)')
    parser.add_argument('--robot', choices=tuple(ROBOTS), default='panda', help='(%(default)s)')
    parser.add_argument('--at-least', type=float, default=0.95, metavar='SHARE',
                        help='share of successes for exit code 0 (%(default)s)')


def run(args: argparse.Namespace) -> int:
    """Run the episodes and print one line a task."""
    from arena_robot.drivers.sim.expert import run_expert
    from arena_robot.drivers.sim.station import SimStation
    from arena_robot.drivers.sim.tasks import TASKS
    names = TASKS.names() if args.tasks == 'all' else args.tasks.split(',')
    done = count = 0
    with SimStation.make(names[0], robot=args.robot, cameras=()) as station:
        print(f"{'task':14} {'success':>8} {'steps':>6} {'x real':>7}  failed seeds")
        for name in names:
            begun, runs = time.perf_counter(), []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                station.reset(name, seed)
                runs.append(run_expert(station))
            spent_s = time.perf_counter() - begun
            good, steps = sum(run.succeeded for run in runs), sum(run.steps for run in runs)
            failed = ' '.join(str(run.seed) for run in runs if not run.succeeded)
            print(f'{name:14} {good:>4}/{len(runs):<3} {steps / len(runs):6.0f} '
                  f'{steps / 15 / spent_s:7.1f}  {failed}', flush=True)
            done, count = done + good, count + len(runs)
    print(f"{'all':14} {done:>4}/{count:<3} {done / count:6.1%}")
    return 0 if done >= args.at_least * count else 1
