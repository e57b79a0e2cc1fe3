"""
How good the local judge is on held-out scenes, and on tasks that it was not trained on.

  arena judge train CLIPS --out model.npz
  python bench/bench_judge_unseen.py CLIPS
  python bench/bench_judge_unseen.py NEW --unseen 910,911,912 --param model=model.npz
  python bench/bench_judge_unseen.py NEW --unseen 910,911,912 --stamp model.npz
  python bench/bench_judge_unseen.py NEW --unseen 910,911,912 --without home,back --clips CLIPS

Each training seed draws the scenes to learn from; the others are held out. For the new tasks, each
task is left out of the training of the head for unknown instructions, which then judges all its
held-out episodes. Falls and rises are those of the true progress by more than 0.05 within 0.8 s. A
picture distance is given what favours it: the goal picture is the episode's own best frame.

With --unseen a judge sees episodes whose arm and whose objects end in different places: three
kinds of success and four in which nothing is done. Their scenes have the seeds given, and are made
in the folder where they are missing. Episodes whose simulated end is not what their kind says are
left out. --stamp writes what was measured into a model, which is then trusted with what reaches
its bar. --without trains a model per kind named, on CLIPS without it, and prints that kind's row.
"""

import argparse
import functools
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from arena_robot.audit.base import averaged
from arena_robot.audit.judges import settings_of
from arena_robot.audit.local.features import counterfactual, table
from arena_robot.audit.local.judge import LocalJudge
from arena_robot.audit.local.model import BARS, METRIC_BARS, read_model, write_model
from arena_robot.audit.local.train import (
    EPOCHS,
    EVERY,
    MOVED,
    STEPS,
    Learned,
    learned,
    load,
    pooled_head,
    quality,
    train,
)
from arena_robot.audit.opd import measure
from arena_robot.audit.simple import ElapsedTime, GoalDistance, StartDistance
from arena_robot.core.parallel import Workers
from arena_robot.ranking.quality import spearman
from arena_robot.records.clip import SUFFIX, clip_files, read_clip
from arena_robot.reports.audit_agreement import MARGIN
from arena_robot.reports.episode_audit import AuditJob, made
from arena_robot.trials.labelled import LabelledEpisode, all_tasks, record_to

MEASURES = ('falls', 'rises', 'mean', 'error', 'auc', 'mp', 'ppl')
BASELINES = ('elapsed', 'start_distance', 'goal_distance')
KNOWN = {'mean': .72, 'error': .19, 'auc': .88, 'mp': .65, 'ppl': .50}
NEW = {'mean': .70}
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}


@dataclass(frozen=True)
class Row:
    """An episode, and what the baselines say of it."""

    seed: int
    clip: Learned
    baselines: dict


def rows(folder):
    """Return the episodes of a folder."""
    found = []
    for path in clip_files(folder):
        clip = read_clip(path)
        seen = clip.clip(('left', 'right'))
        best = int(clip.phi.argmax())
        goal = {view: frames[best] for view, frames in seen.frames.items()}
        seen = type(seen)(seen.instruction, seen.times_s, seen.frames, goal=goal)
        known = learned(clip)
        at = np.isin(clip.times_s, known.times_s)
        found.append(Row(clip.source.seed, known, {
            judge.name: judge.progress(seen).phi[at][::known.step] if known.stride else None
            for judge in (ElapsedTime(), StartDistance(), GoalDistance())}))
    return found


def scores(chosen, values):
    """Return the measures of values, one array per episode."""
    true = [row.clip.phi[::row.clip.step] for row in chosen]
    seen = values
    found = dict(quality(true, seen, [row.clip.success for row in chosen]))
    found['mean'] = (found['falls'] + found['rises']) / 2
    smooth = [np.clip(averaged(value), 0.0, 1.0) for value in seen]
    wanted, table = measure([np.clip(phi, 0, 1) for phi in true]), measure(smooth)
    found['mp'], found['ppl'] = spearman(table.mp, wanted.mp), spearman(table.ppl, wanted.ppl)
    return found


def one_seed(found, seed, scenes, epochs):
    """Return the values of held-out episodes by name of the judge, and these episodes."""
    numbers = np.unique([row.seed for row in found])
    learnt = np.random.default_rng((seed, 18)).permutation(numbers)[:scenes]
    clips = [row.clip for row in found if row.seed in learnt]
    rest = [row for row in found if row.seed not in learnt and row.clip.stride]
    model = train(clips, seed, epochs, networks=1)
    values = {'local, known': [model.known(row.clip.features, row.clip.task, row.clip.times_s)[
        ::row.clip.step, 0] for row in rest], 'local, new task': [None] * len(rest)}
    for task in sorted({clip.task for clip in clips}):
        head = pooled_head([c for c in clips if c.task != task])[0]
        for k, row in enumerate(rest):
            if row.clip.task == task:
                values['local, new task'][k] = (row.clip.features.hops() @ head.weights
                                                + head.bias)[::row.clip.step]
    values.update({name: [row.baselines[name] for row in rest] for name in BASELINES})
    return rest, values


def interval(numbers):
    """Return the mean and its 95 % interval over training seeds, by Student's t."""
    numbers = np.array(numbers)
    half = T95[len(numbers)] * numbers.std(ddof=1) / np.sqrt(len(numbers))
    return numbers.mean(), numbers.mean() - half, numbers.mean() + half


def over_tasks(seeds, name, draws=1000):
    """Return the 95 % interval of mean(fall, rise) when the tasks are drawn again."""
    tasks = sorted({row.clip.task for rest, _ in seeds for row in rest})
    counts = np.zeros((len(tasks), 2, 2))
    for rest, values in seeds:
        for row, value in zip(rest, values[name], strict=True):
            true = row.clip.phi[::row.clip.step]
            hop, share = true[STEPS:] - true[:-STEPS], quality([true], [value], [None])
            for k, n in enumerate(((hop < -MOVED).sum(), (hop > MOVED).sum())):
                counts[tasks.index(row.clip.task), k] += (share[('falls', 'rises')[k]] * n, n)
    rng, found = np.random.default_rng(0), []
    for _ in range(draws):
        drawn = counts[rng.integers(len(tasks), size=len(tasks))].sum(axis=0)
        found.append((drawn[:, 0] / drawn[:, 1]).mean())
    return tasks, counts, np.quantile(found, [.025, .975])


# By kind: what it is called in the table, and the least and the most of its true last progress.
UNSEEN = {
    'expert': ('success', .95, 1.0), 'home': ('success, then the arm goes home', .95, 1.0),
    'placed': ('objects put at their goals, the arm keeps still', .95, 1.0),
    'open': ('the gripper never closes', 0.0, .2), 'high': ('all motions 7 cm too high', 0.0, .2),
    'back': ('objects put back, the arm stays', 0.0, .2),
    'empty': ('motions beside everything', 0.0, .2)}


@dataclass(frozen=True)
class Ending:
    """An unseen episode: its scene and kind, the true progress, and the judge's trace."""

    scene: tuple
    kind: str
    true: np.ndarray
    trace: object

    @property
    def last(self):
        """The judge's last value."""
        return self.trace.phi[-1]

    @property
    def in_bar(self):
        """Whether the last value is at least 0.8 of a success, at most 0.2 of another."""
        return self.last >= .8 if done(self.kind) else self.last <= .2


def done(kind):
    """Return whether episodes of a kind end well."""
    return UNSEEN[kind][1] > .5


def ending(path, judge):
    """Return what a judge says of the clip in a file."""
    clip = read_clip(path)
    source = clip.source
    return Ending((source.task, source.seed), source.kind, clip.phi, judge.progress(clip.clip()))


def judged(path, job):
    """Return what the judge of a job says of the clip in a file, and of it by other words."""
    clip, judge = read_clip(path).clip(), made(job)
    other = counterfactual(clip.instruction, table(clip.frames['left'][0], 'left'))
    return ending(path, judge), judge.progress(replace(clip, instruction=other)) if other else None


def planned(endings):
    """Return the episodes that ended as their kind says, and that the judge could see."""
    return [e for e in endings if UNSEEN[e.kind][1] <= e.true[-1] <= UNSEEN[e.kind][2]
            and e.trace.valid]


def new_clips(folder, seeds, jobs):
    """Return the files of the unseen episodes; those that are missing are made."""
    episodes = [LabelledEpisode(task, seed, kind)
                for seed in seeds for task in all_tasks() for kind in UNSEEN
                if (task, kind) != ('do_not_move', 'placed')]    # its clock ran before the clip
    folder.mkdir(parents=True, exist_ok=True)
    return Workers(jobs).map(functools.partial(record_to, folder), episodes)


def right_side(endings):
    """Return the share of episodes whose last value is on the truth's side of one half."""
    return np.mean([(e.last >= .5) == done(e.kind) for e in endings])


def pairs(found):
    """Return whether the judge's winner is the done one, of the decisive pairs of a scene."""
    right = []
    for scene in sorted({e.scene for e in found}):
        rows = [e for e in found if e.scene == scene]
        for a in (e for e in rows if done(e.kind)):
            for b in (e for e in rows if not done(e.kind)):
                ppl = measure([a.trace.phi, b.trace.phi]).ppl
                gap = next((d for d in (a.last - b.last, ppl[0] - ppl[1]) if abs(d) > MARGIN), 0)
                right += [gap > 0] if gap else []
    return right


def measured(found):
    """Return the numbers that have bars, by name."""
    done_, open_ = ([e.last for e in found if done(e.kind) is end] for end in (True, False))
    hops = quality([e.true[::EVERY] for e in found], [e.trace.phi[::EVERY] for e in found],
                   [None] * len(found), smoothing=False)
    seen, true = (measure([np.clip(phi, 0, 1) for phi in phis]) for phis in (
        [e.trace.phi for e in found], [e.true for e in found]))
    inside = [np.abs(e.trace.phi - e.true) <= e.trace.half_width for e in found
              if len(e.trace.half_width)]
    chances = [(e.trace.success[-1] >= .5) == done(e.kind) for e in found if len(e.trace.success)]
    return {**{kind: np.mean([e.in_bar for e in found if e.kind == kind]) for kind in UNSEEN},
            'pairs': np.mean(pairs(found)), 'falls': hops['falls'], 'rises': hops['rises'],
            'auc': np.mean(np.sign(np.array(done_)[:, None] - np.array(open_)[None])) / 2 + .5,
            'mc': np.mean(seen.reached[:, -1] == true.reached[:, -1]),
            'str': spearman(seen.stagnation, true.stagnation), 'error': hops['error'],
            'covered': np.mean(np.concatenate(inside)) if inside else np.nan,
            'success': np.mean(chances) if chances else np.nan}


def print_kind(words, rows):
    """Print the row of a kind."""
    print(f'{words:48} {len(rows):3}  {sum(e.trace.calibrated for e in rows):10}  '
          f'{np.mean([e.last for e in rows]):16.2f}  {right_side(rows):17.0%}'
          f'  {np.mean([e.in_bar for e in rows]):6.0%}  {np.mean([e.true[-1] for e in rows]):.2f}',
          flush=True)


HEAD = (f'{"episode":48}   n  calibrated  last value: mean, right side of .5  in bar   truth\n'
        'in bar: at least 0.8 of a success, at most 0.2 of the others')


def print_unseen(found):
    """Print a row per kind and what has a bar; return the numbers."""
    print(HEAD)
    for kind, (words, _, _) in UNSEEN.items():
        print_kind(words, [e for e in found if e.kind == kind])
    numbers = {name: round(float(value), 3) for name, value in measured(found).items()}
    for name, value in numbers.items():
        bar = {**BARS, **METRIC_BARS}.get(name)
        print(f'{name:8} {value:.3f}' + (f', bar {bar:.2f}: {"met" if value >= bar else "MISSED"}'
                                         if bar else ''))
    peaks = [e.trace.phi.max() >= 1.0 for e in found if e.kind == 'expert']
    print(f'successes that reach 1: {np.mean(peaks):.0%}')
    for e in found:
        if not e.in_bar:
            print(f'  {e.scene[0]} {e.scene[1]} {e.kind}: {e.last:.2f}, truth {e.true[-1]:.2f}')
    return numbers


def leave_out(kinds, paths, clips, epochs):
    """Print the row of each kind, judged by a model that was trained without it."""
    train_on = load(clips)
    print(HEAD)
    for kind in kinds:
        model = train([c for c in train_on if c.kind != kind], epochs=epochs, networks=1)
        with tempfile.TemporaryDirectory() as folder:
            write_model(Path(folder) / 'm.npz', model)
            judge = LocalJudge(str(Path(folder) / 'm.npz'))
        rows = planned([ending(path, judge) for path in paths
                        if f'-{kind}{SUFFIX}' in path.name or kind not in UNSEEN])
        for shown in dict.fromkeys(e.kind for e in rows):
            print_kind(f'without {kind}: {UNSEEN[shown][0]}'[:48],
                       [e for e in rows if e.kind == shown])


def new_scenes(args):
    """Print the table of the unseen episodes, or the rows of models trained without a kind."""
    paths = new_clips(args.folder, [int(seed) for seed in args.unseen.split(',')], args.jobs)
    if args.without:
        leave_out(args.without.split(','), paths, clip_files(args.clips), args.epochs)
        return
    if args.stamp:
        args.param.append(f'model={args.stamp}')
    job = AuditJob(args.judge, settings_of(args.param))
    found = Workers(args.jobs).map(functools.partial(judged, job=job), paths)
    numbers = print_unseen(planned([e for e, _ in found]))
    for word, kind in (('expert', 'success'), ('home', 'then home')):
        last = np.array([t.phi[-1] for e, t in found if t and t.valid and e.kind == word
                         and e.true[-1] >= UNSEEN[word][1]])
        print(f'{kind}, but another thing was asked for: {len(last)} episodes, last value '
              f'{last.mean():.2f}, at most 0.2 in {(last <= .2).mean():.0%}')
    if args.stamp:
        model = read_model(args.stamp)
        write_model(args.stamp, replace(model, card=replace(model.card, measured=numbers)))


def main():
    """Print the table, what of it has a bar, and the new tasks one by one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--scenes', type=int, default=20)
    parser.add_argument('--unseen', metavar='SEED,…', help='seeds of scenes for the other table')
    parser.add_argument('--judge', default='local', help='who judges them (default %(default)s)')
    parser.add_argument('--param', action='append', default=[], help='a setting, KEY=VALUE')
    parser.add_argument('--stamp', type=Path, metavar='MODEL', help='judge with it, and write '
                        'the numbers into it')
    parser.add_argument('--without', metavar='KIND,…', help='train without each of these kinds')
    parser.add_argument('--clips', type=Path, help='the clips to train on')
    parser.add_argument('--epochs', type=int, default=EPOCHS, help='of these trainings')
    parser.add_argument('--jobs', type=int, default=1)
    args = parser.parse_args()
    if args.unseen:
        new_scenes(args)
        return
    warnings.simplefilter('error')
    found = rows(args.folder)
    seeds = [one_seed(found, seed, args.scenes, args.epochs) for seed in range(args.seeds)]
    print(f'{len(found)} episodes, {args.seeds} training seeds of {args.scenes} scenes a task; '
          'mean and 95 % interval over the seeds')
    print(f'{"":16}' + ''.join(f'{name:20}' for name in MEASURES))
    for name in seeds[0][1]:
        table = [scores(rest, values[name]) for rest, values in seeds]
        cells = {m: interval([row[m] for row in table]) for m in MEASURES}
        print(f'{name:16}' + ''.join('{:.2f} [{:.2f}, {:.2f}]'.format(*cells[m]).ljust(20)
                                     for m in MEASURES))
        for m, bar in {'local, known': KNOWN, 'local, new task': NEW}.get(name, {}).items():
            good = cells[m][0] <= bar if m == 'error' else cells[m][0] >= bar
            print(f'    {m}: {cells[m][0]:.3f}, bar {bar:.2f}: {"met" if good else "MISSED"}')
    tasks, counts, (low, high) = over_tasks(seeds, 'local, new task')
    print(f'new tasks: mean of falls and rises when tasks are drawn again [{low:.2f}, {high:.2f}]')
    for task, ((a, n), (b, m)) in zip(tasks, counts, strict=True):
        print(f'  {task:14} falls {a / max(n, 1):.2f} of {n:.0f}, rises {b / max(m, 1):.2f} '
              f'of {m:.0f}')


if __name__ == '__main__':
    main()
