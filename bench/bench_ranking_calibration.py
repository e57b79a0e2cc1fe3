"""
How often what is stated at 95 % holds, on simulated data sets whose truth is known.

Prints a row of docs/ranking.md's table per kind of data, number of policies and of sessions: the
coverage of the score's interval with its standard error, the share of policies with an interval,
the coverage of all rank ranges at once, and how often p_better of 0.90 to 0.95 was right. Then the
exact coverage for a single pair and few sessions, where only whole verdicts limit it. Then it
says which coverages are below 0.93 or above 0.97 by more than two standard errors, and fails if
one is below. Takes about 6 minutes; --scale 0.1 is quicker and coarser.

With --arena it prints the table of the default method in simulated arenas instead: coverage, how
often the best policy's ranks exclude the first place, and the width of the intervals over that of
an oracle, who knows how much policies, evaluators and labs differ.

With --robots it prints how often the test of `arena rank --robots` keeps robots apart that do not
differ, stated at 5 %, and the processor time of a test; it fails where that is too often by two
standard errors. Takes a minute.
"""

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
    os.environ.setdefault(name, '1')
sys.path.insert(0, str(Path(__file__).parents[1] / 'test' / 'ranking'))

import numpy as np  # noqa: E402
from arena_worlds import ArenaWorld, trial  # noqa: E402
from ranking_worlds import on_robots, scored_tally, tally  # noqa: E402
from scipy.special import betaincinv, expit, logit, stdtrit  # noqa: E402
from scipy.stats import binom  # noqa: E402

from arena_robot.core.parallel import Workers  # noqa: E402
from arena_robot.ranking.differences import ALPHA, across_robots  # noqa: E402

KINDS = (('bt', 'bt', 1), ('davidson', 'davidson', 1), ('tasks', 'davidson', 1),
         ('evaluators', 'davidson', 20))
REPEATS = {3: 400, 7: 200, 20: 80}
FEW_SESSIONS, MORE_REPEATS = 50, 5    # with few sessions, coverage is closest to the bounds
TASK_REPEATS = {3: 50, 7: 30, 20: 12}
LEAST, MOST = 0.93, 0.97
DIFFER, LABS = {'by_evaluator': 0.6}, {'evaluators': 24, 'labs': 8, 'by_evaluator': 0.3,
                                       'by_lab': 0.5}
ARENAS = {
    **{f'`{goal}`, {n} policies, {m}': ArenaWorld(n, m, goal, verdicts='bt') for goal, n, m in (
        ('order', 7, 100), ('order', 7, 300), ('order', 15, 300), ('order', 15, 1000),
        ('order', 30, 600), ('top1', 7, 100), ('top1', 7, 300), ('topk', 7, 300),
        ('newcomer', 7, 300))},
    **{f'{people} evaluators, {m}': ArenaWorld(7, m, evaluators=people, **DIFFER)
       for people, m in ((5, 100), (5, 600), (8, 60), (8, 200), (8, 600), (20, 200), (20, 600))},
    '8 evaluators, interleaved, 200': ArenaWorld(7, 200, evaluators=8, interleaved=True, **DIFFER),
    '8 evaluators, `order`, 300': ArenaWorld(7, 300, 'order', evaluators=8, **DIFFER),
    '8 labs of 3 with tastes, 600': ArenaWorld(7, 600, **LABS),
    'nearly separable, 100': ArenaWorld(7, 100, spread=3.0),
    'nearly separable, 300': ArenaWorld(7, 300, spread=3.0),
    't3 abilities, 200': ArenaWorld(7, 200, heavy=True),
    't3 abilities, `order`, 300': ArenaWorld(7, 300, 'order', heavy=True),
    'Rao–Kupper, 300': ArenaWorld(7, 300, verdicts='rao-kupper'),
    'Rao–Kupper, `order`, 300': ArenaWorld(7, 300, 'order', verdicts='rao-kupper'),
    'cycles of 0.5, 300': ArenaWorld(7, 300, cycles=0.5, verdicts='bt'),
    'cycles of 0.5, `order`, 300': ArenaWorld(7, 300, 'order', cycles=0.5, verdicts='bt'),
}
FEW = 20
# Kinds of robot, policies, sessions, evaluators (0: each session by itself), data sets
ROBOTS = ((2, 6, 60, 0, 400), (2, 6, 240, 0, 400), (3, 10, 600, 0, 400), (2, 6, 240, 8, 400),
          (2, 6, 240, 16, 400), (3, 10, 600, 24, 400), (3, 20, 10_000, 0, 20),
          (3, 20, 10_000, 100, 40))
NAMES = ('fr3', 'ur5e', 'gen3')


def main(scale):
    """Print the table; return 1 if a coverage is outside."""
    print('| data | policies | sessions | interval | stated | all ranks | p .90-.95 right |')
    print('|---|---|---|---|---|---|---|')
    low, high = [], []
    for kind, method, people in KINDS:
        for policies, repeats in REPEATS.items():
            for sessions in (20, 50, 200, 600):
                more = MORE_REPEATS if sessions <= FEW_SESSIONS else 1
                found = tally(kind, policies, sessions, times(repeats * more, scale), method,
                              evaluators=people)
                tell(f'{kind} | {policies} | {sessions}', found, low, high)
    for method, sets in (('bt', REPEATS), ('task_partial', TASK_REPEATS)):
        for policies, repeats in sets.items():
            for sessions in (50, 200, 600):
                found = scored_tally(policies, sessions, times(repeats, scale), method)
                tell(f'scores, `{method}` | {policies} | {sessions}', found, low, high)
    one_pair()
    print('below 0.93 by two standard errors: ' + ('; '.join(low) or 'none'))
    print('above 0.97 by two standard errors: ' + ('; '.join(high) or 'none'))
    return 1 if low else 0


def arenas(scale, seed, jobs, method):
    """Print a row per arena; return 1 if a coverage is outside by two standard errors."""
    print(f'| arena, sessions | `{method}` holds | best excluded | stated | width of the oracle |')
    print('|---|---|---|---|---|')
    bad = []
    for number, (name, world) in enumerate(ARENAS.items(), 1):
        print(f'{number} of {len(ARENAS)}: {name} …', file=sys.stderr, flush=True)
        rows = np.array(Workers(jobs).map(partial(trial, world, method, True), [
            [seed, number, k] for k in range(times(400, scale))]), float)
        held, stated, policies, excluded, width, known = rows.sum(axis=0)
        cover = held / max(stated, 1)
        error = np.sqrt(((rows[:, 0] - cover * rows[:, 1]) ** 2).sum()) / max(stated, 1)
        print(f'| {name} | {cover:.3f} ± {error:.3f} | {excluded / len(rows):.1%} | '
              f'{stated / policies:.2f} | {width / max(known, 1e-9):.2f} |', flush=True)
        bad += [name] if not LEAST - 2 * error <= cover <= MOST + 2 * error else []
    print('outside 0.93 to 0.97 by two standard errors: ' + ('; '.join(bad) or 'none'))
    return 1 if bad else 0


def robots(scale, seed):
    """Print false alarms of the test of robots and its time; return 1 where they are too many."""
    print('| robots | policies, sessions | by | kept apart at 5 % | a test takes |')
    print('|---|---|---|---|---|')
    rng, bad = np.random.default_rng(seed), []
    for kinds, n, m, people, worlds in ROBOTS:
        apart, start = [], time.process_time()
        for _ in range(times(worlds, scale)):
            votes = on_robots(rng, people=people, m=m, kinds=NAMES[:kinds], n=n)
            apart.append(across_robots(votes, 'bt', intervals=0).p_value < ALPHA)
        took_s, found = (time.process_time() - start) / len(apart), np.mean(apart)
        by = f'{people} evaluators' if people else 'session'
        error = np.sqrt(ALPHA * (1 - ALPHA) / len(apart))
        print(f'| {kinds} | {n}, {m} | {by} | {found:.3f} ± {error:.3f} | '
              f'{took_s * 1e3:.0f} ms |', flush=True)
        bad += [f'{kinds} robots, {m}, {by}'] if found > ALPHA + 2 * error else []
    print('kept apart too often: ' + ('; '.join(bad) or 'none'))
    return 1 if bad else 0


def one_pair():
    """Print the exact coverage for a single pair of policies, by two kinds of interval."""
    chance = expit(np.random.default_rng(0).normal(0, np.sqrt(2), 4000))[:, None]
    for sessions in (13, 20):
        won = np.arange(sessions + 1)
        share = np.clip(won / sessions, 1e-9, 1 - 1e-9)
        wide = stdtrit(sessions - 1, 0.975) / np.sqrt(sessions * share * (1 - share))
        # who won or lost everything: the exact interval, its other end open
        least = 0.025 ** (1 / sessions)
        low = np.where(won == sessions, least, np.where(won == 0, 0, expit(logit(share) - wide)))
        high = np.where(won == 0, 1 - least, np.where(won == sessions, 1, expit(
            logit(share) + wide)))
        kinds = {'log-odds with t': (low, high), 'Clopper-Pearson': (
            np.nan_to_num(betaincinv(won, sessions - won + 1, 0.025)),
            np.nan_to_num(betaincinv(won + 1, sessions - won, 0.975), nan=1.0))}
        seen = binom.pmf(won, sessions, chance)
        for name, (down, up) in kinds.items():
            held = (seen * ((down <= chance) & (chance <= up))).sum(axis=1).mean()
            print(f'one pair, {sessions} sessions, {name}: {held:.3f} exactly')


def times(repeats, scale):
    """Return a number of data sets."""
    return max(2, round(repeats * scale))


def tell(name, found, low, high):
    """Print a row; note its name where the coverage is too low or too high."""
    error = found.error()
    shares = [share(found.stated, found.policies), share(found.joint_held, found.sets),
              share(found.confident_right, found.confident)]
    known = found.stated >= FEW
    cover = found.held / found.stated if known else float('nan')
    cells = [f'{cover:.3f} ± {error:.3f}' if known else '-', *shares]
    print(f'| {name} | ' + ' | '.join(cells) + ' |', flush=True)
    low += [name] if known and cover < LEAST - 2 * error else []
    high += [name] if known and cover > MOST + 2 * error else []


def share(part, whole):
    """Return a share as text; nothing where fewer than 20 cases are known."""
    return f'{part / whole:.2f}' if whole >= FEW else '-'


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--scale', type=float, default=1.0,
                        help='data sets per row, as a multiple of the usual (default 1)')
    parser.add_argument('--arena', metavar='METHOD', nargs='?', const='bt_shrunk',
                        help='print the table of arenas, by this method (default bt_shrunk)')
    parser.add_argument('--robots', action='store_true',
                        help='print how often equal robots are kept apart')
    parser.add_argument('--seed', type=int, default=0,
                        help='of the arenas and the robots (default 0)')
    parser.add_argument('--jobs', type=int, default=1, help='processes (default 1)')
    options = parser.parse_args()
    if options.robots:
        sys.exit(robots(options.scale, options.seed))
    sys.exit(arenas(options.scale, options.seed, options.jobs, options.arena) if options.arena
             else main(options.scale))
