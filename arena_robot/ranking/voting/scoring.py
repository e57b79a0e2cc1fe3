"""Scoring rules: approval of the top k, plurality, Borda."""

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DataError
from arena_robot.ranking.voting.profile import UNLISTED, Profile
from arena_robot.ranking.voting.result import VoteResult, tiers_of


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
    if profile.strict:
        return by_score(profile, 'approval', profile.tidy(profile.weights @ (profile.ranks < k)))
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
