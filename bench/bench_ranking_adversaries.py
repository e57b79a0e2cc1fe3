"""
What five colluding evaluators do to the standings of `bt` and `bt_robust`, on simulated votes.

Prints the table of docs/ranking.md: 40 evaluators of 8 policies, 100 verdicts each, of whom five
push one policy, push it and bury the best, only touch neighbouring policies, or vote through many
accounts of one institution. MMRV is against the true share of wins, the mean over data sets. Fails
where `bt_robust` has more than 1.5 times the MMRV of honest votes by `bt` and more than 0.02, or
where more than 5 % of honest evaluators are flagged. Takes 4 minutes; --scale 0.2 is coarser.
"""

import argparse
import os
import sys
from pathlib import Path

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS'):
    os.environ.setdefault(name, '1')
sys.path.insert(0, str(Path(__file__).parents[1] / 'test' / 'ranking'))

import numpy as np  # noqa: E402
from ranking_worlds import ATTACKS, PEOPLE, attacked  # noqa: E402

from arena_robot.ranking.evaluators.reports import evaluators  # noqa: E402
from arena_robot.ranking.evaluators.robust import RobustBradleyTerry  # noqa: E402
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry  # noqa: E402
from arena_robot.ranking.quality import mmrv  # noqa: E402

WORDS = {None: 'nobody cheats', 'push': 'push one policy', 'bury': 'push one and bury the best',
         'close': 'push, only against neighbours', 'sybils': 'push, through many accounts'}
SETS, FLAG_SETS = 100, 20
WORST, RATIO, MOST_FLAGGED = 0.02, 1.5, 0.05


def main(scale):
    """Print the table; return 1 where a limit is missed."""
    print('| own preferences | five evaluators | `bt` | `bt_robust` | honest flagged | '
          'cheats flagged |')
    print('|---|---|---|---|---|---|')
    missed = []
    for own in (0.0, 0.4):
        clean = lost(BradleyTerry(), None, own, scale)[0]
        for attack in (None, *ATTACKS):
            plain, robust = (lost(method, attack, own, scale)
                             for method in (BradleyTerry(), RobustBradleyTerry()))
            honest, cheats = flagged(attack, own, scale)
            found = '' if np.isnan(cheats) else f'{100 * cheats:.0f} %'
            print(f'| {own:g} | {WORDS[attack]} | {shown(plain)} | {shown(robust)} | '
                  f'{100 * honest:.1f} % | {found} |', flush=True)
            if robust[0] > max(RATIO * clean, WORST) or honest > MOST_FLAGGED:
                missed.append(f'{WORDS[attack]}, {own:g}')
    print('missed: ' + '; '.join(missed) if missed else 'every limit kept')
    return 1 if missed else 0


def lost(method, attack, own, scale):
    """Return the mean MMRV over data sets and its standard error."""
    found = [mmrv(method(votes).scores, goal) for votes, _, goal in (
        attacked(seed, attack, own) for seed in range(max(4, round(SETS * scale))))]
    return float(np.mean(found)), float(np.std(found) / np.sqrt(len(found)))


def flagged(attack, own, scale):
    """Return the shares of honest and of cheating evaluators that are flagged."""
    honest, cheats = [], []
    for seed in range(max(2, round(FLAG_SETS * scale))):
        votes, crook, _ = attacked(seed, attack, own)
        by_name = {one.name: one.flagged for one in evaluators(votes)}
        honest += [by_name[f'e{k}'] for k in np.flatnonzero(~crook)]
        cheats += [by_name[f'e{k}'] for k in np.flatnonzero(crook) if f'e{k}' in by_name]
    assert len(honest) >= PEOPLE - 5
    return float(np.mean(honest)), float(np.mean(cheats)) if cheats else float('nan')


def shown(value):
    """Return a mean with its standard error as text."""
    return f'{value[0]:.3f} ± {value[1]:.3f}'


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--scale', type=float, default=1.0, help='data sets, as a multiple')
    sys.exit(main(parser.parse_args().scale))
