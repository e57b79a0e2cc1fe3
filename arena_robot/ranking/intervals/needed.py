"""
How many more sessions until it is known which policy is first, which k are, or the whole order.

The true abilities are drawn from what the sessions so far say of them: normal about the scores of
Bradley–Terry, with their clustered covariance, shrunk by how much abilities differ between
policies (:mod:`.choice`). For each draw the future is played: after m sessions of the same mix of
pairs and evaluators as the M so far the scores are

    θ̂(m) = (M θ̂(M) + (m - M) θ + √M W(m - M)) / m,

with W a Brownian motion whose covariance per session is that of θ̂(M), and their covariance is M/m
of today's. A question is answered at the first m where the differences that matter exceed the
quantile of Student's t, which is where :func:`.choice.rank_sets` gives one rank. The number of
sessions is what the draws say: its median and the central 90 %.

That is when the standings will say so at 95 %. For a rule that stops as soon as the first policy
is known use :func:`first_known`: it errs in at most 5 % of pools however often it is looked at.

:func:`evidence` tests which policy of a pair is better, valid at every look: a betting test on the
decisive verdicts of the pair. If the policies are equally good, each verdict goes either way with
probability ½, whatever the previous ones were, so that

    E_t = ∫ (2p)^w (2(1-p))^l Beta(p; a, a) dp = 2^{w+l} B(w + a, l + a) / B(a, a)

is a fair game's capital after w wins and l losses (Robbins 1970; Ville 1939): whatever the
stopping rule, the chance that it ever reaches 1/α is at most α. The same mixture gives a
confidence sequence for p, the probability of a win among decisive verdicts: at any time the p
with p^w (1-p)^l ≥ α B(w + a, l + a) / B(a, a). Ties are ignored. A fixed-sample p-value that is
checked after every session would fall below 5 % far more often than one time in twenty.

If evaluators differ, verdicts of one evaluator are not independent, and the test above errs more
often. By evaluator (or institution) the null hypothesis is that evaluators prefer either policy
equally often and equally strongly. An evaluator with w wins and l losses then multiplies the
capital by 1 - λ + 2 λ Pr(p > ½ | w, l), with p uniform a priori: exchanging wins and losses turns
one factor f into 2 - f, so that it is fair whatever the evaluators' own preferences are. The
capital is the mean over both directions and λ = 0.25, 0.5, 0.75 and 1. It is valid when looked at
between the visits of evaluators, and needs at least six of them.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy  # scipy.optimize loads when a root is first looked for
from scipy.special import betainc, betaln, logsumexp, stdtrit, xlog1py, xlogy

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.counts import count_pairs, require_comparisons
from arena_robot.ranking.counts import groups as groups_of
from arena_robot.ranking.intervals.choice import (
    LEAST_CLUSTERS,
    LEAST_SESSIONS,
    between_policies,
    chosen_cluster,
)
from arena_robot.ranking.intervals.sandwich import ScoreVariances, sandwich_variances
from arena_robot.ranking.intervals.shrunk import TYPICAL
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.pairwise.prior import established, one_sided

DRAWS, MOST_CELLS = 400, 2_000_000    # numbers in the draws of the future, 16 MB
# Looks at the future: so many times the sessions of today, from now on.
FUTURE = np.geomspace(1.0, 200.0, 72)
GOALS = ('first', 'top', 'order')
# λ: the shares of the capital that are bet on an evaluator.
SHARES = np.array([0.25, 0.5, 0.75, 1.0])


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

    ``cluster`` says what counts as one observation, as in :mod:`.choice`. Asked is about
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
    variances = sandwich_variances(votes, fit, groups, established(counts))
    if variances is None:
        return None
    reach = float(stdtrit(max(variances.freedom, 1.0), (1 + level) / 2))
    paths = _futures(fit.scores, variances, np.random.default_rng(seed))
    answered = _answered(paths, variances, goal, k, reach)
    first = np.where(answered.any(axis=1), np.argmax(answered, axis=1), len(FUTURE))
    more = np.append(sessions * (FUTURE - 1), np.inf)[first]
    low, middle, high = np.quantile(more, [0.05, 0.5, 0.95], method='inverted_cdf')
    return SessionsNeeded(goal, k if goal == 'top' else 1, sessions, bool(answered[0, 0]),
                          float(low), float(middle), float(high))


def _futures(scores: Floats, variances: ScoreVariances, rng: np.random.Generator) -> Floats:
    """Return (draws, looks, n) the scores at every look of every draw; the first is today."""
    n = len(scores)
    centre = np.eye(n) - 1 / n
    sizes, turn = np.linalg.eigh(-0.5 * centre @ variances.gap @ centre)
    sizes = np.maximum(sizes, 0.0)
    ability = between_policies(scores, variances.gap, TYPICAL) / 2
    shrink = ability / (ability + sizes)
    inside = (scores - scores.mean()) @ turn
    count = max(50, min(DRAWS, MOST_CELLS // (len(FUTURE) * n)))
    truth = shrink * inside + np.sqrt(shrink * sizes) * rng.standard_normal((count, n))
    more = FUTURE - 1
    steps = np.sqrt(np.diff(more, prepend=0.0))[None, :, None]
    noise = np.cumsum(steps * rng.standard_normal((count, len(FUTURE), n)), axis=1)
    moved = inside + more[:, None] * truth[:, None] + np.sqrt(sizes) * noise
    return np.asarray((moved / FUTURE[:, None]) @ turn.T)


def _answered(paths: Floats, variances: ScoreVariances, goal: str, k: int, reach: float,
              ) -> np.ndarray:
    """Return (draws, looks) where the question is answered."""
    order = np.argsort(-paths, axis=2)
    sorted_scores = np.take_along_axis(paths, order, 2)
    n = paths.shape[2]
    pairs = {'first': [(0, j) for j in range(1, n)], 'order': [(i, i + 1) for i in range(n - 1)],
             'top': [(i, j) for i in range(k) for j in range(k, n)]}[goal]
    sure = np.ones(paths.shape[:2], bool)
    for i, j in pairs:
        gap = variances.gap[order[:, :, i], order[:, :, j]] / FUTURE
        sure &= sorted_scores[:, :, i] - sorted_scores[:, :, j] > reach * np.sqrt(gap)
    return sure


def first_known(comparisons: Comparisons, *, alpha: float = 0.05, cluster: str = 'auto',
                ) -> str | None:
    """
    Return the policy that is known to be the best at any look, None where none is yet.

    Its betting test (:func:`evidence`) against every other policy reached α/(n-1). A policy that
    is not the best passes the test against the best with at most that chance, and there are n-1
    such policies, so that α bounds the chance of ever naming a wrong one, whatever the stopping
    rule. Only the sessions between the two count.
    """
    by, n = chosen_cluster(comparisons, cluster), comparisons.n
    if n < 2:
        raise RankingError(f'asked which of {n} policies is the best; it needs at least two')
    for name in comparisons.items:
        others = [other for other in comparisons.items if other != name]
        if all(evidence(comparisons, name, other, alpha=alpha / (n - 1), by=by).better == name
               for other in others):
            return name
    return None


def needed_words(needed: SessionsNeeded | None) -> str:
    """Return in a sentence how many more sessions are needed."""
    if needed is None:
        return 'Too few sessions to tell how many more are needed.'
    what = {'first': 'which policy is first', 'order': 'the order of all policies',
            'top': f'which {needed.k} policies are ahead of the others'}[needed.goal]
    if needed.known:
        return f'{what[0].upper()}{what[1:]} is known at 95 %.'
    digits = 2 if needed.high < 3 * needed.low else 1
    low, middle, high = (_about(x, 200 * needed.sessions, digits) for x in
                         (needed.low, needed.middle, needed.high))
    about = 'about ' if np.isfinite(needed.middle) else ''
    return (f'Until {what} is known at 95 %, {about}{middle} more sessions are needed '
            f'(in 9 of 10 cases {low} to {high}), if pairs and evaluators stay as they were.')


def _about(number: float, most: float, digits: int) -> str:
    """Return a number of sessions with so many digits, as text; ``most`` is as far as is known."""
    if not np.isfinite(number):
        return f'more than {_about(most, most, digits)}'
    return str(int(round(number, digits - len(str(round(number))))))


@dataclass(frozen=True)
class Evidence:
    """
    Result of the test for one pair.

    ``wins``, ``losses``, ``ties`` of the first policy; ``log_e`` the natural logarithm of the
    capital now and ``log_e_path`` (verdicts,) after each; ``p_value`` the anytime-valid p-value
    1 / max E; ``low``, ``high`` the confidence sequence for the share of decisive verdicts won,
    all looks intersected; ``better`` the name of the better policy once 1/α was reached, else
    None, and ``decided_after`` the number of verdicts until then. By evaluator the better one is
    that whose bets won more, whatever the sum of all verdicts.
    """

    first: str
    second: str
    wins: int
    losses: int
    ties: int
    log_e: float
    log_e_path: Floats
    p_value: float
    low: float
    high: float
    better: str | None
    decided_after: int | None
    by: str = 'session'


def evidence(comparisons: Comparisons, first: str, second: str, *, alpha: float = 0.05,
             prior: float = 1.0, by: str = 'session') -> Evidence:
    """
    Test the pair's verdicts in the order in which they were made.

    ``prior`` is a: 1 is uniform over all differences, larger values favour small ones. ``by`` is
    what counts as one observation: session, evaluator or institution; for the last two ``low`` and
    ``high`` are NaN.

    :raises RankingError: a name is unknown, both are the same, or alpha or prior is out of range.
    """
    if not 0 < alpha < 1 or not prior > 0 or first == second:
        raise RankingError(f'need two policies, 0 < alpha < 1 and prior > 0; got {first}, '
                           f'{second}, {alpha} and {prior}')
    pair = comparisons.only([first, second])
    pair = pair.take(pair.weight > 0)
    outcome = np.where(pair.first == 0, pair.outcome, 1 - pair.outcome)
    wins, losses = np.cumsum(outcome == 1), np.cumsum(outcome == 0)
    if by == 'session':
        path, lead = log_capital(wins, losses, prior), wins - losses
    else:
        forward, backward = clustered_capital(outcome, pair.clusters(by))
        path, lead = np.logaddexp(forward, backward) - np.log(2.0), forward - backward
    w, d = (int(x[-1]) if len(x) else 0 for x in (wins, losses))
    low, high = _intersected(wins, losses, alpha, prior) if by == 'session' else (
        float('nan'), float('nan'))
    crossed = np.flatnonzero(path >= -np.log(alpha))
    at = int(crossed[0]) if len(crossed) else None
    better = None if at is None else (first if lead[at] > 0 else second)
    return Evidence(first, second, w, d, len(outcome) - w - d,
                    float(path[-1]) if len(path) else 0.0, path,
                    float(np.exp(-path.max(initial=0.0))), low, high, better,
                    None if at is None else at + 1, by)


def progress_verdicts(comparisons: Comparisons) -> Comparisons:
    """
    Return the comparisons with progress of both, each won by the rollout that got further.

    :func:`evidence` of them tests whether one policy gets further than the other as often as the
    other way round. It decides sooner than verdicts, which have the evaluator's noise beside.
    """
    apart = comparisons.score_first - comparisons.score_second
    known = np.isfinite(apart)
    return replace(comparisons.take(known), outcome=(1 + np.sign(apart[known])) / 2)


def log_capital(wins: np.ndarray, losses: np.ndarray, prior: float = 1.0) -> Floats:
    """Return log E for wins and losses of equal shape."""
    return np.asarray((wins + losses) * np.log(2.0) + betaln(wins + prior, losses + prior)
                      - betaln(prior, prior))


def clustered_capital(outcome: Floats, cluster: np.ndarray) -> tuple[Floats, Floats]:
    """
    Return (M,) log E after each verdict, where each cluster is one observation.

    The first is the capital of bets on the first policy, the second of bets on the second.
    A cluster counts once it is complete, at its last verdict, so that there is no look within it.
    """
    _, group = np.unique(cluster, return_inverse=True)
    count = int(group.max(initial=-1)) + 1
    wins = np.bincount(group, outcome == 1, minlength=count)
    losses = np.bincount(group, outcome == 0, minlength=count)
    ahead = betainc(losses + 1, wins + 1, 0.5)
    last = np.zeros(count, dtype=np.int64)
    last[group] = np.arange(len(outcome))

    def capital(share: Floats) -> Floats:
        bets = SHARES[:, None] * (2 * share - 1)
        gained = np.zeros((len(bets), len(outcome)))
        gained[:, last] = np.log1p(np.maximum(bets, -1 + 1e-12))
        return np.asarray(logsumexp(np.cumsum(gained, axis=1), axis=0) - np.log(len(bets)))

    return capital(ahead), capital(1 - ahead)


def win_interval(wins: int, losses: int, alpha: float = 0.05, prior: float = 1.0,
                 ) -> tuple[float, float]:
    """Return the confidence sequence for the share won at one look: (low, high)."""
    floor = np.log(alpha) + betaln(wins + prior, losses + prior) - betaln(prior, prior)

    def above(p: float) -> float:
        return float(xlogy(wins, p) + xlog1py(losses, -p) - floor)

    peak = wins / (wins + losses) if wins + losses else 0.5
    root = scipy.optimize.brentq
    low = 0.0 if wins == 0 or above(0.0) >= 0 else root(above, 0.0 + 1e-300, peak)
    high = 1.0 if losses == 0 or above(1.0) >= 0 else root(above, peak, 1.0 - 1e-16)
    return float(low), float(high)


def _intersected(wins: np.ndarray, losses: np.ndarray, alpha: float, prior: float,
                 ) -> tuple[float, float]:
    low, high = 0.0, 1.0
    seen = dict.fromkeys(zip(wins.tolist(), losses.tolist(), strict=True))
    for w, d in seen:
        below, above = win_interval(w, d, alpha, prior)
        low, high = max(low, below), min(high, above)
    return low, high
