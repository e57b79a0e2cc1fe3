"""Profiles from and results to plain JSON values, with messages for what is wrong."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.ranking.json_input import object_with
from arena_robot.ranking.voting.profile import IGNORED, UNLISTED, Profile, check_names
from arena_robot.ranking.voting.result import VoteResult


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
