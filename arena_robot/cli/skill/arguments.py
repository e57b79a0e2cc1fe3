"""Arguments that several `skill` verbs have: tasks, policy model, exemplars."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena_robot.skills.base import SkillExecutor, SkillPolicy, TaskSpec


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which policy model writes."""
    parser.add_argument('--policy', choices=('grammar', 'chat'), default='grammar',
                        help='grammar: the seeded generator, needs no network; chat: the endpoint '
                             'of ARENA_MODEL_URL and ARENA_MODEL (default %(default)s)')
    parser.add_argument('--cache', default='', metavar='FOLDER',
                        help='keep the answers of a chat model there')
    parser.add_argument('--seed', type=int, default=0, help='(default %(default)s)')


def policy(args: argparse.Namespace) -> 'tuple[str, Callable[[], SkillPolicy]]':
    """Return the name of the policy model and what makes it."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.policies import policy_maker
    if args.seed < 0:
        raise ConfigError(f'--seed must be at least 0, found {args.seed}')
    return policy_maker(args.policy, args.cache)


def add_learner_argument(parser: argparse.ArgumentParser) -> None:
    """Declare what finds the motions of reward subtasks."""
    parser.add_argument('--learner', choices=('search', 'sac'), default='search',
                        help='finds the motions of reward subtasks; search: over motions; sac: '
                             'soft actor-critic, needs the extra rl (pip) and far more time '
                             '(default %(default)s)')


def executor(args: argparse.Namespace) -> 'tuple[str, Callable[[TaskSpec], SkillExecutor]]':
    """Return the name of the executor and what makes it; ConfigError: a package is missing."""
    from functools import partial

    from arena_robot.trials.skills.executor import EXECUTORS, motion_finder, station_executor
    motion_finder(args.learner)
    return EXECUTORS[args.learner], partial(station_executor, learner=args.learner)


def add_task_argument(parser: argparse.ArgumentParser) -> None:
    """Declare which tasks."""
    parser.add_argument('--tasks', default='', metavar='A,B,…',
                        help='tasks by name (default: all; `arena skill spec` lists them)')


def specs(args: argparse.Namespace) -> 'list[TaskSpec]':
    """Return the specifications of the chosen tasks."""
    from arena_robot.skills.specs.table import SKILL_TASKS, find_task
    chosen = [find_task(name.strip()) for name in args.tasks.split(',') if name.strip()]
    return [task.spec for task in chosen or SKILL_TASKS.values()]
