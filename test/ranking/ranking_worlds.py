"""Simulated comparisons whose truth is known, and what was stated about them."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Comparisons, Conditions
from arena_robot.ranking.counts import PairCounts, count_pairs
from arena_robot.ranking.methods import rank_comparable
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.davidson import Davidson, outcome_probabilities
from arena_robot.ranking.pairwise.prior import established
from arena_robot.ranking.standings import competition_ranks

WORLDS = ('bt', 'davidson', 'tasks', 'evaluators')
KAPPA = 0.6
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
PEOPLE, VOTES, POLICIES, LABS = 40, 100, 8, 8
ATTACKS = ('push', 'bury', 'close', 'sybils')
STRANGERS, CLONES = ('spread', 'nowhere'), ('weak', 'middle', 'second')


@dataclass(frozen=True)
class World:
    """Abilities (n,) in log-odds, how much tasks and evaluators differ, and the ties."""

    abilities: np.ndarray
    kappa: float = 0.0
    by_task: float = 0.0
    by_evaluator: float = 0.0

    def truth(self, method):
        """Return (n,) the centred scores that ``method`` gives for endless sessions."""
        n = len(self.abilities)
        if method == 'hierarchical':
            return self.abilities - self.abilities.mean()
        low, high = np.triu_indices(n, 1)
        spread = np.sqrt(2 * (self.by_task ** 2 + self.by_evaluator ** 2))
        d = (self.abilities[low] - self.abilities[high])[:, None] + spread * NODES
        win, tie, loss = (x @ NODE_WEIGHTS / NODE_WEIGHTS.sum()
                          for x in outcome_probabilities(d, self.kappa))
        counts = PairCounts(tuple(map(str, range(n))), low, high, win, loss, tie)
        return (Davidson() if method == 'davidson' else BradleyTerry()).fit_counts(counts).scores

    def comparisons(self, sessions, rng, evaluators=1):
        """Return so many sessions of uniformly drawn pairs."""
        n = len(self.abilities)
        i = rng.integers(0, n, sessions)
        j = (i + rng.integers(1, n, sessions)) % n
        who = np.sort(rng.integers(0, evaluators, sessions))
        own = rng.normal(0, self.by_evaluator, (evaluators, n))
        task = rng.normal(0, self.by_task, (sessions, 2))
        d = (self.abilities[i] - self.abilities[j] + own[who, i] - own[who, j]
             + task[:, 0] - task[:, 1])
        win, tie, _ = outcome_probabilities(d, self.kappa)
        u = rng.random(sessions)
        y = np.where(u < win, 1.0, np.where(u < win + tie, 0.5, 0.0))
        names = [f'e{k}' for k in who] if evaluators > 1 else None
        return Comparisons.build(i, j, y, items=[f'p{k:02}' for k in range(n)], evaluator=names)


def scored_votes(abilities, sessions, rng):
    """
    Return sessions with progress scores: tasks differ in difficulty, verdicts follow the scores.

    Scores are quarters from 0 to 1; an evaluator sees a difference of 0.12 with noise of 0.25.
    """
    n = len(abilities)
    i = rng.integers(0, n, sessions)
    j = (i + rng.integers(1, n, sessions)) % n
    hard = rng.normal(0, 1.2, sessions)
    first, second = (np.round(4 / (1 + np.exp(hard - abilities[k]
                                              - rng.normal(0, 0.7, sessions)))) / 4
                     for k in (i, j))
    gap = first - second + rng.normal(0, 0.25, sessions)
    return Comparisons.build(i, j, np.where(abs(gap) < 0.12, 0.5, (gap > 0).astype(float)),
                             items=[f'p{k:02}' for k in range(n)], score_first=first,
                             score_second=second)


def world(kind, n, rng):
    """Draw a world of a kind."""
    abilities = rng.normal(0, 1, n)
    more = {'bt': {}, 'davidson': {'kappa': KAPPA}, 'tasks': {'kappa': KAPPA, 'by_task': 0.8},
            'evaluators': {'kappa': KAPPA, 'by_evaluator': 0.6}}[kind]
    return World(abilities, **more)


@dataclass
class Tally:
    """What was stated over data sets, and how often it held."""

    held: int = 0
    stated: int = 0
    policies: int = 0
    one_sided: int = 0
    one_sided_held: int = 0
    ranks_held: int = 0
    ranks: int = 0
    joint_held: int = 0
    sets: int = 0
    too_few_shown: int = 0
    best_missing: int = 0
    confident: int = 0
    confident_right: int = 0
    rank_width: float = 0.0
    joint_width: float = 0.0
    by_set: list = field(default_factory=list)

    def add(self, standings, truth, anchor):
        """Add the standings of one data set; ``truth`` (n,) are the true scores."""
        index = [int(name[1:]) for name in standings.items]
        truth = (truth - truth[anchor].mean())[index]
        stated = ~standings.too_few
        inside = (standings.low <= truth) & (truth <= standings.high)
        self.held += int(inside[stated].sum())
        self.stated += int(stated.sum())
        if stated.any():
            self.by_set.append((int(inside[stated].sum()), int(stated.sum())))
        self.policies += len(anchor)
        one_sided = np.isinf(standings.low) | np.isinf(standings.high)
        self.one_sided += int(one_sided.sum())
        self.one_sided_held += int(inside[one_sided].sum())
        ranks = competition_ranks(truth)
        ranked = (standings.rank_low <= ranks) & (ranks <= standings.rank_high)
        self.ranks_held += int(ranked[stated].sum())
        self.ranks += int(stated.sum())
        self.rank_width += float((standings.rank_high - standings.rank_low + 1)[stated].sum())
        low, high = standings.rank_low_joint, standings.rank_high_joint
        self.joint_width += float((high - low + 1)[stated].sum())
        self.joint_held += bool(np.all((low <= ranks) & (ranks <= high)))
        self.sets += 1
        self.best_missing += len(standings.items) < len(anchor)
        p = standings.p_better
        sure = (p >= 0.90) & (p < 0.95)
        right = truth[:, None] > truth
        self.confident += int(sure.sum())
        self.confident_right += int((sure & right).sum())

    def error(self):
        """Return the standard error of the coverage, over data sets."""
        held, stated = np.array(self.by_set, float).reshape(-1, 2).T
        if len(held) < 2:
            return float('nan')
        apart = held - held.sum() / stated.sum() * stated
        return float(np.sqrt((apart ** 2).sum()) / stated.sum())

    def line(self):
        """Return the shares as text."""
        def share(a, b):
            return f'{a / b:.3f}' if b else '  -  '
        return (f'cover {share(self.held, self.stated)} stated '
                f'{share(self.stated, self.policies)} open {share(self.one_sided, self.policies)} '
                f'ranks {share(self.ranks_held, self.ranks)} width '
                f'{share(self.rank_width, self.ranks)} all ranks '
                f'{share(self.joint_held, self.sets)} width {share(self.joint_width, self.ranks)} '
                f'p.90-.95 {share(self.confident_right, self.confident)} (n={self.confident})')


def scored_tally(n, sessions, repeats, method):
    """Return what ``method`` stated of data sets with scores; the truth: 8000 sessions."""
    total = Tally()
    for k in range(repeats):
        rng = np.random.default_rng([n, sessions, k])
        abilities = rng.normal(0, 1, n)
        votes = scored_votes(abilities, sessions, rng)
        standings, left_out = rank_comparable(votes, method, intervals=100, seed=k)
        whole = scored_votes(abilities, 8000, rng)
        truth = rank_comparable(whole, method)[0]
        anchor = established(count_pairs(votes)) if method == 'bt' else np.array(
            [name not in left_out for name in votes.items])
        total.add(standings, truth.scores, anchor)
    return total


def tally(kind, n, sessions, repeats, method='bt', seed=0, evaluators=1, **options):
    """Return what ``method`` stated about ``repeats`` data sets of one kind."""
    total = Tally()
    for k in range(repeats):
        rng = np.random.default_rng([seed, n, sessions, k])
        place = world(kind, n, rng)
        votes = place.comparisons(sessions, rng, evaluators)
        anchor = established(count_pairs(votes))
        standings, _ = rank_comparable(votes, method, intervals=200, seed=k, **options)
        total.add(standings, place.truth(method), anchor)
    return total


def attacked(seed, attack=None, own=0.0):
    """40 evaluators of 8 labs with preferences of their own; five of them push a policy."""
    rng = np.random.default_rng(seed)
    theta, lab = rng.normal(0, 1, POLICIES), np.arange(PEOPLE) % LABS
    m = PEOPLE * VOTES
    e = np.repeat(np.arange(PEOPLE), VOTES)
    i = rng.integers(0, POLICIES, m)
    j = (i + rng.integers(1, POLICIES, m)) % POLICIES
    order = np.argsort(theta)
    pet, best = order[POLICIES // 4], order[-1]
    crook = np.zeros(PEOPLE, bool)
    crook[rng.permutation(PEOPLE)[:5 if attack else 0]] = True
    theirs = crook[e]
    if attack == 'close':
        below = rng.integers(0, POLICIES - 1, m)
        i, j = np.where(theirs, order[below], i), np.where(theirs, order[below + 1], j)
    taste = rng.normal(0, own, (PEOPLE, POLICIES))
    d = theta[i] - theta[j] + taste[e, i] - taste[e, j]
    y = (rng.random(m) < expit(d)).astype(float)
    y[rng.random(m) < 0.1] = 0.5
    if attack == 'bury':
        y[theirs & (i == best)], y[theirs & (j == best)] = 0.0, 1.0
    y[theirs & (i == pet)], y[theirs & (j == pet)] = 1.0, 0.0
    names, where = [f'e{k}' for k in e], lab[e]
    if attack == 'sybils':
        names = [f's{k}' if bad else name for k, (bad, name) in
                 enumerate(zip(theirs, names, strict=True))]
        where = np.where(theirs, 0, where)
    votes = Comparisons.build(i, j, y, items=[f'p{k}' for k in range(POLICIES)],
                              evaluator=names, institution=[f'h{k}' for k in where])
    return votes, crook, expit(theta[:, None] - theta).mean(axis=1)


def strangers(seed, places, accounts=60):
    """
    40 evaluators of 8 labs with 15 verdicts each, and 60 accounts with 3 that push one policy.

    The accounts are 'spread' over the labs, or 'nowhere'. Returns the votes, no owners, the pushed
    policy, and the true share of wins.
    """
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1, POLICIES)
    pet = int(np.argsort(theta)[POLICIES // 2])
    honest = PEOPLE * 15
    e = np.r_[np.repeat(np.arange(PEOPLE), 15), PEOPLE + np.arange(3 * accounts) // 3]
    i = rng.integers(0, POLICIES, len(e))
    j = (i + rng.integers(1, POLICIES, len(e))) % POLICIES
    theirs = np.arange(len(e)) >= honest
    i[theirs & (j != pet)] = pet
    y = _honest_verdicts(rng, theta, i, j, rng.normal(0, 0.4, (PEOPLE + accounts, POLICIES))[e])
    y[theirs] = i[theirs] == pet
    lab = np.where(theirs & (places == 'nowhere'), '', np.char.add('h', (e % LABS).astype(str)))
    mixed = rng.permutation(len(e))
    votes = Comparisons.build(i, j, y, items=[f'p{k}' for k in range(POLICIES)],
                              evaluator=[f'e{k}' for k in e], institution=lab.tolist())
    return votes.take(mixed), {}, pet, expit(theta[:, None] - theta).mean(axis=1)


def cloned(seed, kind, clones=20):
    """
    40 evaluators with 25 verdicts each; one owner adds clones of a policy with 60 verdicts each.

    The policy is the 'weak'est, a 'middle' one, or the 'second' best. Returns the votes, the owner
    of each policy, that policy, and the true share of wins among the first 8.
    """
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, 1, POLICIES)
    pet = int(np.argsort(theta)[{'weak': 0, 'middle': POLICIES // 2, 'second': -2}[kind]])
    of = np.r_[np.arange(POLICIES), np.full(clones, pet)]
    i = rng.integers(0, POLICIES, PEOPLE * 25)
    j = (i + rng.integers(1, POLICIES, len(i))) % POLICIES
    i = np.r_[i, np.repeat(POLICIES + np.arange(clones), 60)]
    j = np.r_[j, rng.permutation(np.delete(np.arange(POLICIES), pet))[
        rng.integers(0, POLICIES - 1, 60 * clones)]]
    e = np.arange(len(i)) % PEOPLE
    y = _honest_verdicts(rng, theta, of[i], of[j], rng.normal(0, 0.4, (PEOPLE, POLICIES))[e])
    items = [f'p{k:02}' for k in range(len(of))]
    votes = Comparisons.build(i, j, y, items=items, evaluator=[f'e{k}' for k in e],
                              institution=[f'h{k % LABS}' for k in e])
    return (votes, {name: f'o{k}' for name, k in zip(items, of, strict=True)}, pet,
            expit(theta[:, None] - theta).mean(axis=1))


def _honest_verdicts(rng, theta, i, j, taste):
    """Return verdicts with one tie in ten; ``taste`` (M, n) is each evaluator's own."""
    at = np.arange(len(i))
    d = theta[i] - theta[j] + taste[at, i] - taste[at, j]
    y = (rng.random(len(i)) < expit(d)).astype(float)
    y[rng.random(len(i)) < 0.1] = 0.5
    return y


def on_robots(rng, step=0.0, people=0, m=240, kinds=('panda', 'ur5e'), n=6):
    """Return verdicts on robots; the first policy is better by ``step`` on the first robot."""
    theta, taste = rng.normal(0, 1, n), rng.normal(0, 0.6, (max(people, 1), n)) * bool(people)
    i = rng.integers(0, n, m)
    j, e = (i + rng.integers(1, n, m)) % n, rng.integers(0, max(people, 1), m)
    robot = e % len(kinds) if people else rng.integers(0, len(kinds), m)
    gap = theta[i] - theta[j] + taste[e, i] - taste[e, j] + step * (robot == 0) * (
        (i == 0).astype(float) - (j == 0))
    return Comparisons.build(i, j, (rng.random(m) < expit(gap)).astype(float),
                             items=[f'p{k}' for k in range(n)],
                             evaluator=[f'e{k}' for k in e] if people else None,
                             conditions=Conditions.build({'robot': [kinds[k] for k in robot]}))
