"""A fixed rate held against absolute deadlines, with every lateness told."""

from collections import deque
from dataclasses import dataclass

from arena_robot.core.clock import Clock

SLACK = 0.25
LATER_NS, EARLIER_NS, BACK_NS = 8_000_000, 10_000, 250_000
OLDEST_NS = 76_000_000
REMEMBERED = 15


@dataclass(frozen=True)
class Tick:
    """
    One beat: when it began, how long after the one before, how much later than planned.

    ``missed`` counts the beats that were left out before this one because work overran.
    """

    index: int
    start_ns: int
    loop_s: float
    late_s: float
    missed: int


class Pacer:
    """
    Beats at ``rate_hz``.

    A small lateness (below a quarter of the period) is made up for, so the rate does not drift.
    After a larger one, such as a slow inference, the grid starts anew: two commands never come
    closer together than three quarters of a period, as a burst would jerk the arm.

    Cameras of the same rate are not at the same phase, and their clocks drift. A beat that found
    only the picture before the newest one, as :meth:`saw` is told, moves the grid a little later,
    as long as pictures are not older than OLDEST_NS for it;
    it creeps back by a hundredth of a millisecond a beat. A grid that started anew is led back to
    where it was against the pictures by a quarter of a millisecond a beat.
    """

    def __init__(self, rate_hz: float, clock: Clock) -> None:
        if rate_hz <= 0.0:
            raise ValueError(f'a rate is positive, got {rate_hz} Hz')
        self.period_ns = round(1e9 / rate_hz)
        self._clock = clock
        self._index = 0
        self._due_ns = 0
        self._last_ns = 0
        self._moved_ns = self._late_ns = 0
        self._ages_ns: deque[int] = deque(maxlen=REMEMBERED)

    def saw(self, age_ns: int) -> None:
        """Take the age of the oldest picture at this beat."""
        if self._ages_ns and age_ns > min(self._ages_ns) + self.period_ns // 2:
            newest_ns = age_ns - self.period_ns
            change_ns = max(min(LATER_NS, OLDEST_NS - newest_ns), 0)
        else:
            change_ns = -min(EARLIER_NS, self._moved_ns)
        self._moved_ns += change_ns
        back_ns = min(BACK_NS, self._late_ns)
        self._late_ns -= back_ns
        self._due_ns += change_ns - back_ns
        self._ages_ns.append(age_ns)

    def wait(self) -> Tick:
        """Sleep until the next beat and return it; the first one is now."""
        if self._index == 0:
            self._due_ns = self._last_ns = self._clock.now_ns()
        self._clock.sleep_until_ns(self._due_ns)
        start_ns = self._clock.now_ns()
        late_ns = max(start_ns - self._due_ns, 0)
        tick = Tick(self._index, start_ns, (start_ns - self._last_ns) * 1e-9, late_ns * 1e-9,
                    late_ns // self.period_ns)
        if late_ns > SLACK * self.period_ns:
            self._due_ns = start_ns
            self._late_ns = (self._late_ns + late_ns) % self.period_ns
        self._due_ns += self.period_ns
        self._last_ns = start_ns
        self._index += 1
        return tick


@dataclass(frozen=True)
class Timing:
    """How well a rate was held; errors are of the time between beats, in seconds."""

    ticks: int = 0
    late: int = 0
    missed: int = 0
    error_p50_s: float = 0.0
    error_p99_s: float = 0.0


def timing(ticks: list[Tick], period_s: float) -> Timing:
    """Return the summary of a run's beats; ``late`` are those that broke the grid."""
    errors = sorted(abs(t.loop_s - period_s) for t in ticks[1:])
    if not errors:
        return Timing(ticks=len(ticks))
    late = sum(t.late_s > SLACK * period_s for t in ticks)
    missed = sum(t.missed for t in ticks)
    return Timing(len(ticks), late, missed, errors[len(errors) // 2],
                  errors[min(len(errors) - 1, int(0.99 * len(errors)))])
