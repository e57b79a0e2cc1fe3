"""
Sequential test of which policy of a pair is better, valid at every look.

A betting test on the decisive verdicts of the pair. If the policies are equally good, each verdict
goes either way with probability ½, whatever the previous ones were, so that

    E_t = ∫ (2p)^w (2(1-p))^l Beta(p; a, a) dp = 2^{w+l} B(w + a, l + a) / B(a, a)

is a fair game's capital after w wins and l losses (Robbins 1970; Ville 1939): whatever the
stopping rule, the chance that it ever reaches 1/α is at most α. The same mixture gives a
confidence sequence for p, the probability of a win among decisive verdicts: at any time the p
with p^w (1-p)^l ≥ α B(w + a, l + a) / B(a, a). Ties are ignored. A fixed-sample p-value that is
checked after every session would fall below 5 % far more often than one time in twenty; this one
does not.

If evaluators differ, verdicts of one evaluator are not independent, and the test above errs more
often. By evaluator (or institution) the null hypothesis is that evaluators prefer either policy
equally often and equally strongly. An evaluator with w wins and l losses then multiplies the
capital by 1 - λ + 2 λ Pr(p > ½ | w, l), with p uniform a priori: exchanging wins and losses turns
one factor f into 2 - f, so that it is fair whatever the evaluators' own preferences are. The
capital is the mean over both directions and λ = 0.25, 0.5, 0.75 and 1. It is valid when looked at
between the visits of evaluators, and needs at least six of them.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # scipy.optimize loads when a root is first looked for
from scipy.special import betainc, betaln, logsumexp, xlog1py, xlogy

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats

# λ: the shares of the capital that are bet on an evaluator.
SHARES = np.array([0.25, 0.5, 0.75, 1.0])


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
