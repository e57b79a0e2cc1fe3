"""
The exemplar pool: solutions that succeeded, by task.

  arena skill pool pool.json --grow skills.jsonl              from a dataset's successes
  arena skill pool pool.json --grow skills.jsonl --bar open_drawer,close_drawer
  arena skill pool pool.json --like open_drawer               which exemplars a task would get

Tasks that are barred (kept for tests) never enter.
"""

import argparse
import json
from pathlib import Path
from typing import Any

VERB = 'skill pool'
HELP = 'show or grow the pool of exemplar solutions'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('file', type=Path, metavar='FILE', help='the pool')
    parser.add_argument('--grow', type=Path, metavar='DATASET',
                        help="add each task's shortest success; FILE is made when it is missing")
    parser.add_argument('--bar', default='', metavar='A,B,…',
                        help='tasks kept for tests: removed, and refused from now on')
    parser.add_argument('--like', metavar='TASK', help='show the exemplars nearest to this task')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='how many with --like (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> int:
    """Change the pool where that is wanted, and show it."""
    from arena_robot.skills.dataset import read_dataset
    from arena_robot.skills.pool import ExemplarPool, read_pool, write_pool
    from arena_robot.skills.specs.table import find_task

    new = args.grow is not None and not args.file.exists()
    pool = ExemplarPool() if new else read_pool(args.file)
    if args.bar:
        pool = pool.without([find_task(name).spec.name for name in args.bar.split(',')])
    if args.grow:
        pool = read_dataset(args.grow).pool(pool)
    if args.grow or args.bar:
        write_pool(args.file, pool)
    if args.like:
        near = pool.nearest(find_task(args.like).spec, args.exemplars)
        rows: list[dict[str, Any]] = [
            {'task': one.spec.name, 'likeness': round(like, 3),
             'subtasks': len(one.solution.subtasks)} for one, like in near]
    else:
        rows = [{'task': one.spec.name, 'subtasks': len(one.solution.subtasks),
                 'policy': one.solution.policy} for one in pool.exemplars]
    if args.json:
        print(json.dumps({'exemplars': rows, 'barred': sorted(pool.barred)}, indent=2))
        return 0
    for row in rows:
        print('  '.join(f'{value:<40}' if key == 'task' else f'{key} {value}'
                        for key, value in row.items()))
    print(f'{len(pool.exemplars)} exemplars, {len(pool.barred)} tasks barred')
    return 0
