"""
Voting rules on 150 alternatives and 300 votes, beside open_spiel's; exact Kemeny on 12 and more.

Processor seconds of one thread, best of several runs. Both start from a profile object of their
own with nothing counted yet: where a rule needs margins, they are part of it.
"""

import argparse
import importlib
import os
import time

os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')

import numpy as np

from arena_robot.ranking.voting.kemeny import LIMIT
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.rules import vote
from arena_robot.ranking.voting.scoring import majority_blocks

LIMIT_S = .1

PEERS = {
    'approval': ('approval', 'ApprovalVoting', {'k': 3}),
    'borda': ('borda', 'BordaVoting', {}),
    'plurality': ('plurality', 'PluralityVoting', {}),
    'stv': ('stv', 'STVVoting', {}),
    'copeland': ('copeland', 'CopelandVoting', {}),
    'schulze': ('schulze', 'SchulzeVoting', {}),
    'ranked_pairs': ('ranked_pairs', 'RankedPairsVoting', {}),
    'maximal_lottery': ('maximal_lotteries', 'MaximalLotteriesVoting', {'iterative': False}),
    'iterative_maximal_lotteries': ('maximal_lotteries', 'MaximalLotteriesVoting', {}),
}


def seconds(call, arguments=((), (), ())):
    """Return the least processor time of the calls with each of some arguments."""
    spent = []
    for each in arguments:
        start = time.process_time()
        call(*each)
        spent.append(time.process_time() - start)
    return min(spent)


def orders(alternatives, votes, seed):
    """Return random ballots around a common order, shape (votes, alternatives), best first."""
    rng = np.random.default_rng(seed)
    quality = np.linspace(1, 0, alternatives)
    return np.argsort(rng.normal(scale=1., size=(votes, alternatives)) - quality, axis=1)


def profile_of(ballots):
    """Return a new profile, nothing counted yet."""
    return fresh(np.argsort(ballots, axis=1))


def fresh(ranks):
    """Return a new profile of these ranks."""
    return Profile(tuple(f'a{i}' for i in range(ranks.shape[1])), ranks, np.ones(len(ranks)))


def peer_profile(ballots):
    """Return open_spiel's profile of the same ballots; None where it is not installed."""
    try:
        base = importlib.import_module('open_spiel.python.voting.base')
    except ImportError:
        return None
    names = [f'a{i}' for i in range(ballots.shape[1])]
    return base.PreferenceProfile(votes=[[names[i] for i in row] for row in ballots],
                                  alternatives=names)


def peer_seconds(method, profile):
    """Return open_spiel's time for a method; None where it cannot run here."""
    module, name, options = PEERS[method]
    try:
        rule = getattr(importlib.import_module(f'open_spiel.python.voting.{module}'), name)
    except ImportError:
        return None
    return seconds(lambda: rule(**options).run_election(profile), [()])


def compare(alternatives, votes):
    """Print a line per rule, our sum with its limit, and both sums over those that both have."""
    ballots = orders(alternatives, votes, seed=0)
    other = peer_profile(ballots)
    if other is None:
        print('open_spiel is not installed (needs Python 3.11): ours alone')
    ranks = np.argsort(ballots, axis=1)
    print(f'{alternatives} alternatives x {votes} votes{"ours":>21}{"open_spiel":>14}'
          f'{"faster":>9}')
    total, own = np.zeros(2), 0.
    for method in PEERS:
        ours = seconds(lambda p, m=method: vote(p, m), [(fresh(ranks),) for _ in range(5)])
        theirs = None if other is None else peer_seconds(method, other)
        own += ours
        if theirs is None:
            print(f'  {method:<30}{ours * 1e3:9.2f} ms{"does not run":>17}')
            continue
        total += ours, theirs
        print(f'  {method:<30}{ours * 1e3:9.2f} ms{theirs * 1e3:11.2f} ms'
              f'{theirs / ours:8.1f}x')
    limit = f'   limit {LIMIT_S * 1e3:g} ms: {"met" if own <= LIMIT_S else "MISSED"}' \
        if (alternatives, votes) == (150, 300) else ''
    print(f'  {"sum of ours":<30}{own * 1e3:9.2f} ms{limit}')
    if total[1]:
        print(f'  {"sum of those that both run":<30}{total[0] * 1e3:9.2f} ms'
              f'{total[1] * 1e3:11.2f} ms{total[1] / total[0]:8.1f}x   (target 20x)')


def kemeny():
    """Print the time of exact Kemeny-Young on profiles that are one cycle each."""
    for size in (12, 15, LIMIT):
        seed = next(s for s in range(1000) if len(majority_blocks(
            profile_of(np.random.default_rng(s).permuted(
                np.tile(np.arange(size), (9, 1)), axis=1)).margins)) == 1)
        ballots = np.random.default_rng(seed).permuted(np.tile(np.arange(size), (9, 1)), axis=1)
        ours = seconds(lambda p: vote(p, 'kemeny_young'),
                       [(profile_of(ballots),) for _ in range(3)])
        target = '   (target 1 s)' if size == 12 else ''
        print(f'Kemeny-Young, exact, one cycle of {size:>2}: {ours * 1e3:9.2f} ms{target}')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--alternatives', type=int, default=150)
    parser.add_argument('--votes', type=int, default=300)
    args = parser.parse_args()
    compare(args.alternatives, args.votes)
    kemeny()
