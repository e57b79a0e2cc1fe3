"""
Bradley–Terry and Davidson on many tables of counts at once, for the bootstrap.

The Newton steps of all bootstrap replicates are computed together: arrays (R, P) over replicates
and pairs, one batched solve of R systems per step, started at the fit of the whole data.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array
from scipy.special import expit

from arena_robot.ranking.base import Floats
from arena_robot.ranking.counts import PairCounts
from arena_robot.ranking.davidson import outcome_probabilities
from arena_robot.ranking.laplacian import dense_laplacian

TOLERANCE = 1e-9
MAX_ITERATIONS = 40
LONGEST_STEP = 2.0
DENSE_POLICIES = 200
CHORD_TOLERANCE = 1e-4
RESCUE = 1e-2


def batched_fit(counts: PairCounts, tables: Floats, start: Floats, l2: float,
                log_kappa: float | None) -> tuple[Floats, int]:
    """
    Fit every table (R, P, 3) of losses, ties and wins of the pairs of ``counts``.

    ``start`` (n,) are abilities to start at; ``log_kappa`` None fits Bradley–Terry, a number
    starts Davidson there. Returns centred abilities (R, n) and the number of replicates without a
    finite maximum, which are refitted with a ridge of 0.01 comparisons (with more than 200
    policies they stay where the iteration ends).
    """
    if counts.n > DENSE_POLICIES:
        theta, done = chord(counts, tables, start, l2, log_kappa)
        return theta - theta.mean(axis=1, keepdims=True), int((~done).sum())
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


def chord(counts: PairCounts, tables: Floats, start: Floats, l2: float, log_kappa: float | None,
          ) -> tuple[Floats, np.ndarray]:
    """
    Return abilities (R, n) and which of the R replicates converged, for many policies.

    Every step uses the information at ``start``, which is factorised once, and the slopes of all
    replicates; Newton's own matrices would be R systems of n unknowns per step. κ takes Newton
    steps of its own.
    """
    signs = sparse_incidence(counts)
    total, wins = tables.sum(axis=2), tables[:, :, 2] + tables[:, :, 1] / 2
    kappas = np.full((len(tables), 1), -np.inf if log_kappa is None else log_kappa)
    win, tie, _ = outcome_probabilities(start[counts.low] - start[counts.high],
                                        np.exp(kappas[0, 0]))
    weight = total.mean(axis=0) * (win + tie / 4 - (win + tie / 2) ** 2)
    matrix = dense_laplacian(counts, weight)
    matrix += max(float(matrix.trace()), 1e-9) / counts.n ** 2
    matrix.flat[::counts.n + 1] += l2 + 1e-9
    factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
    theta = np.tile(start, (len(tables), 1))
    done = np.zeros(len(tables), bool)
    for _ in range(MAX_ITERATIONS):
        on: Any = slice(None) if not done.any() else np.flatnonzero(~done)
        mean, tie = _means(theta[on], counts, kappas[on])
        surplus = wins[on] - total[on] * mean
        step = cho_solve(factor, signs @ surplus.T - l2 * theta[on].T, check_finite=False).T
        size = np.abs(step).max(axis=1)
        theta[on] += step * np.minimum(1.0, LONGEST_STEP / np.maximum(size, 1e-300))[:, None]
        if log_kappa is not None:
            kappas[on] += _kappa_step(tables[on], tie)
        done[on] = size < CHORD_TOLERANCE
        if done.all():
            break
    return theta, done


def _means(theta: Floats, counts: PairCounts, kappas: Floats) -> tuple[Floats, Floats]:
    """Return the mean of each pair's outcome and its chance of a tie, (R, P) each."""
    d = theta[:, counts.low]
    d -= theta[:, counts.high]
    if not np.isfinite(kappas).any():
        return expit(d, out=d), np.zeros((1, 1))
    win, tie, _ = outcome_probabilities(d, np.exp(kappas))
    return win + tie / 2, tie


def _kappa_step(table: Floats, tie: Floats) -> Floats:
    total, ties = table.sum(axis=2), table[:, :, 1].sum(axis=1)
    bend = (total * tie * (1 - tie)).sum(axis=1)
    step = np.clip((ties - (total * tie).sum(axis=1)) / np.maximum(bend, 1e-300), -1.0, 1.0)
    return np.asarray(np.where(ties > 0, step, 0.0)[:, None])


def sparse_incidence(counts: PairCounts) -> csr_array:
    """Return (n, P): 1 at the lower index of a pair, -1 at the higher."""
    pairs = len(counts.low)
    at = np.tile(np.arange(pairs), 2)
    return csr_array((np.repeat([1.0, -1.0], pairs), (np.r_[counts.low, counts.high], at)),
                     shape=(counts.n, pairs))


def incidence(counts: PairCounts) -> Floats:
    """Return (P, n): 1 at the lower index of a pair, -1 at the higher."""
    signs = np.zeros((len(counts.low), counts.n))
    at = np.arange(len(counts.low))
    signs[at, counts.low], signs[at, counts.high] = 1.0, -1.0
    return signs
