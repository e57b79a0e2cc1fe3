"""
Read a dataset of solutions: what was tried for a task, its subtasks, labels and scores.

  arena skill show skills.jsonl                                 a line per task
  arena skill show skills.jsonl open_drawer
  arena skill show skills.jsonl open_drawer --verifier verifier.json

A prefix is good (+) when a solution that succeeded begins with it.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena_robot.skills.labelling import LabelledTask
    from arena_robot.skills.verifier import Verifier

VERB = 'skill show'
HELP = 'show solutions with their subtasks, labels and scores'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('dataset', type=Path, metavar='DATASET', help='see `arena skill label`')
    parser.add_argument('task', nargs='?', metavar='TASK', help='show all of this one')
    parser.add_argument('--verifier', type=Path, metavar='FILE', help='add its scores')
    parser.add_argument('--code', action='store_true', help='print the code of subtasks as well')
    parser.add_argument('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> int:
    """Print a table of tasks, or the solutions of one."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.dataset import counts, read_dataset
    from arena_robot.skills.specs.table import find_task
    from arena_robot.skills.verifier import read_verifier

    data = read_dataset(args.dataset)
    if args.task:
        name = find_task(args.task).spec.name
        chosen = [one for one in data.tasks if one.spec.name == name]
        if not chosen:
            raise ConfigError(f'{args.dataset} has nothing of {name}')
        rows = _solutions(chosen[0], read_verifier(args.verifier) if args.verifier else None)
        print(json.dumps(rows, indent=2) if args.json else _text(rows, args.code))
        return 0
    tasks = [{'task': one.spec.name, **counts([one])} for one in data.tasks]
    if args.json:
        print(json.dumps({'policy': data.provenance.policy, 'executor': data.provenance.executor,
                          'tasks': tasks, **{'all': counts(data.tasks)}}, indent=2))
        return 0
    for row in [*tasks, {'task': 'all', **counts(data.tasks)}]:
        print(f'{row["task"]:<40} {row["successful"]:>4} of {row["solutions"]:<4} succeed, '
              f'{row["claimed"]:>4} by their own indicators; {row["good_subtasks"]:>4} of '
              f'{row["subtasks"]:<4} prefixes are good')
    return 0


def _solutions(one: 'LabelledTask', verifier: 'Verifier | None') -> list[dict[str, Any]]:
    from arena_robot.skills.identity import prefix_keys
    from arena_robot.skills.labels import label_prefixes
    good = {label.key: label.good for label in label_prefixes(one.tried)}
    rows = []
    for tried in one.tried:
        scores = [] if verifier is None else \
            [round(float(p), 3) for p in verifier.prefixes(one.spec, tried.solution)]
        results = tried.execution.results
        rows.append({
            'origin': tried.origin, 'kept': tried.kept, 'success': tried.execution.success,
            'claimed': tried.execution.claimed, 'oracle': tried.execution.oracle,
            'subtasks': [{
                'name': step.name, 'code': step.code, 'good': good[key],
                'executed': results[k].success if k < len(results) else None,
                'error': results[k].error if k < len(results) else '',
                'score': scores[k] if scores else None}
                for k, (step, key) in enumerate(zip(
                    tried.solution.subtasks, prefix_keys(tried.solution), strict=True))]})
    return rows


def _text(rows: list[dict[str, Any]], code: bool) -> str:
    lines = []
    for number, row in enumerate(rows, 1):
        end = 'succeeds' if row['success'] else \
            'claims success, the check says no' if row['claimed'] else 'fails'
        lines.append(f'{number}. {row["origin"]}, {end}')
        for step in row['subtasks']:
            done = {True: 'done', False: 'failed', None: 'not reached'}[step['executed']]
            score = '' if step['score'] is None else f'  score {step["score"]:.2f}'
            why = f'  {step["error"]}' if step['error'] else ''
            lines.append(f'   {"+" if step["good"] else "-"} {step["name"]}: {done}{score}{why}')
            if code:
                lines += [f'       {line}' for line in step['code'].rstrip().splitlines()]
    return '\n'.join(lines)
