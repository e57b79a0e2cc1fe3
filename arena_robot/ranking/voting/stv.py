"""
Single transferable vote: Droop quota, fractional transfer, all choices of tied eliminations.

Beside it the count of whole ballots that a paper uses.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DataError, RankingError
from arena_robot.ranking.voting.profile import UNLISTED, Profile
from arena_robot.ranking.voting.scoring import Tiers, VoteResult, tie_sizes

TIE_LIMIT = 6
STATE_LIMIT = 200
WORK_LIMIT = 2_000_000
Floats = NDArray[np.float64]
Spend = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Count:
    """
    State of a count between two rounds.

    weights: shape (n,), what is left of each ballot. running: shape (m,), neither elected nor
    eliminated. elected, lost: tiers in the order they came, each with its votes then.
    joint: a tie for elimination was settled by eliminating all of it at once.
    """

    weights: Floats
    running: NDArray[np.bool_]
    elected: tuple[tuple[tuple[int, ...], float], ...] = ()
    lost: tuple[tuple[tuple[int, ...], float], ...] = ()
    joint: bool = False

    @property
    def winners(self) -> tuple[int, ...]:
        """Return the elected alternatives in the order of their election."""
        return tuple(x for tier, _ in self.elected for x in tier)


def stv(profile: Profile, winners: int | None = None) -> VoteResult:
    """
    Elect up to ``winners`` (default ⌊m/2⌋) alternatives by transferable vote.

    Quota: ⌊V/(winners + 1)⌋ + 1 over the total weight V, computed once. Each round every ballot
    counts for its best running alternative (tied ones share it equally; an exhausted ballot
    counts for nobody). Whoever has the quota is elected, and each ballot that counted for it
    goes on at the fraction (votes − quota)/votes. If nobody has it, the one with the fewest votes
    is eliminated and its ballots go on whole. Nobody is elected without the quota, so fewer than
    ``winners`` may be. Counting goes on to the end to rank the losers.

    Ties for elimination without votes are eliminated together: the order cannot matter. Others
    are followed every way, and ``winners`` lists everyone elected in some way. Beyond
    ``TIE_LIMIT`` tied at once, ``STATE_LIMIT`` ways or ``WORK_LIMIT`` entries read, all tied
    alternatives are eliminated together, with a warning; if nobody else is running and a seat is
    open, they win as a tie.

    Score, after the paper: 2m − i for the i-th elected, m − j for the j-th from the last
    eliminated (tied ones share the better), plus votes/10ᵈ where d are the digits of V.
    """
    seats, quota = _seats(profile, winners)
    ends = _count_all(profile, seats, quota)
    sets = {frozenset(e.winners) for e in ends}
    tiers = [_tiers(e) for e in ends]
    same_tiers, notes = all(t == tiers[0] for t in tiers), []
    if any(e.joint for e in ends):
        notes.append('a large tie for elimination was settled by eliminating all of it at once')
    if len(sets) > 1:
        notes.append('who is elected depends on ties for elimination: '
                     + ' or '.join('{' + ', '.join(profile.names[x] for x in sorted(s)) + '}'
                                   for s in sorted(sets, key=sorted)))
    unique = len(sets) == 1 and not any(e.joint for e in ends)
    elected = ends[0].winners if len(sets) == 1 and same_tiers else tuple(
        sorted(set().union(*sets)))
    return VoteResult('stv', _scores(profile, ends[0]) if same_tiers else None, elected,
                      tiers[0] if same_tiers else None, unique, warnings=tuple(notes))


def stv_by_whole_ballots(profile: Profile, winners: int | None = None) -> VoteResult:
    """
    Elect as :func:`stv` does, but let whole ballots go on, as in the tables of the paper.

    One alternative a round. The first ballots of who is elected are spent, up to the quota, in the
    order of the profile; the others go on whole. Of equal votes the last of the names is elected
    and the first eliminated, so the outcome depends on the order of ballots and names. Score: 2m
    − i or m − j as there, a point, and the votes: 8.7 is 7 votes. Raises RankingError for ballots
    with ties or with weights that are not whole.
    """
    m = len(profile.names)
    seats, quota = _seats(profile, winners)
    ranks = np.where(profile.ranks == UNLISTED, m, profile.ranks)
    if profile.decimals is not None or (tie_sizes(profile.ranks)[1] > 1).any():
        raise RankingError('STV as printed counts whole ballots; it needs ballots without ties '
                           'and with whole weights')
    left, running = profile.weights.copy(), np.ones(m, dtype=bool)
    elected, lost, scores = list[int](), list[int](), np.zeros(m)
    while running.any():
        first = np.where(running, ranks, m + 1).argmin(axis=1)
        mine = np.where(ranks[np.arange(len(ranks)), first] < m, first, m)
        votes = np.where(running, np.bincount(mine, left, m + 1)[:m], -1.)
        best = m - 1 - int(votes[::-1].argmax())
        if votes[best] >= quota and len(elected) < seats:
            held = left[mine == best]
            left[mine == best] = np.clip(np.cumsum(held) - quota, 0, held)
            elected.append(best)
        else:
            best = int(np.where(running, votes, np.inf).argmin())
            lost.insert(0, best)
        running[best], scores[best] = False, votes[best]
    for base, order in ((2 * m, elected), (m, lost)):
        for place, x in enumerate(order):
            scores[x] = float(f'{base - place}.{scores[x]:.0f}')
    return VoteResult('stv', scores, tuple(elected), tuple((x,) for x in elected + lost), True,
                      warnings=('the count depends on the order of ballots and names',))


def _seats(profile: Profile, winners: int | None) -> tuple[int, float]:
    """Return the seats, ⌊m/2⌋ unless given, and their quota."""
    m = len(profile.names)
    seats = m // 2 if winners is None else winners
    if not 1 <= seats < m:
        raise DataError(f'{seats} winners among {m} alternatives; choose from 1 to {m - 1}')
    return seats, float(np.floor(profile.weights.sum() / (seats + 1)) + 1)


def _count_all(profile: Profile, seats: int, quota: float) -> list[Count]:
    start = Count(profile.weights.copy(), np.ones(len(profile.names), dtype=bool))
    at_once = _count_joint(profile, start, seats, quota)
    if not at_once.joint:
        return [at_once]
    open_counts, ends = [start], list[Count]()
    for _ in range(min(5000, WORK_LIMIT // profile.ranks.size)):
        if not open_counts:
            return ends
        now = open_counts.pop()
        if not now.running.any():
            ends.append(now)
            continue
        following = _round(profile, now, seats, quota)
        open_counts.extend(following)
        if not following or len(open_counts) + len(ends) > STATE_LIMIT:
            break
    return ends if not open_counts and ends else [at_once]


def _count_joint(profile: Profile, start: Count, seats: int, quota: float) -> Count:
    now = start
    while now.running.any():
        spend, votes = _tally(profile, now)
        tied = _lowest(profile, now, votes)
        if _reach(profile, now, votes, seats, quota).any():
            now = _elect(profile, now, spend, votes, seats, quota)
            continue
        last = len(tied) == now.running.sum() and votes[list(tied)].max() > 0
        if last and len(now.winners) < seats:
            now = replace(now, running=np.zeros_like(now.running), joint=True,
                          elected=(*now.elected, (tied, float(votes[tied[0]]))))
            continue
        now = _eliminate(now, tied, votes)
        now = replace(now, joint=now.joint or (len(tied) > 1 and votes[list(tied)].max() > 0))
    return now


def _round(profile: Profile, now: Count, seats: int, quota: float) -> list[Count]:
    """Return the counts after one more round; none where a tie is too large to follow."""
    spend, votes = _tally(profile, now)
    if _reach(profile, now, votes, seats, quota).any():
        return [_elect(profile, now, spend, votes, seats, quota)]
    tied = _lowest(profile, now, votes)
    if votes[list(tied)].max() == 0:
        return [_eliminate(now, tied, votes)]
    if len(tied) > TIE_LIMIT:
        return []
    return [_eliminate(now, (x,), votes) for x in tied]


def _tally(profile: Profile, now: Count) -> tuple[Spend, Floats]:
    """
    Return what is left of the ballots, shape (n,), by what each alternative keeps, and the votes.

    Both what it keeps and the votes have shape (m,).
    """
    if profile.strict:
        first = np.where(now.running, profile.ranks, len(now.running)).argmin(axis=1)
        votes = np.bincount(first, now.weights, len(now.running)).astype(float)
        return lambda keep: now.weights * keep[first], profile.tidy(np.round(votes, 9))
    who = np.flatnonzero(now.running)
    nowhere = profile.ranks.shape[1]
    ranks = profile.ranks[:, who]
    ranks[ranks == UNLISTED] = nowhere
    best = ranks.min(axis=1, keepdims=True)
    choice = (ranks == best) & (best < nowhere)
    share = choice * (now.weights / np.maximum(choice.sum(axis=1), 1))[:, None]
    votes = np.zeros(nowhere)
    votes[who] = share.sum(axis=0)
    exhausted = np.where(choice.any(axis=1), 0., now.weights)
    return (lambda keep: np.maximum(share @ keep[who], 0.) + exhausted,
            profile.tidy(np.round(votes, 9)))


def _reach(profile: Profile, now: Count, votes: Floats, seats: int,
           quota: float) -> NDArray[np.bool_]:
    if len(now.winners) >= seats:
        return np.zeros(len(votes), dtype=bool)
    return now.running & (votes >= quota - profile.resolution)


def _lowest(profile: Profile, now: Count, votes: Floats) -> tuple[int, ...]:
    least = votes[now.running].min()
    return tuple(np.flatnonzero(now.running & (votes <= least + profile.resolution)).tolist())


def _elect(profile: Profile, now: Count, spend: Spend, votes: Floats, seats: int,
           quota: float) -> Count:
    reach = _reach(profile, now, votes, seats, quota)
    keep = np.where(reach, (votes - quota) / np.where(reach, votes, 1.), 1.)
    tiers = sorted({float(v) for v in votes[reach]}, reverse=True)
    elected = tuple((tuple(np.flatnonzero(reach & (votes == v)).tolist()), v) for v in tiers)
    return replace(now, weights=spend(keep), running=now.running & ~reach,
                   elected=(*now.elected, *elected))


def _eliminate(now: Count, who: tuple[int, ...], votes: Floats) -> Count:
    running = now.running.copy()
    running[list(who)] = False
    return replace(now, running=running, lost=(*now.lost, (who, float(votes[who[0]]))))


def _tiers(end: Count) -> Tiers:
    return tuple(t for t, _ in end.elected) + tuple(t for t, _ in reversed(end.lost))


def _scores(profile: Profile, end: Count) -> Floats:
    m = len(profile.names)
    unit = 10. ** len(str(int(profile.weights.sum())))
    scores = np.empty(m)
    for tiers, base in ((end.elected, 2 * m), (end.lost[::-1], m)):
        for tier, votes in tiers:
            scores[list(tier)] = base + votes / unit
            base -= len(tier)
    return scores
