"""Verbs on judges: list, noise, serve, train, and bench, which measures several."""

import argparse
import dataclasses
import functools
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    parser.add_argument('--scenes', type=int, default=28, metavar='N',
                        help='simulated episodes per task to make (default %(default)s)')
    parser.add_argument('--tasks', metavar='A,B,…', help='simulated tasks (default: all)')
    parser.add_argument('--seed', type=int, default=0, help='of folds (default %(default)s)')
    add_worker_arguments(parser)


def run_train(args: argparse.Namespace) -> int:
    """
    Train the judge `local` on episodes with known progress.

      arena judge train clips --out model.npz              28 scenes of every simulated task
      arena judge train clips --out model.npz --scenes 0   only what is in the folder already

    Episodes of the simulated station that FOLDER lacks are made first (about 1 s each); a call
    that was interrupted goes on. Files *.clip.npz of your own may lie there too. FILE then goes
    with `arena audit --judge local --param model=FILE`.
    """
    from arena_robot.audit.local.model import read_model, write_model
    from arena_robot.audit.local.train import load, train
    from arena_robot.core.errors import ConfigError
    from arena_robot.records.clip import clip_files

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


if TYPE_CHECKING:
    from collections.abc import Sequence

    from arena_robot.audit.bench import BenchPair, BenchScore
    from arena_robot.records.clip import LabelledClip

BASELINES = ('start_distance', 'goal_distance')


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, nargs='?', metavar='FOLDER', help='clips')
    parser.add_argument('--pulse', type=Path, metavar='FILE', help="a published benchmark's JSON")
    parser.add_argument('--fields', type=Path, metavar='YAML',
                        help='names of its fields (audit/bench.py: PulseFields)')
    parser.add_argument('--judge', action='append', default=[], metavar='NAME',
                        help='can be given again (default: local)')
    parser.add_argument('--param', action='append', default=[], metavar='KEY=VALUE',
                        help='a setting of the first judge; can be given again')
    parser.add_argument('--pairs', type=int, default=100, metavar='N',
                        help='pairs per bin (default %(default)s)')
    parser.add_argument('--triples', type=int, default=0, metavar='N',
                        help='triples of instants of FOLDER: does a judge contradict itself? '
                             '(default: none)')
    parser.add_argument('--noise', default='0', metavar='A,…',
                        help='shares of picture noise (default %(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='of pairs and noise')
    parser.add_argument('--published', action='store_true',
                        help="show the paper's rows as well, of other data")


def run_bench(args: argparse.Namespace) -> int:
    """
    Measure judges: they say which of two instants of an episode is farther on.

      arena judge bench clips --judge local --pairs 200
      arena judge bench clips --judge local --judge my_lab.judge:Mine --noise 0,0.05,0.1 --json
      arena judge bench --pulse RoboPulse.json --fields fields.yaml --judge local

    Pairs are drawn from clips with known progress (*.clip.npz), or read from a published
    benchmark. Baselines (elapsed time, picture distances) are always measured with them.
    """
    from arena_robot.audit.bench import NOTE, ROWS
    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.standings import plain

    if bool(args.folder) == bool(args.pulse):
        raise ConfigError('give either FOLDER or --pulse FILE')
    try:
        noise = [float(word) for word in args.noise.split(',')]
    except ValueError as error:
        raise ConfigError(f"--noise takes numbers, found '{args.noise}'") from error
    if args.triples and not args.folder:
        raise ConfigError('--triples needs the clips of a FOLDER')
    clips = _clips(args.folder) if args.folder else []
    pairs = _pairs(args, clips)
    rows = _rows(args, pairs, noise, clips)
    report: dict[str, Any] = {'pairs': len(pairs), 'seed': args.seed, 'rows': rows}
    if args.published:
        report['published'] = {'note': NOTE, 'rows': ROWS}
    print(json_text(plain(report)) if args.json else _bench_text(report))
    return 0


def _clips(folder: Path) -> 'list[LabelledClip]':
    from arena_robot.core.errors import DataError
    from arena_robot.records.clip import clip_files, read_clip
    files = clip_files(folder)
    if not files:
        raise DataError(f'{folder} has no clips (*.clip.npz); `arena judge train` makes some')
    return [read_clip(path) for path in files]


def _pairs(args: argparse.Namespace, clips: 'Sequence[LabelledClip]') -> 'list[BenchPair]':
    from arena_robot.audit.bench import PulseFields, bench_pairs, read_pulse
    from arena_robot.core.config import build, read_yaml

    if args.pulse:
        fields = build(PulseFields, read_yaml(args.fields), str(args.fields)) \
            if args.fields else None
        return read_pulse(args.pulse, fields)
    return bench_pairs(clips, args.pairs, args.seed)


def _rows(args: argparse.Namespace, pairs: 'list[BenchPair]', noise: list[float],
          clips: 'Sequence[LabelledClip]') -> list[dict[str, Any]]:
    from arena_robot.audit.bench import answers, clock_answers, triple_score
    from arena_robot.audit.judges import make_judge, settings_of

    names = args.judge or ['local']
    judges = {name: make_judge(name, dict(settings_of(args.param)) if k == 0 else {})
              for k, name in enumerate(names)}
    judges.update({name: make_judge(name) for name in BASELINES if name not in judges})
    rows = [_row('elapsed', 0.0, pairs, clock_answers(pairs), args.seed)]
    with ProgressBar() as bar:
        for name, judge in judges.items():
            triples = [triple_score(judge, clips, args.triples, args.seed)] \
                if args.triples else []
            for alpha in noise:
                def show(done: int, label: str = f'{name}, noise {alpha:g}') -> None:
                    bar.show(done, len(pairs), label)
                right = answers(judge, pairs, alpha, args.seed, show)
                rows.append(_row(name, alpha, pairs, right, args.seed, triples))
    return rows


def _row(name: str, alpha: float, pairs: 'list[BenchPair]', right: list[bool], seed: int,
         more: 'Sequence[BenchScore]' = ()) -> dict[str, Any]:
    from arena_robot.audit.bench import bench_scores, phase_scores
    scores = [*bench_scores(pairs, right, seed), *phase_scores(pairs, right, seed), *more]
    return {'judge': name, 'noise': alpha, 'scores': {
        s.bin: dataclasses.asdict(s) for s in scores}}


def _bench_text(report: dict[str, Any]) -> str:
    rows = report['rows']
    heads = list(dict.fromkeys(head for row in rows for head in row['scores']))
    width = max(len(r['judge']) for r in rows)
    lines = [f"{report['pairs']} pairs; share of right signs, 95 % interval over episodes",
             f"{'judge':{width}}  noise  " + '  '.join(f'{h:<17}' for h in heads).rstrip()]
    for row in rows:
        cells = [f"{s['accuracy']:.2f} [{s['low']:.2f}, {s['high']:.2f}]" if s else '-'
                 for s in (row['scores'].get(h) for h in heads)]
        lines.append(f"{row['judge']:{width}}  {row['noise']:5g}  " + '  '.join(
            f'{c:<17}' for c in cells).rstrip())
    if 'published' in report:
        lines += ['', report['published']['note'] + ':']
        lines += [f'  {name:26}' + '  '.join(f'{v:.2f}' for v in values)
                  for name, values in report['published']['rows'].items()]
    return '\n'.join(lines)
