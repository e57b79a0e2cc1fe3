"""
Measure judges: they say which of two instants of an episode is farther on.

  arena judge bench clips --judge local --pairs 200
  arena judge bench clips --judge local --judge my_lab.judge:Mine --noise 0,0.05,0.1 --json
  arena judge bench --pulse RoboPulse.json --fields fields.yaml --judge local

Pairs are drawn from clips with known progress (*.clip.npz), or read from a published
benchmark. Baselines (elapsed time, picture distances) are always measured with them.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.terminal import ProgressBar, json_text

if TYPE_CHECKING:
    from arena_robot.audit.bench import BenchPair

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
    parser.add_argument('--noise', default='0', metavar='A,…',
                        help='shares of picture noise (default %(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='of pairs and noise')
    parser.add_argument('--published', action='store_true',
                        help="show the paper's rows as well, of other data")


def run_bench(args: argparse.Namespace) -> int:
    """Draw, ask, print."""
    from arena_robot.audit.bench import NOTE, ROWS
    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.standings import plain

    if bool(args.folder) == bool(args.pulse):
        raise ConfigError('give either FOLDER or --pulse FILE')
    try:
        noise = [float(word) for word in args.noise.split(',')]
    except ValueError as error:
        raise ConfigError(f"--noise takes numbers, found '{args.noise}'") from error
    pairs = _pairs(args)
    rows = _rows(args, pairs, noise)
    report: dict[str, Any] = {'pairs': len(pairs), 'seed': args.seed, 'rows': rows}
    if args.published:
        report['published'] = {'note': NOTE, 'rows': ROWS}
    print(json_text(plain(report)) if args.json else _text(report))
    return 0


def _pairs(args: argparse.Namespace) -> 'list[BenchPair]':
    from arena_robot.audit.bench import PulseFields, bench_pairs, read_pulse
    from arena_robot.core.config import build, read_yaml
    from arena_robot.core.errors import DataError
    from arena_robot.records.labelled_clip import clip_files, read_clip

    if args.pulse:
        fields = build(PulseFields, read_yaml(args.fields), str(args.fields)) \
            if args.fields else None
        return read_pulse(args.pulse, fields)
    files = clip_files(args.folder)
    if not files:
        raise DataError(f'{args.folder} has no clips (*.clip.npz); `arena judge train` makes some')
    return bench_pairs([read_clip(path) for path in files], args.pairs, args.seed)


def _rows(args: argparse.Namespace, pairs: 'list[BenchPair]', noise: list[float]
          ) -> list[dict[str, Any]]:
    from arena_robot.audit.bench import answers, clock_answers
    from arena_robot.audit.judges import make_judge, settings_of

    names = args.judge or ['local']
    judges = {name: make_judge(name, dict(settings_of(args.param)) if k == 0 else {})
              for k, name in enumerate(names)}
    judges.update({name: make_judge(name) for name in BASELINES if name not in judges})
    rows = [_row('elapsed', 0.0, pairs, clock_answers(pairs), args.seed)]
    with ProgressBar() as bar:
        for name, judge in judges.items():
            for alpha in noise:
                def show(done: int, label: str = f'{name}, noise {alpha:g}') -> None:
                    bar.show(done, len(pairs), label)
                right = answers(judge, pairs, alpha, args.seed, show)
                rows.append(_row(name, alpha, pairs, right, args.seed))
    return rows


def _row(name: str, alpha: float, pairs: 'list[BenchPair]', right: list[bool], seed: int
         ) -> dict[str, Any]:
    from arena_robot.audit.bench import bench_scores, phase_scores
    scores = [*bench_scores(pairs, right, seed), *phase_scores(pairs, right, seed)]
    return {'judge': name, 'noise': alpha, 'scores': {
        s.bin: dataclasses.asdict(s) for s in scores}}


def _text(report: dict[str, Any]) -> str:
    rows = report['rows']
    heads = list(rows[0]['scores'])
    width = max(len(r['judge']) for r in rows)
    lines = [f"{report['pairs']} pairs; share of right signs, 95 % interval over episodes",
             f"{'judge':{width}}  noise  " + '  '.join(f'{h:<17}' for h in heads).rstrip()]
    for row in rows:
        cells = [f"{s['accuracy']:.2f} [{s['low']:.2f}, {s['high']:.2f}]"
                 for s in (row['scores'][h] for h in heads)]
        lines.append(f"{row['judge']:{width}}  {row['noise']:5g}  " + '  '.join(
            f'{c:<17}' for c in cells).rstrip())
    if 'published' in report:
        lines += ['', report['published']['note'] + ':']
        lines += [f'  {name:26}' + '  '.join(f'{v:.2f}' for v in values)
                  for name, values in report['published']['rows'].items()]
    return '\n'.join(lines)
