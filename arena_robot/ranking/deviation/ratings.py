"""
Deviation ratings of the strategies of a normal-form game; copies do not change them.

The rating of strategy a′ of player p is its deviation gain under the strictest coarse correlated
equilibrium σ*,

    r_p(a′) = Σ_a σ*(a) [G_p(a′, a₋ₚ) − G_p(a)]  ≤ 0,

where σ* minimises the largest gain, then the largest of those that can still fall, and so on.
The ratings are unique although σ* may not be; 0 is best. They do not change when a strategy is
copied or mixed in, or when an offset b_p(a₋ₚ) is added; they do change when one player's payoffs
are scaled against another's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import DataError
from arena_robot.ranking.deviation.stages import DeviationGains, Stages, minimise_in_stages
from arena_robot.ranking.deviation.table_gains import ModelModelTaskGains, ModelTaskGains
from arena_robot.ranking.deviation.tensor_gains import TensorGains

MODEL_TASK, MODEL_MODEL_TASK = 'model_vs_task', 'model_vs_model_vs_task'
KINDS = (MODEL_TASK, MODEL_MODEL_TASK)
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DeviationRatings:
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


def checked_payoffs(payoffs: Sequence[ArrayLike]) -> tuple[Floats, ...]:
    """Return the payoff tensors as arrays; DataError unless finite and of one N-axis shape."""
    tensors = tuple(np.asarray(G, dtype=float) for G in payoffs)
    shapes = {G.shape for G in tensors}
    if not tensors or len(shapes) != 1:
        raise DataError(f'a game needs one payoff tensor per player, all of one shape; '
                        f'found shapes {sorted(shapes)}')
    shape = tensors[0].shape
    if len(shape) != len(tensors) or 0 in shape:
        raise DataError(f'{len(tensors)} players need tensors with {len(tensors)} axes, each with '
                        f'at least one strategy; found shape {shape}')
    for p, G in enumerate(tensors):
        if not np.isfinite(G).all():
            at = np.argwhere(~np.isfinite(G))[0].tolist()
            raise DataError(f'the payoff of player {p} at {at} is {G[tuple(at)]}')
    return tensors


def checked_scores(scores: ArrayLike) -> Floats:
    """Return a (models, tasks) table as an array; DataError unless finite and not empty."""
    table = np.asarray(scores, dtype=float)
    if table.ndim != 2 or not table.size:
        raise DataError(f'scores must be a table of models by tasks, not of shape {table.shape}')
    if not np.isfinite(table).all():
        m, t = np.argwhere(~np.isfinite(table))[0]
        raise DataError(f'the score of model {m} on task {t} is {table[m, t]}; '
                        'leave out models or tasks without a score')
    return table


def deviation_ratings(payoffs: Sequence[ArrayLike]) -> DeviationRatings:
    """
    Rate the strategies of every player of a game.

    payoffs: per player a tensor of shape (A₁, …, A_N). Symmetric players are solved as one. Raises
    DataError for a bad game, NotConverged if the solver fails.
    """
    tensors = checked_payoffs(payoffs)
    gains = TensorGains(tensors)
    found = minimise_in_stages(gains, _scale(np.ptp(G) for G in tensors))
    joint, mass = gains.expand(found.joint, found.mass)
    by_player: list[Floats] = [np.empty(0)] * len(tensors)
    for rows, group in zip(gains.slices(), gains.groups, strict=True):
        for p in group:
            by_player[p] = found.ratings[rows]
    return _result(found, gains, tuple(by_player), joint, mass, None)


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
    found = minimise_in_stages(gains, _scale([np.ptp(table)]))
    joint, mass = gains.expand(found.joint, found.mass)
    task, level = gains.level(found.joint)
    weight = np.bincount(task, found.mass, table.shape[1])
    lost = np.bincount(task, found.mass * level, table.shape[1])
    models, tasks = found.ratings[:len(table)], found.ratings[len(table):]
    players = (models, tasks) if kind == MODEL_TASK else (models, models, tasks)
    return _result(found, gains, players, joint, mass, weight * table - lost)


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


def normalised(scores: ArrayLike) -> Floats:
    """Bring each task (column) to [0, 1]; a task on which all models are equal becomes 0."""
    table = checked_scores(scores)
    low, span = table.min(axis=0), np.ptp(table, axis=0)
    out: Floats = (table - low) / np.where(span > 0, span, 1.)
    return out


def _scale(spans: Iterable[float]) -> float:
    largest = max(float(s) for s in spans)
    return largest if largest > 0 else 1.


def _result(found: Stages, gains: DeviationGains, ratings: tuple[Floats, ...],
            joint: NDArray[np.int64],
            mass: Floats, contributions: Floats | None) -> DeviationRatings:
    return DeviationRatings(ratings, joint, mass, contributions, found.residual, found.stages,
                            found.programs, found.columns, gains.size)
