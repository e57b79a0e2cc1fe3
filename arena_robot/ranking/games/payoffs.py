"""
Payoffs of games: read from JSON with the names of the strategies, checked, scaled.

A game is a payoff tensor for each player, or a table of scores and the kind of its game.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.errors import DataError
from arena_robot.core.files import object_with
from arena_robot.ranking.standings import html_rows, number_words

MODEL_TASK, MODEL_MODEL_TASK = 'model_vs_task', 'model_vs_model_vs_task'
KINDS = (MODEL_TASK, MODEL_MODEL_TASK)
Floats = NDArray[np.float64]
TENSOR_KEYS = {'players', 'shape', 'payoffs', 'labels'}
TABLE_KEYS = {'scores', 'models', 'tasks', 'kind'}


class RatingsTable:
    """Ratings of each player's strategies; a notebook shows them as a table, best first."""

    ratings: tuple[Floats, ...]

    def _repr_html_(self) -> str:
        return html_rows(type(self).__name__, ('player', 'strategy', 'rating'), [
            (str(player), str(k), number_words(ratings[k] + 0.0))
            for player, ratings in enumerate(self.ratings, 1)
            for k in np.argsort(-ratings, kind='stable')])


@dataclass(frozen=True, eq=False)
class GameInput:
    """
    A game as read from JSON: payoff tensors, or a table of scores and the kind of its game.

    names: per player, the names of its strategies.
    """

    names: tuple[tuple[str, ...], ...]
    payoffs: tuple[Floats, ...] | None = None
    scores: Floats | None = None
    kind: str | None = None


def game_from_json(data: object) -> GameInput:
    """
    Read payoff tensors or a table of scores; raises DataError saying what is wrong.

    ``{"players": N, "shape": […], "payoffs": […], "labels": null or […]}`` or
    ``{"scores": [[…]], "models": […], "tasks": […], "kind": …}``.
    """
    if isinstance(data, Mapping) and 'scores' in data:
        return _table(object_with(data, 'the table', TABLE_KEYS))
    return _tensors(object_with(data, 'the game', TENSOR_KEYS))


def _array(value: Any, what: str) -> Floats:
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f'{what} must be nested lists of numbers, all of one length: '
                        f'{error}') from error


def _table(data: Mapping[str, Any]) -> GameInput:
    kind = data.get('kind')
    if kind not in KINDS:
        raise DataError(f"the table needs 'kind': one of {', '.join(KINDS)}, not {kind!r}")
    scores = checked_scores(_array(data['scores'], "'scores'"))
    models = _names(data.get('models'), scores.shape[0], "'models'", 'model')
    tasks = _names(data.get('tasks'), scores.shape[1], "'tasks'", 'task')
    names = (models, tasks) if kind == MODEL_TASK else (models, models, tasks)
    return GameInput(names, scores=scores, kind=kind)


def _tensors(data: Mapping[str, Any]) -> GameInput:
    players, shape, given = data.get('players'), data.get('shape'), data.get('payoffs')
    if not isinstance(players, int) or isinstance(players, bool) or players < 1:
        raise DataError(f"the game needs 'players': how many there are, not {players!r}")
    if not isinstance(given, list) or len(given) != players:
        received = len(given) if isinstance(given, list) else repr(given)
        raise DataError(f"the game needs 'payoffs': a tensor for each of the {players} players; "
                        f'found {received}')
    tensors = tuple(_array(G, f'the payoffs of player {p}') for p, G in enumerate(given))
    if shape is not None:
        for p, G in enumerate(tensors):
            if list(G.shape) != shape:
                raise DataError(f'the payoffs of player {p} have shape {list(G.shape)}; '
                                f"'shape' says {shape}")
    tensors = checked_payoffs(tensors)
    labels = data.get('labels')
    if labels is not None and (not isinstance(labels, list) or len(labels) != players):
        raise DataError(f"'labels' must be null or a list of names for each of the {players} "
                        'players')
    return GameInput(tuple(
        _names(None if labels is None else labels[p], n, f'the labels of player {p}', '')
        for p, n in enumerate(tensors[0].shape)), payoffs=tensors)


def _names(given: Any, count: int, what: str, prefix: str) -> tuple[str, ...]:
    if given is None:
        return tuple(f'{prefix} {i}'.strip() for i in range(count))
    if not isinstance(given, list) or not all(isinstance(n, str) and n for n in given):
        raise DataError(f'{what} must be a list of names')
    if len(given) != count or len(set(given)) != count:
        raise DataError(f'{what} must be {count} different names; found {len(given)}, '
                        f'{len(set(given))} of them different')
    return tuple(given)


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


def normalised(scores: ArrayLike) -> Floats:
    """Bring each task (column) to [0, 1]; a task on which all models are equal becomes 0."""
    table = checked_scores(scores)
    low, span = table.min(axis=0), np.ptp(table, axis=0)
    out: Floats = (table - low) / np.where(span > 0, span, 1.)
    return out
