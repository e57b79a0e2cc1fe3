"""Verbs on single judges: list, noise, serve, train."""

import argparse
import dataclasses
import functools
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import ProgressBar, json_text

if TYPE_CHECKING:
    from arena_robot.audit.local.model import TrainingCard


def list_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run_list(args: argparse.Namespace) -> int:
    """List the judges that `arena audit --judge` knows."""
    import inspect

    from arena_robot.audit.judges import JUDGES
    rows = [(name, (inspect.getdoc(maker) or '').split('\n')[0])
            for name, maker in JUDGES.rows().items()]
    width = max(len(name) for name, _ in rows)
    print(json_text(dict(rows)) if args.json else
          '\n'.join(f'{name:{width}}  {about}' for name, about in rows))
    return 0


def noise_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('trace', type=Path, metavar='FILE', help='traces of static clips (JSON)')
    parser.add_argument('--alpha', type=float, default=0.01,
                        help='share of still steps that may count as motion (default %(default)s)')


def run_noise(args: argparse.Namespace) -> int:
    """
    Measure a judge's noise on clips in which nothing happens; gives --epsilon of `arena audit`.

      arena judge noise STATIC.json

    STATIC.json holds the judge's traces of static clips, in the form of `arena audit --trace`.
    """
    from arena_robot.audit.opd import read_traces, static_noise

    noise = static_noise([trace.phi for trace in read_traces(args.trace)], args.alpha)
    if args.json:
        print(json_text(dataclasses.asdict(noise)))
        return 0
    print(f'sigma {noise.sigma:.4g}, epsilon {noise.epsilon:.4g} for {noise.alpha:.0%} false '
          f'motion; {noise.clips} clips, {noise.values} values')
    if abs(noise.neighbours) > 0.3:
        print(f'neighbouring values correlate by {noise.neighbours:.2f}: the judge drifts, and '
              'epsilon holds only roughly')
    return 0


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('--judge', required=True, metavar='NAME',
                        help='a name of `arena judge list`, or module:Class; '
                             'one that needs a single view')
    parser.add_argument('--param', action='append', default=[], metavar='KEY=VALUE',
                        help='a setting of the judge; can be given again')
    parser.add_argument('--host', default='127.0.0.1', help='address (default %(default)s)')
    parser.add_argument('--port', type=int, default=8000, help='port (default %(default)s)')


def run_serve(args: argparse.Namespace) -> int:
    """
    Serve a judge under RoboMeter's HTTP protocol, for other programs.

      arena judge serve --judge my_lab.judge:Brightness --port 8000
    """
    from arena_robot.audit.judges import settings_of
    from arena_robot.audit.wire.robometer import RobometerServer
    from arena_robot.core.errors import ConfigError
    from arena_robot.reports.episode_audit import AuditJob, made

    job = AuditJob(args.judge, settings_of(args.param))
    judge = made(job)
    try:
        with RobometerServer(judge, args.host, args.port, job.identity) as server:
            print(f'{judge.name} at {server.url}; Ctrl-C ends it', flush=True)
            threading.Event().wait()
    except OSError as error:
        raise ConfigError(f'cannot listen at {args.host}:{args.port}: {error}') from error
    return 0


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, metavar='FOLDER', help='where the clips are kept')
    parser.add_argument('--out', type=Path, required=True, metavar='FILE', help='the model (.npz)')
    parser.add_argument('--scenes', type=int, default=26, metavar='N',
                        help='simulated episodes per task to make (default %(default)s)')
    parser.add_argument('--tasks', metavar='A,B,…', help='simulated tasks (default: all)')
    parser.add_argument('--seed', type=int, default=0, help='of folds (default %(default)s)')
    add_worker_arguments(parser)


def run_train(args: argparse.Namespace) -> int:
    """
    Train the judge `local` on episodes with known progress.

      arena judge train clips --out model.npz              26 scenes of every simulated task
      arena judge train clips --out model.npz --scenes 0   only what is in the folder already

    Episodes of the simulated station that FOLDER lacks are made first (about 1 s each); a call
    that was interrupted goes on. Files *.clip.npz of your own may lie there too. FILE then goes
    with `arena audit --judge local --param model=FILE`.
    """
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
    print(json_text(dataclasses.asdict(card)) if args.json else _text(card, args.out))
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
