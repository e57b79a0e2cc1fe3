"""
Phase of the control loop relative to the cameras.

Cameras have their own phase, and an image arrives with a delay: rendering or grabbing, encoding,
network. A loop at the cameras' rate that reads just before an image arrives gets the previous
image, one period older. The best phase changes with the load of the machine, and slowly with the
cameras' clocks, so it is computed from the arrival times of the newest images.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Stamps = NDArray[np.int64]

BEATS, FEWEST = 100, 8
STEP_NS = 1_000_000
MARGIN_NS = 5_000_000  # an image that arrived just in time may later arrive this much later,
SPREAD = (50, 90)      # plus the difference between these percentiles of the delays so far
OLDEST_NS = 70_000_000  # images are not made older than this to allow for late ones
MISS = 40  # cost of a step with an older image than usual, relative to the usual age
TOO_OLD = 1000
GAIN_NS = 4_000_000  # a smaller gain does not move the grid


def best_shift_ns(due_ns: int, period_ns: int,
                  arrivals: Sequence[Sequence[tuple[int, int]]]) -> int:
    """
    Return the shift of a grid with a tick at ``due_ns``, half a period at most.

    ``arrivals`` has (stamp_ns, came_ns) of the newest pictures of each camera, oldest first. The
    cost of a shift is computed from past ticks: the usual age of the oldest image, and the mean
    additional age if images had arrived slightly later. 0 when there are too few images.
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
    """Return (N,) the arrival time of each image with the delay of late images."""
    usual, late = np.percentile(table[:, 1] - table[:, 0], SPREAD)
    return np.asarray(table[:, 1] + MARGIN_NS + round(late - usual))


def _oldest(looks: Stamps, tables: Sequence[Stamps], came: Sequence[Stamps]) -> Stamps:
    """Return (N, M): the age of the oldest of the newest images at each tick."""
    out: Stamps = np.stack([
        looks - table[np.searchsorted(np.maximum.accumulate(times), looks, side='right') - 1, 0]
        for table, times in zip(tables, came, strict=True)]).max(axis=0)
    return out


def _cost(ages: Stamps, ages_if_late: Stamps) -> NDArray[np.float64]:
    """Return (M,) nanoseconds for the ages (N, M) of N ticks at M shifts."""
    usual = np.median(ages, axis=0)
    older = np.maximum(ages_if_late - usual, 0).mean(axis=0)
    return np.asarray(usual + MISS * older + TOO_OLD * np.maximum(usual - OLDEST_NS, 0.0))
