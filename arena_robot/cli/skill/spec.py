"""
List the tasks of generated skills, or show what a policy model is told of one.

  arena skill spec                          a line per task
  arena skill spec open_drawer              objects with links and joints, start, oracle
  arena skill spec open_drawer --json > open_drawer.json
  arena skill spec open_drawer --reference  a solution that succeeds, for `arena skill run`
"""

import argparse
from typing import TYPE_CHECKING

from arena_robot.cli.terminal import json_text

if TYPE_CHECKING:
    from arena_robot.skills.specs.tasks import SkillTask


def spec_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', nargs='?', metavar='TASK', help='by name, such as open_drawer')
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
