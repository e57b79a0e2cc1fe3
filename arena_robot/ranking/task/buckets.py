"""
Likelihood of a verdict given a latent task bucket, and its derivatives.

A bucket t gives policy p the log-odds z_pt = θ_p + ψ_pt - τ_t and q = σ(z). With the outcome
a ∈ {1, ½, 0} of the first policy i over the second j, the verdict's log-likelihood is

    a log q_i + (1-a) log(1-q_i) + (1-a) log q_j + a log(1-q_j)

That is what the paper prints (win q_i (1-q_j), loss q_j (1-q_i), tie their geometric mean) without
its factor 2 ν_tie, which cancels from every responsibility: the probabilities do not sum to one
over the outcomes, so it is a composite likelihood: it scores each policy's half of the verdict
against solving or failing on its own. τ stays in it, and with one bucket its maximum is the logit
of the win rate. Where a rollout has a progress score s, it gains -w (s - q)² / (2 σ²).

The options, the fitted parameters and the E-step are here too: both variants share them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from arena_robot.ranking.base import Comparisons, Floats, Ints

DENSE_FEATURES = 4_000      # beyond that, skipping the zeros beats a threaded dense product


@dataclass(frozen=True)
class VerdictRows:
    """
    Different verdicts with their weights, as matrices over the n policies.

    ``took`` (R, n) is the share of the verdict (a for the first, 1-a for the second), ``there``
    (R, n) who took part, ``score`` (R, n) the progress, ``scored`` (R, n) whether there is one.
    ``precision`` is w/σ² of the scores, 0 where they are not used.
    """

    first: Ints
    second: Ints
    outcome: Floats
    weight: Floats
    took: Floats
    there: Floats
    score: Floats
    scored: Floats
    precision: float


def make_rows(comparisons: Comparisons, precision: float = 0.0) -> VerdictRows:
    """Merge equal verdicts; without scores at most three remain per pair of policies."""
    i, j, a = comparisons.first, comparisons.second, comparisons.outcome
    swapped = i > j
    low, high = np.where(swapped, j, i), np.where(swapped, i, j)
    share = np.where(swapped, 1 - a, a)
    columns = [low, high, share]
    if precision > 0:
        s, u = comparisons.score_first, comparisons.score_second
        columns += [np.where(swapped, u, s), np.where(swapped, s, u)]
    table = np.stack([np.nan_to_num(np.asarray(c, float), nan=-1.0) for c in columns], axis=1)
    kept = comparisons.weight > 0
    # As np.unique of rows, which is slower and lets no other thread run meanwhile.
    order = np.flatnonzero(kept)[np.lexsort(table[kept].T[::-1])]
    rows = table[order]
    is_new = np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[:len(rows)]
    weight = np.bincount(np.cumsum(is_new) - 1, comparisons.weight[order])
    return _rows(rows[is_new], np.asarray(weight, float), comparisons.n, precision)


def _rows(table: Floats, weight: Floats, n: int, precision: float) -> VerdictRows:
    rows = np.arange(len(table))
    first, second = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    took, there, score, scored = np.zeros((4, len(table), n))
    took[rows, first], took[rows, second] = table[:, 2], 1 - table[:, 2]
    there[rows, first] = there[rows, second] = 1.0
    if precision > 0:
        for policy, column in ((first, table[:, 3]), (second, table[:, 4])):
            score[rows, policy] = np.maximum(column, 0.0)
            scored[rows, policy] = column >= 0
    return VerdictRows(first, second, table[:, 2], weight, took, there, score, scored, precision)


class SolveModel:
    """Each policy solves or fails by itself; see the module."""

    def __init__(self, rows: VerdictRows) -> None:
        self.rows = rows
        parts = [rows.took, -rows.there]
        if rows.precision > 0:
            parts += [rows.precision * rows.score, -rows.precision / 2 * rows.scored]
        dense = np.ascontiguousarray(np.hstack(parts))
        self._features: Any = dense if dense.size <= DENSE_FEATURES else csr_array(dense)
        self._turned: Any = dense.T if dense.size <= DENSE_FEATURES else csr_array(dense.T)
        self._constant = -rows.precision / 2 * (rows.score ** 2).sum(axis=1)[:, None]

    def log_likelihood(self, z: Floats) -> Floats:
        """Return (R, T) the log-likelihood of every row in every bucket."""
        parts = [z, np.logaddexp(0.0, z)]
        if self.rows.precision > 0:
            q = expit(z)
            parts += [q, q * q]
        return np.asarray(self._features @ np.vstack(parts) + self._constant)

    def derivatives(self, z: Floats, share: Floats, *, exact: bool = False,
                    ) -> tuple[Floats, Floats]:
        """
        Return the gradient and minus the diagonal of the Hessian by z, both (n, T).

        Both are of Σ ``share`` (R, T) log-likelihood, whose Hessian is diagonal. Unless
        ``exact``, the scores' part of it is Gauss–Newton's, which is never negative.
        """
        q = expit(z)
        v, n, k = q * (1 - q), len(z), self.rows.precision
        sums = self._turned @ share
        took, there = sums[:n], -sums[n:2 * n]
        gradient, curvature = took - there * q, there * v
        if k > 0:
            score, scored = sums[2 * n:3 * n], -2 * sums[3 * n:]
            gradient = gradient + (score - scored * q) * v
            curvature = curvature + scored * v * v
            if exact:
                curvature = curvature - (score - scored * q) * v * (1 - 2 * q)
        return gradient, curvature


@dataclass(frozen=True)
class TaskOptions:
    """
    The hyperparameters, with the paper's defaults where it gives one.

    ``sigma`` and ``score_weight`` are σ_partial and w_ps of B.4, which gives no default; σ is held
    fixed, so that with a σ above the spread of the scores the buckets see nothing. ``restarts``
    starts are run and the best kept; ``tolerance`` is the largest change of a score between
    iterations that counts as converged.
    """

    buckets: int = 60
    iterations: int = 60
    step_clip: float = 1.0
    step_decay: float = 0.99
    l2_theta: float = 1e-2
    l2_psi: float = 1e-2
    tolerance: float = 1e-4
    sigma: float = 0.3
    score_weight: float = 1.0
    start_psi: float = 0.5
    start: float = 0.1
    restarts: int = 1
    seed: int = 0
    variant: str = 'solve'


@dataclass(frozen=True)
class TaskState:
    """Parameters: θ (n,), ψ (n, T), τ (T,), ν (T,); ``value`` is the objective."""

    theta: Floats
    psi: Floats
    tau: Floats
    nu: Floats
    value: float = -np.inf
    log_likelihood: float = -np.inf
    iterations: int = 0
    change: float = np.inf

    @property
    def z(self) -> Floats:
        """(n, T) log-odds of each policy in each bucket."""
        return np.asarray(self.theta[:, None] + self.psi - self.tau)

    @property
    def score(self) -> Floats:
        """(n,) mean log-odds over the buckets."""
        return np.asarray(self.z @ self.nu)


def expect(model: SolveModel, state: TaskState, options: TaskOptions,
           ) -> tuple[TaskState, Floats]:
    """E-step: the state with its objective, and w_n γ_nt (R, T)."""
    logs = model.log_likelihood(state.z)
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top) * state.nu
    total = share.sum(axis=1, keepdims=True)
    weight = model.rows.weight
    value = float(weight @ (top + np.log(total))[:, 0])
    penalty = (options.l2_theta * float(state.theta @ state.theta)
               + options.l2_psi * float((state.psi * state.psi).sum())) / 2
    share *= weight[:, None] / total
    return TaskState(state.theta, state.psi, state.tau, state.nu, value - penalty, value), share
