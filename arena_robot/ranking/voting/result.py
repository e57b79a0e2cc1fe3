"""Result type of the voting rules, and tiers from scores and partial orders."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

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
    ranked pairs, by margin; 0 where there is none.
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
