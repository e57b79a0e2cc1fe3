"""Pacer: a fixed rate with absolute deadlines."""

from dataclasses import dataclass

from arena_robot.core.clock import Clock

SLACK = 0.25
MOVE_NS = 3_000_000


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
