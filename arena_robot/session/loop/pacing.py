"""
When a step happens: at a fixed rate with absolute deadlines, and soon after new pictures.

Cameras have their own phase, and an image arrives with a delay: rendering or grabbing, encoding,
network. A loop at the cameras' rate that reads just before an image arrives gets the previous
image, one period older. The best phase changes with the load of the machine, and slowly with the
cameras' clocks, so it is computed from the arrival times of the newest images. Where pictures are
too old, a step waits for newer ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.clock import Clock
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.drivers.base import Camera

SLACK = 0.25           # share of a period by which a tick may be late without a new grid
MOVE_NS = 3_000_000    # a period changes by 5 % at most
Stamps = NDArray[np.int64]
BEATS, FEWEST = 100, 8    # past ticks that a shift is judged by
STEP_NS = 1_000_000    # between the shifts that are compared
MARGIN_NS = 5_000_000  # an image that arrived just in time may later arrive this much later,
SPREAD = (50, 90)      # plus the difference between these percentiles of the delays so far
OLDEST_NS = 70_000_000  # images are not made older than this to allow for late ones
MISS = 40  # cost of a step with an older image than usual, relative to the usual age
TOO_OLD = 1000  # cost of an age above OLDEST_NS, relative to it: never worth it
GAIN_NS = 4_000_000  # a smaller gain does not move the grid
NEWEST = 15  # pictures: those of a second
SLOW = 0.9   # share of the wanted rate


@dataclass(frozen=True)
class Tick:
    """One tick: start time (a stamp), steady time since the previous one, lateness."""

    index: int
    start_ns: int
    loop_s: float
    late_s: float


class Pacer:
    """
    Ticks at ``rate_hz`` of the steady time, so a clock that is set does not change the rate.

    A small lateness (below a quarter of the period) is compensated, so the rate does not drift.
    After a larger one, such as a slow inference, the grid restarts: two commands are never less
    than three quarters of a period apart, because a burst would jerk the arm.

    The grid can be moved, :meth:`steer`, by MOVE_NS a beat.
    """

    def __init__(self, rate_hz: float, clock: Clock) -> None:
        if rate_hz <= 0.0:
            raise ValueError(f'a rate is positive, got {rate_hz} Hz')
        self.period_ns = round(1e9 / rate_hz)
        self.due_ns = 0
        self._clock = clock
        self._index = 0
        self._last_ns = 0
        self._owed_ns = 0

    def steer(self, shift_ns: int) -> None:
        """Move the grid, relative to the next tick ``due_ns``, in small steps from there on."""
        self._owed_ns = shift_ns

    def due_stamp_ns(self) -> int:
        """Return the stamp that the next tick will have."""
        return self.due_ns + self._clock.now_ns() - self._clock.steady_ns()

    def wait(self) -> Tick:
        """Sleep until the next tick and return it; the first one is immediate."""
        if self._index == 0:
            self.due_ns = self._last_ns = self._clock.steady_ns()
        self._clock.sleep_until_steady_ns(self.due_ns)
        start_ns = self._clock.steady_ns()
        late_ns = max(start_ns - self.due_ns, 0)
        tick = Tick(self._index, self._clock.now_ns(), (start_ns - self._last_ns) * 1e-9,
                    late_ns * 1e-9)
        if late_ns > SLACK * self.period_ns:
            self.due_ns = start_ns
            self._owed_ns = 0
        move_ns = max(-MOVE_NS, min(MOVE_NS, self._owed_ns))
        self._owed_ns -= move_ns
        self.due_ns += self.period_ns + move_ns
        self._last_ns = start_ns
        self._index += 1
        return tick


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


def picture_lag_s(camera: Camera) -> float | None:
    """Return the median age of a camera's newest pictures at their arrival; None before any."""
    pairs = camera.arrivals()[-NEWEST:]
    return float(np.median([came_ns - stamp_ns for stamp_ns, came_ns in pairs])) * 1e-9 \
        if pairs else None


def lag_problem(lag_s: float, most_s: float) -> str:
    """Return, as a sentence, that pictures come too late for a step; empty when they do not."""
    if lag_s <= most_s:
        return ''
    return (f'its pictures are {lag_s * 1e3:.0f} ms old when they come, a step accepts '
            f'{most_s * 1e3:.0f} ms (max_image_age): look for a full network or USB bus, a busy '
            'machine, or clocks that differ')


def slow_stream(camera: Camera, wanted_hz: float = CONTROL_RATE_HZ) -> str:
    """Return, as a sentence, that a camera's newest pictures come too rarely; or ''."""
    stamps = [stamp_ns for stamp_ns, _ in camera.arrivals()[-NEWEST:]]
    if len(stamps) < NEWEST or stamps[-1] <= stamps[0]:
        return ''
    rate_hz = (len(stamps) - 1) / ((stamps[-1] - stamps[0]) * 1e-9)
    if rate_hz >= SLOW * wanted_hz:
        return ''
    return (f'its pictures come at {rate_hz:.1f} Hz, the control loop runs at {wanted_hz:g}: '
            'some steps use the picture of the step before. Look for a busy machine or network; '
            'take JPEGs (image_transport: compressed) or smaller pictures')


def waiting_loop(cameras: Mapping[str, Camera], most_s: float) -> str:
    """Return, as a sentence, which cameras a running control loop waits for; or ''."""
    late = {role: lag_s for role, camera in cameras.items()
            if (lag_s := picture_lag_s(camera)) is not None and lag_s > most_s}
    if not late:
        return ''
    words = ', '.join(f'{role} camera {round(lag_s, 2) * 1e3:.0f} ms'
                      for role, lag_s in late.items())
    return (f'Pictures come too late ({words}; a step accepts {most_s * 1e3:.0f} ms): the loop '
            'waits for them.')
