"""
Say what kind of task an instruction is, by rules or by a vision model.

    arena categorise 'put the cup on the plate'
    arena categorise --check labels.csv
    arena categorise --check labels.csv --also other_labels.csv
    arena categorise --check labels.csv --model --dry-run
    arena categorise --data arena-data --model --prices 2.5,10 --budget 5

--check compares with the labels of a person: a table with the columns instruction and category;
it prints the accuracy with its interval and the confusion table, and for the rules the accuracy
of those words alone that another label has as well, of this table or of --also's.
--data or --config, with --model, looks at the sessions of an arena server that the model has not
seen, newest first, with their first pictures, and stores who said what. What a maintainer
corrected stays.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.model_arguments import add_model_arguments, chat_client
from arena_robot.cli.server_place import config_at

if TYPE_CHECKING:
    from arena_robot.reports.task_scenes import SceneModel, TaskScene

VERB = 'categorise'
HELP = 'say what kind of task an instruction is'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('instruction', nargs='*', help='an instruction, in quotes')
    parser.add_argument('--check', type=Path, metavar='CSV', help="compare with a person's labels")
    parser.add_argument('--also', type=Path, nargs='+', metavar='CSV', default=[],
                        help='other labels, whose words count as known (default: none)')
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--data', type=Path, metavar='DIR', help="an arena server's data folder")
    where.add_argument('--config', type=Path, metavar='FILE', help="an arena server's file")
    parser.add_argument('--limit', type=int, default=1000, metavar='N',
                        help='at most so many sessions (default %(default)s)')
    add_model_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Categorise and print."""
    from arena_robot.core.errors import ConfigError
    ways = [bool(args.instruction), bool(args.check), bool(args.data or args.config)]
    if sum(ways) != 1:
        raise ConfigError('give instructions, or --check CSV, or --data DIR')
    if ways[2]:
        if not args.model:
            raise ConfigError('a server categorises by rules itself; give --model')
        return _sessions(args)
    if args.check:
        return _check(args)
    scenes = _scenes(args, args.instruction)
    for one, scene in zip(args.instruction if scenes else (), scenes, strict=True):
        sure = '' if scene.confidence is None else f', confidence {scene.confidence:.2f}'
        print(f'{one}: {scene.category} ({scene.method}{sure})')
    return 0


def _sessions(args: argparse.Namespace) -> int:
    """Ask the model for each session that it has not seen, newest first, and store its answer."""
    from contextlib import closing

    from arena_robot.core.clock import SystemClock
    from arena_robot.core.errors import BudgetSpent
    from arena_robot.reports.task_scenes import SceneModel
    from arena_robot.server.store.categories import Categories
    from arena_robot.web.site.server_jobs import described, opened, unseen_sessions
    problems: list[str] = []
    with closing(chat_client(args)) as chat, opened(config_at(args)) as (database, blobs):
        kept, model = Categories(database, SystemClock()), SceneModel(chat)
        try:
            for session_id, prompt, pictures in unseen_sessions(
                    database, blobs, kept, chat.model, args.limit):
                if args.dry_run:
                    print(model.preview(prompt, pictures))
                    continue
                category, problem = described(model, chat.model, prompt, pictures)
                if problem:
                    print(f'{session_id}: by rules: {problem}')
                problems.append(problem)
                kept.store(session_id, category)
        except BudgetSpent as error:
            print(f'stopped: {error}')
        bad = sum(map(bool, problems))
        print(f'{len(problems) - bad} sessions categorised by {chat.model}'
              + f', {bad} without a fitting answer by rules' * (bad > 0)
              + f'; {chat.usage.calls} calls, cost {chat.usage.cost:.4f}')
    return 0


def _check(args: argparse.Namespace) -> int:
    from arena_robot.core.wilson import wilson
    from arena_robot.records.roboarena_files import rows_of
    from arena_robot.reports.task_scenes import agreement, left_out, membership, read_labels
    labels = read_labels(args.check)
    texts = list(dict.fromkeys(row['instruction'] for _, row in rows_of(args.check)))
    scenes = _scenes(args, texts)
    if not scenes:
        return 0
    said = {text: one.category for text, one in zip(texts, scenes, strict=True)}
    print(agreement(labels, [said[one.instruction] for one in labels]).words())
    right, count = membership(args.check, said)
    if count > len(labels):
        low, high = wilson(right, count)
        print(f'\nof {count} answers "of this category" or "not of it" {right} right: '
              f'{right / count:.3f} ({low:.3f} to {high:.3f})')
    if not args.model:
        others = [one for path in args.also for one in read_labels(path)]
        found = agreement(labels, left_out(labels, others))
        low, high = found.interval
        print(f'\nby the words alone that another label has as well: {found.right} of '
              f'{found.count}, accuracy {found.right / found.count:.3f} ({low:.3f} to {high:.3f})')
    return 0


def _scenes(args: argparse.Namespace, instructions: Sequence[str]) -> 'list[TaskScene]':
    """Return the category of each instruction; nothing in a dry run, which prints instead."""
    from arena_robot.reports.task_scenes import SceneModel, by_rules
    if not args.model:
        return [by_rules(one) for one in instructions]
    chat = chat_client(args)
    try:
        model = SceneModel(chat)
        if args.dry_run:
            print('\n\n'.join(map(model.preview, instructions)))
            return []
        return [_asked(model, one) for one in instructions]
    finally:
        chat.close()


def _asked(model: 'SceneModel', instruction: str) -> 'TaskScene':
    """Return the model's answer; one of no category where it gives no fitting one."""
    from arena_robot.core.errors import ModelBadReply
    from arena_robot.reports.task_scenes import TaskScene
    try:
        return model.describe(instruction)
    except ModelBadReply as error:
        print(f'{instruction}: {error}')
        return TaskScene('', 'model')
