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

BEATS, FEWEST = 60, 8
STEP_NS = 1_000_000
MARGIN_NS = 5_000_000  # a picture that came just in time may come this much later tomorrow
OLDEST_NS = 71_000_000  # pictures are not made older than this for the sake of late ones
MISS = 40  # one step that missed its picture is as bad as this many with pictures a period older
TOO_OLD = 10
GAIN_NS = 4_000_000  # a smaller gain is not worth a move


def best_shift_ns(due_ns: int, period_ns: int,
                  arrivals: Sequence[Sequence[tuple[int, int]]]) -> int:
    """
    Return by how much to move a grid with a beat at ``due_ns``, half a period at most.

    ``arrivals`` has (stamp_ns, came_ns) of the newest pictures of each camera, oldest first. Each
    possible shift is judged by what past beats would have seen: the usual age of the oldest
    picture, and how often one was a period older than usual. 0 where too little is known.
    """
    if not arrivals or min(map(len, arrivals)) < 2:
        return 0
    tables = [np.asarray(pairs, np.int64) for pairs in arrivals]
    beats = due_ns - period_ns * np.arange(2, BEATS + 2)
    half_ns = period_ns // 2
    beats = beats[beats - half_ns >= max(int(t[0].max()) for t in tables) + MARGIN_NS]
    if len(beats) < FEWEST:
        return 0
    far = half_ns // STEP_NS
    shifts = STEP_NS * np.arange(-far, far + 1)
    cost = _cost(np.stack([_ages(beats[:, None] + shifts, t) for t in tables]).max(axis=0),
                 period_ns)
    best = int(np.lexsort((np.abs(shifts), cost))[0])
    return int(shifts[best]) if cost[far] - cost[best] >= GAIN_NS else 0


def _ages(looks: Stamps, table: Stamps) -> Stamps:
    """Return (N, M): how old a camera's newest picture is at each look, margin included."""
    came = np.maximum.accumulate(table[:, 1]) + MARGIN_NS
    return looks - table[np.searchsorted(came, looks, side='right') - 1, 0]


def _cost(ages: Stamps, period_ns: int) -> NDArray[np.float64]:
    """Return (M,) nanoseconds for the ages (N, M) of N beats at M shifts."""
    usual = np.median(ages, axis=0)
    missed = np.mean(ages > usual + period_ns / 2, axis=0)
    return np.asarray(usual + MISS * period_ns * missed
                      + TOO_OLD * np.maximum(usual - OLDEST_NS, 0.0))
