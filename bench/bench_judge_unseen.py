"""
How good the local judge is on held-out scenes, and on tasks that it was not trained on.

  arena judge train CLIPS --out model.npz
  python bench/bench_judge_unseen.py CLIPS
  python bench/bench_judge_unseen.py NEW --unseen 900,901,902 --param model=model.npz

Each training seed draws the scenes to learn from; the others are held out. For the new tasks, each
task is left out of the training of the head for unknown instructions, which then judges all its
held-out episodes. Falls and rises are those of the true progress by more than 0.05 within 0.8 s. A
picture distance is given what favours it: the goal picture is the episode's own best frame.

With --unseen a judge sees episodes whose arm and whose objects end in different places: three
kinds of success and four in which nothing is done. Their scenes have the seeds given, and are made
in the folder where they are missing. Episodes whose simulated end is not what their kind says are
left out.
"""

import argparse
import functools
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena_robot.audit.base import averaged
from arena_robot.audit.judges import settings_of
from arena_robot.audit.local.train import (
    EVERY,
    MOVED,
    STEPS,
    Learned,
    head_of,
    learned,
    pooled_head,
    quality,
)
from arena_robot.audit.opd import measure
from arena_robot.audit.simple import ElapsedTime, GoalDistance, StartDistance
from arena_robot.core.parallel import Workers
from arena_robot.ranking.quality import spearman
from arena_robot.records.clip import clip_files, read_clip
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
        seen = clip.clip(('right', 'wrist'))
        best = int(clip.phi.argmax())
        goal = {view: frames[best] for view, frames in seen.frames.items()}
        seen = type(seen)(seen.instruction, seen.times_s, seen.frames, goal=goal)
        found.append(Row(clip.source.seed, learned(clip), {
            judge.name: judge.progress(seen).phi
            for judge in (ElapsedTime(), StartDistance(), GoalDistance())}))
    return found


def scores(chosen, values):
    """Return the measures of values, one array per episode."""
    true = [row.clip.phi[::EVERY] for row in chosen]
    seen = [value[::EVERY] for value in values]
    found = dict(quality(true, seen, [row.clip.success for row in chosen]))
    found['mean'] = (found['falls'] + found['rises']) / 2
    smooth = [np.clip(averaged(value), 0.0, 1.0) for value in seen]
    wanted, table = measure([np.clip(phi, 0, 1) for phi in true]), measure(smooth)
    found['mp'], found['ppl'] = spearman(table.mp, wanted.mp), spearman(table.ppl, wanted.ppl)
    return found


def by_head(head, row):
    """Return a head's values of an episode."""
    return row.clip.features.head.astype(np.float32) @ head.weights + head.bias


def one_seed(found, seed, scenes):
    """Return the values of held-out episodes by name of the judge, and these episodes."""
    numbers = np.unique([row.seed for row in found])
    learnt = np.random.default_rng((seed, 18)).permutation(numbers)[:scenes]
    train = [row.clip for row in found if row.seed in learnt]
    rest = [row for row in found if row.seed not in learnt]
    values = {'local, known': [None] * len(rest), 'local, new task': [None] * len(rest)}
    for task in sorted({clip.task for clip in train}):
        heads = {'local, known': head_of([c for c in train if c.task == task]),
                 'local, new task': pooled_head([c for c in train if c.task != task])[0]}
        for k, row in enumerate(rest):
            if row.clip.task == task:
                for name, head in heads.items():
                    values[name][k] = by_head(head, row)
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
            true = row.clip.phi[::EVERY]
            hop, share = true[STEPS:] - true[:-STEPS], quality([true], [value[::EVERY]], [None])
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
    'open': ('the gripper never closes', 0.0, .3), 'high': ('all motions 7 cm too high', 0.0, .3),
    'back': ('objects put back, the arm stays', 0.0, .3),
    'empty': ('motions beside everything', 0.0, .3)}


@dataclass(frozen=True)
class Ending:
    """An unseen episode: its kind, the true progress, and the judge's trace."""

    kind: str
    true: np.ndarray
    trace: object


def ending(path, job):
    """Return what the judge of a job says of the clip in a file."""
    clip = read_clip(path)
    trace = made(job).progress(clip.clip())
    return Ending(clip.source.kind, clip.phi, trace)


def unseen(folder, seeds, job, jobs):
    """Make the episodes that are missing; return them judged, if they ended as planned."""
    episodes = [LabelledEpisode(task, seed, kind)
                for seed in seeds for task in all_tasks() for kind in UNSEEN]
    folder.mkdir(parents=True, exist_ok=True)
    paths = Workers(jobs).map(functools.partial(record_to, folder), episodes)
    judged = Workers(jobs).map(functools.partial(ending, job=job), paths)
    return [e for e in judged if UNSEEN[e.kind][1] <= e.true[-1] <= UNSEEN[e.kind][2]
            and e.trace.valid]


def right_side(endings):
    """Return the share of episodes whose last value is on the truth's side of one half."""
    return np.mean([(e.trace.phi[-1] >= .5) == (e.true[-1] >= .5) for e in endings])


def print_unseen(found):
    """Print a row per kind, the empty kinds together, and what MC@100 and STR are worth."""
    empty = [e for e in found if UNSEEN[e.kind][2] < .5]
    kinds = [(words, [e for e in found if e.kind == kind])
             for kind, (words, _, _) in UNSEEN.items()] + [('the last four together', empty)]
    print(f'{"episode":48}   n  calibrated  last value: mean, right side of .5   truth')
    for words, rows in kinds:
        print(f'{words:48} {len(rows):3}  {sum(e.trace.calibrated for e in rows):10}  '
              f'{np.mean([e.trace.phi[-1] for e in rows]):16.2f}  {right_side(rows):17.0%}'
              f'  {np.mean([e.true[-1] for e in rows]):6.2f}')
    done = [e for e in found if e.kind == 'expert']
    seen, true = (measure([np.clip(phi, 0, 1) for phi in phis]) for phis in (
        [e.trace.phi for e in found], [e.true for e in found]))
    print(f'successes that reach 1: {np.mean([e.trace.phi.max() >= 1.0 for e in done]):.0%}; '
          f'MC@100 {seen.reached[:, -1].mean():.0%}, truth {true.reached[:, -1].mean():.0%}; '
          f'rank correlation of STR {spearman(seen.stagnation, true.stagnation):.2f}')


def main():
    """Print the table, what of it has a bar, and the new tasks one by one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--scenes', type=int, default=20)
    parser.add_argument('--unseen', metavar='SEED,…', help='seeds of scenes for the other table')
    parser.add_argument('--judge', default='local', help='who judges them (default %(default)s)')
    parser.add_argument('--param', action='append', default=[], help='a setting, KEY=VALUE')
    parser.add_argument('--jobs', type=int, default=1)
    args = parser.parse_args()
    if args.unseen:
        print_unseen(unseen(args.folder, [int(seed) for seed in args.unseen.split(',')],
                            AuditJob(args.judge, settings_of(args.param)), args.jobs))
        return
    warnings.simplefilter('error')
    found = rows(args.folder)
    seeds = [one_seed(found, seed, args.scenes) for seed in range(args.seeds)]
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
