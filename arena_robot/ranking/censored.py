"""
Pairs of normal residuals of which some are only known to lie beyond an end.

Progress ends at 0 and at 1: of a rollout at an end it is known that it got at most, or at least,
so far. Its residual is then not r but anything up to r, or from r on. What a fit needs of such a
pair are its probability, and the mean and covariance of the residuals given what is known: the
slope of the log-likelihood by the expected values is Σ⁻¹ E[r], and minus its second derivative
Σ⁻¹ - Σ⁻¹ Cov[r] Σ⁻¹ (Louis, 1982).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from arena_robot.ranking.base import Floats, Ints

# Where enough scores lie between the ends, the ends are ends of a scale; else they are all of it.
INSIDE = 0.2
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)
FAR, TAIL = 8.0, 4.0
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class KnownPairs:
    """
    What is known of pairs of residuals (r, r'), arrays (M,).

    ``log`` is the log-density, or log-probability, times 2π. ``apart`` and ``joint`` are the means
    of (r - r') / √2 and (r + r') / √2; ``unsure`` (3, M) their variances and covariance, 0 where
    both are known.
    """

    log: Floats
    apart: Floats
    joint: Floats
    unsure: Floats


def at_ends(first: Floats, second: Floats) -> Ints:
    """
    Return (M, 2): -1 where a score is 0, 1 where it is 1, else 0.

    All are 0 if fewer than ``INSIDE`` of the scores lie between: those are no scale with ends.
    """
    scores = np.stack([first, second], axis=1)
    found = np.where(scores == 0, -1, np.where(scores == 1, 1, 0))
    count = np.isfinite(scores).sum()
    inside = count - np.abs(found).sum()
    return found if count and inside >= INSIDE * count else np.zeros_like(found)


def known_pairs(residuals: Floats, ends: Ints, sigma: float, rho: float) -> KnownPairs:
    """
    Return what is known of pairs of normal residuals with deviation σ and correlation ρ.

    ``residuals`` (M, 2); where ``ends`` (M, 2) is -1 the residual is at most that, where it is 1
    at least.
    """
    flip = np.where(ends > 0, -1.0, 1.0)
    z, turned = residuals / sigma * flip, rho * flip[:, 0] * flip[:, 1]
    out = np.empty((6, len(z)))
    for mask, nodes in ((ends[:, 0] == 0, _itself), (ends[:, 0] != 0, _nodes)):
        out[:, mask] = _moments(*nodes(z[mask, 0]), z[mask, 1], ends[mask, 1] != 0, turned[mask])
    log, mean_1, mean_2, var_1, var_2, cross = out
    log = log - (ends == 0).sum(axis=1) * np.log(sigma)
    mean_1, mean_2 = sigma * flip[:, 0] * mean_1, sigma * flip[:, 1] * mean_2
    middle, cross = sigma ** 2 * (var_1 + var_2) / 2, sigma ** 2 * flip.prod(axis=1) * cross
    return KnownPairs(log, (mean_1 - mean_2) * np.sqrt(0.5), (mean_1 + mean_2) * np.sqrt(0.5),
                      np.stack([middle - cross, middle + cross, sigma ** 2 * (var_1 - var_2) / 2]))


def both_at_an_end(level: Floats, sigma: float, rho: float) -> Floats:
    """Return (M,) how probably both scores are 0 or both 1, for expected ``level`` (M, 2)."""
    ends = np.ones(level.shape, dtype=np.int64)
    return np.asarray(sum(
        np.exp(known_pairs(bound - level, side * ends, sigma, rho).log - 2 * HALF_LOG_TAU)
        for bound, side in ((0.0, -1), (1.0, 1))))


def _itself(value: Floats) -> tuple[Floats, Floats]:
    return value[:, None], -0.5 * value[:, None] ** 2


def _nodes(end: Floats) -> tuple[Floats, Floats]:
    """Return (M, K) places up to ``end`` (M,), and their log-weights in a normal times √2π."""
    high = np.minimum(end, FAR)
    low = np.minimum(-FAR, high - TAIL)
    half = (high - low) / 2
    node = low[:, None] + half[:, None] * (1 + NODES)
    return node, np.log(half[:, None] * WEIGHTS) - 0.5 * node ** 2


def _moments(node: Floats, log_weight: Floats, other: Floats, open_: np.ndarray, rho: Floats,
             ) -> Floats:
    """
    Return (6, M) log-probability, both means, both variances, and the covariance.

    The first of each pair is at one of ``node`` (M, K), the second at ``other`` (M,), or anywhere
    up to it where ``open_``.
    """
    rest = np.sqrt(1 - rho ** 2)[:, None]
    centre = rho[:, None] * node
    z = (other[:, None] - centre) / rest
    until = log_ndtr(z)
    ratio = np.exp(-0.5 * z ** 2 - HALF_LOG_TAU - until)
    log = log_weight + np.where(open_[:, None], until + HALF_LOG_TAU, -0.5 * z ** 2 - np.log(rest))
    mean = np.where(open_[:, None], centre - rest * ratio, other[:, None])
    variance = open_[:, None] * rest ** 2 * np.maximum(1 - z * ratio - ratio ** 2, 0.0)
    top = log.max(axis=1, keepdims=True)
    share = np.exp(log - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    one, two = (share * node).sum(axis=1), (share * mean).sum(axis=1)
    off_one, off_two = node - one[:, None], mean - two[:, None]
    return np.stack([(top + np.log(total))[:, 0], one, two, (share * off_one ** 2).sum(axis=1),
                     (share * (variance + off_two ** 2)).sum(axis=1),
                     (share * off_one * off_two).sum(axis=1)])
