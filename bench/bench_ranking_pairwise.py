"""
Pairwise ranking on one core, beside the packages that fit the same models, and voting.

Prints process time, best of several runs, and fails where a limit is missed, or where another
package is faster from a data frame to intervals. The peers are in requirements-bench.txt and, with
their environment, in requirements-peers.txt; where one is missing its column says so. choix is
timed from a list of pairs, and from arrays by a matrix of wins. leaderbot leaves ties out.
arena-rank has no variance of the likelihood, so its intervals are a little narrower. Takes four
minutes with all peers.
"""

import importlib
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

for name in ('OPENBLAS_NUM_THREADS', 'OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'RAYON_NUM_THREADS',
             'POLARS_MAX_THREADS'):
    os.environ.setdefault(name, '1')
os.environ.setdefault('XLA_FLAGS', '--xla_cpu_multi_thread_eigen=false')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')    # jax's complaints of slow compilation

import bench_ranking_voting  # noqa: E402
import numpy as np  # noqa: E402

from arena_robot.ranking.base import Comparisons  # noqa: E402
from arena_robot.ranking.counts import count_pairs  # noqa: E402
from arena_robot.ranking.frames import from_frame  # noqa: E402
from arena_robot.ranking.intervals.bootstrap import bootstrap  # noqa: E402
from arena_robot.ranking.methods import rank  # noqa: E402
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry  # noqa: E402
from arena_robot.ranking.pairwise.davidson import Davidson  # noqa: E402
from arena_robot.ranking.pairwise.elo import Elo  # noqa: E402
from arena_robot.ranking.task.buckets import TaskOptions  # noqa: E402
from arena_robot.ranking.task.em import TaskModel  # noqa: E402

LIMITS_S = {'bt 612 x 7': 1e-3, 'davidson 612 x 7': 1e-3, 'task T=60, one start': 10e-3,
            'bt 1000000 x 200': 0.3, 'bt bootstrap x 1000': 0.5}
WORDS = {1.0: 'A', 0.5: 'tie', 0.0: 'B'}


def drawn(n, m, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 0.7, n)
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    y = (rng.random(m) < 1 / (1 + np.exp(theta[j] - theta[i]))).astype(float)
    y[rng.random(m) < 0.16] = 0.5
    return Comparisons.build(i, j, y, items=[f'p{k:04}' for k in range(n)])


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


def choix_lists(choix, votes):
    """Ties are a win for each, so everything else counts twice."""
    rows = []
    for i, j, y in zip(votes.first.tolist(), votes.second.tolist(), votes.outcome, strict=True):
        rows += [(i, j)] if y >= 0.5 else []
        rows += [(j, i)] if y <= 0.5 else []
        rows += [rows[-1]] if y != 0.5 else []
    return lambda: choix.ilsr_pairwise(votes.n, rows)


def choix_dense(choix, votes):
    """From arrays, by a matrix of wins; a tie is half a win for each."""
    def timed():
        wins, losses = (np.bincount(place, weight, votes.n ** 2).reshape(votes.n, -1)
                        for place, weight in (
                            (votes.first * votes.n + votes.second, votes.outcome),
                            (votes.second * votes.n + votes.first, 1 - votes.outcome)))
        return choix.ilsr_pairwise_dense(wins + losses)
    return timed


def leaderbot_bt(leaderbot, votes):
    counts = count_pairs(votes)
    data = {'X': np.stack([counts.low, counts.high], axis=1), 'models': list(votes.items),
            'Y': np.stack([counts.wins, counts.losses, counts.ties], axis=1).astype(int)}

    def timed():
        model = leaderbot.models.BradleyTerry(data)
        model.train()
        return np.asarray(model.param)[:votes.n]
    return timed


def against(name, make, votes, runs, ours=None):
    """Time a peer on input already in its own form, and compare centred scores with ours."""
    try:
        package = importlib.import_module(name)
    except ImportError:
        return f'{name}: not installed'
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        seconds, scores = best_s(make(package, votes), runs)
    text = f'{make.__name__.replace("_", " ")} {seconds * 1e3:.2f} ms'
    if ours is None:
        return text
    off = np.max(np.abs(scores - np.mean(scores) - ours + np.mean(ours)))
    return f'{text}, off by {off:.0e}'


def frames(votes):
    """Return the same verdicts as data frames, by name; without those that are not installed."""
    table = {'policy_a': [votes.items[k] for k in votes.first],
             'policy_b': [votes.items[k] for k in votes.second],
             'preference': [WORDS[y] for y in votes.outcome]}
    found = {'lists': table}
    for name in ('pandas', 'pyarrow', 'polars'):
        try:
            library = importlib.import_module(name)
        except ImportError:
            print(f'frame to intervals: {name} is not installed')
            continue
        if name == 'pandas':
            plain = library.DataFrame(table, dtype=object)
            found |= {'pandas, objects': plain, 'pandas, strings': library.DataFrame(table),
                      'pandas, categories': plain.astype('category')}
        elif name == 'pyarrow':
            found['pyarrow'] = library.table(table)
        else:
            found |= {'polars': library.DataFrame(table),
                      'polars, lazy': library.DataFrame(table).lazy()}
    return found


def arena_rank(frame):
    """Return arena-rank's way from a frame to intervals; other frames are turned into pandas."""
    data = importlib.import_module('arena_rank.utils.data_utils').PairDataset
    model = importlib.import_module('arena_rank.models.bradley_terry').BradleyTerry
    pandas = importlib.import_module('pandas')

    def timed():
        table = frame.collect() if hasattr(frame, 'collect') else frame
        if not hasattr(table, 'iloc'):
            table = table.to_pandas() if hasattr(table, 'to_pandas') else pandas.DataFrame(table)
        votes = data.from_pandas(table, ['policy_a', 'policy_b'], 'preference',
                                 {word: y for y, word in WORDS.items()}.get)
        found = model(len(votes.competitors)).compute_ratings_and_cis(votes)
        return np.asarray(found['rating_upper'] - found['rating_lower']) / 2
    return timed


def from_frames(votes, runs):
    """Print the times from data frames to intervals; return those in which a peer is faster."""
    missed = []
    for name, frame in frames(votes).items():
        seconds, ours = best_s(lambda f=frame: rank(from_frame(f), 'bt', intervals=1), runs)
        try:
            theirs, wide = best_s(arena_rank(frame), 2)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            said, theirs = f'arena-rank: {type(error).__name__}', np.inf
        else:
            wide *= np.log(10) / 400
            off = np.max(np.abs((ours.high - ours.low) / 2 / wide - 1))
            said = f'arena-rank {theirs * 1e3:.0f} ms, widths differ by {100 * off:.1f} % at most'
        print(f'{name + " to intervals":33} {seconds * 1e3:8.0f} ms | {said}', flush=True)
        missed += [name] if seconds > theirs else []
    return missed


def growth(what):
    """Return the seconds of a call on 1e7 verdicts between 1000, and the MB it needed more."""
    votes = drawn(1000, 10_000_000)
    call = {'bt': lambda: BradleyTerry()(votes), 'choix dense': None,
            'bt with intervals': lambda: rank(votes, 'bt', intervals=1)}[what]
    if call is None:
        call = choix_dense(importlib.import_module('choix'), votes)
    Path('/proc/self/clear_refs').write_text('5')    # the peak is counted from here
    before = memory_mb('VmRSS')
    seconds, _ = best_s(call, 1)
    return seconds, memory_mb('VmHWM') - before


def memory_mb(name):
    """Return a line of what the kernel says of the memory of this process."""
    lines = Path('/proc/self/status').read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def alone(call, *arguments):
    """Return the result of a call in a new process; None where a library is missing."""
    with multiprocessing.get_context('spawn').Pool(1) as one:
        try:
            return one.apply(call, arguments)
        except ImportError:
            return None


def table_of_cases():
    """Print the times of the methods beside those of peers; return the missed limits."""
    small, large = drawn(7, 612), drawn(200, 1_000_000)
    plain, elo = BradleyTerry(), Elo(orders=0)
    all_iterations = TaskOptions(buckets=60, iterations=60, tolerance=0.0)
    bt = (('evalica', evalica_bt, 2), ('choix', choix_lists, 1), ('choix', choix_dense, 5),
          ('leaderbot', leaderbot_bt, 1))
    peers = {
        'bt 612 x 7': [against(name, make, small, 10, plain(small).scores)
                       for name, make, _ in bt],
        'bt 1000000 x 200': [against(name, make, large, runs, plain(large).scores)
                             for name, make, runs in bt],
        'bt bootstrap x 1000': [against('evalica', evalica_bootstrap, small, 1)],
        'elo 612 x 7, 100 orders': ['one order: ' + against(
            'evalica', evalica_elo, small, 10, elo(small).scores)]}
    cases = {
        'bt 612 x 7': (lambda: plain(small), 50),
        'davidson 612 x 7': (lambda: Davidson()(small), 50),
        'task T=60, one start': (lambda: TaskModel(all_iterations)(small), 20),
        'bt 1000000 x 200': (lambda: plain(large), 5),
        'bt bootstrap x 1000': (lambda: bootstrap(plain, small, 1000), 10),
        'elo 612 x 7, 100 orders': (lambda: Elo(orders=100)(small), 5)}
    missed = []
    for name, (call, runs) in cases.items():
        seconds, _ = best_s(call, runs)
        limit_s = LIMITS_S.get(name, float('inf'))
        limit = f'limit {limit_s * 1e3:5.0f} ms' if name in LIMITS_S else 'no limit'
        print(' | '.join([f'{name:26} {seconds * 1e3:8.3f} ms', f'{limit:14}',
                          *peers.get(name, [])]), flush=True)
        missed += [name] if seconds > limit_s else []
    return missed


def main():
    missed = table_of_cases()
    missed += from_frames(drawn(200, 1_000_000), 3)
    for what in ('bt', 'choix dense', 'bt with intervals'):
        found = alone(growth, what)
        print(f'{what + " 10000000 x 1000":33}', 'not installed' if found is None else
              f'{found[0] * 1e3:8.0f} ms | {found[1]:+.0f} MB', flush=True)
    bench_ranking_voting.compare(150, 300)
    print('missed: ' + ', '.join(missed) if missed else 'every limit kept')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
