"""
Deviation ratings of tables of scores (model, model, task), beside an LP per stage over everything.

Processor seconds of one thread. The plain way writes the three-player game out: a row for every
strategy of every player, a column for every joint strategy, one HiGHS LP per stage. It is run on
small tables; --plain runs it on the larger ones too (minutes), with a limit of its own.
"""

import argparse
import os
import time

os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np
from scipy.optimize import linprog

from arena_robot.ranking.games.deviation import rate_table

SIZES = ((7, 20, .2), (7, 100, .5), (20, 50, .5), (50, 100, 5.))


def gains(scores):
    """Return A, shape (M + M + T, M * M * T)."""
    apart = scores[:, None, :] - scores[None, :, :]
    game = [apart, -apart, np.abs(apart)]
    return np.array([(np.take(G, [a], axis=p) - G).ravel()
                     for p, G in enumerate(game) for a in range(G.shape[p])])


def plain(scores):
    """Return the ratings of all players by one full LP per stage."""
    A = gains(scores)
    C, K = A.shape
    ratings, free, stages = np.zeros(C), np.ones(C, dtype=bool), 0
    while free.any():
        stages += 1
        answer = linprog(np.r_[np.zeros(K), 1.], A_ub=np.c_[A, -free.astype(float)],
                         b_ub=np.where(free, 0., ratings), A_eq=np.r_[np.ones(K), 0.][None],
                         b_eq=[1], bounds=[(0, None)] * K + [(None, None)], method='highs-ds')
        fixed = free & (-answer.ineqlin.marginals > 1e-7)
        ratings[fixed], free = answer.fun, free & ~fixed
    return ratings, stages


def clocked(call):
    """Return what a call returns and its processor seconds."""
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def tables(models, tasks):
    """Return named tables: independent scores, abilities and difficulties, few distinct values."""
    rng = np.random.default_rng(0)
    noise = rng.random((models, tasks))
    return {'independent': noise,
            'structured': noise + rng.random((models, 1)) + rng.random((1, tasks)),
            'in tenths': rng.integers(0, 11, (models, tasks)) / 10}


def main(largest):
    """Print a line per table."""
    for models, tasks, target in SIZES:
        for name, scores in tables(models, tasks).items():
            clocked(lambda s=scores: rate_table(s))
            found, spent = clocked(lambda s=scores: rate_table(s))
            line = (f'{models:>3} models x {tasks:>3} tasks, {name:<11}{spent:8.3f} s '
                    f'(target {target} s) {found.programs:>3} LPs, {found.columns:>4} of '
                    f'{found.size} columns')
            if models * models * tasks <= largest and name == 'independent':
                (slow, stages), took = clocked(lambda s=scores: plain(s))
                worst = np.abs(slow - np.concatenate(found.ratings)).max()
                line += (f'; plain {took:.1f} s, {stages} LPs, {took / spent:.0f}x slower, '
                         f'largest difference {worst:.0e}')
            print(line, flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--plain', type=int, default=5000, metavar='K',
                        help='run the plain way up to this many joint strategies; 20000 takes in '
                             '20 models x 50 tasks (default 5000: up to 7 x 100)')
    main(parser.parse_args().plain)
