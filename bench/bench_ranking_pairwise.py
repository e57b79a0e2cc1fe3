"""
Pairwise ranking on one core, beside the packages that fit the same models.

Prints process time, best of several runs, and fails where a limit is missed. The peers are in
requirements-bench.txt; where one is missing its column says so.
"""

import importlib
import multiprocessing
import os
import resource
import sys
import time
import warnings

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'RAYON_NUM_THREADS'):
    os.environ.setdefault(name, '1')

import numpy as np  # noqa: E402

from arena_robot.ranking.base import Comparisons  # noqa: E402
from arena_robot.ranking.intervals.bootstrap import bootstrap  # noqa: E402
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry  # noqa: E402
from arena_robot.ranking.pairwise.davidson import Davidson  # noqa: E402
from arena_robot.ranking.pairwise.elo import Elo  # noqa: E402
from arena_robot.ranking.task.buckets import TaskOptions  # noqa: E402
from arena_robot.ranking.task.em import TaskModel  # noqa: E402

LIMITS_S = {'bt 612 x 7': 1e-3, 'davidson 612 x 7': 1e-3, 'task T=60, one start': 10e-3,
            'bt 1000000 x 200': 0.3, 'bt bootstrap x 1000': 0.5,
            'bt bootstrap 50000 x 1000': 20.0}
MOST_MB = 1000.0


def drawn(n, m, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 0.7, n)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    y = (rng.random(m) < 1 / (1 + np.exp(theta[j] - theta[i]))).astype(float)
    y[rng.random(m) < 0.16] = 0.5
    return Comparisons.build(i, j, y, items=[f'p{k}' for k in range(n)])


def best_s(call, runs):
    """Return the least process time of ``runs`` calls in seconds, and the last result."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
    return min(times), result


def evalica_votes(evalica, votes):
    winner = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    return ([votes.items[k] for k in votes.first], [votes.items[k] for k in votes.second],
            [winner[y] for y in votes.outcome])


def evalica_bt(evalica, votes):
    rows = evalica_votes(evalica, votes)

    def timed():
        scores = evalica.bradley_terry(*rows, tolerance=1e-10, limit=10000).scores
        return np.log([scores[name] for name in votes.items])
    return timed


def evalica_elo(evalica, votes):
    rows = evalica_votes(evalica, votes)

    def timed():
        scores = evalica.elo(*rows, initial=1500.0, base=10.0, scale=400.0, k=16.0).scores
        return np.array([scores[name] for name in votes.items])
    return timed


def evalica_bootstrap(evalica, votes):
    rows = evalica_votes(evalica, votes)
    return lambda: evalica.bootstrap(evalica.bradley_terry, *rows, n_resamples=1000,
                                     bootstrap_method='percentile', random_state=0)


def choix_bt(choix, votes):
    """Ties are a win for each, so everything else counts twice."""
    rows = []
    for i, j, y in zip(votes.first.tolist(), votes.second.tolist(), votes.outcome, strict=True):
        rows += [(i, j)] if y >= 0.5 else []
        rows += [(j, i)] if y <= 0.5 else []
        rows += [rows[-1]] if y != 0.5 else []
    return lambda: choix.ilsr_pairwise(votes.n, rows)


def against(name, make, votes, runs, ours=None):
    """Time a peer on input already in its own form, and compare centred scores with ours."""
    try:
        package = importlib.import_module(name)
    except ImportError:
        return f'{name}: not installed'
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        seconds, scores = best_s(make(package, votes), runs)
    text = f'{name} {seconds * 1e3:.2f} ms'
    if ours is None:
        return text
    off = np.max(np.abs(scores - np.mean(scores) - ours + np.mean(ours)))
    return f'{text}, off by {off:.0e}'


def bootstrap_mb():
    """Return the largest resident memory of this process after the bootstrap of 1000 policies."""
    bootstrap(BradleyTerry(), drawn(1000, 50_000), 1000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    small, large, many = drawn(7, 612), drawn(200, 1_000_000), drawn(1000, 50_000)
    plain, elo = BradleyTerry(), Elo(orders=0)
    all_iterations = TaskOptions(buckets=60, iterations=60, tolerance=0.0)
    bt = ('evalica', evalica_bt), ('choix', choix_bt)
    peers = {
        'bt 612 x 7': [against(*one, small, 10, plain(small).scores) for one in bt],
        'bt 1000000 x 200': [against(*one, large, 1, plain(large).scores) for one in bt],
        'bt bootstrap x 1000': [against('evalica', evalica_bootstrap, small, 1)],
        'elo 612 x 7, 100 orders': ['one order: ' + against(
            'evalica', evalica_elo, small, 10, elo(small).scores)]}
    cases = {
        'bt 612 x 7': (lambda: plain(small), 50),
        'davidson 612 x 7': (lambda: Davidson()(small), 50),
        'task T=60, one start': (lambda: TaskModel(all_iterations)(small), 20),
        'bt 1000000 x 200': (lambda: plain(large), 5),
        'bt bootstrap x 1000': (lambda: bootstrap(plain, small, 1000), 10),
        'elo 612 x 7, 100 orders': (lambda: Elo(orders=100)(small), 5),
        'bt bootstrap 50000 x 1000': (lambda: bootstrap(plain, many, 1000), 1)}
    missed = []
    for name, (call, runs) in cases.items():
        seconds, _ = best_s(call, runs)
        limit_s = LIMITS_S.get(name, float('inf'))
        limit = f'limit {limit_s * 1e3:5.0f} ms' if name in LIMITS_S else 'no limit'
        print(' | '.join([f'{name:26} {seconds * 1e3:8.3f} ms', f'{limit:14}',
                          *peers.get(name, [])]), flush=True)
        missed += [name] if seconds > limit_s else []
    with multiprocessing.get_context('spawn').Pool(1) as one:
        used = one.apply(bootstrap_mb)
    print(f'bt bootstrap 50000 x 1000  {used:8.0f} MB | limit {MOST_MB:.0f} MB')
    missed += ['memory of the bootstrap'] if used > MOST_MB else []
    print('missed: ' + ', '.join(missed) if missed else 'every limit kept')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
