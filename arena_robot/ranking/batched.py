"""
Bradley–Terry and Davidson on many tables of counts at once, for the bootstrap.

The Newton steps of all bootstrap replicates are computed together: arrays (R, P) over replicates
and pairs, one batched solve of R systems per step, started at the fit of the whole data.
"""

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Floats
from arena_robot.ranking.counts import PairCounts
from arena_robot.ranking.davidson import outcome_probabilities

TOLERANCE = 1e-9
MAX_ITERATIONS = 40
LONGEST_STEP = 2.0
RESCUE = 1e-2


def batched_fit(counts: PairCounts, tables: Floats, start: Floats, l2: float,
                log_kappa: float | None) -> tuple[Floats, int]:
    """
    Fit every table (R, P, 3) of losses, ties and wins of the pairs of ``counts``.

    ``start`` (n,) are abilities to start at; ``log_kappa`` None fits Bradley–Terry, a number
    starts Davidson there. Returns centred abilities (R, n) and the number of replicates without a
    finite maximum, which are refitted with a ridge of 0.01 comparisons.
    """
    theta, done = _newton(counts, tables, start, l2, log_kappa)
    lost = ~done
    if lost.any():
        theta[lost], _ = _newton(counts, tables[lost], np.zeros(counts.n), l2 + RESCUE, log_kappa)
    return theta - theta.mean(axis=1, keepdims=True), int(lost.sum())


def _newton(counts: PairCounts, tables: Floats, start: Floats, l2: float,
            log_kappa: float | None) -> tuple[Floats, np.ndarray]:
    theta = np.tile(start, (len(tables), 1))
    tied = tables[:, :, 1].sum(axis=1) > 0
    kappas = np.where(tied, -np.inf if log_kappa is None else log_kappa, -np.inf)
    done = np.zeros(len(tables), bool)
    for _ in range(MAX_ITERATIONS):
        on = np.flatnonzero(~done)
        if log_kappa is None:
            step, extra = _step_bt(counts, tables[on], theta[on], l2), np.zeros(len(on))
        else:
            step, extra = _step_davidson(counts, tables[on], theta[on], kappas[on], l2)
        size = np.maximum(np.abs(step).max(axis=1), np.abs(extra))
        scale = np.minimum(1.0, LONGEST_STEP / np.maximum(size, 1e-300))
        theta[on] += step * scale[:, None]
        kappas[on] += extra * scale
        done[on] = size < TOLERANCE
        if done.all():
            break
    return theta, done


def _step_bt(counts: PairCounts, tables: Floats, theta: Floats, l2: float) -> Floats:
    total = tables.sum(axis=2)
    p = expit(theta[:, counts.low] - theta[:, counts.high])
    surplus = tables[:, :, 2] + tables[:, :, 1] / 2 - total * p
    slope = surplus @ incidence(counts) - l2 * theta
    return _solve(counts, total * p * (1 - p), slope[:, :, None], l2)[:, :, 0]


def _step_davidson(counts: PairCounts, tables: Floats, theta: Floats, log_kappa: Floats,
                   l2: float) -> tuple[Floats, Floats]:
    total, ties = tables.sum(axis=2), tables[:, :, 1].sum(axis=1)
    win, tie, _ = outcome_probabilities(theta[:, counts.low] - theta[:, counts.high],
                                        np.exp(log_kappa)[:, None])
    share, signs = win + tie / 2, incidence(counts)
    slope = (tables[:, :, 2] + tables[:, :, 1] / 2 - total * share) @ signs - l2 * theta
    border = (total * tie * (0.5 - share)) @ signs
    corner = (total * tie * (1 - tie)).sum(axis=1) + l2
    both = _solve(counts, total * (win + tie / 4 - share ** 2),
                  np.stack([slope, border], axis=2), l2)
    pull = l2 * np.where(ties > 0, log_kappa, 0.0) if l2 > 0 else 0.0
    last = ties - (total * tie).sum(axis=1) - pull - (border * both[:, :, 0]).sum(axis=1)
    bend = corner - (border * both[:, :, 1]).sum(axis=1)
    last = np.where(ties > 0, last / np.maximum(bend, 1e-300), 0.0)
    return both[:, :, 0] - both[:, :, 1] * last[:, None], last


def _solve(counts: PairCounts, weight: Floats, right: Floats, l2: float) -> Floats:
    n, count = counts.n, len(weight)
    matrix = np.zeros((count, n, n))
    matrix[:, counts.low, counts.high] = -weight
    matrix[:, counts.high, counts.low] = -weight
    degree = -matrix.sum(axis=2)
    at = np.arange(n)
    matrix[:, at, at] = degree + l2
    mean = degree.mean(axis=1)[:, None, None] + 1e-12
    matrix += mean / n if l2 == 0 else 0.0
    matrix[:, at, at] += 1e-13 * mean[:, :, 0]
    return np.asarray(np.linalg.solve(matrix, right))


def incidence(counts: PairCounts) -> Floats:
    """Return (P, n): 1 at the lower index of a pair, -1 at the higher."""
    signs = np.zeros((len(counts.low), counts.n))
    at = np.arange(len(counts.low))
    signs[at, counts.low], signs[at, counts.high] = 1.0, -1.0
    return signs
