"""
Have a policy model write solutions of a task.

  arena skill generate open_drawer --count 3
  arena skill generate open_drawer --pool pool.json --out drawer/

With a pool, exemplars of similar tasks are given. Files in FOLDER are for `arena skill run`.
"""

import argparse
import json
from pathlib import Path

from arena_robot.cli.progress_bar import ProgressBar
from arena_robot.cli.skill_arguments import add_policy_arguments, policy

VERB = 'skill generate'
HELP = 'have a policy model write solutions of a task'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('task', metavar='TASK', help='by name; `arena skill spec` lists them')
    parser.add_argument('--count', type=int, default=1, metavar='N',
                        help='solutions (default %(default)s)')
    parser.add_argument('--pool', type=Path, metavar='FILE', help='take exemplars from there')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='how many (default %(default)s)')
    parser.add_argument('--out', type=Path, metavar='FOLDER', help='write a file per solution')
    parser.add_argument('--json', action='store_true', help='print the solutions as JSON')
    add_policy_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Write solutions; 1 when every reply was malformed."""
    from arena_robot.core.errors import ModelBadReply
    from arena_robot.skills.as_json import to_json
    from arena_robot.skills.pool import read_pool
    from arena_robot.skills.prompts import subtasks_text
    from arena_robot.skills.specs.files import write_solution
    from arena_robot.skills.specs.table import find_task, slug

    spec = find_task(args.task).spec
    exemplars = read_pool(args.pool).pairs(spec, args.exemplars) if args.pool else []
    writer, found, malformed = policy(args)[1](), [], 0
    with ProgressBar() as bar:
        for number in range(args.count):
            try:
                found.append(writer.generate(spec, exemplars, args.seed * 1000 + number))
            except ModelBadReply:
                malformed += 1
            bar.show(number + 1, args.count, spec.name)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(found):
            write_solution(args.out / f'{slug(spec.name)}-{args.seed}-{number}.json', one)
    if args.json:
        print(json.dumps({'policy': writer.name, 'malformed': malformed,
                          'exemplars': [other.name for other, _ in exemplars],
                          'solutions': [to_json(one) for one in found]}, indent=2))
    else:
        for number, one in enumerate(found, 1):
            print(f'# solution {number} of {spec.name}, by {one.policy}\n{subtasks_text(one)}\n')
        print(f'{len(found)} solutions, {malformed} malformed replies')
    return 0 if found else 1
