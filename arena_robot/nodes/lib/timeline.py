"""
Conversion between ROS time and a part's own time.

Parts of a real station use the ROS clock. A simulated world has its own time; unless it publishes
``/clock``, its stamps are shifted to wall time, so that other processes can compute their age.
"""

import threading
import time
from collections import deque
from typing import Protocol

from rclpy.clock import Clock as RclpyClock
from rclpy.clock import ClockType, JumpThreshold, ROSClock, TimeJump
from rclpy.context import Context
from rclpy.duration import Duration

from arena_robot.core.clock import Clock

LATE_NS = 25_000_000         # lateness up to which periods between stamps stay exact
SET_BACK_NS = 500_000_000    # more than a simulation that catches up can be early
KEPT = 64                    # shifts: those of all readings that are still converted
SHUTDOWN_LOOK_S = 0.25       # how soon a sleep ends once rclpy is shut down
# The clock of timers: with the node's own they would stand still after it was set back.
STEADY = RclpyClock(clock_type=ClockType.STEADY_TIME)
ANY_STEP = JumpThreshold(min_forward=Duration(nanoseconds=1), min_backward=None,
                         on_clock_change=True)


class RosClock:
    """
    A node's clock as a core Clock; follows ``/clock`` when the node uses simulated time.

    ``context`` is the node's: a sleep ends when it is shut down. rclpy's own sleep keeps an object
    for ever with each call, which a stream of 125 Hz cannot afford.
    """

    def __init__(self, clock: RclpyClock, context: Context | None = None) -> None:
        self._clock = clock
        self._context = context

    def now_ns(self) -> int:
        """Return ROS time in nanoseconds."""
        return int(self._clock.now().nanoseconds)

    def steady_ns(self) -> int:
        """Return monotonic nanoseconds; simulated time while the node follows ``/clock``."""
        return self.now_ns() if self._is_simulated() else time.monotonic_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once ROS time is ``stamp_ns`` (set clocks ignored), or at shut-down."""
        if self._is_simulated():
            self.sleep_until_steady_ns(stamp_ns)
        else:
            self.sleep_until_steady_ns(time.monotonic_ns() + stamp_ns - self.now_ns())

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Return once :meth:`steady_ns` is ``stamp_ns``, or the process shuts down."""
        while (left_ns := stamp_ns - self.steady_ns()) > 0:
            if self._context is not None and not self._context.ok():
                return
            if self._is_simulated():
                self._wait_for_clock(stamp_ns)
            else:
                time.sleep(min(left_ns * 1e-9, SHUTDOWN_LOOK_S))

    def _is_simulated(self) -> bool:
        return isinstance(self._clock, ROSClock) and self._clock.ros_time_is_active

    def _wait_for_clock(self, stamp_ns: int) -> None:
        """Wait for ``/clock`` to reach a stamp, a little while at most."""
        reached = threading.Event()

        def look(jump: TimeJump) -> None:
            if self.now_ns() >= stamp_ns:
                reached.set()

        with self._clock.create_jump_callback(ANY_STEP, post_callback=look):
            if self.now_ns() < stamp_ns:
                reached.wait(SHUTDOWN_LOOK_S)


class Timeline(Protocol):
    """Interface of the conversion between ROS time and the time of a part."""

    part: Clock

    def now_ns(self) -> int:
        """Return ROS time."""

    def to_ros(self, stamp_ns: int) -> int:
        """Return the ROS time of a part's stamp."""

    def to_part(self, stamp_ns: int) -> int:
        """Return the part's time of a ROS stamp."""


class SameTime:
    """The part stamps with ROS time."""

    def __init__(self, clock: Clock) -> None:
        self.part = clock

    def now_ns(self) -> int:
        """Return ROS time."""
        return self.part.now_ns()

    def to_ros(self, stamp_ns: int) -> int:
        """Return the stamp itself."""
        return stamp_ns

    def to_part(self, stamp_ns: int) -> int:
        """Return the stamp itself."""
        return stamp_ns


class ShiftedTime:
    """
    The part has its own clock, at the speed of ROS time but with jitter.

    :meth:`tick` must be called whenever that clock advances. The shift is constant while the part
    is at most 25 ms late, so that periods between stamps are exact. When it is later, its stamps
    jump; when it is early, they slow down, so that they neither decrease nor stay in the future,
    unless the wall clock was set back by half a second or more: then they jump. A stamp always has
    the shift of its capture time.
    """

    def __init__(self, part: Clock, ros: Clock) -> None:
        self.part = part
        self._ros = ros
        self._last_ns = part.now_ns()
        self._shifts = deque([(self._last_ns, ros.now_ns() - self._last_ns)], maxlen=KEPT)

    def now_ns(self) -> int:
        """Return ROS time."""
        return self._ros.now_ns()

    def tick(self) -> None:
        """Compare the clocks."""
        now_ns = self.part.now_ns()
        shift_ns = self._shifts[-1][1]
        late_ns = self._ros.now_ns() - now_ns - shift_ns
        if late_ns > LATE_NS or late_ns < -SET_BACK_NS:
            self._shifts.append((now_ns, shift_ns + late_ns))
        elif late_ns < 0:
            slower_ns = (now_ns - self._last_ns) * 99 // 100    # a world that catches up runs fast
            self._shifts.append((now_ns, shift_ns - min(-late_ns, slower_ns)))
        self._last_ns = now_ns

    def to_ros(self, stamp_ns: int) -> int:
        """Return the ROS time of a part's stamp."""
        shifts = list(self._shifts)
        for since_ns, shift_ns in reversed(shifts):
            if stamp_ns >= since_ns:
                return stamp_ns + shift_ns
        return stamp_ns + shifts[0][1]

    def to_part(self, stamp_ns: int) -> int:
        """Return the part's time of a ROS stamp: as old on the one clock as on the other."""
        return self.part.now_ns() - (self._ros.now_ns() - stamp_ns)
