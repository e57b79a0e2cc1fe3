"""
Run policies on tasks of the simulated station and print how often each one succeeds.

Every episode uses the whole path: camera images, resizing, policy, safety, simulated arm. It
ends when the oracle reports that the task is done, or after as many steps as a session allows.
Policies are examples by name, module:Class, or the address of a server. Printed in order of
success, with Wilson 95 % intervals and the oracle's mean progress.

    arena policy rates --policies vision,random_walk --tasks lift_cube,cube_in_bowl --seeds 30
"""

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import json_text
from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_STEPS

if TYPE_CHECKING:
    from arena_robot.trials.trial import TrialOutcome

PLAYED = ('done', 'timeout', 'safety_stop')   # end reasons that the policy causes
SHOWN = 5    # episodes that ended early; the first ones tell what is wrong


def rates_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument('--policies', default='all', metavar='A,B',
                        help='names, module:Class or addresses (default: all examples but echo)')
    parser.add_argument('--kwargs', metavar='KEY=VALUE', nargs='+', default=[], action='extend',
                        help='arguments of the one policy of --policies, read as YAML')
    parser.add_argument('--tasks', default='all', metavar='A,B', help='task names (all)')
    parser.add_argument('--seeds', type=int, default=30, metavar='N',
                        help='episodes of each policy on each task (default %(default)s)')
    parser.add_argument('--first-seed', type=int, default=0, metavar='N',
                        help='(default %(default)s)')
    parser.add_argument('--max-steps', type=int, default=MAX_STEPS, metavar='N',
                        help='length of an episode at 15 Hz (default %(default)s)')
    parser.add_argument('--wait', type=float, default=0.0, metavar='S',
                        help='wait until the servers of --policies answer, each at most this long')
    add_worker_arguments(parser, jobs=2)


def run_rates(args: argparse.Namespace) -> int:
    """Run the episodes, print the table; exit code 1 when a policy could not be called."""
    from arena_robot.cli.policy.check import await_server
    from arena_robot.cli.terminal import ProgressBar
    from arena_robot.core.errors import ConfigError
    from arena_robot.drivers.sim.tasks import TASKS
    from arena_robot.policy.connect import load_policy, parse_kwargs
    from arena_robot.policy.examples import EXAMPLES, WIRING
    from arena_robot.policy.options import CallOptions
    from arena_robot.trials.trial import Trial, run_all

    policies = ([name for name in EXAMPLES.built_in if name != WIRING] if args.policies == 'all'
                else args.policies.split(','))
    tasks = TASKS.names() if args.tasks == 'all' else args.tasks.split(',')
    for task in tasks:
        TASKS.find(task)
    kwargs = tuple(parse_kwargs(args.kwargs).items())
    if kwargs and (len(policies) > 1 or '://' in policies[0]):
        raise ConfigError('--kwargs is for a single policy that is loaded here')
    for policy in policies:
        if '://' not in policy:
            load_policy(policy, dict(kwargs))    # an unknown name is an error before all
        elif args.wait:
            await_server(policy, CallOptions(), args.wait)
    if args.seeds < 1 or args.max_steps < 1:
        raise ConfigError('--seeds and --max-steps must be at least 1')
    at_work = workers(args)
    trials = [Trial(policy, task, seed, args.max_steps, kwargs)
              for seed in range(args.first_seed, args.first_seed + args.seeds)
              for policy in policies for task in tasks]
    began = time.monotonic()
    with ProgressBar() as bar:
        outcomes = run_all(trials, at_work, lambda done, outcome: bar.show(
            done, len(trials), f'{outcome.trial.policy} {outcome.trial.task}'))
    print(json_text(as_dict(outcomes)) if args.json
          else table(outcomes, time.monotonic() - began))
    return 1 if any(outcome.end not in PLAYED for outcome in outcomes) else 0


def in_order(outcomes: 'Sequence[TrialOutcome]') -> 'dict[str, list[TrialOutcome]]':
    """Return the outcomes by policy, sorted by successes, then by progress."""
    by_policy: dict[str, list[TrialOutcome]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.trial.policy, []).append(outcome)
    return dict(sorted(by_policy.items(), key=lambda item: (
        -sum(outcome.succeeded for outcome in item[1]),
        -sum(outcome.progress for outcome in item[1]))))


def summary(outcomes: 'Sequence[TrialOutcome]') -> dict[str, Any]:
    """Return counts, rate, interval and means of some episodes."""
    from arena_robot.core.wilson import wilson

    count, good = len(outcomes), sum(outcome.succeeded for outcome in outcomes)
    low, high = wilson(good, count)
    return {
        'episodes': count, 'successes': good, 'rate': good / count, 'low': low, 'high': high,
        'progress': sum(outcome.progress for outcome in outcomes) / count,
        'steps': sum(outcome.steps for outcome in outcomes) / count,
        'broken': sum(outcome.end not in PLAYED for outcome in outcomes),
    }


def as_dict(outcomes: 'Sequence[TrialOutcome]') -> dict[str, Any]:
    """Return the result for JSON: per policy, per task, per episode."""
    from dataclasses import asdict

    return {policy: {
        **summary(played),
        'tasks': {task: summary(part) for task, part in _by_task(played).items()},
        'runs': [asdict(outcome.trial) | {key: value for key, value in asdict(outcome).items()
                                          if key != 'trial'} for outcome in played],
    } for policy, played in in_order(outcomes).items()}


def table(outcomes: 'Sequence[TrialOutcome]', spent_s: float) -> str:
    """Return the table as text."""
    lines = [f'{"":26} {"success":>9} {"rate":>7}  {"95 % interval":>13} {"progress":>9} '
             f'{"steps":>6}']
    for policy, played in in_order(outcomes).items():
        lines += ['', _line(policy, played)]
        lines += [_line(f'  {task}', part) for task, part in _by_task(played).items()]
    steps = sum(outcome.steps for outcome in outcomes)
    robot_s = steps / CONTROL_RATE_HZ
    lines += ['', f'{len(outcomes)} episodes, {robot_s / 60:.0f} minutes of robot time in '
                  f'{spent_s / 60:.1f} minutes; episodes end when the task is done']
    early = [outcome for outcome in outcomes if outcome.end not in ('done', 'timeout')]
    lines += [f'{outcome.trial.policy} on {outcome.trial.task}, seed {outcome.trial.seed}: '
              f'{outcome.end}, {outcome.detail}' for outcome in early[:SHOWN]]
    lines += [f'… and {len(early) - SHOWN} more that ended early'] * (len(early) > SHOWN)
    return '\n'.join(lines)


def _line(name: str, outcomes: 'Sequence[TrialOutcome]') -> str:
    s = summary(outcomes)
    return (f'{name:<26} {s["successes"]:>4}/{s["episodes"]:<4} {100 * s["rate"]:>5.1f} %  '
            f'{100 * s["low"]:>5.1f} - {100 * s["high"]:>5.1f} {s["progress"]:>9.2f} '
            f'{s["steps"]:>6.0f}')


def _by_task(outcomes: 'Sequence[TrialOutcome]') -> 'dict[str, list[TrialOutcome]]':
    by_task: dict[str, list[TrialOutcome]] = {}
    for outcome in outcomes:
        by_task.setdefault(outcome.trial.task, []).append(outcome)
    return by_task
