"""Verbs on datasets of labelled solutions: label, show, pool, train."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.skill.spec import (
    add_learner_argument,
    add_policy_arguments,
    add_task_argument,
    executor,
    policy,
    specs,
)
from arena_robot.cli.terminal import ProgressBar, json_text

if TYPE_CHECKING:
    from arena_robot.skills.dataset import SkillDataset
    from arena_robot.skills.labelling import LabelledTask


def label_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('file', type=Path, metavar='FILE', help='the dataset (.jsonl)')
    parser.add_argument('--bases', type=int, default=3, metavar='N',
                        help='solutions per task (default %(default)s)')
    parser.add_argument('--completions', type=int, default=3, metavar='N',
                        help='from each prefix (default %(default)s)')
    parser.add_argument('--completed', choices=('first', 'random', 'all'), default='first',
                        help='which successful base solutions are completed (default %(default)s)')
    parser.add_argument('--pool', type=Path, metavar='FILE',
                        help='exemplars to begin with; successes join them')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='exemplars per prompt (default %(default)s)')
    parser.add_argument('--batch', type=int, default=4, metavar='N',
                        help='tasks after which the pool grows (default %(default)s)')
    add_task_argument(parser)
    add_policy_arguments(parser)
    add_learner_argument(parser)
    add_worker_arguments(parser)


def run_label(args: argparse.Namespace) -> int:
    """
    Make a dataset of labelled solutions by executing them on the simulated station.

      arena skill label skills.jsonl --jobs 2
      arena skill label skills.jsonl --tasks open_drawer,close_drawer --bases 8

    Per task, base solutions are written and executed, then completions from every prefix of the
    first one that succeeded. A prefix is good when a solution that succeeded begins with it. A
    call that was interrupted goes on.
    """
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.dataset import LabelMakers, Provenance, counts, make_dataset
    from arena_robot.skills.labelling import CompletedBase, LabelSettings
    from arena_robot.skills.pool import read_pool

    if args.batch < 1:
        raise ConfigError(f'--batch must be at least 1, found {args.batch}')
    name, maker = policy(args)
    executor_name, executor_of = executor(args)
    tasks = specs(args)
    settings = LabelSettings(args.bases, args.completions, CompletedBase(args.completed),
                             args.exemplars, args.seed)
    about = Provenance(name, executor_name, settings, args.batch,
                       tuple(task.name for task in tasks), str(args.pool or 'pool'))
    with ProgressBar() as bar:
        data = make_dataset(args.file, tasks, about,
                            LabelMakers(maker, executor_of, settings),
                            read_pool(args.pool) if args.pool else None, workers(args), bar.show)
    totals = counts(data.tasks)
    if args.json:
        print(json_text({'policy': name, 'executor': executor_name, **totals}))
    else:
        print(f'{args.file}: {totals["tasks"]} tasks, {totals["solutions"]} solutions, '
              f'{totals["successful"]} successful ({totals["claimed"]} by their own indicators), '
              f'{totals["malformed"]} malformed\n{totals["subtasks"]} prefixes, '
              f'{totals["good_subtasks"]} good; ATSR {totals["atsr"]:.3f}, ASSR '
              f'{totals["assr"]:.3f}')
    return 0


def show_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('dataset', type=Path, metavar='DATASET', help='see `arena skill label`')
    parser.add_argument('task', nargs='?', metavar='TASK', help='show all of this one')
    parser.add_argument('--verifier', type=Path, metavar='FILE', help='add its scores')
    parser.add_argument('--code', action='store_true', help='print the code of subtasks as well')
    parser.add_argument('--page', type=Path, metavar='FOLDER',
                        help='with TASK: execute its solutions again and write a page with videos')


def run_show(args: argparse.Namespace) -> int:
    """
    Read a dataset of solutions: what was tried for a task, its subtasks, labels and scores.

      arena skill show skills.jsonl                                 a line per task
      arena skill show skills.jsonl open_drawer
      arena skill show skills.jsonl open_drawer --verifier verifier.json
      arena skill show skills.jsonl open_drawer --page drawer/      videos beside code and labels

    A prefix is good (+) when a solution that succeeded begins with it.
    """
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
        chosen = [task for task in data.tasks if task.spec.name == name]
        if not chosen:
            raise ConfigError(f'{args.dataset} has nothing of {name}')
        rows = solution_rows(chosen[0], read_verifier(args.verifier) if args.verifier else None)
        if args.page:
            print(_page(args.page, chosen[0], data, args, rows), file=sys.stderr)
        print(json_text(rows) if args.json else _text(rows, args.code))
        return 0
    tasks = [{'task': task.spec.name, **counts([task])} for task in data.tasks]
    if args.json:
        print(json_text({'policy': data.provenance.policy, 'executor': data.provenance.executor,
                          'tasks': tasks, **{'all': counts(data.tasks)}}))
        return 0
    for row in [*tasks, {'task': 'all', **counts(data.tasks)}]:
        print(f'{row["task"]:<40} {row["successful"]:>4} of {row["solutions"]:<4} succeed, '
              f'{row["claimed"]:>4} by their own indicators; {row["good_subtasks"]:>4} of '
              f'{row["subtasks"]:<4} prefixes are good')
    return 0


def _page(folder: Path, task: 'LabelledTask', data: 'SkillDataset', args: argparse.Namespace,
          rows: list[dict[str, Any]]) -> Path:
    from arena_robot.reports.skill_page import write_skill_page
    from arena_robot.skills.specs.table import find_task
    from arena_robot.trials.skills.executor import learner_of, motion_finder
    from arena_robot.trials.skills.films import write_films

    folder.mkdir(parents=True, exist_ok=True)
    made_by = data.provenance
    with ProgressBar() as bar:
        films = write_films(folder, find_task(task.spec.name), task.tried, made_by.settings.seed,
                            bar.show, motion_finder(learner_of(made_by.executor)))
    return write_skill_page(folder, task, rows, films, {
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


def pool_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('file', type=Path, metavar='FILE', help='the pool')
    parser.add_argument('--grow', type=Path, metavar='DATASET',
                        help="add each task's shortest success; FILE is made when it is missing")
    parser.add_argument('--bar', default='', metavar='A,B,…',
                        help='tasks kept for tests: removed, and refused from now on')
    parser.add_argument('--like', metavar='TASK', help='show the exemplars nearest to this task')
    parser.add_argument('--exemplars', type=int, default=2, metavar='K',
                        help='how many with --like (default %(default)s)')


def run_pool(args: argparse.Namespace) -> int:
    """
    The exemplar pool: solutions that succeeded, by task.

      arena skill pool pool.json --grow skills.jsonl              from a dataset's successes
      arena skill pool pool.json --grow skills.jsonl --bar open_drawer,close_drawer
      arena skill pool pool.json --like open_drawer               which exemplars a task would get

    Tasks that are barred (kept for tests) never enter.
    """
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
            {'task': exemplar.spec.name, 'likeness': round(like, 3),
             'subtasks': len(exemplar.solution.subtasks)} for exemplar, like in near]
    else:
        rows = [{'task': exemplar.spec.name, 'subtasks': len(exemplar.solution.subtasks),
                 'policy': exemplar.solution.policy} for exemplar in pool.exemplars]
    if args.json:
        print(json_text({'exemplars': rows, 'barred': sorted(pool.barred)}))
        return 0
    for row in rows:
        print('  '.join(f'{value:<40}' if key == 'task' else f'{key} {value}'
                        for key, value in row.items()))
    print(f'{len(pool.exemplars)} exemplars, {len(pool.barred)} tasks barred')
    return 0


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('dataset', type=Path, metavar='DATASET', help='see `arena skill label`')
    parser.add_argument('--out', type=Path, required=True, metavar='FILE', help='the verifier')
    parser.add_argument('--without', default='', metavar='A,B,…',
                        help='tasks kept for tests: not trained on')
    parser.add_argument('--sees', choices=('meaning', 'all', 'text', 'name'),
                        default='meaning',
                        help="what it sees; all: text, too; name: only the task's name "
                             '(default %(default)s)')
    parser.add_argument('--soft', action='store_true',
                        help='labels are shares of solutions that succeed')
    parser.add_argument('--gamma', type=float, default=2.0,
                        help='of the focal loss, 0 for cross-entropy (default %(default)s)')
    parser.add_argument('--permuted', action='store_true',
                        help='exchange the labels at random, as a check')
    parser.add_argument('--seed', type=int, default=0, help='(default %(default)s)')


def run_train(args: argparse.Namespace) -> int:
    """
    Train the verifier on a dataset of labelled solutions.

      arena skill train skills.jsonl --out verifier.json
      arena skill train skills.jsonl --out verifier.json --without open_drawer,close_drawer

    It is a logistic model over what the code of prefixes means; it takes seconds.
    """
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.dataset import read_dataset
    from arena_robot.skills.specs.table import find_task
    from arena_robot.skills.verifier import TrainingSettings, train_verifier, write_verifier

    if args.gamma < 0.0 or args.seed < 0:
        raise ConfigError('--gamma and --seed must be at least 0')
    data = read_dataset(args.dataset)
    out = {find_task(name).spec.name for name in args.without.split(',') if name}
    tasks = [task for task in data.tasks if task.spec.name not in out]
    model = train_verifier(tasks, TrainingSettings(
        gamma=args.gamma, sees=args.sees, soft=args.soft, permuted=args.permuted,
        seed=args.seed), data.provenance.policy)
    write_verifier(args.out, model)
    card = model.card
    print(json_text(dataclasses.asdict(card)) if args.json else
          f'{args.out}: {len(card.tasks)} tasks, {card.prefixes} prefixes, {card.good} good; '
          f'{len(model.names)} features, ridge {card.ridge:g}')
    return 0
