"""
List the tasks of generated skills, or show what a policy model is told of one.

  arena skill spec                          a line per task
  arena skill spec open_drawer              objects with links and joints, start, oracle
  arena skill spec open_drawer --json > open_drawer.json
  arena skill spec open_drawer --reference  a solution that succeeds, for `arena skill run`
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.skills.base import SkillExecutor, SkillPolicy, Solution, TaskSpec


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which policy model writes."""
    parser.add_argument('--policy', choices=('grammar', 'chat'), default='grammar',
                        help='grammar: the seeded generator, needs no network; chat: the endpoint '
                             'of ARENA_MODEL_URL and ARENA_MODEL (default %(default)s)')
    _add_model_arguments(parser)


def _add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--cache', default='', metavar='FOLDER',
                        help='keep the answers of a chat model there')
    parser.add_argument('--timeout', type=float, default=60.0, metavar='S',
                        help='of one answer of a chat model (default %(default)g)')
    parser.add_argument('--max-tokens', type=int, default=4096, metavar='N',
                        help='of one answer of a chat model (default %(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='(default %(default)s)')


def policy(args: argparse.Namespace, task: 'SkillTask | None' = None
           ) -> 'tuple[str, Callable[[], SkillPolicy]]':
    """Return the name of the policy model and what makes it; ``task`` may be a proposed one."""
    from functools import partial

    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.policies import policy_maker
    if args.seed < 0:
        raise ConfigError(f'--seed must be at least 0, found {args.seed}')
    return policy_maker(args.policy, args.cache, args.timeout, args.max_tokens,
                        partial(_scene_problem, task, args.seed))


def _scene_problem(task: 'SkillTask | None', seed: int, spec: 'TaskSpec',
                   solution: 'Solution') -> str:
    from arena_robot.trials.skills.executor import scene_problem  # the simulator, when needed
    return scene_problem(task, seed, spec, solution)


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


if TYPE_CHECKING:
    from arena_robot.skills.specs.tasks import SkillTask


def spec_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', nargs='?', metavar='TASK',
                        help='by name, such as open_drawer, or a file of `arena skill propose`')
    parser.add_argument('--reference', action='store_true',
                        help="print the task's reference solution as JSON")


def run_spec(args: argparse.Namespace) -> int:
    """Print the table, or one task."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.base import to_json
    from arena_robot.skills.specs.reference import reference_solution
    from arena_robot.skills.specs.table import SKILL_TASKS, find_task

    if args.task is None:
        if args.reference:
            raise ConfigError('--reference needs a task; `arena skill spec` lists them')
        tasks = list(SKILL_TASKS.values())
        print(json_text([to_json(task.spec) for task in tasks]) if args.json
              else _table(tasks))
        return 0
    task = find_task(args.task)
    if args.reference:
        print(json_text(to_json(reference_solution(task))))
    else:
        print(json_text(to_json(task.spec)) if args.json else _text(task))
    return 0


def propose_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='of whose scene; `arena skill spec` has them')
    parser.add_argument('--count', type=int, default=1, metavar='N',
                        help='tasks (default %(default)s)')
    parser.add_argument('--out', type=Path, metavar='FOLDER', help='write a file per task')
    parser.set_defaults(policy='chat')
    _add_model_arguments(parser)


def run_propose(args: argparse.Namespace) -> int:
    """
    Have a language model propose new tasks of a scene, and check that the scene allows them.

      arena skill propose open_drawer --count 3 --out tasks/
      arena skill run tasks/close_drawer_a_little.json

    The endpoint of ARENA_MODEL_URL and ARENA_MODEL is asked. What is refused is sent back once
    with the reasons. FOLDER's files are the TASK of spec, generate, run and solve. Exit code 1
    when no task passes.
    """
    from functools import partial

    from arena_robot.core.errors import ConfigError
    from arena_robot.core.files import write_json
    from arena_robot.skills.base import to_json
    from arena_robot.skills.specs.table import find_task, slug
    from arena_robot.trials.skills.executor import proposal_problem

    if args.count < 1:
        raise ConfigError('--count must be at least 1')
    spec = find_task(find_task(args.task).spec.name).spec    # a scene of the table
    kept, refused = policy(args)[1]().propose(  # type: ignore[attr-defined]
        spec, args.count, args.seed, partial(proposal_problem, args.seed))
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        for proposal in kept:
            write_json(args.out / f'{slug(proposal.name)}.json', to_json(proposal))
    if args.json:
        print(json_text({'tasks': [to_json(proposal) for proposal in kept], 'refused': [
            {'name': name, 'reason': reason} for name, reason in refused]}))
    else:
        print('\n'.join([*(f'{proposal.name}: {proposal.description}' for proposal in kept),
                         *(f'refused: {name}: {reason}' for name, reason in refused)]))
    return 0 if kept else 1


def _table(tasks: list['SkillTask']) -> str:
    from arena_robot.skills.specs.table import slug

    lines = [f'{slug(task.spec.name):36} {task.spec.family:10} {task.spec.description}'
             for task in tasks]
    families = len({task.spec.family for task in tasks})
    return '\n'.join([*lines, f'{len(tasks)} tasks in {families} families'])


def _text(task: 'SkillTask') -> str:
    spec = task.spec
    lines = [spec.name, spec.description, f'family: {spec.family}', '']
    for item in spec.objects:
        lines.append(f'{item.name} ({item.category})')
        lines += [f'  link {link.name}{f" of {link.parent}" if link.parent else ""}: '
                  f'{link.semantics}' for link in item.links]
        for joint in item.joints:
            start = spec.initial[f'{item.name}/{joint.name}']
            unit = 'rad' if joint.kind == 'hinge' else 'm'
            lines.append(f'  joint {joint.name} ({joint.kind}) moves {joint.link}: '
                         f'{joint.low:g} to {joint.high:g} {unit}, starts at {start:.0%}')
    return '\n'.join([*lines, '', *(f'oracle: {goal}' for goal in task.goals)])
