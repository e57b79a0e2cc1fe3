"""The robot parts of a session: arm, gripper and cameras behind their interfaces."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from arena_robot.core.action import GripperCommand
from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, StaleData
from arena_robot.core.observation import (
    DEPTH,
    EYES,
    ArmState,
    Floats,
    GripperState,
    Image,
    Observation,
    view,
)
from arena_robot.drivers.base import ActingArm, Camera, Gripper, StereoFrame
from arena_robot.robots.arms import Robot
from arena_robot.safety.limits import move_duration_s

T = TypeVar('T')

LOOK_TIMEOUT_S = 3.0    # for a next picture when nothing moves
SILENT_S = 0.5      # then a person is told that a step waits for a part
OPENING_S = 0.5     # for the fingers to let go before the arm moves
GRACE_S = 3.0       # for an arm to arrive after the planned end of a motion
SETTLING_S = 0.3    # for the arm to stop swinging before a photograph
REACHED = 0.05      # rad
THERE = 0.005       # rad; a wrist camera turned by so little sees the same picture
STILL = 0.05        # rad/s
OPEN = 0.02         # share of the stroke
SLOWER = 3.0    # so that a person can still step in after a recovery


@dataclass(frozen=True)
class Ages:
    """
    Maximum age of readings in a step, in seconds.

    If the newest is older, the step waits for the next one, at most ``patience_s``; meanwhile the
    arm holds, and the step is reported as late. A slow NUC reads its gripper every 0.14 s.
    """

    arm_s: float = 0.1
    gripper_s: float = 0.2
    image_s: float = 0.2
    patience_s: float = 2.0


class Silence:
    """Which part a step waits for; another thread may ask."""

    def __init__(self) -> None:
        self._of: tuple[str, float] | None = None

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Keep that a part is waited for."""
        self._of = part, time.monotonic()
        try:
            yield
        finally:
            self._of = None

    def told(self) -> str:
        """Return it as a sentence once the wait is long; or ''."""
        if (of := self._of) is None or time.monotonic() - of[1] < SILENT_S:
            return ''
        return f'{of[0]} has sent nothing new for half a second; the arm holds.'


@dataclass(frozen=True)
class Parts:
    """An arm, a gripper, and cameras by role (``left``, ``right``, ``wrist``)."""

    arm: ActingArm
    gripper: Gripper
    cameras: Mapping[str, Camera]
    ages: Ages = dataclasses.field(default_factory=Ages)
    silence: Silence = dataclasses.field(default_factory=Silence)

    def arm_state(self) -> ArmState:
        """Return a fresh state of the arm. Raises DriverError."""
        return self._fresh('The arm', self.arm.state, self.arm.wait_state, self.ages.arm_s)

    def gripper_state(self) -> GripperState:
        """Return a fresh state of the gripper. Raises DriverError."""
        return self._fresh('The gripper', self.gripper.state, self.gripper.wait_state,
                           self.ages.gripper_s)

    def images(self) -> dict[str, Image]:
        """Return a fresh image of every eye by view. Raises DriverError."""
        return _views(self._frames())

    def look(self) -> dict[str, Image]:
        """Return an image of every eye taken from now on, by view. Raises DriverError."""
        return _views({role: camera.wait_frame(LOOK_TIMEOUT_S)
                       for role, camera in self.cameras.items()})

    def arrivals(self) -> list[Sequence[tuple[int, int]]]:
        """Return (stamp_ns, came_ns) of each camera's newest frames, oldest first."""
        return [camera.arrivals() for camera in self.cameras.values()]

    def observe(self, stamp_ns: int, prompt: str = '', step: int = 0) -> Observation:
        """Return the current observation; the arm is read last. Raises DriverError."""
        frames, gripper = self._frames(), self.gripper_state()
        return Observation(stamp_ns, self.arm_state(), gripper, prompt, step, _views(frames),
                           depths={view(role, DEPTH): frame.depth
                                   for role, frame in frames.items() if frame.depth is not None})

    def _frames(self) -> dict[str, StereoFrame]:
        return {role: self._fresh(f'The {role} camera', camera.frame, camera.wait_frame,
                                  self.ages.image_s) for role, camera in self.cameras.items()}

    def _fresh(self, what: str, newest: Callable[[float], T], following: Callable[[float], T],
               max_age_s: float) -> T:
        try:
            return newest(max_age_s)
        except StaleData:
            with self.silence.of(what):
                return following(self.ages.patience_s)


def _views(frames: Mapping[str, StereoFrame]) -> dict[str, Image]:
    return {view(role, eye): image for role, frame in frames.items()
            for eye, image in zip(EYES, (frame.left, frame.right), strict=True)
            if image.pixels.size}


def move_to_reset(parts: Parts, clock: Clock, q: Floats,
                  stopped: Callable[[], bool] = lambda: False, slow: Robot | None = None) -> None:
    """
    Open the gripper, then bring the arm to ``q`` (n,) rad.

    A motion is made to its end even when the arm begins close to the goal: a wrist camera that is
    turned by two degrees sees another picture. An arm that rests within 0.3 degrees of it, and
    takes commands, is left there. For the robot ``slow`` the motion takes SLOWER times its usual
    time. It ends early when ``stopped`` returns True. Raises DriverError when the arm has not
    arrived three seconds after the planned end.
    """
    goal = np.asarray(q, dtype=float)
    was_open = _is_open(parts)
    parts.gripper.command(GripperCommand(0.0, clock.now_ns()))
    if not was_open:
        _pause(clock, OPENING_S)
    if stopped():
        raise DriverError('the way to the reset pose was stopped')
    now = parts.arm_state()
    if _is_at(now, goal, THERE) and not now.recovery_required:
        return
    planned_s = parts.arm.move_to(
        goal, SLOWER * move_duration_s(now.q, goal, slow) if slow else None)
    planned_ns = clock.steady_ns() + round(planned_s * 1e9)
    end_ns = planned_ns + round(GRACE_S * 1e9)
    while clock.steady_ns() < planned_ns or not _is_at(parts.arm_state(), goal):
        if stopped():
            parts.arm.stop()    # the stop may have come before the motion began
            raise DriverError('the way to the reset pose was stopped')
        if clock.steady_ns() > end_ns:
            parts.arm.stop()
            error = float(np.max(np.abs(parts.arm_state().q - goal)))
            raise DriverError(f'the arm did not reach its reset pose: joint error {error:.3f} rad '
                              'is left; clear its way and reset again')
        _pause(clock, 0.05)
    _pause(clock, SETTLING_S)


def _is_at(state: ArmState, goal: Floats, within: float = REACHED) -> bool:
    still = float(np.max(np.abs(state.dq))) < STILL
    return still and float(np.max(np.abs(state.q - goal))) < within


def _is_open(parts: Parts) -> bool:
    """Return whether the gripper says that it is open; False when it says nothing."""
    try:
        state = parts.gripper.state(parts.ages.gripper_s)
    except DriverError:
        return False
    return state.position < OPEN and not state.is_moving


def _pause(clock: Clock, seconds: float) -> None:
    clock.sleep_until_steady_ns(clock.steady_ns() + round(seconds * 1e9))
