"""
Train the judge `local` on episodes with known progress.

  arena judge train clips --out model.npz              26 scenes of every simulated task
  arena judge train clips --out model.npz --scenes 0   only what is in the folder already

Episodes of the simulated station that FOLDER lacks are made first (about 1 s each); a call that
was interrupted goes on. Files *.clip.npz of your own may lie there too. FILE then goes with
`arena audit --judge local --param model=FILE`.
"""

import argparse
import dataclasses
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.progress_bar import ProgressBar
from arena_robot.cli.worker_arguments import add_worker_arguments, workers

if TYPE_CHECKING:
    from arena_robot.audit.local.model import TrainingCard

VERB = 'judge train'
HELP = 'train the local judge on episodes with known progress'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, metavar='FOLDER', help='where the clips are kept')
    parser.add_argument('--out', type=Path, required=True, metavar='FILE', help='the model (.npz)')
    parser.add_argument('--scenes', type=int, default=26, metavar='N',
                        help='simulated episodes per task to make (default %(default)s)')
    parser.add_argument('--tasks', metavar='A,B,…', help='simulated tasks (default: all)')
    parser.add_argument('--seed', type=int, default=0, help='of folds (default %(default)s)')
    parser.add_argument('--json', action='store_true', help='print the training card as JSON')
    add_worker_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Make episodes, train, write, print the card."""
    from arena_robot.audit.local.model import read_model, write_model
    from arena_robot.audit.local.train import load, train
    from arena_robot.core.errors import ConfigError
    from arena_robot.records.labelled_clip import clip_files

    if args.scenes < 0:
        raise ConfigError(f'--scenes must be at least 0, found {args.scenes}')
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.scenes:
        _make(args)
    with ProgressBar() as bar:
        clips = load(clip_files(args.folder), progress=bar.show)
    model = train(clips, args.seed)
    write_model(args.out, model)
    card = read_model(args.out).card
    print(json.dumps(dataclasses.asdict(card), indent=2) if args.json else _text(card, args.out))
    return 0


def _make(args: argparse.Namespace) -> None:
    from arena_robot.trials.labelled import all_tasks, labelled_episodes, record_to

    tasks = args.tasks.split(',') if args.tasks else all_tasks()
    wanted = labelled_episodes(tasks, range(args.scenes))
    with ProgressBar() as bar:
        workers(args).map(functools.partial(record_to, args.folder), wanted,
                          lambda done, path: bar.show(done, len(wanted), Path(path).name))


def _text(card: 'TrainingCard', path: Path) -> str:
    q = card.quality
    return (f'{path}: {card.episodes} episodes of {len(card.tasks)} tasks, {card.frames} frames\n'
            f'on episodes left out: error {q["error"]:.3f}, falls seen {q["falls"]:.0%}, rises '
            f'seen {q["rises"]:.0%}, AUC of success {q.get("auc", float("nan")):.2f}'
            + (f'\non tasks left out (no level, hops alone): falls seen {q["new_falls"]:.0%}, '
               f'rises seen {q["new_rises"]:.0%}' if 'new_falls' in q else ''))
