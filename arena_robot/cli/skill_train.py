"""
Train the verifier on a dataset of labelled solutions.

  arena skill train skills.jsonl --out verifier.json
  arena skill train skills.jsonl --out verifier.json --without open_drawer,close_drawer

It is a logistic model over the structure of prefixes and their text; it takes seconds.
"""

import argparse
import dataclasses
import json
from pathlib import Path

VERB = 'skill train'
HELP = 'train the verifier of solutions'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('dataset', type=Path, metavar='DATASET', help='see `arena skill label`')
    parser.add_argument('--out', type=Path, required=True, metavar='FILE', help='the verifier')
    parser.add_argument('--without', default='', metavar='A,B,…',
                        help='tasks kept for tests: not trained on')
    parser.add_argument('--sees', choices=('all', 'structure', 'name'), default='all',
                        help="what it sees; name: only the task's name (default %(default)s)")
    parser.add_argument('--soft', action='store_true',
                        help='labels are shares of solutions that succeed')
    parser.add_argument('--gamma', type=float, default=2.0,
                        help='of the focal loss, 0 for cross-entropy (default %(default)s)')
    parser.add_argument('--permuted', action='store_true',
                        help='exchange the labels at random, as a check')
    parser.add_argument('--seed', type=int, default=0, help='(default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print the card as JSON')


def run(args: argparse.Namespace) -> int:
    """Train, write, print the card."""
    from arena_robot.core.errors import ConfigError
    from arena_robot.skills.dataset import read_dataset
    from arena_robot.skills.specs.table import find_task
    from arena_robot.skills.verifier import write_verifier
    from arena_robot.skills.verifier_training import TrainingSettings, train_verifier

    if args.gamma < 0.0 or args.seed < 0:
        raise ConfigError('--gamma and --seed must be at least 0')
    data = read_dataset(args.dataset)
    out = {find_task(name).spec.name for name in args.without.split(',') if name}
    tasks = [one for one in data.tasks if one.spec.name not in out]
    model = train_verifier(tasks, TrainingSettings(
        gamma=args.gamma, sees=args.sees, soft=args.soft, permuted=args.permuted,
        seed=args.seed), data.provenance.policy)
    write_verifier(args.out, model)
    card = model.card
    print(json.dumps(dataclasses.asdict(card), indent=2) if args.json else
          f'{args.out}: {len(card.tasks)} tasks, {card.prefixes} prefixes, {card.good} good; '
          f'{len(model.names)} features, ridge {card.ridge:g}')
    return 0
