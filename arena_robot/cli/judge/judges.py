"""Verbs on judges: list, noise, serve, label, train, and bench, which measures several."""

import argparse
import dataclasses
import functools
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.cli.arguments import add_worker_arguments, workers
from arena_robot.cli.terminal import ProgressBar, json_text

if TYPE_CHECKING:
    from arena_robot.audit.local.model import TrainingCard
    from arena_robot.audit.local.train import Learned
    from arena_robot.core.parallel import Progress


SCENES = 60    # of a task: with 24 a bar is missed
PHASES = ('making clips', 'features', 'networks')    # of a training, as they are printed
INTERVAL_S = 0.2    # between the pictures that `local` looks at
LABEL_PORT = 8300    # no other page of `arena` has it


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


def label_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, metavar='FOLDER',
                        help='episodes, in any folders below it; gets a labels.csv')
    parser.add_argument('--port', type=int, default=LABEL_PORT,
                        help='port of the page, on this machine only (default %(default)s)')


def run_label(args: argparse.Namespace) -> int:
    """
    Serve a page on which a lab labels its own episodes, for `arena judge train --labels`.

      arena judge label ~/arena/sessions

    The page goes through the episodes. A person says when each stage of the task was reached, or
    lost again, and whether the episode ended well: every step is a key, and the page lists them.
    FOLDER/labels.csv is written after each of them; the same command goes on where it was ended.
    """
    from arena_robot.core.clock import SystemClock
    from arena_robot.core.process import ended_by_signal
    from arena_robot.web.label_page import LabelDesk, create_page
    from arena_robot.web.page_server import PageServer

    over = ended_by_signal()
    with LabelDesk(args.folder, SystemClock()) as desk, PageServer(
            lambda token, hosts: create_page(desk, token, hosts), '127.0.0.1',
            args.port) as server:
        print(f'{desk.shown()["total"]} episodes; the page: {server.url}\nCtrl-C ends it',
              flush=True)
        over.wait()
    return 0


def train_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, nargs='?', metavar='FOLDER',
                        help='where the clips are kept')
    parser.add_argument('--labels', type=Path, metavar='FOLDER',
                        help='train on the episodes that `arena judge label` labelled there '
                             'instead')
    parser.add_argument('--whole', action='store_true',
                        help='with --labels, look at whole pictures: for cameras that show the '
                             "work elsewhere than the simulated station's show the table")
    parser.add_argument('--out', type=Path, required=True, metavar='FILE', help='the model (.npz)')
    parser.add_argument('--scenes', type=int, default=SCENES, metavar='N',
                        help='simulated scenes per task to make (default %(default)s)')
    parser.add_argument('--tasks', metavar='A,B,…', help='simulated tasks (default: all)')
    parser.add_argument('--seed', type=int, default=0, help='of folds (default %(default)s)')
    add_worker_arguments(parser)


def run_train(args: argparse.Namespace) -> int:
    """
    Train the judge `local` on episodes with known progress.

      arena judge train clips --out model.npz              60 scenes of every simulated task
      arena judge train clips --out model.npz --scenes 0   only what is in the folder already
      arena judge train --labels ~/arena/sessions --out model.npz

    Episodes of the simulated station that FOLDER lacks are made first (1 s each, two of most
    scenes); a call that was interrupted goes on. Files *.clip.npz of your own may lie there too.
    FILE then goes with `arena audit --judge local --param model=FILE`. The last line printed says
    how long each phase took; with --json that is `seconds`.

    With --labels the model learns from a lab's own episodes. Each of the lab's scenes (the column
    `scene` of labels.csv) is left out once, and what networks that saw nothing of it reached on it
    is printed. Where that is too little, the model says `not calibrated here`, with the reason.
    """
    from arena_robot.core.errors import ConfigError

    if (args.folder is None) == (args.labels is None):
        raise ConfigError('give one of FOLDER, with clips, and --labels FOLDER, with labels')
    if args.whole and args.labels is None:
        raise ConfigError('--whole goes with --labels')
    if args.scenes < 0:
        raise ConfigError(f'--scenes must be at least 0, found {args.scenes}')
    return _train_labelled(args) if args.labels is not None else _train_clips(args)


def _train_clips(args: argparse.Namespace) -> int:
    from arena_robot.audit.local.model import read_model, write_model
    from arena_robot.audit.local.train import load, train
    from arena_robot.records.clip import clip_files

    args.folder.mkdir(parents=True, exist_ok=True)
    marks = [_clock()]
    if args.scenes:
        _make(args)
    marks.append(_clock())
    with ProgressBar() as bar:
        clips = load(clip_files(args.folder), progress=bar.show)
    marks.append(_clock())
    with ProgressBar() as bar:
        model = train(clips, args.seed, progress=bar.show)
    write_model(args.out, model)
    marks.append(_clock())
    seconds = {phase: {kind: round(after - before, 1) for kind, before, after in zip(
        ('wall', 'processor'), *ends, strict=True)}
        for phase, *ends in zip(PHASES, marks, marks[1:], strict=False)}
    card = read_model(args.out).card
    print(json_text({**dataclasses.asdict(card), 'seconds': seconds}) if args.json
          else f'{_text(card, args.out)}\n{_times(seconds)}')
    return 0


def _clock() -> tuple[float, float]:
    """Return wall seconds, and processor seconds with those of workers that have ended."""
    return time.monotonic(), sum(os.times()[:4])


def _times(seconds: Mapping[str, Mapping[str, float]]) -> str:
    parts = {**seconds, 'training without the clips': {
        kind: sum(seconds[phase][kind] for phase in PHASES[1:]) for kind in ('wall', 'processor')}}
    return '; '.join(f"{phase} {spent['wall']:.0f} s ({spent['processor']:.0f} s of processor)"
                     for phase, spent in parts.items())


def _train_labelled(args: argparse.Namespace) -> int:
    from arena_robot.audit.local.judge import shipped
    from arena_robot.audit.local.labelled import train_labelled
    from arena_robot.audit.local.model import read_model, write_model
    from arena_robot.audit.local.train import VIEWS

    with ProgressBar() as bar:
        clips, views = _labelled(args.labels, args.whole, bar.show)
    begin = read_model(shipped()).networks[0] if views == VIEWS else None
    with ProgressBar() as bar:
        write_model(args.out, train_labelled(clips, views, args.seed, begin, INTERVAL_S,
                                             args.whole, bar.show))
    card = read_model(args.out).card
    print(json_text(dataclasses.asdict(card)) if args.json else _labelled_text(card, args.out))
    return 0


def _labelled(folder: Path, whole: bool, progress: 'Progress'
              ) -> 'tuple[list[Learned], tuple[str, ...]]':
    """Return the features of the labelled episodes of a folder, and the views that are seen."""
    from arena_robot.audit.local.train import VIEWS, learned_from
    from arena_robot.core.errors import DataError
    from arena_robot.recording.formats.labelled_videos import LabelledVideo
    from arena_robot.records.clip import LABELS, ClipSource, read_labels
    from arena_robot.reports.audit_agreement import task_words

    rows = [row for row in read_labels(folder).values() if row.label]
    if not rows:
        raise DataError(f'{folder} has no labelled episodes: begin with `arena judge label`')
    scenes = sorted({row.scene for row in rows})
    clips: list[Learned] = []
    views: tuple[str, ...] = ()
    for number, row in enumerate(rows, 1):
        seen = LabelledVideo(folder / row.file, row.instruction, row.label).clip(INTERVAL_S)
        views = views or tuple(v for v in VIEWS if v in seen.frames) or tuple(seen.frames)
        if lacking := [view for view in views if view not in seen.frames]:
            raise DataError(f'{row.file} has no view {lacking[0]}, which the episodes before have')
        success = {LABELS[-1]: True, LABELS[0]: False}.get(row.label)
        clips.append(learned_from(seen, row.progress(seen.times_s), ClipSource(
            row.file, row.instruction, row.task or task_words(row.instruction),
            scenes.index(row.scene), success=success), views, whole))
        progress(number, len(rows), row.file)
    return clips, views


def _labelled_text(card: 'TrainingCard', path: Path) -> str:
    q = card.left_out
    lines = [f'{path}: {card.episodes} episodes of {len(card.tasks)} tasks, {card.frames} frames',
             f'{q["episodes"]:.0f} episodes of {q["scenes"]:.0f} scenes, each scene judged by '
             'networks that did not see it:']
    lines += [f'  last Φ of {q[count]:.0f} {count}: {q[end]:.2f}' for end, count in (
        ('success_end', 'successes'), ('failure_end', 'failures')) if end in q]
    if 'auc' in q:
        lines.append(f'  AUC of success: {q["auc"]:.2f} [{q["auc_low"]:.2f}, {q["auc_high"]:.2f}]')
    if 'error' in q:
        lines += [f'  falls seen: {q["falls"]:.0%} of {q["falls_count"]:.0f}; rises seen: '
                  f'{q["rises"]:.0%} of {q["rises_count"]:.0f}',
                  f'  error of Φ: {q["error"]:.2f} (of elapsed time: {q["clock_error"]:.2f})',
                  f'  in the interval of 90 %: {q["coverage"]:.0%} of {q["frames"]:.0f} frames',
                  f'  pictures called familiar: {q["familiar"]:.0%} of the episodes']
    return '\n'.join([*lines, *(f'not calibrated here: {why}' for why in card.lacking)]
                     if card.lacking else [*lines, 'calibrated on pictures and instructions like '
                                           'these'])


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

    from arena_robot.audit.base import Judge
    from arena_robot.audit.bench import BenchPair, BenchScore
    from arena_robot.records.clip import LabelledClip

BASELINES = ('start_distance', 'goal_distance')


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument('folder', type=Path, nargs='?', metavar='FOLDER', help='clips')
    parser.add_argument('--pulse', type=Path, metavar='FILE', help="a published benchmark's JSON")
    parser.add_argument('--real', type=Path, metavar='FOLDER',
                        help='videos with a label each; curves of another judge beside them')
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
      arena judge bench --real videos --judge local

    Pairs are drawn from clips with known progress (*.clip.npz), or read from a published
    benchmark. Baselines (elapsed time, picture distances) are always measured with them.

    With --real, the videos of a folder carry a label: success, suboptimal or failure. Measured is
    how often a success ends above another episode, how often the better of two episodes of one
    task does, and the rank correlation with curves that were published beside the videos.
    """
    from arena_robot.core.errors import ConfigError
    from arena_robot.ranking.standings import plain

    if sum(map(bool, (args.folder, args.pulse, args.real))) != 1:
        raise ConfigError('give one of FOLDER, --pulse FILE and --real FOLDER')
    report = _real(args) if args.real else _on_pairs(args)
    print(json_text(plain(report)) if args.json else _bench_text(report))
    return 0


def _on_pairs(args: argparse.Namespace) -> dict[str, Any]:
    from arena_robot.audit.bench import NOTE, ROWS
    from arena_robot.core.errors import ConfigError

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
    return report


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

    judges = _judges(args, BASELINES)
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


def _real(args: argparse.Namespace) -> dict[str, Any]:
    from arena_robot.audit.bench import JudgedEnd, end_scores
    from arena_robot.recording.formats.labelled_videos import read_labelled_videos
    from arena_robot.records.clip import LABELS

    videos = read_labelled_videos(args.real)
    judges = _judges(args, ('elapsed', *BASELINES))
    rows: list[dict[str, Any]] = []
    with ProgressBar() as bar:
        ends: dict[str, list[JudgedEnd]] = {name: [] for name in judges}
        silent: dict[str, list[str]] = {name: [] for name in judges}
        for number, video in enumerate(videos):
            for name, judge in judges.items():
                bar.show(number, len(videos), f'{video.name[:40]}, {name}')
                trace = judge.progress(video.clip(judge.capabilities.interval_s))
                silent[name] += [] if trace.valid else [trace.detail]
                ends[name].append(JudgedEnd(
                    video.instruction, LABELS.index(video.label), trace.phi,
                    trace.valid and trace.calibrated, video.published))
    for name, judged in ends.items():
        rows.append({'judge': name, 'noise': 0.0, 'silent': silent[name],
                     'calibrated': sum(e.calibrated for e in judged), 'scores': {
                         s.bin: dataclasses.asdict(s) for s in end_scores(judged, args.seed)}})
    return {'videos': len(videos), 'seed': args.seed, 'rows': rows, 'labels': {
        label: sum(video.label == label for video in videos) for label in LABELS}}


def _judges(args: argparse.Namespace, always: 'Sequence[str]') -> 'dict[str, Judge]':
    from arena_robot.audit.judges import make_judge, settings_of

    names = args.judge or ['local']
    judges = {name: make_judge(name, dict(settings_of(args.param)) if k == 0 else {})
              for k, name in enumerate(names)}
    return judges | {name: make_judge(name) for name in always if name not in judges}


def _row(name: str, alpha: float, pairs: 'list[BenchPair]', right: list[bool], seed: int,
         more: 'Sequence[BenchScore]' = ()) -> dict[str, Any]:
    from arena_robot.audit.bench import bench_scores, phase_scores
    scores = [*bench_scores(pairs, right, seed), *phase_scores(pairs, right, seed), *more]
    return {'judge': name, 'noise': alpha, 'scores': {
        s.bin: dataclasses.asdict(s) for s in scores}}


def _measured(report: dict[str, Any]) -> str:
    if 'pairs' in report:
        return f"{report['pairs']} pairs; share of right signs, 95 % interval over episodes"
    labels = ', '.join(f'{count} {label}' for label, count in report['labels'].items())
    return (f"{report['videos']} videos ({labels}); how often a success ends above another, the "
            'better of one task does; rank correlation with published curves; 95 % intervals')


def _bench_text(report: dict[str, Any]) -> str:
    rows = report['rows']
    heads = list(dict.fromkeys(head for row in rows for head in row['scores']))
    width = max(len(r['judge']) for r in rows)
    lines = [_measured(report),
             f"{'judge':{width}}  noise  " + '  '.join(f'{h:<17}' for h in heads).rstrip()]
    for row in rows:
        cells = [f"{s['accuracy']:.2f} [{s['low']:.2f}, {s['high']:.2f}]" if s else '-'
                 for s in (row['scores'].get(h) for h in heads)]
        more = ''
        if silent := row.get('silent', ()):
            more = f'silent {len(silent)}, the first: {silent[0]}'
        elif 'silent' in row:
            more = f"calibrated in {row['calibrated']}"
        lines.append(f"{row['judge']:{width}}  {row['noise']:5g}  " + '  '.join(
            [*(f'{c:<17}' for c in cells), more]).rstrip())
    if 'published' in report:
        lines += ['', report['published']['note'] + ':']
        lines += [f'  {name:26}' + '  '.join(f'{v:.2f}' for v in values)
                  for name, values in report['published']['rows'].items()]
    return '\n'.join(lines)
