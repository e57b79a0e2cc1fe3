"""
How often what is stated at 95 % holds, on simulated data sets whose truth is known.

Prints a row of docs/ranking.md's table per kind of data, number of policies and of sessions: the
coverage of the score's interval with its standard error, the share of policies with an interval,
the coverage of all rank ranges at once, and how often p_better of 0.90 to 0.95 was right. Then the
exact coverage for a single pair and few sessions, where only whole verdicts limit it. Then it
says which coverages are below 0.93 or above 0.97 by more than two standard errors, and fails if
one is below. Takes about 6 minutes; --scale 0.1 is quicker and coarser.
"""

import argparse
import os
import sys
from pathlib import Path

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
    os.environ.setdefault(name, '1')
sys.path.insert(0, str(Path(__file__).parents[1] / 'test' / 'ranking'))

import numpy as np  # noqa: E402
from ranking_worlds import scored_tally, tally  # noqa: E402
from scipy.special import betaincinv, expit, logit, stdtrit  # noqa: E402
from scipy.stats import binom  # noqa: E402

KINDS = (('bt', 'bt', 1), ('davidson', 'davidson', 1), ('tasks', 'davidson', 1),
         ('evaluators', 'davidson', 20))
REPEATS = {3: 400, 7: 200, 20: 80}
FEW_SESSIONS, MORE_REPEATS = 50, 5    # with few sessions, coverage is closest to the bounds
TASK_REPEATS = {3: 50, 7: 30, 20: 12}
LEAST, MOST = 0.93, 0.97
FEW = 20


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
    sys.exit(main(parser.parse_args().scale))
