"""Pacer: a fixed rate with absolute deadlines, and measurement of lateness."""

from dataclasses import dataclass

from arena_robot.core.clock import Clock

SLACK = 0.25
MOVE_NS = 3_000_000


@dataclass(frozen=True)
class Tick:
    """
    One tick: start time (a stamp), steady time since the previous one, lateness.

    ``missed`` counts the ticks that were skipped before this one because work overran.
    """

    index: int
    start_ns: int
    loop_s: float
    late_s: float
    missed: int


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
                    late_ns * 1e-9, late_ns // self.period_ns)
        if late_ns > SLACK * self.period_ns:
            self.due_ns = start_ns
            self._owed_ns = 0
        move_ns = max(-MOVE_NS, min(MOVE_NS, self._owed_ns))
        self._owed_ns -= move_ns
        self.due_ns += self.period_ns + move_ns
        self._last_ns = start_ns
        self._index += 1
        return tick


@dataclass(frozen=True)
class LoopTiming:
    """Statistics of a rate; errors are of the time between ticks, in seconds."""

    ticks: int = 0
    late: int = 0
    missed: int = 0
    error_p50_s: float = 0.0
    error_p99_s: float = 0.0


def timing(ticks: list[Tick], period_s: float) -> LoopTiming:
    """Return the summary of a run's ticks; ``late`` are those that restarted the grid."""
    errors = sorted(abs(t.loop_s - period_s) for t in ticks[1:])
    if not errors:
        return LoopTiming(ticks=len(ticks))
    late = sum(t.late_s > SLACK * period_s for t in ticks)
    missed = sum(t.missed for t in ticks)
    return LoopTiming(len(ticks), late, missed, errors[len(errors) // 2],
                  errors[min(len(errors) - 1, int(0.99 * len(errors)))])
