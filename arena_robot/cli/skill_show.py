"""
Read a dataset of solutions: what was tried for a task, its subtasks, labels and scores.

  arena skill show skills.jsonl                                 a line per task
  arena skill show skills.jsonl open_drawer
  arena skill show skills.jsonl open_drawer --verifier verifier.json
  arena skill show skills.jsonl open_drawer --page drawer/      videos beside code and labels

A prefix is good (+) when a solution that succeeded begins with it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.progress_bar import ProgressBar

if TYPE_CHECKING:
    from arena_robot.skills.dataset import SkillDataset
    from arena_robot.skills.labelling import LabelledTask

VERB = 'skill show'
HELP = 'show solutions with their subtasks, labels and scores'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('dataset', type=Path, metavar='DATASET', help='see `arena skill label`')
    parser.add_argument('task', nargs='?', metavar='TASK', help='show all of this one')
    parser.add_argument('--verifier', type=Path, metavar='FILE', help='add its scores')
    parser.add_argument('--code', action='store_true', help='print the code of subtasks as well')
    parser.add_argument('--page', type=Path, metavar='FOLDER',
                        help='with TASK: execute its solutions again and write a page with videos')
    parser.add_argument('--json', action='store_true', help='print JSON')


def run(args: argparse.Namespace) -> int:
    """Print a table of tasks, or the solutions of one."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.reports.skill_page import solution_rows
    from arena_robot.skills.dataset import counts, read_dataset
    from arena_robot.skills.specs.table import find_task
    from arena_robot.skills.verifier import read_verifier

    data = read_dataset(args.dataset)
    if args.page and not args.task:
        raise ConfigError('--page is of one task; name it')
    if args.task:
        name = find_task(args.task).spec.name
        chosen = [one for one in data.tasks if one.spec.name == name]
        if not chosen:
            raise ConfigError(f'{args.dataset} has nothing of {name}')
        rows = solution_rows(chosen[0], read_verifier(args.verifier) if args.verifier else None)
        if args.page:
            print(_page(args.page, chosen[0], data, args, rows), file=sys.stderr)
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


def _page(folder: Path, one: 'LabelledTask', data: 'SkillDataset', args: argparse.Namespace,
          rows: list[dict[str, Any]]) -> Path:
    from arena_robot.reports.skill_page import write_skill_page
    from arena_robot.skills.specs.table import find_task
    from arena_robot.trials.skills.films import write_films
    from arena_robot.trials.skills.making import learner_of, motion_finder

    folder.mkdir(parents=True, exist_ok=True)
    made_by = data.provenance
    with ProgressBar() as bar:
        films = write_films(folder, find_task(one.spec.name), one.tried, made_by.settings.seed,
                            bar.show, motion_finder(learner_of(made_by.executor)))
    return write_skill_page(folder, one, rows, films, {
        'policy': made_by.policy, 'executor': made_by.executor, 'seed': made_by.settings.seed,
        'verifier': args.verifier.name if args.verifier else ''})


def _text(rows: list[dict[str, Any]], code: bool) -> str:
    from arena_robot.reports.skill_page import DONE, end_words
    lines = []
    for number, row in enumerate(rows, 1):
        lines.append(f'{number}. {row["origin"]}, {end_words(row)}')
        for step in row['subtasks']:
            done = DONE[step['executed']]
            score = '' if step['score'] is None else f'  score {step["score"]:.2f}'
            why = f'  {step["error"]}' if step['error'] else ''
            lines.append(f'   {"+" if step["good"] else "-"} {step["name"]}: {done}{score}{why}')
            if code:
                lines += [f'       {line}' for line in step['code'].rstrip().splitlines()]
    return '\n'.join(lines)
