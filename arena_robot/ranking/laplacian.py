"""Linear algebra on the graph of pairs: sums into policies, Newton steps, covariances."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array
from scipy.sparse.linalg import LinearOperator, cg

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import Floats
from arena_robot.ranking.counts import PairCounts

DENSE_POLICIES = 1500


def scatter(counts: PairCounts, values: Floats) -> Floats:
    """Return (n,) the sum of ``values`` (P,) into each pair's lower index, minus the higher's."""
    return np.asarray(np.bincount(counts.low, values, minlength=counts.n)
                      - np.bincount(counts.high, values, minlength=counts.n))


def dense_laplacian(counts: PairCounts, weight: Floats) -> Floats:
    """Return (n, n) Σ weight (e_i - e_j)(e_i - e_j)ᵀ over the pairs."""
    n = counts.n
    matrix = np.zeros((n, n))
    matrix[counts.low, counts.high] = -weight
    matrix[counts.high, counts.low] = -weight
    matrix.flat[::n + 1] = -matrix.sum(axis=1)
    return matrix


def solve_laplacian(counts: PairCounts, weight: Floats, right: Floats, ridge: float) -> Floats:
    """
    Solve (L + ridge I) x = right; without a ridge, x with mean 0 where ``right`` sums to 0.

    ``right`` (n,) or (n, k). Dense Cholesky up to 1500 policies, beyond that conjugate gradients
    on the sparse graph.
    """
    n = counts.n
    if n <= DENSE_POLICIES:
        matrix = dense_laplacian(counts, weight)
        anchor = 0.0 if ridge > 0 else matrix.trace() / n / n
        matrix += anchor
        matrix.flat[::n + 1] += ridge
        return np.asarray(cho_solve(cho_factor(matrix, check_finite=False), right,
                                    check_finite=False))
    if right.ndim == 1:
        return _solve_sparse(counts, weight, right, ridge)
    return np.stack([_solve_sparse(counts, weight, one, ridge) for one in right.T], axis=1)


def _solve_sparse(counts: PairCounts, weight: Floats, right: Floats, ridge: float) -> Floats:
    n = counts.n
    degree = (np.bincount(counts.low, weight, minlength=n)
              + np.bincount(counts.high, weight, minlength=n) + ridge)
    rows, columns = np.r_[counts.low, counts.high], np.r_[counts.high, counts.low]
    off = coo_array((np.r_[weight, weight], (rows, columns)), shape=(n, n)).tocsr()
    matrix = LinearOperator((n, n), matvec=lambda x: degree * x - off @ x, dtype=float)
    jacobi = LinearOperator((n, n), matvec=lambda x: x / degree, dtype=float)
    answer, failed = cg(matrix, right, rtol=1e-12, atol=1e-12, maxiter=20 * n, M=jacobi)
    if failed:
        raise NotConverged(f'conjugate gradients on {n} policies did not converge in {20 * n} '
                           'steps; use l2 > 0')
    return np.asarray(answer if ridge > 0 else answer - answer.mean())


def centred_covariance(counts: PairCounts, weight: Floats, ridge: float) -> Floats | None:
    """
    Return (n, n) the covariance of centred abilities, or None for more than 1500 policies.

    It is the pseudo-inverse of the information: abilities are known up to a common shift.
    """
    n = counts.n
    if n > DENSE_POLICIES:
        return None
    shift = 1.0 / n
    matrix = dense_laplacian(counts, weight) + shift
    matrix.flat[::n + 1] += ridge
    inverse = cho_solve(cho_factor(matrix, check_finite=False), np.eye(n), check_finite=False)
    inverse = inverse - inverse.mean(axis=0)
    return np.asarray(inverse - inverse.mean(axis=1, keepdims=True))


def climb(point: Floats, step: Floats, value: float, function: Callable[[Floats], float],
          ) -> tuple[Floats, float, float]:
    """
    Take the Newton step, halved until the value does not fall.

    Return the new point, its value and the largest change of a coordinate.
    """
    slack = 1e-12 * max(1.0, abs(value))
    for halvings in range(60):
        scaled = step * 0.5 ** halvings
        new = point + scaled
        found = function(new)
        if np.isfinite(found) and found >= value - slack:
            return new, found, float(np.max(np.abs(scaled), initial=0.0))
    return point, value, 0.0
