"""
How many more sessions until it is known which policy is first, which k are, or the whole order.

The true abilities are drawn from what the sessions so far say of them: normal about the scores of
Bradley–Terry, with their clustered covariance, shrunk by how much abilities differ between
policies (:mod:`stated`). For each draw the future is played: after m sessions of the same mix of
pairs and evaluators as the M so far the scores are

    θ̂(m) = (M θ̂(M) + (m - M) θ + √M W(m - M)) / m,

with W a Brownian motion whose covariance per session is that of θ̂(M), and their covariance is M/m
of today's. A question is answered at the first m where the differences that matter exceed the
quantile of Student's t, which is where :func:`stated.rank_sets` gives one rank. The number of
sessions is what the draws say: its median and the central 90 %.

That is when the standings will say so at 95 %. Who wants to stop at once when they do, at any
look, uses :func:`first_known`, which errs in at most 5 % of pools however often it is looked at.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.bradley_terry import BradleyTerry
from arena_robot.ranking.counts import count_pairs, require_comparisons
from arena_robot.ranking.counts import groups as groups_of
from arena_robot.ranking.held import established, one_sided
from arena_robot.ranking.interval_kind import chosen_cluster
from arena_robot.ranking.sequential import evidence
from arena_robot.ranking.spread import ScoreSpread, likelihood_spread
from arena_robot.ranking.stated import LEAST_CLUSTERS, LEAST_SESSIONS, between_policies

DRAWS, MOST_CELLS = 400, 2_000_000
# Looks at the future: so many times the sessions of today, from now on.
FUTURE = np.geomspace(1.0, 200.0, 72)
GOALS = ('first', 'top', 'order')
UNIT = 1.0


@dataclass(frozen=True)
class SessionsNeeded:
    """
    How many more sessions answer a question, after ``sessions``.

    ``goal``: who is 'first', who are the 'top' ``k``, or the whole 'order'. ``known``: it is
    answered already. ``low``, ``middle`` and ``high`` are the 5 %, 50 % and 95 % quantiles;
    infinite beyond 200 times the sessions so far.
    """

    goal: str
    k: int
    sessions: int
    known: bool
    low: float
    middle: float
    high: float


def sessions_needed(comparisons: Comparisons, goal: str = 'first', k: int = 3, *,
                    level: float = 0.95, cluster: str = 'auto', seed: int = 0,
                    ) -> SessionsNeeded | None:
    """
    Return how many more sessions are needed, None where too few are there to tell.

    ``cluster`` says what counts as one observation, as in :mod:`interval_kind`. Asked is about
    the largest group of policies that were compared with each other.

    :raises RankingError: an unknown goal, a k that does not split the policies, no comparison.
    """
    if goal not in GOALS or (goal == 'top' and not 0 < k < comparisons.n):
        raise RankingError(f"asked for the sessions until '{goal}' with k = {k} of "
                           f"{comparisons.n} policies; known goals: {', '.join(GOALS)}, and k "
                           'is less than the number of policies')
    require_comparisons(count_pairs(comparisons))
    votes = comparisons.take(comparisons.weight > 0)
    votes = votes.only(groups_of(count_pairs(votes))[0])
    counts, by = count_pairs(votes), chosen_cluster(votes, cluster)
    groups, sessions = votes.clusters(by), len(np.unique(votes.session))
    above, below = one_sided(counts)
    least = LEAST_SESSIONS if by == 'session' else LEAST_CLUSTERS
    if len(np.unique(groups)) < least or bool((above & below).any()):
        return None
    fit = BradleyTerry()(votes)
    spread = likelihood_spread(votes, fit, groups, established(counts))
    if spread is None:
        return None
    reach = float(stdtrit(max(spread.freedom, 1.0), (1 + level) / 2))
    paths = _futures(fit.scores, spread, np.random.default_rng(seed))
    answered = _answered(paths, spread, goal, k, reach)
    first = np.where(answered.any(axis=1), np.argmax(answered, axis=1), len(FUTURE))
    more = np.append(sessions * (FUTURE - 1), np.inf)[first]
    low, middle, high = np.quantile(more, [0.05, 0.5, 0.95], method='inverted_cdf')
    return SessionsNeeded(goal, k if goal == 'top' else 1, sessions, bool(answered[0, 0]),
                          float(low), float(middle), float(high))


def _futures(scores: Floats, spread: ScoreSpread, rng: np.random.Generator) -> Floats:
    """Return (draws, looks, n) the scores at every look of every draw; the first is today."""
    n = len(scores)
    centre = np.eye(n) - 1 / n
    sizes, turn = np.linalg.eigh(-0.5 * centre @ spread.gap @ centre)
    sizes = np.maximum(sizes, 0.0)
    ability = between_policies(scores, spread.gap, UNIT) / 2
    shrink = ability / (ability + sizes)
    inside = (scores - scores.mean()) @ turn
    count = max(50, min(DRAWS, MOST_CELLS // (len(FUTURE) * n)))
    truth = shrink * inside + np.sqrt(shrink * sizes) * rng.standard_normal((count, n))
    more = FUTURE - 1
    steps = np.sqrt(np.diff(more, prepend=0.0))[None, :, None]
    noise = np.cumsum(steps * rng.standard_normal((count, len(FUTURE), n)), axis=1)
    moved = inside + more[:, None] * truth[:, None] + np.sqrt(sizes) * noise
    return np.asarray((moved / FUTURE[:, None]) @ turn.T)


def _answered(paths: Floats, spread: ScoreSpread, goal: str, k: int, reach: float,
              ) -> np.ndarray:
    """Return (draws, looks) where the question is answered."""
    order = np.argsort(-paths, axis=2)
    sorted_scores = np.take_along_axis(paths, order, 2)
    n = paths.shape[2]
    pairs = {'first': [(0, j) for j in range(1, n)], 'order': [(i, i + 1) for i in range(n - 1)],
             'top': [(i, j) for i in range(k) for j in range(k, n)]}[goal]
    held = np.ones(paths.shape[:2], bool)
    for i, j in pairs:
        gap = spread.gap[order[:, :, i], order[:, :, j]] / FUTURE
        held &= sorted_scores[:, :, i] - sorted_scores[:, :, j] > reach * np.sqrt(gap)
    return held


def first_known(comparisons: Comparisons, *, alpha: float = 0.05, cluster: str = 'auto',
                ) -> str | None:
    """
    Return the policy that is known to be the best at any look, None where none is yet.

    Its betting test (:mod:`sequential`) against every other policy reached α/(n-1). A policy that
    is not the best passes the test against the best with at most that chance, and there are n-1
    such policies, so that α bounds the chance of ever naming a wrong one, whatever the stopping
    rule. Only the sessions between the two count.
    """
    by, n = chosen_cluster(comparisons, cluster), comparisons.n
    if n < 2:
        raise RankingError(f'asked which of {n} policies is the best; it needs at least two')
    for name in comparisons.items:
        others = [one for one in comparisons.items if one != name]
        if all(evidence(comparisons, name, other, alpha=alpha / (n - 1), by=by).better == name
               for other in others):
            return name
    return None


def needed_words(found: SessionsNeeded | None) -> str:
    """Return in a sentence how many more sessions are needed."""
    if found is None:
        return 'Too few sessions to tell how many more are needed.'
    what = {'first': 'which policy is first', 'order': 'the order of all policies',
            'top': f'which {found.k} policies are ahead of the others'}[found.goal]
    if found.known:
        return f'{what[0].upper()}{what[1:]} is known at 95 %.'
    low, middle, high = (_about(x, 200 * found.sessions) for x in
                         (found.low, found.middle, found.high))
    return (f'Until {what} is known at 95 %, about {middle} more sessions are needed '
            f'(in 9 of 10 cases {low} to {high}), if pairs and evaluators stay as they were.')


def _about(number: float, most: int) -> str:
    """Return a number of sessions with two digits, as text."""
    if not np.isfinite(number):
        return f'more than {most}'
    digits = max(len(str(round(number))) - 2, 0)
    return str(int(round(number, -digits)))
