"""
Arm, gripper and camera of a robot of LeRobot, which they share.

See :class:`arena_robot.drivers.lerobot_robot.SharedRobot`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.config import load, nearest
from arena_robot.core.errors import ConfigError, DriverError, NotConnected
from arena_robot.core.observation import (
    ArmState,
    CameraInfo,
    Floats,
    GripperState,
    Image,
    Pixels,
    RobotMode,
)
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.droid_nuc.targets import FingerMotion, NucTargets
from arena_robot.drivers.lerobot_robot import (
    JointMap,
    JointUnit,
    LeRobotMapping,
    RobotReading,
    SharedRobot,
)
from arena_robot.drivers.part import Polled, fixed
from arena_robot.drivers.table import GRIPPER_MODELS, LEROBOT
from arena_robot.robots.arms import Robot
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.filter import clipped, finite
from arena_robot.safety.kinematics import flange_pose
from arena_robot.safety.limits import motion_s, robot_of

CONNECT_S = 20.0    # motors are configured one by one, and cameras warm up for seconds
LONGEST_S = 0.1     # a round that took longer moves the target by no more than this
SLOWEST, FASTER = 0.3, 1.5    # strokes a second at speed 0, and what speed 1 adds
State = TypeVar('State')


class LeRobotPart(Polled[State], ABC, Generic[State]):
    """A part of a :class:`SharedRobot`."""

    def __init__(self, what: str, backend: str, mapping: str, clock: Clock | None) -> None:
        super().__init__(what, clock or SystemClock())
        self._kind, self._path = backend.removeprefix(LEROBOT), Path(mapping).expanduser()
        self._shared: SharedRobot | None = None

    def open(self) -> None:
        """Connect, or join the parts that are, and read the first state; nothing moves."""
        if self._open:
            return
        self._begin(load(LeRobotMapping, self._path))
        self._state = None
        self._shared = shared = SharedRobot.join(self._kind, self._path, self._clock, self)
        with self._new:
            self._new.wait_for(lambda: self._state is not None or bool(shared.problem), CONNECT_S)
        super().open()
        if self._state is None:
            self.close()
            raise NotConnected(shared.problem or f'LeRobot does not connect within {CONNECT_S} s')

    def close(self) -> None:
        """Hold, and let go of the robot with the last part."""
        if self._open and not self._trouble():
            with suppress(DriverError):
                self.stop()
        super().close()
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave(self)

    def stop(self) -> None:
        """Stop what moves."""

    def take(self, reading: RobotReading) -> Mapping[str, float]:
        """Make the newest state; return the numbers to send."""
        with self._new:
            self._state, due = self._next(reading)
            self._read_ns, self._count = reading.steady_ns, self._count + 1
            self._new.notify_all()
        return due

    def lose(self) -> None:
        """Forget what was commanded."""
        with self._new:
            self._forget()
            self._new.notify_all()

    @abstractmethod
    def _begin(self, mapping: LeRobotMapping) -> None:
        """Take from the mapping what this part needs; ConfigError where that is missing."""

    @abstractmethod
    def _next(self, reading: RobotReading) -> tuple[State, Mapping[str, float]]:
        """Return the new state and the numbers to send; with the lock."""

    def _forget(self) -> None:
        """Drop what was commanded; with the lock."""

    def _urge(self) -> None:
        if self._open and self._shared is not None:
            self._shared.urge()

    def _require_robot(self) -> None:
        self._require_open(f'the {self._what}')
        if problem := self._trouble():
            raise DriverError(problem)

    def _trouble(self) -> str:
        return self._shared.problem if self._shared is not None else ''


class Scales:
    """Joints (n,) in rad or m, and the same in LeRobot's numbers by name."""

    def __init__(self, joints: Mapping[str, JointMap], robot: Robot) -> None:
        names = robot.joint_names()
        if wrong := set(names) ^ set(joints):
            raise ConfigError(f'the mapping must have the joints {", ".join(names)} of '
                              f'{robot.name}; missing or unknown: {", ".join(sorted(wrong))}')
        rows = [joints[name] for name in names]
        low, high = np.array(robot.limits.hardware_lower), np.array(robot.limits.hardware_upper)
        normalised, percent = (np.array([row.unit is unit for row in rows])
                               for unit in (JointUnit.NORMALISED, JointUnit.PERCENT))
        plain = np.array([math.degrees(1.0) if row.unit is JointUnit.DEGREES else 1.0
                          for row in rows])
        signs = np.array([row.sign for row in rows])
        self._names = [row.name for row in rows]
        self._zero = np.array([row.zero for row in rows])
        self._middle = np.where(normalised, 0.5 * (low + high), np.where(percent, low, 0.0))
        self._factor = signs * np.where(normalised | percent, np.where(
            normalised, 200.0, 100.0) / (high - low), plain)

    def joints(self, values: Mapping[str, Any]) -> Floats:
        """Return the joints of LeRobot's numbers."""
        own = np.array([float(values[name]) for name in self._names])
        return fixed(self._middle + (own - self._zero) / self._factor)

    def numbers(self, q: Floats) -> dict[str, float]:
        """Return LeRobot's numbers of the joints."""
        own = self._zero + self._factor * (q - self._middle)
        return dict(zip(self._names, map(float, own), strict=True))


class LeRobotArm(LeRobotPart[ArmState]):
    """
    The joints of a LeRobot robot; see :class:`arena_robot.drivers.base.Arm`.

    Its motors track positions: targets reach them no faster than the joints may move. Torques are
    not known (zero). ``mapping`` is the path of the mapping file. While it brakes and holds, the
    fingers of another arm's hand keep the last target that was sent: they may hold something.
    """

    def __init__(self, backend: str, mapping: str, robot_type: str = 'panda',
                 command_timeout: float = 0.5, clock: Clock | None = None) -> None:
        super().__init__('arm', backend, mapping, clock)
        self._robot = robot_of(robot_type)
        self._limits = self._robot.limits
        self._speed = np.array(self._robot.joint_velocity)
        self._targets = NucTargets(command_timeout)     # guarded by _new, as what follows
        self._sent: Floats | None = None

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state."""
        return self._newest(max_age_s, 'LeRobot does not answer')

    def command(self, command: ArmCommand) -> ArmCommand:
        """Track ``command.q`` clipped to the arm's own limits."""
        q = self._checked(command.q)
        with self._new:
            self._targets.track(q, self._clock.steady_ns())
        return ArmCommand(q, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a min-jerk motion, whose targets are sent one by one so that it can be stopped."""
        goal = self._checked(q)
        start = self.state(1.0).q
        time_s = motion_s(start, goal, duration_s, self._robot)
        with self._new:
            self._targets.move(start, goal, time_s, self._clock.steady_ns())
        return time_s

    def stop(self) -> None:
        """Hold the measured pose; returns when the robot was told, DriverError if it was not."""
        with self._new:
            self._targets.hold()
            if not self._targets.braking:
                return
        self._urge()

    def recover(self) -> None:
        """Hold the measured pose: these motors have no stop of their own to clear."""
        self._require_robot()
        with self._new:
            self._targets.begin_held()

    def _checked(self, q: Floats) -> Floats:
        self._require_robot()
        return np.clip(finite(q, self._robot.joints, 'arm target'), self._limits.hardware_lower,
                       self._limits.hardware_upper)

    def _begin(self, mapping: LeRobotMapping) -> None:
        self._scales = Scales(mapping.joints, self._robot)
        self._forget()

    def _forget(self) -> None:
        self._targets.forget()
        self._sent = None

    def _next(self, reading: RobotReading) -> tuple[ArmState, Mapping[str, float]]:
        before, q, zero = self._state, self._scales.joints(reading.values), np.zeros_like
        passed_s = (reading.steady_ns - self._read_ns) * 1e-9
        dq = (q - before.q) / max(passed_s, 1e-3) if before is not None else zero(q)
        self._aim(q, dq, min(passed_s, LONGEST_S), reading.steady_ns)
        target = self._targets.target
        state = ArmState(
            reading.stamp_ns, q, fixed(dq), fixed(zero(q)), fixed(zero(q)),
            fixed(flange_pose(q, self._limits.chain)), fixed(q if target is None else target),
            RobotMode.MOVE if self._targets.moving else RobotMode.IDLE)
        return state, {} if self._sent is None else self._scales.numbers(self._sent)

    def _aim(self, q: Floats, dq: Floats, passed_s: float, now_ns: int) -> None:
        """Set what to send: a step towards the target, or where the arm is while it brakes."""
        self._targets.due(now_ns)
        start, fingers = q if self._sent is None else self._sent, list(self._robot.fingers)
        if self._targets.braking:
            self._sent = self._targets.brake(q, dq, 0.0, now_ns)
            self._sent[fingers] = start[fingers]
        elif self._targets.target is not None:
            step = self._speed * passed_s
            self._sent = start + np.clip(self._targets.target - start, -step, step)


class LeRobotGripper(LeRobotPart[GripperState]):
    """
    The gripper of a LeRobot robot; see :class:`arena_robot.drivers.base.Gripper`.

    Whether the fingers move or hold something is concluded from their positions. LeRobot has no
    force to set: that of a command has no effect.
    """

    def __init__(self, backend: str, mapping: str, gripper_type: str = ROBOTIQ_2F85.name,
                 clock: Clock | None = None) -> None:
        super().__init__('gripper', backend, mapping, clock)
        self._model = GRIPPER_MODELS.find(gripper_type)
        self._motion = FingerMotion()       # guarded by _new, as what follows
        self._sent = self._rate = 0.0

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state."""
        return self._newest(max_age_s, 'LeRobot does not answer')

    def command(self, command: GripperCommand) -> GripperCommand:
        """Go to a position."""
        self._require_open('the gripper')
        sent = clipped(command)
        self._require_robot()
        with self._new:
            self._sent, self._rate = self._motion.position, SLOWEST + FASTER * sent.speed
            self._motion.go(sent.position, self._clock.steady_ns())
        return sent

    def stop(self) -> None:
        """Hold the measured position; DriverError if the robot was not told."""
        with self._new:
            if self._motion.requested is None:
                return
            self._sent = self._motion.position
            self._motion.go(self._sent, self._clock.steady_ns())
        self._urge()

    def activate(self) -> None:
        """Do nothing: connecting activates the motors. DriverError while there is no robot."""
        self._require_robot()

    def _begin(self, mapping: LeRobotMapping) -> None:
        if mapping.gripper is None:
            raise ConfigError(f'{self._path} has no gripper: give its name, open and closed')
        self._map = mapping.gripper
        self._forget()

    def _forget(self) -> None:
        self._motion = FingerMotion()

    def _next(self, reading: RobotReading) -> tuple[GripperState, Mapping[str, float]]:
        way = self._map.closed - self._map.open
        position = (float(reading.values[self._map.name]) - self._map.open) / way
        position, motion = min(1.0, max(0.0, position)), self._motion
        motion.see(position, reading.steady_ns)
        asked, due = motion.requested, dict[str, float]()
        if asked is not None:
            step = self._rate * min(LONGEST_S, (reading.steady_ns - self._read_ns) * 1e-9)
            self._sent += min(step, max(-step, asked - self._sent))
            due[self._map.name] = self._map.open + self._sent * way
        return GripperState(
            reading.stamp_ns, position, self._model.width_m(position),
            position if asked is None else asked, motion.travelling, motion.status), due


class LeRobotCamera(LeRobotPart[StereoFrame]):
    """
    A camera of a LeRobot robot, with one eye; see :class:`arena_robot.drivers.base.Camera`.

    LeRobot does not say when a picture was taken: the stamp is the time when it was there. A
    camera that is slower than the mapping's ``rate`` gives its last picture again.
    """

    def __init__(self, backend: str, mapping: str, role: str = 'left',
                 clock: Clock | None = None) -> None:
        super().__init__(f'{role} camera', backend, mapping, clock)
        self._role = role
        self._sequence = 0

    @property
    def serial(self) -> str:
        """LeRobot's names of the robot and the camera; before open the robot's."""
        return f'{self._kind}:{self._map.name}' if self._open else self._kind

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry of the only eye."""
        height, width = self.frame(math.inf).left.pixels.shape[:2]
        f = self._map.focal * width
        k = np.array([[f, 0.0, (width - 1) / 2], [0.0, f, (height - 1) / 2], [0.0, 0.0, 1.0]])
        return {'left': CameraInfo(width, height, k, 0.0, '')}

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest frame."""
        return self._newest(max_age_s, 'LeRobot does not answer')

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next new frame."""
        return self.wait_state(timeout_s)

    def arrivals(self) -> tuple[tuple[int, int], ...]:
        """Return nothing: LeRobot hands over pictures on request."""
        return ()

    def _begin(self, mapping: LeRobotMapping) -> None:
        if self._role not in mapping.cameras:
            raise ConfigError(f'{self._path} has no camera {self._role}: give its name and focal.'
                              f'{nearest(self._role, mapping.cameras)}')
        self._map = mapping.cameras[self._role]

    def _next(self, reading: RobotReading) -> tuple[StereoFrame, Mapping[str, float]]:
        pixels: Pixels = np.array(reading.values[self._map.name])
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise DriverError(f'the {self._what} gives {pixels.dtype} {pixels.shape}, needed are '
                              'uint8 (height, width, 3): set its color_mode to rgb')
        self._sequence += 1
        nothing = Image(np.zeros((0, 0, 3), np.uint8), reading.stamp_ns)
        return StereoFrame(Image(pixels, reading.stamp_ns), nothing, self._sequence), {}
