"""Rules on the preference counts alone: majority blocks, Copeland and Schulze."""

import numpy as np
from numpy.typing import NDArray

from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.result import VoteResult, layers_of, votes_over_lower
from arena_robot.ranking.voting.scoring import by_score


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


def schulze(profile: Profile) -> VoteResult:
    """
    Rank x above y where its strongest path to y is stronger than the way back.

    The relation is a strict partial order, not always a weak one: the tiers are its layers
    (nobody above; then nobody above but the tiers before; …) and the winners are the first. The
    paper defines a score, the ballots that prefer the alternative to those below it:
    Σ N[x, y] over lower tiers.
    """
    paths = widest_paths(profile.preferences)
    tiers = layers_of(paths > paths.T)
    scores = votes_over_lower(profile.preferences, tiers)
    return VoteResult('schulze', scores, tiers[0], tiers, unique=len(tiers[0]) == 1)
