"""
When, within a period, a control loop should look at its cameras.

Cameras have a phase of their own, and a picture is on its way for a while: drawing or grabbing,
packing, the network. A loop of the cameras' rate that looks just before a picture comes sees the
one before it, older by a period. Which moment is good changes with the load of the machine, and
slowly with the cameras' clocks, so it is found out from when the newest pictures really came.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Stamps = NDArray[np.int64]

BEATS, FEWEST = 100, 8
STEP_NS = 1_000_000
MARGIN_NS = 5_000_000  # a picture that came just in time may come this much later tomorrow,
SPREAD = (50, 90)      # and as much more as lies between these percentiles of the ways so far
OLDEST_NS = 70_000_000  # pictures are not made older than this for the sake of late ones
MISS = 40  # one step with an older picture than usual is as bad as this many usual ones so old
TOO_OLD = 1000
GAIN_NS = 4_000_000  # a smaller gain is not worth a move


def best_shift_ns(due_ns: int, period_ns: int,
                  arrivals: Sequence[Sequence[tuple[int, int]]]) -> int:
    """
    Return by how much to move a grid with a beat at ``due_ns``, half a period at most.

    ``arrivals`` has (stamp_ns, came_ns) of the newest pictures of each camera, oldest first. Each
    possible shift is judged by what past beats would have seen: the usual age of the oldest
    picture, and how much older they would have been on average, had pictures come a little later
    than they did. 0 where too little is known.
    """
    if not arrivals or min(map(len, arrivals)) < 2:
        return 0
    tables = [np.asarray(pairs, np.int64) for pairs in arrivals]
    beats = due_ns - period_ns * np.arange(2, BEATS + 2)
    half_ns = period_ns // 2
    came = [_late(table) for table in tables]
    beats = beats[beats - half_ns >= max(int(times[0]) for times in came)]
    if len(beats) < FEWEST:
        return 0
    far = half_ns // STEP_NS
    shifts = STEP_NS * np.arange(-far, far + 1)
    looks = beats[:, None] + shifts
    cost = _cost(_oldest(looks, tables, [table[:, 1] for table in tables]),
                 _oldest(looks, tables, came))
    best = int(np.lexsort((np.abs(shifts), cost))[0])
    return int(shifts[best]) if cost[far] - cost[best] >= GAIN_NS else 0


def _late(table: Stamps) -> Stamps:
    """Return (N,) when each picture is sure to have come, if it were as late as some are."""
    usual, late = np.percentile(table[:, 1] - table[:, 0], SPREAD)
    return np.asarray(table[:, 1] + MARGIN_NS + round(late - usual))


def _oldest(looks: Stamps, tables: Sequence[Stamps], came: Sequence[Stamps]) -> Stamps:
    """Return (N, M): how old the oldest of the newest pictures is at each look."""
    out: Stamps = np.stack([
        looks - table[np.searchsorted(np.maximum.accumulate(times), looks, side='right') - 1, 0]
        for table, times in zip(tables, came, strict=True)]).max(axis=0)
    return out


def _cost(ages: Stamps, ages_if_late: Stamps) -> NDArray[np.float64]:
    """Return (M,) nanoseconds for the ages (N, M) of N beats at M shifts."""
    usual = np.median(ages, axis=0)
    older = np.maximum(ages_if_late - usual, 0).mean(axis=0)
    return np.asarray(usual + MISS * older + TOO_OLD * np.maximum(usual - OLDEST_NS, 0.0))
