"""Verbs of the simulated station: tasks, scripted expert, contact sheet, demonstration."""

import argparse
import time
from pathlib import Path
from typing import Any

from arena_robot.cli.terminal import json_text, sentences
from arena_robot.core.episode import CONTROL_RATE_HZ

_SEEDS = 12    # scenes of a task that are looked at for wordings of its instruction


def tasks_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--wordings', action='store_true', help='print every wording found')


def run_tasks(args: argparse.Namespace) -> int:
    """List the tasks of the simulated station: name, kind, and wordings of the instruction."""
    from arena_robot.drivers.sim.station import make_task
    from arena_robot.drivers.sim.tasks import TASKS
    wordings = {name: sorted({make_task(name, seed).setup.instruction for seed in range(_SEEDS)})
                for name in TASKS.names()}
    if args.json:
        print(json_text([{'task': name, 'category': task.category, 'wordings': wordings[name]}
                         for name, task in TASKS.rows().items()]))
        return 0
    for name, task in TASKS.rows().items():
        print(f'{name:14} {task.category:15} {wordings[name][0]}')
        for wording in wordings[name][1:] if args.wordings else ():
            print(f"{'':30} {wording}")
    return 0


def expert_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--tasks', default='all', metavar='A,B',
                        help='task names separated by commas (all)')
    parser.add_argument('--seeds', type=int, default=5, metavar='N',
                        help='episodes of each task (%(default)s)')
    parser.add_argument('--first-seed', type=int, default=0, metavar='N', help='(%(default)s)')
    parser.add_argument('--robot', default='panda', metavar='ROBOT',
                        help='panda, fr3, an embodiment or its YAML file (%(default)s)')
    parser.add_argument('--at-least', type=float, default=0.95, metavar='SHARE',
                        help='share of successes for exit code 0 (%(default)s)')


def run_expert(args: argparse.Namespace) -> int:
    """
    Run the scripted expert on tasks of the simulated station and print the results.

    The expert uses only the Arm and Gripper interfaces; object poses come from the simulator. Of a
    task that fails because the arm does not reach a place it says how far away the arm stays. Exit
    code 1 when fewer than ``--at-least`` of the episodes succeed.
    """
    from arena_robot.drivers.sim.expert import NEAR_M, run_expert
    from arena_robot.drivers.sim.station import SimStation
    from arena_robot.drivers.sim.tasks import TASKS
    names = TASKS.names() if args.tasks == 'all' else args.tasks.split(',')
    rows: list[dict[str, Any]] = []
    say = sentences(args)
    with SimStation.make(names[0], robot=args.robot, cameras=()) as station:
        say(f"{'task':14} {'success':>8} {'steps':>6} {'x real':>7}  failed seeds")
        for name in names:
            begun, runs = time.perf_counter(), []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                station.reset(name, seed)
                runs.append(run_expert(station))
            spent_s = time.perf_counter() - begun
            steps, failed = sum(run.steps for run in runs), [
                run.seed for run in runs if not run.succeeded]
            say(f'{name:14} {len(runs) - len(failed):>4}/{len(runs):<3} {steps / len(runs):6.0f} '
                f"{steps / CONTROL_RATE_HZ / spent_s:7.1f}  {' '.join(map(str, failed))}")
            short_mm = max(1e3 * run.short_m for run in runs)
            if failed and short_mm > 1e3 * NEAR_M:
                say(f"{'':14} the arm stays {short_mm:.0f} mm away from a place of this task")
            rows.append({'task': name, 'episodes': len(runs), 'failed_seeds': failed,
                         'steps': steps / len(runs), 'short_mm': short_mm})
    count = len(rows) * args.seeds
    done = count - sum(len(row['failed_seeds']) for row in rows)
    say(f"{'all':14} {done:>4}/{count:<3} {done / count:6.1%}")
    if args.json:
        print(json_text({'tasks': rows, 'share': done / count}))
    return 0 if done >= args.at_least * count else 1


def contact_sheet_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('out', type=Path, help='picture to write (.jpg or .png)')
    parser.add_argument('--tasks', default='all', metavar='A,B',
                        help='task names separated by commas (all)')
    parser.add_argument('--seed', type=int, default=0, help='variation of every task (its row)')
    parser.add_argument('--width', type=int, default=384, help='of one view, px (%(default)s)')
    parser.add_argument('--columns', type=int, default=2, help='tasks in a row (%(default)s)')
    parser.add_argument('--plain', action='store_true', help='without shadows, as for policies')
    parser.add_argument('--robots', default='panda', metavar='A,B',
                        help='robots of the tasks in turn: panda, fr3, embodiments or their YAML '
                             'files (%(default)s)')


def run_contact_sheet(args: argparse.Namespace) -> int:
    """Render every task of the simulated station from all three cameras into one image."""
    from arena_robot.drivers.sim.expert import contact_sheet, write_picture
    from arena_robot.drivers.sim.tasks import TASKS
    names = TASKS.names() if args.tasks == 'all' else args.tasks.split(',')
    sheet = contact_sheet(names, args.seed, args.width, args.columns, beauty=not args.plain,
                          robots=args.robots.split(','))
    write_picture(args.out, sheet)
    height, width = sheet.shape[:2]
    print(json_text({'file': args.out, 'tasks': list(names), 'width': width, 'height': height})
          if args.json else f'{args.out}: {len(names)} tasks, {width}x{height}, '
          f'{args.out.stat().st_size / 1024:.0f} KiB')
    return 0


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
    parser.add_argument('--pool', default='four', metavar='NAME',
                        help='which policies (default %(default)s)')
    parser.add_argument('--robots', default='panda', metavar='A,B,…',
                        help='all tasks on each in turn: panda, fr3, embodiments or their '
                             'YAML files (default %(default)s)')
    parser.add_argument('--keep', action='store_true',
                        help='keep the site and the policies running until Ctrl-C')
    parser.add_argument('--no-console', action='store_true',
                        help="do not start the evaluator's page")


def run_demo(args: argparse.Namespace) -> int:
    """
    Run a tournament on this machine: server, policies, simulated station, leaderboard.

    Starts the arena server, serves example policies of different strength over gRPC and one over
    the openpi protocol, starts the simulated DROID station with recorder and console, lets a
    scripted evaluator compare the policies double-blind over several tasks, uploads, ranks, and
    writes a report. Ctrl-C ends all processes; the same command continues.

        arena demo                              ten sessions, in some minutes
        arena demo --keep                       keep the site running afterwards
        arena demo --sessions 4 --tasks press_button,lift_cube --speed 1
        arena demo --robots panda,so101 --pool walkers --sessions 32
    """
    from arena_robot.demo.plan import DemoOptions
    from arena_robot.demo.run import Demo
    options = DemoOptions(
        sessions=args.sessions, tasks=tuple(args.tasks.split(',')), speed=args.speed,
        data=args.data, seed=args.seed, max_steps=args.max_steps, pool=args.pool,
        keep=args.keep, console=not args.no_console, robots=tuple(args.robots.split(',')))
    return Demo(options).run()
