"""Simulated verdicts of honest evaluators with five who collude for one policy."""

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Comparisons

PEOPLE, VOTES, POLICIES, LABS = 40, 100, 8, 8
ATTACKS = ('push', 'bury', 'close', 'sybils')


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
