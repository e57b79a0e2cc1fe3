"""
Result of a voting rule, and the rules that count points or majorities.

Points: approval of the top k, plurality, Borda. Majorities: blocks, Copeland, Schulze.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DataError
from arena_robot.ranking.standings import html_rows, number_words
from arena_robot.ranking.voting.profile import UNLISTED, Profile

Tiers = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class VoteResult:
    """
    The outcome of one rule over m alternatives, all by index.

    scores: shape (m,), NaN where the rule gives none to that alternative; None where it gives
        none at all.
    winners: who can win, best first; several where the rule elects several or leaves a tie.
    tiers: best first, tied alternatives together; None where the rule ranks nobody.
    unique: exactly one outcome follows from the ballots. Scoring rules, Copeland and Schulze:
        there is one winner. STV: one list of winners. Kemeny–Young: one optimal ranking. Ranked
        pairs: one graph with one source. Lotteries: one maximal lottery (at every level).
    lottery: shape (m,), the maximal lottery.
    levels: the levels of iterative maximal lotteries, best first.
    warnings: reasons why the order may not be reliable. graph: shape (m, m), the locked edges of
    ranked pairs, by margin; 0 where there is none. names: of the alternatives, for a notebook's
    table, where :func:`.rules.vote` made the result.
    """

    method: str
    scores: NDArray[np.float64] | None
    winners: tuple[int, ...]
    tiers: Tiers | None
    unique: bool
    lottery: NDArray[np.float64] | None = None
    levels: Tiers | None = None
    warnings: tuple[str, ...] = ()
    graph: NDArray[np.float64] | None = None
    names: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        values = self.scores if self.lottery is None else self.lottery
        rows, place = [], 1
        for tier in self.tiers or (self.winners,):
            rows += [(f'{place}{"=" if len(tier) > 1 else ""}', self.names[x] if self.names else
                      str(x), '' if values is None else number_words(values[x])) for x in tier]
            place += len(tier)
        return html_rows(self.method, ('rank', 'alternative', 'score' if self.lottery is None
                                       else 'chance'), rows)


def tiers_of(scores: NDArray[np.float64], resolution: float = 1e-9) -> Tiers:
    """Sort by falling score, shape (m,); scores closer than ``resolution`` share a tier."""
    order = np.argsort(-scores, kind='stable')
    cuts = np.flatnonzero(-np.diff(scores[order]) > resolution) + 1
    edges, by_score = [0, *cuts.tolist(), len(order)], order.tolist()
    return tuple(tuple(sorted(by_score[start:end])) for start, end in pairwise(edges))


def layers_of(above: NDArray[np.bool_]) -> Tiers:
    """
    Peel a strict partial order, ``above[x, y]`` where x is above y, into layers.

    The first layer has the alternatives with none above; each next layer those with none above
    after the previous layers are removed. The relation must be acyclic.
    """
    left = np.ones(len(above), dtype=bool)
    over = above.sum(axis=0)
    layers = []
    while left.any():
        top = np.flatnonzero(left & (over == 0))
        layers.append(tuple(top.tolist()))
        left[top] = False
        over -= above[top].sum(axis=0)
    return tuple(layers)


def votes_over_lower(preferences: NDArray[np.float64], tiers: Tiers) -> NDArray[np.float64]:
    """Return per alternative Σ N[x, y] over all y in lower tiers, shape (m,)."""
    place = np.empty(len(preferences), dtype=np.int64)
    for k, tier in enumerate(tiers):
        place[list(tier)] = k
    below = place[:, None] < place[None, :]
    out: NDArray[np.float64] = np.where(below, preferences, 0.).sum(axis=1)
    return out


def votes_over_next(preferences: NDArray[np.float64], tiers: Tiers) -> NDArray[np.float64]:
    """Return per alternative Σ N[x, y] over the neighbours x, y of the order from it on."""
    order = [x for tier in tiers for x in tier]
    scores = np.zeros(len(order))
    scores[order[:-1]] = np.cumsum(preferences[order[:-1], order[1:]][::-1])[::-1]
    return scores


def by_score(profile: Profile, method: str, scores: NDArray[np.float64]) -> VoteResult:
    """Rank by falling score: the top tier wins, ties stay ties."""
    tiers = tiers_of(scores, profile.resolution)
    return VoteResult(method, scores, tiers[0], tiers, unique=len(tiers[0]) == 1)


def tie_sizes(ranks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """
    Count, per ballot and listed alternative, those strictly above it and those in its tier.

    Both shape (n, m), the second includes the alternative itself; zero where unlisted.
    """
    n, m = ranks.shape
    listed = ranks != UNLISTED
    flat = np.where(listed, ranks, m) + np.arange(n)[:, None] * (m + 2)
    size = np.bincount(flat.ravel(), minlength=n * (m + 2)).reshape(n, m + 2)[:, :m + 1]
    above = np.cumsum(size, axis=1) - size
    index = np.where(listed, ranks, m)
    return (np.where(listed, np.take_along_axis(above, index, axis=1), 0),
            np.where(listed, np.take_along_axis(size, index, axis=1), 0))


def approval(profile: Profile, k: int = 1) -> VoteResult:
    """
    One point for each of the k highest places of a ballot.

    A tier that straddles place k shares the points it still reaches equally: with j places left
    for g tied alternatives each gets j/g. Unlisted alternatives get nothing. Raises DataError
    unless 1 ≤ k ≤ m.
    """
    m = len(profile.names)
    if not 1 <= k <= m:
        raise DataError(f'approval of the top {k}: there are {m} alternatives; '
                        f'choose k from 1 to {m}')
    among = (profile.ranks >= 0) & (profile.ranks < k)
    ballot, place = np.divmod(np.flatnonzero(among), m)
    if np.bincount(ballot).max(initial=0) <= k:    # no tie straddles place k
        counted = np.bincount(place, profile.weights[ballot], minlength=m).astype(float)
        return by_score(profile, 'approval', profile.tidy(counted))
    above, size = tie_sizes(profile.ranks)
    points = np.clip(k - above, 0, size) / np.maximum(size, 1)
    return by_score(profile, 'approval', profile.tidy(profile.weights @ points))


def plurality(profile: Profile) -> VoteResult:
    """Give each ballot's weight to its first choice; tied first choices share it equally."""
    result = approval(profile, 1)
    return VoteResult('plurality', result.scores, result.winners, result.tiers, result.unique)


def borda(profile: Profile) -> VoteResult:
    """
    Count, per ballot, the alternatives below; half a point for each one tied with it.

    On a strict ballot of length L place p (from 0) earns L − 1 − p. With ``unranked='last'`` the
    unlisted ones are a last tier, so every ballot has length m.
    """
    ranks = profile.compared
    if profile.strict:
        earned = profile.weights.sum() * (len(profile.names) - 1) - profile.weights @ ranks
        return by_score(profile, 'borda', profile.tidy(earned))
    above, size = tie_sizes(ranks)
    length = (ranks != UNLISTED).sum(axis=1, keepdims=True)
    points = np.where(ranks != UNLISTED, length - above - size + (size - 1) / 2, 0.)
    return by_score(profile, 'borda', profile.tidy(profile.weights @ points))


def majority_blocks(margins: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """
    Return the blocks of "beats or draws" cycles, each one beating all later ones.

    With two points for a win and one for a draw, k alternatives have k (k - 1) points among
    themselves, and 2 k (m - k) from the others only if they beat all of them. They are then the k
    with most points, so that the sums of the sorted points tell where a block ends.
    """
    m = len(margins)
    points = (margins > 0).sum(axis=1) + (margins >= 0).sum(axis=1) - 1
    order = np.argsort(-points, kind='stable')
    k = np.arange(1, m + 1)
    ends = np.flatnonzero(np.cumsum(points[order]) == k * (2 * m - 1 - k)) + 1
    return [np.sort(part) for part in np.split(order, ends[:-1])]


def copeland(profile: Profile) -> VoteResult:
    """One point for each alternative beaten head to head, half a point for each draw."""
    margins = profile.margins
    draws = (margins == 0).sum(axis=1) - 1
    return by_score(profile, 'copeland', (margins > 0).sum(axis=1) + draws / 2)


def widest_paths(preferences: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return P, shape (m, m): the strength of the strongest path from x to y by winning votes.

    A link x → y exists where N[x, y] > N[y, x] and has strength N[x, y]; a path is as strong as
    its weakest link. Floyd–Warshall with (max, min), O(m³); whole votes as short integers.
    """
    links = np.where(preferences > preferences.T, preferences, 0.)
    whole = links.max() <= np.iinfo(np.int16).max and bool((links == np.floor(links)).all())
    paths = links.astype(np.int16) if whole else links
    through = np.empty_like(paths)
    for k in range(len(paths)):
        np.minimum(paths[:, k, None], paths[None, k], out=through)
        np.maximum(paths, through, out=paths)
    np.fill_diagonal(paths, 0)
    return paths.astype(float)


def schulze(profile: Profile, *, neighbours: bool = False) -> VoteResult:
    """
    Rank x above y where its strongest path to y is stronger than the way back.

    The relation is a strict partial order, not always a weak one: the tiers are its layers
    (nobody above; then nobody above but the tiers before; …) and the winners are the first. The
    paper defines a score, the ballots that prefer the alternative to those below it:
    Σ N[x, y] over lower tiers.

    With ``neighbours`` an alternative scores what its tables print: the ballots that prefer it to
    the next one of the order, and so on down the order, tied ones in the order of the names.
    """
    paths = widest_paths(profile.preferences)
    tiers = layers_of(paths > paths.T)
    scores = votes_over_next(profile.preferences, tiers) if neighbours else \
        votes_over_lower(profile.preferences, tiers)
    return VoteResult('schulze', scores, tiers[0], tiers, unique=len(tiers[0]) == 1)


def result_to_json(result: VoteResult, names: tuple[str, ...]) -> dict[str, Any]:
    """Return scores, winners, tiers, unique and what else the rule gives, by name."""
    def named(tiers: tuple[tuple[int, ...], ...]) -> list[list[str]]:
        return [[names[x] for x in tier] for tier in tiers]

    out: dict[str, Any] = {
        'scores': None if result.scores is None else {
            n: None if math.isnan(s) else float(s)
            for n, s in zip(names, result.scores, strict=True)},
        'winners': [names[x] for x in result.winners],
        'tiers': None if result.tiers is None else named(result.tiers),
        'unique': bool(result.unique),
        'warnings': list(result.warnings)}
    if result.lottery is not None:
        out['lottery'] = {n: float(p) for n, p in zip(names, result.lottery, strict=True)}
    if result.levels is not None:
        out['levels'] = named(result.levels)
    return out
