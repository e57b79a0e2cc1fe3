"""
The hierarchical model beside the others: on RoboArena's snapshot and on simulated evaluators.

With --tables (default ../shared/data/roboarena): the time of a fit, agreement with mean progress
over random 80 % of the sessions; what could be reached at best, and by sums of win rates and
progress. Then the coverage of its 95 % intervals in the data sets of
bench_ranking_calibration.py. Takes 10 minutes; --scale 0.2 is coarser.
"""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
    os.environ.setdefault(name, '1')
for folder in ('', 'ranking'):
    sys.path.insert(0, str(Path(__file__).parents[1] / 'test' / folder))

import numpy as np  # noqa: E402
from ranking_worlds import scored_tally, tally  # noqa: E402
from roboarena_tables import POLICIES, WHOLE  # noqa: E402

from arena_robot.ranking.hierarchical.model import Hierarchical  # noqa: E402
from arena_robot.ranking.methods import method  # noqa: E402
from arena_robot.ranking.quality import mmrv, pearson, splits, without_leak  # noqa: E402  # noqa: E402
from arena_robot.ranking.rollouts import arena_tables  # noqa: E402
from arena_robot.records.roboarena_files import read_tables  # noqa: E402

WEIGHTS = np.linspace(0, 1, 11)
MEASURES = ('pearson', 'mmrv', 'accuracy', 'pearson_leak_free', 'mmrv_leak_free')


def quality(arena, scale):
    """Print how the methods agree with mean progress."""
    print('| | ' + ' | '.join(MEASURES) + ' |\n|---|---|---|---|---|---|')
    methods = {name: method(name) for name in ('bt', 'task_partial', 'hierarchical')}
    found = splits(arena, methods, max(5, round(100 * scale)))
    for name, one in found.items():
        means = one.summaries()
        print(f'| `{name}` | ' + ' | '.join(f'{means[what][0]:.3f}' for what in MEASURES) + ' |',
              flush=True)


def ceiling(arena):
    """
    Print what could be reached without leaks: by scores whose errors are known, and by the truth.

    The truth is the mean progress over all rollouts. A score is off by a normal with the standard
    error of the mean of the rollouts that it was trained on, of several times as many, or not at
    all; the reference by that of the other rollouts.
    """
    rng, rollouts, n = np.random.default_rng(0), arena.rollouts, arena.comparisons.n
    sessions = np.unique(arena.comparisons.session)
    chosen = rng.permutation(sessions)[:round(0.8 * len(sessions))]
    training = arena.comparisons.take(np.isin(arena.comparisons.session, chosen))
    about = np.isin(rollouts.session * n + rollouts.policy, np.concatenate(
        [training.session * n + place for place in (training.first, training.second)]))
    truth = rollouts.means(n, np.ones(len(about), bool))
    spread = np.array([rollouts.score[rollouts.policy == k].std() for k in range(n)])
    trained, others = (np.bincount(rollouts.policy[mask], minlength=n)
                       for mask in (about, ~about))
    print('\n| rollouts trained on | leak-free pearson | leak-free mmrv |\n|---|---|---|')
    for times in (1, 2, 4, 8, np.inf):
        found = []
        for _ in range(4000):
            score = truth + rng.normal(0, spread / np.sqrt(trained * times))
            goal = truth + rng.normal(0, spread / np.sqrt(others))
            found.append((pearson(score, goal), mmrv(score, goal)))
        print(f'| {times:g} x {trained.mean():.0f} a policy | '
              + ' | '.join(f'{one:.3f}' for one in np.mean(found, axis=0)) + ' |', flush=True)


def combined(arena, scale):
    """
    Print what sums of win rates and mean progress reach without leaks, and who is first.

    The weight is the same in all splits; that of the best row is chosen with the reference in
    hand, so no method can be expected to have it.
    """
    sessions, rng = np.unique(arena.comparisons.session), np.random.default_rng(0)
    best, rows = {'trained on': [], 'others': []}, []
    for _ in range(max(5, round(100 * scale))):
        chosen = rng.permutation(sessions)[:round(0.8 * len(sessions))]
        training = arena.comparisons.take(np.isin(arena.comparisons.session, chosen))
        wins, progress = (method(name)(training).scores for name in ('bt', 'progress'))
        z = [(one - one.mean()) / one.std() for one in (wins, progress)]
        rows.append([without_leak((1 - w) * z[0] + w * z[1], arena.rollouts, training)
                     for w in WEIGHTS])
        about = np.concatenate([training.session * 7 + k for k in (
            training.first, training.second)])
        others = arena.rollouts.means(7, ~np.isin(
            arena.rollouts.session * 7 + arena.rollouts.policy, about))
        for name, means in (('trained on', progress), ('others', others)):
            best[name].append(POLICIES[int(np.argmax(means))])
    print('\n| weight of progress | leak-free pearson | leak-free mmrv |\n|---|---|---|')
    for weight, (r, violation) in zip(WEIGHTS, np.mean(rows, axis=0), strict=True):
        print(f'| {weight:.1f} | {r:.3f} | {violation:.3f} |', flush=True)
    for name, firsts in best.items():
        print(f'most progress in the rollouts {name}:', dict(Counter(firsts)), flush=True)


def coverage(scale):
    """Print the coverage of the intervals."""
    print('\n| data | policies | sessions | interval | stated | p .90-.95 right |')
    print('|---|---|---|---|---|---|')
    for kind, people in (('bt', 1), ('davidson', 1), ('evaluators', 20)):
        for policies, repeats in ((3, 300), (7, 200), (20, 100)):
            for sessions in (50, 200, 600):
                found = tally(kind, policies, sessions, max(3, round(repeats * scale)),
                              'hierarchical', evaluators=people)
                row(f'{kind} | {policies} | {sessions}', found)
    for policies, sessions in ((7, 50), (7, 200), (7, 600)):
        row(f'scores | {policies} | {sessions}',
            scored_tally(policies, sessions, max(3, round(100 * scale)), 'hierarchical'))


def row(name, found):
    """Print a row."""
    sure = f'{found.confident_right / found.confident:.2f}' if found.confident > 20 else '-'
    print(f'| {name} | {found.held / max(found.stated, 1):.3f} ± {found.error():.3f} | '
          f'{found.stated / found.policies:.2f} | {sure} |', flush=True)


def main(tables, scale):
    """Print everything."""
    data = read_tables(tables / 'sessions.csv', tables / 'episodes.csv')
    arena = arena_tables(data.comparisons(), data.scored(), POLICIES)
    spent = []
    for _ in range(5):
        start = time.process_time()
        fit = Hierarchical()(arena.comparisons)
        spent.append(time.process_time() - start)
    print(f'{len(arena.comparisons)} verdicts, {fit.diagnostics.details["unknowns"]} unknowns: '
          f'{1e3 * min(spent):.0f} ms, best of 5')
    print({name: fit.scores[k].round(3) for k, name in enumerate(POLICIES)})
    print(fit.diagnostics.details, fit.diagnostics.iterations)
    quality(arena, scale)
    ceiling(arena)
    combined(arena, scale)
    coverage(scale)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--tables', type=Path, default=WHOLE, help='folder of RoboArena tables')
    parser.add_argument('--scale', type=float, default=1.0, help='data sets, as a multiple')
    options = parser.parse_args()
    main(options.tables, options.scale)
