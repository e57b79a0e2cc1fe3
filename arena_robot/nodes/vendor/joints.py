"""Joint states of another package: the arm's joints by name, and what is wrong with them."""

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, ReadTimeout, StaleData
from arena_robot.core.observation import Floats
from arena_robot.nodes.lib import convert
from arena_robot.nodes.remote.part import Newest

CLOCKS_S, SILENT_S = 0.05, 0.1
SEEN, ENOUGH = 50, 10
OUTSIDE_RAD = 0.1


@dataclass(frozen=True)
class Joints:
    """One reading: positions rad, velocities rad/s, efforts N m, in the order of the names."""

    stamp_ns: int
    q: Floats
    dq: Floats
    tau: Floats


class JointReadings:
    """
    The joints ``names`` in the messages of a JointState topic, in whatever order they come.

    Messages about other joints only, such as a gripper's, are ignored. ``low`` and ``high`` are
    the ends of the joints' ranges: what is outside is no reading of this robot in radians.
    """

    def __init__(self, topic: str, names: list[str], low: Floats, high: Floats,
                 clock: Clock) -> None:
        self._topic, self._names, self._clock = topic, names, clock
        self._low, self._high = low - OUTSIDE_RAD, high + OUTSIDE_RAD
        self._newest: Newest[Joints] = Newest(topic, clock, lambda j: j.stamp_ns)
        self._last: Joints | None = None
        self._came_s = self._changed_s = 0.0
        self._wrong = ''
        self._lags: deque[float] = deque(maxlen=SEEN)

    def put(self, message: Any) -> None:
        """Take a JointState message."""
        if not any(name in self._names for name in message.name):
            if self._last is None:
                self._wrong = self._other_names(message)
            return
        try:
            read = self._read(message)
        except DriverError as error:
            self._wrong = str(error)
            return
        self._wrong = ''
        now_s = time.monotonic()
        self._came_s = now_s
        if self._last is not None and read.stamp_ns == self._last.stamp_ns:
            return
        self._lags.append((self._clock.now_ns() - read.stamp_ns) * 1e-9)
        self._last, self._changed_s = read, now_s
        self._newest.put(read)

    @property
    def last(self) -> Joints | None:
        """Return the newest reading, however old."""
        return self._last

    def get(self, max_age_s: float) -> Joints:
        """Return the newest reading; StaleData, with the reason, when it is too old."""
        try:
            found = self._newest.get(max_age_s)
        except StaleData as error:
            words = str(error).partition(';')[0]
            raise StaleData(f'{words}: {self.problem()}') from error
        if self._wrong:
            raise DriverError(self._wrong)
        return found

    def wait(self, timeout_s: float) -> Joints:
        """Return the next reading; ReadTimeout, with the reason, when none comes."""
        try:
            return self._newest.wait(timeout_s)
        except ReadTimeout as error:
            words = str(error).partition(';')[0]
            raise ReadTimeout(f'{words}: {self.problem()}') from error

    def problem(self) -> str:
        """Return, as a sentence, why there are no usable readings; or ''."""
        if self._wrong:
            return self._wrong
        now_s = time.monotonic()
        if self._last is None:
            return (f'nothing arrives on {self._topic}; is the joint_state_broadcaster active, in '
                    'the same ROS domain and namespace?')
        if now_s - self._came_s > SILENT_S:
            return (f'nothing has arrived on {self._topic} for {now_s - self._came_s:.1f} s: '
                    'did the controller manager or the robot stop?')
        if now_s - self._changed_s > CLOCKS_S:
            return (f'{self._topic} still arrives, but its stamp has stood still for '
                    f'{now_s - self._changed_s:.1f} s: the robot is no longer read; restart its '
                    'driver')
        return self.clocks()

    def clocks(self) -> str:
        """Return, as a sentence, how far the sender's clock is off; or '' within 50 ms."""
        if len(self._lags) < ENOUGH:
            return ''
        off_s = min(self._lags)
        if abs(off_s) <= CLOCKS_S:
            return ''
        way = 'behind' if off_s > 0.0 else 'ahead of'
        return (f"the stamps of {self._topic} are {abs(off_s) * 1e3:.0f} ms {way} this machine's "
                'clock; synchronise the machines (chrony)')

    def _read(self, message: Any) -> Joints:
        where = {name: i for i, name in enumerate(message.name)}
        missing = [name for name in self._names if name not in where]
        if missing:
            raise DriverError(f'{self._topic} has no joint {missing[0]}, it has '
                              f"{', '.join(message.name)}")
        order = [where[name] for name in self._names]
        q = _picked(message.position, order)
        if q is None or not np.all(np.isfinite(q)):
            raise DriverError(f'{self._topic} has no number for a position of the arm')
        self._in_radians(q)
        stamp_ns = convert.stamp_of(message.header.stamp)
        if not stamp_ns:
            raise DriverError(f'{self._topic} has no stamps, so the age of a reading is not known')
        dq, tau = _picked(message.velocity, order), _picked(message.effort, order)
        return Joints(stamp_ns, q, self._velocity(q, stamp_ns) if dq is None else dq,
                      np.zeros(len(order)) if tau is None else tau)

    def _velocity(self, q: Floats, stamp_ns: int) -> Floats:
        """Return the velocity by difference, for a topic without velocities."""
        last = self._last
        if last is None or stamp_ns <= last.stamp_ns:
            return np.zeros(len(q)) if last is None else last.dq
        return (q - last.q) / ((stamp_ns - last.stamp_ns) * 1e-9)

    def _in_radians(self, q: Floats) -> None:
        bad = np.flatnonzero((q < self._low) | (q > self._high))
        if bad.size:
            i = int(bad[0])
            degrees = np.all((np.radians(q) >= self._low) & (np.radians(q) <= self._high))
            advice = ('these are degrees, ROS uses radians (REP 103)' if degrees else
                      'is robot_type right?')
            raise DriverError(
                f'{self._topic}: {self._names[i]} is at {q[i]:.2f}, its range is '
                f'{self._low[i] + OUTSIDE_RAD:.2f} to {self._high[i] - OUTSIDE_RAD:.2f} rad: '
                f'{advice}')

    def _other_names(self, message: Any) -> str:
        return (f"{self._topic} has no joint {self._names[0]}, it has {', '.join(message.name)}; "
                'set robot_type and arm_prefix, or the topic (ros_control.joint_states)')


def _picked(values: Any, order: list[int]) -> Floats | None:
    """Return the numbers at ``order``; None where a message leaves them out."""
    numbers = np.asarray(values, dtype=np.float64)
    return numbers[order] if len(numbers) > max(order) else None
