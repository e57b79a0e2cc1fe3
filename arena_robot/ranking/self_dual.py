"""Strictly complementary strategies of symmetric zero-sum games by an interior method."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetrs

FEW = 16
ROUNDS = 8
STEPS = 40
CLEAR, EXACT = 1e-6, 1e-10
Floats = NDArray[np.float64]


def complementary(M: Floats) -> Floats | None:
    """
    Return a strictly complementary optimal strategy, shape (m,), of M = −Mᵀ; None if not found.

    M: entries up to 1. Supports are small, so the game is solved on those with most wins, and
    those who do not clearly lose to that solution are added. The answer is checked on the whole
    game: each alternative is either played, and draws, or is not played, and loses, by at least
    ``CLEAR``. None where the game is closer than that, or where too many are added.
    """
    inside = np.sort(np.argsort(-(M > 0).sum(axis=1), kind='stable')[:FEW])
    for _ in range(ROUNDS):
        part = _central(M[np.ix_(inside, inside)])
        if part is None:
            return None
        p = np.zeros(len(M))
        p[inside] = part
        slack = p @ M
        played = p > 0
        if p[played].min() > CLEAR and np.abs(slack[played]).max() < EXACT \
                and slack[~played].min(initial=1.) > CLEAR:
            return p
        slack[inside] = np.inf
        near = np.argsort(slack, kind='stable')[:FEW]
        near = near[slack[near] <= CLEAR]
        if not len(near):
            return None
        inside = np.union1d(inside, near)
    return None


def _central(M: Floats) -> Floats | None:
    """
    Return the end of the central path of the game M = −Mᵀ, exact zeros where nothing is played.

    None where a step is singular in rounding, or too many are needed.

    The skew-symmetric self-dual embedding (Roos, Terlaky and Vial 2005) has one more variable θ:
    s = Mᵀp + θr and s_θ = k + 1 − rᵀp, with r = 1 − Mᵀ1, so that ones are feasible and central.
    The predictor–corrector steps of Mehrotra lead to θ = 0, p ≥ 0, s = Mᵀp ≥ 0, with p + s > 0.
    """
    k = len(M)
    A = np.zeros((k + 1, k + 1))
    A[:k, :k], A[:k, k] = M.T, 1 - M.sum(axis=0)
    A[k, :k] = -A[:k, k]
    now, move = np.ones((2, k + 1)), np.empty((2, k + 1))    # x and s in one array
    x, s = now
    K = A.copy()
    diagonal = K.reshape(-1)[::k + 2]
    for _ in range(STEPS):
        gap = float(x @ s) / (k + 1)
        if gap < 1e-14:
            p = np.where(x > s, x, 0.)[:k]
            return p / p.sum() if p.any() else None
        diagonal[:] = s / x
        factors, pivots, singular = dgetrf(K)
        if singular:
            return None
        move[0] = dgetrs(factors, pivots, -s)[0]
        np.matmul(A, move[0], out=move[1])
        there = now + _room(now, move, 1.) * move
        aim = (float(there[0] @ there[1]) / (k + 1)) ** 3 / gap ** 2
        move[0] = dgetrs(factors, pivots, (aim - move[0] * move[1]) / x - s)[0]
        np.matmul(A, move[0], out=move[1])
        now += .99 * _room(now, move, 1.) * move
    return None
