"""
Zero-sum matrix games: essential sets and the equilibrium of largest entropy.

Most symmetric games end with an interior method, without a linear programme.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import null_space
from scipy.linalg.lapack import dgetrf, dgetrs
from scipy.optimize import linprog

from arena_robot.core.errors import DataError, NotConverged

ZERO = 1e-9
Floats = NDArray[np.float64]
FEW = 16
ROUNDS = 8
STEPS = 40
CLEAR, EXACT = 1e-6, 1e-10


@dataclass(frozen=True, eq=False)
class Strategies:
    """
    The optimal strategies of one player.

    mixed: shape (m,), the optimal strategy of largest entropy, exact zeros off ``essential``.
    essential: indices played with positive probability by some optimal strategy.
    unique: there is only one optimal strategy.
    """

    mixed: Floats
    essential: tuple[int, ...]
    unique: bool


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """The value of a zero-sum game and the optimal strategies of both players."""

    value: float
    row: Strategies
    column: Strategies


def solve(payoffs: ArrayLike) -> Equilibrium:
    """
    Solve max over x, min over y of xᵀ P y.

    payoffs: shape (m, n), finite, to the row player. One LP finds a strictly complementary pair
    (every strategy either is played or costs something; Goldman and Tucker 1956), which gives
    both essential sets; the entropy is then maximised over the remaining freedom. Raises
    DataError for a bad matrix, NotConverged if a solver gives up.
    """
    P = _checked(payoffs)
    m, n = P.shape
    scale = max(float(np.abs(P - P.mean()).max()), 1e-300)
    Q = (P - P.mean()) / scale
    # variables x, y, v, t;  maximise t
    ones_m, ones_n = np.ones((m, 1)), np.ones((n, 1))
    zero = np.zeros
    rows = np.block([
        [-Q.T, zero((n, n)), ones_n, zero((n, 1))],
        [zero((m, m)), Q, -ones_m, zero((m, 1))],
        [-np.eye(m), Q, -ones_m, ones_m],
        [-Q.T, -np.eye(n), ones_n, ones_n]])
    equal = zero((2, m + n + 2))
    equal[0, :m], equal[1, m:m + n] = 1, 1
    best = _linear(np.r_[zero(m + n + 1), -1.], rows, zero(len(rows)), equal, np.ones(2),
                   [(0, None)] * (m + n) + [(None, None)] * 2)
    x, y, v = best[:m], best[m:m + n], best[m + n]
    row, column = x > v - Q @ y, y > x @ Q - v
    return Equilibrium(float(v * scale + P.mean()),
                       _largest_entropy(Q - v, x, row, column),
                       _largest_entropy(v - Q.T, y, column, row))


def solve_antisymmetric(M: Floats) -> Strategies:
    """
    Return the optimal strategies of the symmetric zero-sum game M = −Mᵀ, whose value is 0.

    M: as :func:`antisymmetric` returns it. A strategy that beats all others needs no LP, nor do
    those that draw with each other and beat all others, nor most cycles of three. Most others end
    with an interior method. Where that is not clear, a vertex comes from one LP; where it is not
    strictly complementary there are several, and a second LP finds the essential set.
    """
    m = len(M)
    wins = np.flatnonzero((M > 0).sum(axis=1) == m - 1)
    if len(wins):
        return Strategies(np.eye(m)[wins[0]], (int(wins[0]),), unique=True)
    M = M / max(float(np.abs(M).max()), 1e-300)
    guess = _small(M)
    if guess is None:
        guess = complementary(M)
    if guess is not None:
        return _largest_entropy(M, guess, guess > 0, guess > 0)
    p = _polished(M, _vertex(M))
    slack = p @ M
    if (p + slack).min() <= ZERO:
        p = (p + _complement(M, np.flatnonzero(slack <= ZERO))) / 2
        slack = p @ M
    played = p > slack
    return _largest_entropy(M, p, played, played)


def antisymmetric(payoffs: ArrayLike) -> Floats:
    """Return the matrix as an array; DataError unless it is finite, square and M = −Mᵀ."""
    M = _checked(payoffs)
    if M.shape[0] != M.shape[1] or np.abs(M + M.T).max() > ZERO * max(np.abs(M).max(), 1.):
        raise DataError('the matrix of a symmetric zero-sum game must be antisymmetric')
    return M


def _checked(payoffs: ArrayLike) -> Floats:
    P = np.asarray(payoffs, dtype=float)
    if P.ndim != 2 or not P.size:
        raise DataError(f'a matrix game needs a non-empty matrix, not shape {P.shape}')
    if not np.isfinite(P).all():
        at = np.argwhere(~np.isfinite(P))[0].tolist()
        raise DataError(f'the payoff at {at} is {P[tuple(at)]}; payoffs are finite')
    return P


def _linear(cost: Floats, rows: Floats, bound: Floats, equal: Floats, to: Floats,
            limits: list[tuple[float | None, float | None]]) -> Floats:
    answer = linprog(cost, A_ub=rows, b_ub=bound, A_eq=equal, b_eq=to, bounds=limits,
                     method='highs-ds', options={'primal_feasibility_tolerance': 1e-10,
                                                 'dual_feasibility_tolerance': 1e-10})
    if answer.x is None:
        raise NotConverged(f'HiGHS did not solve a matrix game: {answer.message}')
    return np.asarray(answer.x, dtype=float)


def _vertex(M: Floats) -> Floats:
    """
    Return a vertex of the optimal strategies of M = −Mᵀ, shape (m,).

    Supports are small, so the game is solved on those with most wins, and everybody who beats
    that solution comes in until nobody does.
    """
    inside = np.sort(np.argsort(-(M > 0).sum(axis=1), kind='stable')[:FEW])
    while True:
        k = len(inside)
        part = _linear(np.zeros(k), -M[np.ix_(inside, inside)].T, np.zeros(k), np.ones((1, k)),
                       np.ones(1), [(0, None)] * k)
        p = np.zeros(len(M))
        p[inside] = part
        against = p @ M
        against[inside] = 0.
        worst = np.argsort(against, kind='stable')[:FEW]
        worst = worst[against[worst] < -ZERO]
        if not len(worst):
            return p
        inside = np.union1d(inside, worst)


def _small(M: Floats) -> Floats | None:
    """
    Return a strictly complementary strategy, shape (m,), of draws or of a cycle of three.

    None where neither is one. In a cycle each is played as often as the other two differ.
    """
    m = len(M)
    tries = np.zeros((1, m))
    tries[0, (M >= 0).all(axis=1)] = 1.
    if m >= 3:
        top = np.argsort(-(M > 0).sum(axis=1), kind='stable')[:FEW // 2]
        i, j, k = top[np.array(list(combinations(range(len(top)), 3))).T]
        share = np.stack([M[j, k], M[k, i], M[i, j]], axis=1)
        cycle = (share > 0).all(axis=1) | (share < 0).all(axis=1)
        cycles = np.zeros((int(cycle.sum()), m))
        who = np.stack([i, j, k], axis=1)[cycle]
        np.put_along_axis(cycles, who, np.abs(share[cycle]), axis=1)
        tries = np.vstack([tries, cycles])
    total = tries.sum(axis=1, keepdims=True)
    tries = tries / np.where(total > 0, total, 1.)
    slack = tries @ M
    good = (slack.min(axis=1) > -ZERO) & (np.maximum(tries, slack).min(axis=1) > ZERO)
    return tries[np.flatnonzero(good)[0]] if good.any() else None


def _complement(M: Floats, tight: NDArray[np.int64]) -> Floats:
    """
    Return an optimal strategy, shape (m,), that plays or answers each of ``tight`` as it can.

    tight: who draws with some optimal strategy; nobody else is played by any. The smallest of
    "played or beaten" over them is made as large as possible.
    """
    k = len(tight)
    rows = np.block([[-M[tight].T, np.zeros((len(M), 1))],
                     [-np.eye(k) - M[np.ix_(tight, tight)].T, np.ones((k, 1))]])
    q = np.zeros(len(M))
    q[tight] = _linear(np.r_[np.zeros(k), -1.], rows, np.zeros(len(rows)),
                       np.r_[np.ones(k), 0.][None], np.ones(1),
                       [(0, None)] * k + [(None, None)])[:k]
    return q


def _polished(M: Floats, p: Floats) -> Floats:
    """Replace a vertex by the exact null vector on its support where that is one and fits."""
    S = np.flatnonzero(p > ZERO)
    kernel = null_space(M[np.ix_(S, S)], rcond=ZERO)
    if kernel.shape[1] != 1:
        return p
    q = np.zeros(len(p))
    q[S] = kernel[:, 0] / kernel[:, 0].sum()
    return q if q.min() >= 0 and (q @ M).min() > -ZERO else p


def _largest_entropy(C: Floats, start: Floats, played: NDArray[np.bool_],
                     answered: NDArray[np.bool_]) -> Strategies:
    """
    Return the strategy of largest entropy among the optimal ones.

    C: shape (m, n), payoff minus value; optimal is pᵀC ≥ 0, with equality on ``answered``, and
    p = 0 off ``played``. start: a strictly complementary strategy.
    """
    E = np.vstack([C[np.ix_(played, answered)].T, np.ones(played.sum())])
    target = np.r_[np.zeros(answered.sum()), 1.]
    p = start[played]
    left, size, right = np.linalg.svd(E)
    rank = int((size > ZERO * size[0]).sum())
    p = p + right[:rank].T @ (left[:, :rank].T @ (target - E @ p) / size[:rank])
    free = right[rank:].T
    G = C[np.ix_(played, ~answered)].T
    if free.shape[1] and p.min() > 0 and (G @ p).min(initial=1.) > 0:
        p = _climb(p, free, G)
    mixed = np.zeros(len(start))
    mixed[played] = np.maximum(p, 0.)
    return Strategies(mixed / mixed.sum(), tuple(np.flatnonzero(played).tolist()),
                      unique=free.shape[1] == 0)


def _climb(p: Floats, free: Floats, G: Floats) -> Floats:
    """
    Maximise −Σ p log p over p + free·u with G p ≥ 0 by a primal–dual interior method.

    The KKT conditions are freeᵀ(log p − Gᵀμ) = 0 and μ∘(G p) = τ with τ → 0.
    """
    slope = G @ free
    mu, slack = np.ones(len(G)) / max(len(G), 1), G @ p
    for _ in range(300):
        gap = float(slack @ mu) / max(len(G), 1)
        residual = free.T @ np.log(p) - slope.T @ mu
        # Where a constraint that costs nothing is met exactly, the equations become singular:
        # the gap goes on to fall while the residual is lost in rounding.
        if gap < 1e-15 and np.abs(residual).max() < (1e-11 if gap > 1e-16 else 1e-6):
            return p
        tau = .1 * gap
        H = free.T @ (free / p[:, None]) + slope.T @ (slope * (mu / slack)[:, None])
        du = -np.linalg.solve(H, free.T @ np.log(p) - slope.T @ (tau / slack))
        dp, ds = free @ du, slope @ du
        dmu = tau / slack - mu - mu / slack * ds
        step = min(_room(p, dp), _room(slack, ds))
        # the slack is carried along: recomputed from p it would round to zero
        p, slack, mu = p + step * dp, slack + step * ds, mu + min(step, _room(mu, dmu)) * dmu
    raise NotConverged('the equilibrium of largest entropy was not reached in 300 steps')


def _room(at: Floats, move: Floats, share: float = .9) -> float:
    """Return the largest step up to 1 that takes at most ``share`` of ``at`` away anywhere."""
    return share / max(share, -float((move / at).min(initial=0.)))


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
