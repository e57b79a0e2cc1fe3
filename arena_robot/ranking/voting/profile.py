"""
Ballots as arrays: weak orders, weights, partial lists, preference counts and margins.

They are read from JSON, from a table of scores, or from games.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from arena_robot.core.errors import DataError
from arena_robot.core.files import object_with

UNLISTED = -1
IGNORED, LAST = 'ignored', 'last'
FEW_NAMES, MANY_IN_A_RUN = 40, 4

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Profile:
    """
    Weighted ballots over m alternatives, each ballot a weak order of those it lists.

    names: m alternatives; index everywhere else.
    ranks: shape (n, m), tier of each alternative on each ballot, 0 the best, equal for a tie,
        ``UNLISTED`` where the ballot does not list it. Tiers of a ballot are 0, 1, 2 … without
        gaps.
    weights: shape (n,), finite and not negative.
    unranked: ``'ignored'``: an alternative that a ballot does not list is not compared by it;
        ``'last'``: it is tied with the other unlisted ones below every listed one. Approval,
        plurality and STV never give a vote to an alternative that the ballot does not list.
    """

    names: tuple[str, ...]
    ranks: Ints
    weights: Array
    unranked: str = IGNORED

    def __post_init__(self) -> None:
        check_names(self.names)
        if self.unranked not in (IGNORED, LAST):
            raise DataError(f"unranked must be 'ignored' or 'last', not {self.unranked!r}")
        if self.ranks.ndim != 2 or self.ranks.shape != (len(self.weights), len(self.names)):
            raise DataError(f'ranks of shape {self.ranks.shape} do not fit {len(self.weights)} '
                            f'ballots over {len(self.names)} alternatives')
        good = np.isfinite(self.weights) & (self.weights >= 0)
        if not good.all():
            at = int(np.flatnonzero(~good)[0])
            raise DataError(f'ballot {at} has weight {self.weights[at]}; '
                            'give a finite weight that is not negative')
        if self.weights.sum() <= 0:
            raise DataError('there is no ballot with a positive weight; nothing can be counted')

    @cached_property
    def compared(self) -> Ints:
        """Ranks, shape (n, m), with the unlisted resolved: still ``UNLISTED``, or last."""
        if self.unranked == IGNORED:
            return self.ranks
        bottom = self.ranks.max(axis=1, keepdims=True) + 1
        return np.where(self.ranks == UNLISTED, bottom, self.ranks)

    @cached_property
    def strict(self) -> bool:
        """Whether every ballot puts all alternatives in order, without ties."""
        return bool((self.ranks.max(axis=1) == len(self.names) - 1).all())

    @cached_property
    def decimals(self) -> int | None:
        """Decimals that sums of weights are good for; None where they are exact integers."""
        total = float(self.weights.sum())
        if total < 2 ** 52 and bool((self.weights == np.floor(self.weights)).all()):
            return None
        return 12 - int(np.ceil(np.log10(max(total, 1e-300))))

    @property
    def resolution(self) -> float:
        """Difference in votes below which two sums count as equal."""
        return 1e-9 if self.decimals is None else 10. ** (2 - self.decimals)

    def tidy(self, sums: Array) -> Array:
        """Round sums of weights so that equal sums are equal numbers."""
        return sums if self.decimals is None else np.round(sums, self.decimals) + 0.

    @cached_property
    def preferences(self) -> Array:
        """N, shape (m, m): N[x, y] is the weight of the ballots that put x above y."""
        order = np.argsort(self.weights, kind='stable')
        ranks, weights = self.compared[order], self.weights[order]
        # the smallest integers that hold the ranks: many are compared at once
        ranks = ranks.astype(np.min_scalar_type(-2 - int(ranks.max())))
        far = np.where(ranks == UNLISTED, np.iinfo(ranks.dtype).max, ranks)
        partial = bool((ranks == UNLISTED).any())
        runs = _runs(weights)
        if len(runs) < len(ranks) / MANY_IN_A_RUN and len(self.names) > FEW_NAMES:
            return self.tidy(_counted(far, ranks, weights, runs))
        counts = np.empty((len(self.names),) * 2)
        for x in range(len(self.names)):
            mine, all_of_them, given = far, ranks, weights
            if partial:
                here = np.flatnonzero(ranks[:, x] != UNLISTED)
                mine, all_of_them, given = far[here], ranks[here], weights[here]
                runs = _runs(given)
            # an unlisted one is −1 here, which is above everybody
            below = (mine[:, x, None] < all_of_them).view(np.uint8)
            counts[x] = given[runs] @ np.add.reduceat(below, runs, axis=0, dtype=np.uint8) \
                if len(runs) else 0.
        return self.tidy(counts)

    @cached_property
    def margins(self) -> Array:
        """N − Nᵀ, shape (m, m), antisymmetric."""
        return self.tidy(self.preferences - self.preferences.T)

    def condorcet_winners(self) -> tuple[int, ...]:
        """Return the alternative that beats every other one in pairwise comparison, or none."""
        best = (self.margins > 0) | np.eye(len(self.names), dtype=bool)
        return tuple(np.flatnonzero(best.all(axis=1)).tolist())

    def warnings(self) -> tuple[str, ...]:
        """Return what the ballots leave undetermined: unlisted names, groups never compared."""
        texts = []
        never = [n for n, seen in zip(self.names, (self.ranks != UNLISTED).any(0), strict=True)
                 if not seen]
        if never:
            texts.append(f'no ballot lists {", ".join(never)}')
        if not self.preferences.any():
            texts.append('no ballot prefers one alternative to another: all are tied')
        together = self._compared_together()
        count, group = connected_components(together, directed=False)
        if count > 1:
            parts = ['{' + ', '.join(n for n, g in zip(self.names, group, strict=True) if g == k)
                     + '}' for k in range(count)]
            texts.append('no ballot compares across ' + ' and '.join(parts)
                         + ': their order says nothing')
        return tuple(texts)

    def _compared_together(self) -> NDArray[np.bool_]:
        listed = (self.compared != UNLISTED)[self.weights > 0].astype(float)
        out: NDArray[np.bool_] = (listed.T @ listed) > 0
        return out


def _counted(far: NDArray[np.integer], ranks: NDArray[np.integer], weights: Array, runs: Ints,
             ) -> Array:
    """Return N ballot by ballot, which is faster where many alternatives and weights are equal."""
    m = ranks.shape[1]
    counts, run = np.zeros((m, m)), np.empty((m, m), np.uint8)
    below = np.empty((m, m), bool)
    for start, end in pairwise([*runs.tolist(), len(ranks)]):
        run[:] = 0
        for k in range(start, end):
            np.less(far[k, :, None], ranks[k], out=below)
            np.add(run, below.view(np.uint8), out=run)
        counts += weights[start] * run
    return counts


def _runs(weights: Array) -> Ints:
    """Return where runs of equal weights start, each cut so that a byte can count it."""
    new = np.diff(weights, prepend=np.nan) != 0
    new[::255] = True
    return np.flatnonzero(new)


def check_names(names: Sequence[str]) -> None:
    """Raise DataError unless there are at least two different, non-empty names."""
    bad = [n for n in names if not isinstance(n, str) or not n]
    if bad:
        raise DataError(f'alternative {bad[0]!r} is not a name; names are non-empty strings')
    if len(set(names)) < len(names):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        raise DataError(f'alternatives named twice: {", ".join(twice)}')
    if len(names) < 2:
        raise DataError(f'there are {len(names)} alternatives; a ranking needs at least two')


def from_scores(scores: ArrayLike, agents: Sequence[str],
                weights: ArrayLike | None = None, *, missing_unlisted: bool = False) -> Profile:
    """
    Return the agent-vs-task profile: every task is a ballot that ranks agents by their score.

    scores: shape (agents, tasks), higher is better; equal scores are a tie on that ballot.
    weights: shape (tasks,), how much each task counts; 1 each when left out.
    missing_unlisted: NaN means "not evaluated" and leaves the agent off that ballot; otherwise
        NaN raises DataError. Infinite scores always do.
    """
    table = np.asarray(scores, dtype=float)
    if table.ndim != 2 or table.shape[0] != len(agents) or not table.shape[1]:
        raise DataError(f'scores of shape {table.shape} do not fit {len(agents)} agents by tasks')
    missing = np.isnan(table)
    if np.isinf(table).any() or (missing.any() and not missing_unlisted):
        a, t = np.argwhere(~np.isfinite(table))[0]
        raise DataError(f'score of {agents[a]} on task {t} is {table[a, t]}')
    places = (-table).argsort(axis=0, kind='stable')
    ordered = np.take_along_axis(-table, places, axis=0)
    steps = np.vstack([np.zeros((1, table.shape[1])), np.diff(ordered, axis=0) > 0])
    ranks = np.empty(table.shape, dtype=np.int64)
    np.put_along_axis(ranks, places, np.cumsum(steps, axis=0).astype(np.int64), axis=0)
    ranks[missing] = UNLISTED
    given = np.ones(table.shape[1]) if weights is None else np.asarray(weights, dtype=float)
    return Profile(tuple(agents), ranks.T.copy(), given)


def from_games(first: ArrayLike, second: ArrayLike, outcome: ArrayLike,
               agents: Sequence[str], weights: ArrayLike | None = None) -> Profile:
    """
    Return the agent-vs-agent profile: every game is a ballot over the two that played it.

    first, second: shape (n,), agent indices; outcome: shape (n,), 1 where the first won, 0 where
    the second won, ½ for a tie. Games with the same players and outcome share one ballot. Raises
    DataError for an index out of range, an agent against itself, or another outcome.
    """
    a, b = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    won = np.asarray(outcome, dtype=float)
    w = np.ones(len(a)) if weights is None else np.asarray(weights, dtype=float)
    if not len(a) or not a.shape == b.shape == won.shape == w.shape:
        raise DataError(f'{a.shape}, {b.shape}, {won.shape} and {w.shape} are not the columns '
                        'of one non-empty list of games')
    m = len(agents)
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= m or (a == b).any():
        raise DataError(f'a game names an agent outside 0 … {m - 1} or one against itself')
    if not np.isin(won, (0., .5, 1.)).all():
        raise DataError('an outcome is neither 1 (first won), ½ (tie) nor 0 (second won)')
    if not (np.isfinite(w) & (w >= 0)).all():
        raise DataError('a game has a weight that is negative or not finite')
    kind, at = np.unique(np.stack([a, b, (2 * won).astype(np.int64)]), axis=1,
                         return_inverse=True)
    rows = np.arange(kind.shape[1])
    ranks = np.full((len(rows), m), UNLISTED, dtype=np.int64)
    ranks[rows, kind[0]] = kind[2] == 0
    ranks[rows, kind[1]] = kind[2] == 2
    return Profile(tuple(agents), ranks, np.bincount(at.ravel(), w, len(rows)).astype(float))


def profile_from_json(data: object) -> Profile:
    """
    Read ``{"alternatives": […], "votes": [{"weight": 1, "ranking": […]}], "unranked": …}``.

    A ranking lists names, best first; a list inside it is a tie. ``weight`` defaults to 1,
    ``unranked`` to ``"ignored"``. Raises DataError saying which ballot is wrong and how.
    """
    top = object_with(data, 'the profile', {'alternatives', 'votes', 'unranked'})
    names, votes = top.get('alternatives'), top.get('votes')
    if not isinstance(names, list):
        raise DataError("the profile needs 'alternatives': a list of names")
    check_names(names)
    if not isinstance(votes, list) or not votes:
        raise DataError("the profile needs 'votes': a list with at least one ballot")
    index = {name: i for i, name in enumerate(names)}
    ranks = np.full((len(votes), len(names)), UNLISTED, dtype=np.int64)
    weights = np.empty(len(votes))
    for b, vote in enumerate(votes):
        ballot = object_with(vote, f'ballot {b}', {'weight', 'ranking'})
        weights[b] = _weight(ballot.get('weight', 1), b)
        _fill(ranks[b], ballot.get('ranking'), index, b)
    return Profile(tuple(names), ranks, weights, top.get('unranked', IGNORED))


def _weight(value: object, ballot: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) \
            or not math.isfinite(value) or value < 0:
        raise DataError(f'ballot {ballot} has weight {value!r}; '
                        'give a finite number that is not negative')
    return float(value)


def _fill(row: np.ndarray, ranking: object, index: Mapping[str, int], ballot: int) -> None:
    if not isinstance(ranking, list) or not ranking:
        raise DataError(f"ballot {ballot} needs 'ranking': a list with at least one name")
    for tier, entry in enumerate(ranking):
        for name in entry if isinstance(entry, list) else [entry]:
            if not isinstance(name, str) or name not in index:
                raise DataError(f'ballot {ballot} names {name!r}, which is not among the '
                                f'alternatives {", ".join(index)}')
            if row[index[name]] != UNLISTED:
                raise DataError(f'ballot {ballot} lists {name!r} twice')
            row[index[name]] = tier
        if entry == []:
            raise DataError(f'ballot {ballot} has an empty tie; leave it out')
