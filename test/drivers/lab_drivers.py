"""Drivers as a lab would write them, on any clock; the checks hold for each."""

import importlib
import json
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import yaml

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
from arena_robot.drivers.sim.room_model import camera_info
from arena_robot.robots.arms import PANDA, RESET_JOINTS

PLUGIN = Path(__file__).parents[2] / 'config' / 'lerobot_robot_arena'
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


class LabRobot:
    """
    What LeRobot calls a robot, as an SO-101 is one: joints in degrees, a gripper, a camera.

    Each number goes from ``start`` to where it is sent at ``speed`` units a second. ``log`` is a
    file that gets every action; ``calibrated`` False is a robot that nobody calibrated. A robot
    that is ``broken`` raises what a bus does.
    """

    joints = ('shoulder_pan', 'shoulder_lift', 'elbow_flex', 'wrist_flex', 'wrist_roll')
    made = ()

    def __init__(self, log='', calibrated=True, speed=120.0, joints=joints, start=None):
        type(self).made = (*self.made, self)
        self.log, self.is_calibrated, self.speed = log, calibrated, speed
        self.action_features = {f'{name}.pos': float for name in (*joints, 'gripper')}
        self.observation_features = {**self.action_features, 'front': (48, 64, 3)}
        self.position = dict.fromkeys(self.action_features, 1.0) | {
            'gripper.pos': 100.0} | (start or {})
        self.goal, self.at_s = dict(self.position), 0.0
        self.broken = self.is_connected = False

    def connect(self, calibrate=True):
        assert not calibrate, 'a node cannot ask a person to calibrate'
        self.is_connected, self.at_s = True, time.monotonic()

    def disconnect(self):
        self.is_connected = False

    def get_observation(self):
        if self.broken or not self.is_connected:
            raise ConnectionError('no status packet')
        now_s = time.monotonic()
        most, self.at_s = self.speed * (now_s - self.at_s), now_s
        for name, goal in self.goal.items():
            self.position[name] += float(np.clip(goal - self.position[name], -most, most))
        picture = np.full((48, 64, 3), (200, 100, 50), np.uint8)
        return {**self.position, 'front': picture}

    def send_action(self, action):
        assert set(action) == set(self.action_features)
        self.goal = dict(action)
        if self.log:
            with open(self.log, 'a', encoding='utf-8') as file:
                file.write(json.dumps(action) + '\n')
        return action


SO101_MODEL = """<mujoco><worldbody><body name="base"><body name="shoulder" pos="0 0 .06">
<joint name="pan" axis="0 0 1" range="-110 110"/><body name="upper" pos=".03 0 .05">
<joint name="lift" axis="0 1 0" range="-100 100"/><body name="lower" pos="0 0 .11">
<joint name="elbow" axis="0 1 0" range="-97 97"/><body name="wrist" pos=".13 0 0">
<joint name="flex" axis="0 1 0" range="-95 95"/><body name="roll" pos=".06 0 0">
<joint name="roll" axis="1 0 0" range="-157 163"/><site name="tool" pos=".05 0 0"/>
</body></body></body></body></body></body></worldbody></mujoco>"""
SO101_ARM = """
name: so101
title: SO-101
arms: {arm: {model: so101.xml, joints: [pan, lift, elbow, flex, roll], base: base, tool: tool,
             velocity: [2, 2, 2, 2, 2], acceleration: [9, 9, 9, 9, 9], torque: [3, 3, 3, 3, 3],
             reset: [0, 0, 0, 0, 0]}}
grippers: {gripper: {stroke_m: 0.08}}
cameras: {wrist: {kind: mono, role: wrist}}
layouts: {}
"""
SO101_MAPPING = """
robot: {}
rate: 50
joints:
  pan: {name: shoulder_pan.pos, unit: degrees}
  lift: {name: shoulder_lift.pos, unit: degrees, sign: -1}
  elbow: {name: elbow_flex.pos, unit: degrees, zero: 5}
  flex: {name: wrist_flex.pos, unit: radians}
  roll: {name: wrist_roll.pos, unit: normalised}
gripper: {name: gripper.pos}
cameras: {left: {name: front, focal: 0.9}}
"""


def so101(folder, **robot):
    """Write an arm and its mapping to :class:`LabRobot`; return their paths as texts."""
    for name, text in (('so101.xml', SO101_MODEL), ('so101.yaml', SO101_ARM), (
            'mapping.yaml', SO101_MAPPING.replace('robot: {}', f'robot: {json.dumps(robot)}'))):
        (folder / name).write_text(text, encoding='utf-8')
    return str(folder / 'so101.yaml'), str(folder / 'mapping.yaml')


def panda_like(folder, **robot):
    """Write the mapping of a :class:`LabRobot` with a Panda's joints; return its path as text."""
    names = PANDA.joint_names()
    start = dict(zip((f'{name}.pos' for name in names), np.degrees(RESET_JOINTS).tolist(),
                     strict=True))
    path = folder / 'panda_mapping.yaml'
    path.write_text(yaml.safe_dump({
        'robot': {'joints': names, 'start': start, **robot}, 'rate': 60.0,
        'joints': {name: {'name': f'{name}.pos', 'unit': 'degrees'} for name in names},
        'gripper': {'name': 'gripper.pos'},
        'cameras': {'wrist': {'name': 'front', 'focal': 0.8}}}), encoding='utf-8')
    return str(path)


def stand_in_plugin(monkeypatch):
    """Return the module of our robots for LeRobot, over what it takes from LeRobot."""
    registered = {}
    config = type('RobotConfig', (), {'register_subclass': staticmethod(
        lambda name: lambda made: registered.setdefault(name, made))})
    content = {
        'lerobot.robots.config': {'RobotConfig': config},
        'lerobot.robots.robot': {'Robot': type('Robot', (), {'__init__': lambda *_: None})},
        'lerobot.utils.errors': {name: type(name, (ConnectionError,), {}) for name in (
            'DeviceAlreadyConnectedError', 'DeviceNotConnectedError')}}
    for name in ('lerobot', 'lerobot.robots', 'lerobot.utils', *content):
        module = types.ModuleType(name)
        module.__dict__.update(content.get(name, {}))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.delitem(sys.modules, 'lerobot_robot_arena', raising=False)
    found = importlib.import_module('lerobot_robot_arena')
    monkeypatch.delitem(sys.modules, 'lerobot_robot_arena')
    assert registered == {'arena_station': found.ArenaStationConfig,
                          'arena_ros_station': found.ArenaRosStationConfig}
    return found
