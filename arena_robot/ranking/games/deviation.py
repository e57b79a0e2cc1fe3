"""
Deviation ratings of the strategies of a normal-form game; copies do not change them.

The rating of strategy a′ of player p is its deviation gain under the strictest coarse correlated
equilibrium σ*,

    r_p(a′) = Σ_a σ*(a) [G_p(a′, a₋ₚ) − G_p(a)]  ≤ 0,

where σ* minimises the largest gain, then the largest of those that can still fall, and so on.
The ratings are unique although σ* may not be; 0 is best. They do not change when a strategy is
copied or mixed in, or when an offset b_p(a₋ₚ) is added; they do change when one player's payoffs
are scaled against another's.

The largest gain is minimised successively, by linear programmes with column generation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from arena_robot.core.errors import DataError, NotConverged
from arena_robot.ranking.games.gains import ModelModelTaskGains, ModelTaskGains, TensorGains
from arena_robot.ranking.games.payoffs import (
    KINDS,
    MODEL_MODEL_TASK,
    MODEL_TASK,
    RatingsTable,
    checked_payoffs,
    checked_scores,
)

Floats = NDArray[np.float64]
# Tolerances are of gains divided by the largest span of a player's payoffs.
PRICE = 1e-9
POSITIVE_DUAL = 1e-7
TIGHT = 1e-7
RANK = 1e-8
STEEPEST = 1e3
WIDEST = 5000
KEEP = 4
ROUNDS = 1000
Ints = NDArray[np.int64]


class DeviationGains(Protocol):
    """
    The matrix A of deviation gains, shape (C, K), never written out in full.

    A[c, a] is what constraint c's player gains at the joint strategy a by deviating to c's
    strategy. C counts the strategies of all players (of one player per symmetric group).
    """

    rows: int
    size: int

    def columns(self, joint: Ints) -> Floats:
        """Return A[:, joint], shape (C, k)."""

    def price(self, duals: Floats) -> Floats:
        """Return dualsᵀA, shape (K,); ∞ at joint strategies that symmetry makes redundant."""


@dataclass(frozen=True, eq=False)
class Stages:
    """
    The ratings, one equilibrium with these ratings, and counts of the work done.

    ratings: shape (C,). joint, mass: the equilibrium's support and probabilities, shape (k,).
    residual: largest |Aσ − ratings|. stages, programs: how many, in all; columns: how many of
    the joint strategies were ever needed.
    """

    ratings: Floats
    joint: Ints
    mass: Floats
    residual: float
    stages: int
    programs: int
    columns: int


@dataclass(frozen=True, eq=False)
class _Program:
    """One solved LP over some columns: value ε, row duals, mass per column, dual of Σσ = 1."""

    value: float
    duals: Floats
    mass: Floats
    level: float


def minimise_in_stages(gains: DeviationGains, scale: float) -> Stages:
    """
    Minimise the largest gain, fix the gains that cannot be smaller, repeat with the others.

    Stage: min ε over σ in the simplex with A_c σ ≤ ε for free rows and A_c σ ≤ r_c for fixed
    ones. A row with a strictly positive dual is tight in every optimum, so it gets r_c = ε; a
    row that is merely tight at this vertex may not be, and stays free. The duals of the free
    rows sum to one, so each stage fixes at least one row. Columns enter where dualsᵀA is below
    the level of the master programme; none below proves the stage optimal over all K. Free rows
    that the fixed ones already determine are fixed at that value too
    (``_StagePool.implied``), which usually ends the stages early.

    scale: of the payoffs, for tolerances. Raises NotConverged if HiGHS fails.
    """
    C = gains.rows
    ratings, free = np.zeros(C), np.ones(C, dtype=bool)
    start = np.unique([int(np.argmin(gains.price(y))) for y in (np.ones(C) / C, np.eye(C)[0])])
    pool = _StagePool(gains, scale, start)
    programs = stages = 0
    while free.any():
        stages += 1
        for _ in range(ROUNDS):
            program = _solve(pool.A, ratings, free)
            programs += 1
            if not pool.grow(program):
                break
        else:
            raise NotConverged(f'stage {stages} still adds columns after {ROUNDS} programs')
        fixed = free & (program.duals > POSITIVE_DUAL)
        ratings[fixed], free = program.value, free & ~fixed
        implied, values = pool.implied(ratings, free)
        ratings[implied], free[implied] = values, False
        if free.any():
            pool.trim(program)
    played = program.mass > 0
    residual = float(np.abs(pool.A @ program.mass - ratings).max()) * scale
    return Stages(ratings * scale + 0., pool.joint[played],
                  program.mass[played] / program.mass.sum(), residual, stages, programs,
                  len(pool.ever))


class _StagePool:
    """The columns of the master programme, scaled to payoffs of size one."""

    def __init__(self, gains: DeviationGains, scale: float, start: Ints) -> None:
        self._gains, self._scale = gains, scale
        self.joint = start
        self.A = gains.columns(start) / scale
        self.ever = set(start.tolist())
        self._tight = start

    def grow(self, program: _Program) -> bool:
        """Add the columns of the lowest price; return whether any was below the level."""
        price = self._gains.price(program.duals) / self._scale
        self._tight = np.flatnonzero(price <= program.level + TIGHT)
        price[self.joint] = np.inf
        batch = min(self._gains.rows, len(price) - 1)
        new = np.argpartition(price, batch)[:batch] if batch > 0 else np.arange(len(price))
        if not (price[new] < program.level - PRICE).any():
            return False
        # those just above the level too: most would be added by one of the next programmes
        new = np.sort(new[np.isfinite(price[new])])
        self.joint = np.r_[self.joint, new]
        self.A = np.c_[self.A, self._gains.columns(new) / self._scale]
        self.ever.update(new.tolist())
        return True

    def implied(self, ratings: Floats, free: NDArray[np.bool_]) -> tuple[Ints, Floats]:
        """
        Return the free rows whose gain is the same in every optimum left, and that gain.

        Optimal mass lies on the joint strategies Z that price at the level, and there the fixed
        rows B (with a row of ones) have known gains. A free row within the row space of B on Z,
        A_Z = wᵀB, therefore has the gain wᵀ(ratings, 1) whatever the equilibrium. Rows that
        would need large w, and so magnify rounding, wait for a later stage.
        """
        if not free.any() or len(self._tight) > WIDEST:
            return np.empty(0, dtype=np.int64), np.empty(0)
        A = self._gains.columns(self._tight) / self._scale
        known = np.vstack([A[~free], np.ones(A.shape[1])])
        w = np.linalg.lstsq(known.T, A[free].T, rcond=RANK)[0].T
        distance = np.abs(A[free] - w @ known).max(axis=1)
        sure = (distance < RANK) & (np.abs(w).sum(axis=1) < STEEPEST)
        return np.flatnonzero(free)[sure], w[sure] @ np.r_[ratings[~free], 1.]

    def trim(self, program: _Program) -> None:
        """Remove the columns with the highest prices when there are many."""
        most = KEEP * self._gains.rows + 50
        if len(self.joint) > most:
            price = np.where(program.mass > 0, -np.inf, program.duals @ self.A)
            keep = np.sort(np.argsort(price, kind='stable')[:most])
            self.joint, self.A = self.joint[keep], self.A[:, keep]


def _solve(A: Floats, ratings: Floats, free: NDArray[np.bool_]) -> _Program:
    C, k = A.shape
    rows = np.c_[A, -free.astype(float)]
    for tolerance in (1e-10, 1e-9, 1e-7):
        answer = linprog(
            np.r_[np.zeros(k), 1.], A_ub=rows, b_ub=np.where(free, 0., ratings),
            A_eq=np.r_[np.ones(k), 0.][None], b_eq=np.ones(1),
            bounds=[(0, None)] * k + [(-2., 2.)], method='highs-ds',
            options={'primal_feasibility_tolerance': tolerance,
                     'dual_feasibility_tolerance': tolerance, 'presolve': False})
        if answer.status == 0:
            return _Program(float(answer.fun), np.maximum(-answer.ineqlin.marginals, 0.),
                            np.maximum(answer.x[:k], 0.), float(answer.eqlin.marginals[0]))
    raise NotConverged(f'HiGHS did not solve a stage of {C} rows and {k} columns: '
                       f'{answer.message}')


@dataclass(frozen=True, eq=False)
class DeviationRatings(RatingsTable):
    """
    ratings: per player, shape (A_p,), at most 0 up to solver tolerance.

    joint, mass: the support of one equilibrium with these ratings, shape (k, N), and its
    probabilities, shape (k,); others may exist. contributions: of score tables, shape
    (models, tasks), rows summing to the models' ratings; under this equilibrium. residual: how
    far the equilibrium is from the ratings; stages, programs, columns, size: the work done, and
    how many of how many joint strategies were needed.
    """

    ratings: tuple[Floats, ...]
    joint: NDArray[np.int64]
    mass: Floats
    contributions: Floats | None
    residual: float
    stages: int
    programs: int
    columns: int
    size: int


def deviation_ratings(payoffs: Sequence[ArrayLike]) -> DeviationRatings:
    """
    Rate the strategies of every player of a game.

    payoffs: per player a tensor of shape (A₁, …, A_N). Symmetric players are solved as one. Raises
    DataError for a bad game, NotConverged if the solver fails.
    """
    tensors = checked_payoffs(payoffs)
    gains = TensorGains(tensors)
    solution = minimise_in_stages(gains, _scale(np.ptp(G) for G in tensors))
    joint, mass = gains.expand(solution.joint, solution.mass)
    by_player: list[Floats] = [np.empty(0)] * len(tensors)
    for rows, group in zip(gains.slices(), gains.groups, strict=True):
        for p in group:
            by_player[p] = solution.ratings[rows]
    return _result(solution, gains, tuple(by_player), joint, mass, None)


def rate_table(scores: ArrayLike, kind: str = MODEL_MODEL_TASK) -> DeviationRatings:
    """
    Rate models and tasks from a table of scores, shape (models, tasks), higher is better.

    kind ``'model_vs_task'``: the task player is paid for low scores, so models are rated on the
    hardest tasks. ``'model_vs_model_vs_task'``: two model players compete, the task player is paid
    for their difference. Scores are used without scaling: scale tasks with different units first
    (``normalised``) if theirs differ. Raises DataError for a bad table or kind.
    """
    table = checked_scores(scores)
    if kind not in KINDS:
        raise DataError(f'there is no kind of table {kind!r}; choose from {", ".join(KINDS)}')
    gains = ModelTaskGains(table) if kind == MODEL_TASK else ModelModelTaskGains(table)
    solution = minimise_in_stages(gains, _scale([np.ptp(table)]))
    joint, mass = gains.expand(solution.joint, solution.mass)
    task, level = gains.level(solution.joint)
    weight = np.bincount(task, solution.mass, table.shape[1])
    lost = np.bincount(task, solution.mass * level, table.shape[1])
    models, tasks = solution.ratings[:len(table)], solution.ratings[len(table):]
    players = (models, tasks) if kind == MODEL_TASK else (models, models, tasks)
    return _result(solution, gains, players, joint, mass, weight * table - lost)


def uniform_ratings(payoffs: Sequence[ArrayLike]) -> tuple[Floats, ...]:
    """Return per player the mean payoff of each strategy over all joint strategies of others."""
    tensors = checked_payoffs(payoffs)
    axes = range(len(tensors))
    return tuple(G.mean(axis=tuple(a for a in axes if a != p)) for p, G in enumerate(tensors))


def uniform_table(scores: ArrayLike, kind: str = MODEL_MODEL_TASK) -> tuple[Floats, ...]:
    """Return the uniform ratings of the game that a table defines, per player."""
    table = checked_scores(scores)
    if kind == MODEL_TASK:
        return table.mean(axis=1), -table.mean(axis=0)
    if kind != MODEL_MODEL_TASK:
        raise DataError(f'there is no kind of table {kind!r}; choose from {", ".join(KINDS)}')
    models = table.mean(axis=1) - table.mean()
    ordered = np.sort(table, axis=0)
    M = len(table)
    # Σ |T_i − T_j| over ordered pairs, by rank
    apart = 2 * (2 * np.arange(M) - M + 1) @ ordered / M ** 2
    return models, models, apart


def _scale(spans: Iterable[float]) -> float:
    largest = max(float(s) for s in spans)
    return largest if largest > 0 else 1.


def _result(solution: Stages, gains: DeviationGains, ratings: tuple[Floats, ...],
            joint: NDArray[np.int64], mass: Floats, contributions: Floats | None,
            ) -> DeviationRatings:
    return DeviationRatings(ratings, joint, mass, contributions, solution.residual,
                            solution.stages, solution.programs, solution.columns, gains.size)
