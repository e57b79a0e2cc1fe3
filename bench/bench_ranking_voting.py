"""
Voting rules on 150 alternatives and 300 votes, beside peers'; exact Kemeny on 12 and more.

Processor time of one thread, best of several runs. All start from a profile object of their own;
in ours, and svvamp's, nothing is counted yet: where a rule needs margins, they are part of it.
open_spiel, pref_voting and svvamp are compared where they are installed.
"""

import argparse
import importlib
import os
import time
from functools import partial

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


def open_spiel(ballots):
    """Return how open_spiel counts these ballots, by rule; its profile has its margins."""
    base = importlib.import_module('open_spiel.python.voting.base')
    names = [f'a{i}' for i in range(ballots.shape[1])]
    profile = base.PreferenceProfile(votes=[[names[i] for i in row] for row in ballots],
                                     alternatives=names)

    def counted(module, name, options):
        rule = getattr(importlib.import_module(f'open_spiel.python.voting.{module}'), name)
        return lambda: rule(**options).run_election(profile)
    return {rule: partial(counted, *entry) for rule, entry in PEERS.items()}


def pref_voting(ballots):
    """Return how pref_voting finds the winners of these ballots, by rule."""
    profiles, scoring, c1, margins = (importlib.import_module(f'pref_voting.{name}') for name in (
        'profiles', 'scoring_methods', 'c1_methods', 'margin_based_methods'))
    rows = [tuple(row) for row in ballots.tolist()]

    def counted(rule, **options):
        profile = profiles.Profile(rows)
        return lambda: rule(profile, **options)
    return {'approval': partial(counted, scoring.scoring_rule, score=lambda _, rank: rank <= 3),
            'borda': partial(counted, scoring.borda),
            'plurality': partial(counted, scoring.plurality),
            'copeland': partial(counted, c1.copeland),
            'schulze': partial(counted, margins.beat_path)}


def svvamp(ballots):
    """Return how svvamp finds the winner of these ballots, by rule."""
    package = importlib.import_module('svvamp')

    def counted(rule, **options):
        profile = package.Profile(preferences_rk=ballots)
        return lambda: rule(**options)(profile).w_
    return {'approval': partial(counted, package.RuleKApproval, k=3),
            'borda': partial(counted, package.RuleBorda),
            'plurality': partial(counted, package.RulePlurality),
            'copeland': partial(counted, package.RuleCopeland),
            'schulze': partial(counted, package.RuleSchulze),
            'ranked_pairs': partial(counted, package.RuleRankedPairs)}


def rules_of(peer, ballots):
    """Return the rules of a peer, without any where it is not installed."""
    try:
        return peer(ballots)
    except ImportError as error:
        print(f'{peer.__name__} is not installed: {error}')
        return {}


def theirs(rules, method):
    """Return the time of a peer's rule; None where it has none, or cannot run it here."""
    if method not in rules:
        return None
    try:
        return seconds(lambda run: run(), [(rules[method](),) for _ in range(2)])
    except ImportError:
        return None


def compare(alternatives, votes):
    """Print a line per rule beside the peers, our sum with its limit, and open_spiel's."""
    ballots = orders(alternatives, votes, seed=0)
    peers = [rules_of(peer, ballots) for peer in (open_spiel, pref_voting, svvamp)]
    ranks = np.argsort(ballots, axis=1)
    print(f'{alternatives} alternatives x {votes} votes, ms{"ours":>17}{"open_spiel":>13}'
          f'{"pref_voting":>13}{"svvamp":>13}')
    total, own = np.zeros(2), 0.
    for method in PEERS:
        ours = seconds(lambda p, m=method: vote(p, m), [(fresh(ranks),) for _ in range(5)])
        own += ours
        others = [theirs(rules, method) for rules in peers]
        if others[0] is not None:
            total += ours, others[0]
        print(f'  {method:<30}{ours * 1e3:15.2f}' + ''.join(
            f'{"-":>13}' if each is None else f'{each * 1e3:13.2f}' for each in others),
            flush=True)
    limit = f'   limit {LIMIT_S * 1e3:g}: {"met" if own <= LIMIT_S else "MISSED"}' \
        if (alternatives, votes) == (150, 300) else ''
    print(f'  {"sum of ours":<30}{own * 1e3:15.2f}{limit}')
    if total[1]:
        print(f'  {"sum of those of open_spiel":<30}{total[0] * 1e3:15.2f}{total[1] * 1e3:13.2f}'
              f'   {total[1] / total[0]:.1f}x (target 20x)')


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
