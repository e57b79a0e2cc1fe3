"""
Say what kind of task an instruction is, by rules or by a vision model.

    arena categorise 'put the cup on the plate'
    arena categorise --check labels.csv
    arena categorise --check labels.csv --model --dry-run

--check compares with the labels of a person: a table with the columns instruction and category;
it prints the accuracy with its interval and the confusion table, and for the rules the accuracy
without the words that stand in them for one label alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.model_arguments import add_model_arguments, chat_client

if TYPE_CHECKING:
    from arena_robot.reports.task_scenes import TaskScene

VERB = 'categorise'
HELP = 'say what kind of task an instruction is'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('instruction', nargs='*', help='an instruction, in quotes')
    parser.add_argument('--check', type=Path, metavar='CSV', help="compare with a person's labels")
    add_model_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Categorise and print."""
    from arena_robot.core.errors import ConfigError
    if bool(args.instruction) == bool(args.check):
        raise ConfigError('give instructions, or --check CSV')
    if args.check:
        return _check(args)
    scenes = _scenes(args, args.instruction)
    for one, scene in zip(args.instruction if scenes else (), scenes, strict=True):
        sure = '' if scene.confidence is None else f', confidence {scene.confidence:.2f}'
        print(f'{one}: {scene.category} ({scene.method}{sure})')
    return 0


def _check(args: argparse.Namespace) -> int:
    from arena_robot.core.wilson import wilson
    from arena_robot.records.roboarena_csv import rows_of
    from arena_robot.reports.category_check import agreement, left_out, membership, read_labels
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
        found = agreement(labels, left_out(labels))
        low, high = found.interval
        print(f'\nwithout the words that stand in the rules for one label alone: {found.right} of '
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
        return [model.describe(one) for one in instructions]
    finally:
        chat.close()
