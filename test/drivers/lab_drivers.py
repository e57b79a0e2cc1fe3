"""Drivers as a lab would write them, on any clock; the checks hold for each."""

import threading

import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import DriverError, ReadTimeout, SafetyError, StaleData
from arena_robot.core.observation import (
    ArmState,
    GripperState,
    Image,
    ObjectStatus,
    RobotMode,
)
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.grabbing import Arrivals
from arena_robot.drivers.part import Opened
from arena_robot.drivers.sim.zed_models import camera_info

HOME = np.array([0.0, -0.6, 0.0, -2.5, 0.0, 1.9, 0.0])
LIMIT = 2.8


class Sampled(Opened):
    """Readings every ``period_ns`` of a clock, until the part is silent."""

    period_ns = 10_000_000
    what = 'the part'

    def __init__(self, clock):
        self.clock, self.silent_ns = clock, None

    def silence(self):
        self.silent_ns = self.clock.now_ns()

    def mend(self):
        self.silent_ns = None

    def now_ns(self):
        return self.clock.now_ns() if self.silent_ns is None else self.silent_ns

    def sample_ns(self, max_age_s):
        self._require_open(self.what)
        stamp_ns = self.now_ns() // self.period_ns * self.period_ns
        age_s = (self.clock.now_ns() - stamp_ns) * 1e-9
        if age_s > max_age_s:
            raise StaleData(f'the newest reading is {age_s} s old, accepted are {max_age_s} s')
        return stamp_ns

    def next_ns(self, timeout_s):
        self._require_open(self.what)
        end_ns = self.clock.now_ns() + round(timeout_s * 1e9)
        due_ns = (self.now_ns() // self.period_ns + 1) * self.period_ns
        self.clock.sleep_until_ns(min(end_ns, due_ns) if self.silent_ns is None else end_ns)
        if due_ns > end_ns or self.silent_ns is not None:
            raise ReadTimeout(f'no reading within {timeout_s} s')
        return due_ns


class LabArm(Sampled):
    what = 'the lab arm'
    speed, hold_s = 1.0, 0.5

    def __init__(self, clock):
        super().__init__(clock)
        self.q, self.goal, self.dq = HOME.copy(), HOME.copy(), np.zeros(7)
        self.mode, self.motion, self.told_ns, self.at_ns = RobotMode.IDLE, None, 0, 0

    def state(self, max_age_s=0.1):
        return self.reading(self.sample_ns(max_age_s))

    def wait_state(self, timeout_s):
        return self.reading(self.next_ns(timeout_s))

    def reading(self, stamp_ns):
        self.step()
        return ArmState(stamp_ns, self.q.copy(), self.dq.copy(), np.zeros(7), np.zeros(7),
                        np.zeros(6), self.goal.copy(), self.mode,
                        ('user stop',) if self.mode is RobotMode.USER_STOPPED else ())

    def command(self, command):
        self.check(command.q)
        self.step()
        self.goal, self.motion = self.clipped(np.asarray(command.q, float)), None
        self.mode, self.told_ns = RobotMode.MOVE, self.clock.now_ns()
        return ArmCommand(self.goal.copy(), command.stamp_ns)

    def clipped(self, q):
        return np.clip(q, -LIMIT, LIMIT)

    def move_to(self, q, duration_s=None):
        self.check(q)
        self.step()
        duration_s = 1.0 if duration_s is None else duration_s
        self.motion = (self.q.copy(), np.asarray(q, float), self.clock.now_ns(), duration_s)
        self.mode = RobotMode.MOVE
        return duration_s

    def stop(self):
        self.step()
        self.motion, self.goal, self.dq = None, self.q.copy(), np.zeros(7)
        if self.mode is RobotMode.MOVE:
            self.mode = RobotMode.IDLE

    def recover(self):
        self.mode, self.goal = RobotMode.IDLE, self.q.copy()

    def trip(self):
        self.mode = RobotMode.USER_STOPPED

    def check(self, q):
        self._require_open(self.what)
        if self.mode is RobotMode.USER_STOPPED:
            raise DriverError('the arm was stopped by its user; recover it first')
        if np.shape(q) != (7,) or not np.all(np.isfinite(q)):
            raise SafetyError(f'a target is 7 finite numbers, got {q}')

    def step(self):
        now_ns = self.clock.now_ns()
        dt, self.at_ns, before = (now_ns - self.at_ns) * 1e-9, now_ns, self.q
        if self.motion is not None:
            start, goal, began_ns, duration_s = self.motion
            x = min(1.0, (now_ns - began_ns) * 1e-9 / duration_s)
            self.q = start + (goal - start) * x ** 3 * (10 - 15 * x + 6 * x * x)
            self.goal = self.q.copy()
            if x >= 1.0:
                self.motion, self.mode = None, RobotMode.IDLE
        elif self.mode is RobotMode.MOVE:
            self.follow(now_ns, dt)
        self.dq = (self.q - before) / dt if dt > 0.0 else self.dq

    def follow(self, now_ns, dt):
        self.q = self.q + np.clip(self.goal - self.q, -self.speed * dt, self.speed * dt)
        if (now_ns - self.told_ns) * 1e-9 > self.hold_s:
            self.mode, self.goal = RobotMode.IDLE, self.q.copy()


class LabGripper(Sampled):
    what = 'the lab gripper'

    def __init__(self, clock):
        super().__init__(clock)
        self.position = self.goal = 0.0
        self.rate, self.at_ns, self.fault = 1.0, 0, 0

    def state(self, max_age_s=0.2):
        return self.reading(self.sample_ns(max_age_s))

    def wait_state(self, timeout_s):
        return self.reading(self.next_ns(timeout_s))

    def reading(self, stamp_ns):
        self.step()
        moving = abs(self.goal - self.position) > 1e-3
        return GripperState(stamp_ns, self.position, self.width(), self.goal, moving,
                            ObjectStatus.MOVING if moving else ObjectStatus.AT_REQUESTED,
                            self.fault)

    def width(self):
        return 0.085 * (1.0 - self.position)

    def command(self, command):
        self._require_open(self.what)
        asked = np.array([command.position, command.speed, command.force])
        if not np.all(np.isfinite(asked)):
            raise SafetyError('a command must be finite')
        if self.fault:
            raise DriverError('activate the gripper first')
        self.step()
        self.goal, speed, force = (float(x) for x in np.clip(asked, 0.0, 1.0))
        self.rate = 0.3 + 1.5 * speed
        return GripperCommand(self.goal, command.stamp_ns, speed, force)

    def stop(self):
        self.step()
        self.goal = self.position

    def activate(self):
        self.fault = 0

    def trip(self):
        self.fault = 8

    def step(self):
        now_ns = self.clock.now_ns()
        dt, self.at_ns = (now_ns - self.at_ns) * 1e-9, now_ns
        way = self.goal - self.position
        self.position += float(np.clip(way, -self.rate * dt, self.rate * dt))


class LabCamera(Sampled):
    what = 'the lab camera'
    period_ns = 66_666_667
    serial = '4711'

    def __init__(self, clock):
        super().__init__(clock)
        rng = np.random.default_rng(0)
        self.pixels = rng.integers(0, 255, (2, 54, 96, 3), dtype=np.uint8)
        self.seen = Arrivals()

    def open(self):
        self.seen = Arrivals()
        super().open()

    def info(self):
        return camera_info('left', 96, 54)

    def frame(self, max_age_s=0.2):
        return self.grab(self.sample_ns(max_age_s))

    def wait_frame(self, timeout_s):
        return self.grab(self.next_ns(timeout_s))

    def grab(self, stamp_ns):
        if not any(stamp == stamp_ns for stamp, _ in self.seen.pairs()):
            self.seen.note(stamp_ns, stamp_ns + 1_000_000)
        left, right = (Image(pixels, stamp_ns) for pixels in self.pixels)
        return StereoFrame(left, right, stamp_ns // self.period_ns)

    def arrivals(self):
        return self.seen.pairs()


class QuickClock:
    """A clock whose sleeps take no time."""

    def __init__(self):
        self._now_ns, self._lock = 10 ** 18 + 3_000_000, threading.Lock()

    def now_ns(self):
        return self._now_ns

    def sleep_until_ns(self, stamp_ns):
        with self._lock:
            self._now_ns = max(self._now_ns, stamp_ns)

    steady_ns, sleep_until_steady_ns = now_ns, sleep_until_ns
