"""Motions of the arm for skills: straight lines and arcs at 15 Hz, every command checked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import OutOfSteps
from arena_robot.core.observation import Floats, ObjectStatus
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.sim.expert import (
    NEAR_M,
    PERIOD_S,
    SPEED_M_S,
    TURN_RAD_S,
    PadKinematics,
    downward,
)
from arena_robot.drivers.sim.station import SimStation
from arena_robot.drivers.sim.truth import SceneLinks
from arena_robot.robots.grippers import ROBOTIQ_2F85

CLEAR_M = 0.25          # height of the pads on the way over everything
LOWEST_M = 0.012
SHUT_M = 0.005


@dataclass(frozen=True)
class PadPose:
    """A pose of the point between the pads: position (3,) and yaw (rad), fingers down."""

    point: Floats
    yaw: float


class SkillMotions:
    """
    Moves arm and gripper of a station; methods yield once per control step.

    ``watch`` is called after every step. Raises DriverError when a part stops, SafetyError when a
    command is not allowed, OutOfSteps after ``allow``'s number of steps. With ``whole_strokes``
    the gripper opens and closes fully, as policies' actions do; ``sent`` is the last command (8,):
    joint targets (rad) and gripper position.
    """

    def __init__(self, station: SimStation, watch: Callable[[], None],
                 whole_strokes: bool = False) -> None:
        self.station = station
        self._whole_strokes = whole_strokes
        self.links = SceneLinks(station.world)
        self.kinematics = PadKinematics(station.world)
        self.steps = 0
        self._arm = guarded(station.arm, station.robot, station.clock)
        self._watch = watch
        self._left = 0
        self.begin(0)

    def begin(self, allowed: int) -> None:
        """Take the arm where it is, with a new number of allowed steps."""
        self._left = allowed
        self._q = self.station.arm.state().q
        point, turn = self.kinematics.pose(self._q)
        self._pose = PadPose(point, float(np.arctan2(turn[1, 0], turn[0, 0])))
        self._width = self.station.gripper.state().requested_position
        self.sent = np.append(self._q, self._width)

    @property
    def pose(self) -> PadPose:
        """Where the pads were last sent to."""
        return self._pose

    def run(self, motion: Iterator[None]) -> None:
        """Make a motion to its end."""
        for _ in motion:
            pass

    def go(self, goal: PadPose, speed: float = SPEED_M_S) -> Iterator[None]:
        """Move straight to a pose, then wait until the pads are there."""
        start = self._pose
        way = float(np.linalg.norm(goal.point - start.point))
        seconds = max(way / speed, abs(goal.yaw - start.yaw) / TURN_RAD_S, 0.13) * 1.5
        count = int(np.ceil(seconds / PERIOD_S))
        for step in range(1, count + 1):
            s = step / count
            s = s * s * (3.0 - 2.0 * s)
            yield from self._towards(PadPose(start.point + s * (goal.point - start.point),
                                             start.yaw + s * (goal.yaw - start.yaw)))
        for _ in range(8):
            at = self.kinematics.pose(self.station.arm.state().q)[0]
            if np.linalg.norm(at - goal.point) < NEAR_M:
                return
            yield from self._tick()

    def follow(self, path: list[PadPose], widths: Sequence[float] = ()) -> Iterator[None]:
        """Follow a path, one pose per control step, each with its gripper width (m) if given."""
        for number, pose in enumerate(path):
            if number < len(widths):
                self._send_width(widths[number])
            yield from self._towards(pose)

    def over(self, goal: PadPose) -> Iterator[None]:
        """Go up, across and down to a pose, clear of everything on the table."""
        height = max(CLEAR_M, float(goal.point[2]))
        if self._pose.point[2] < height - 0.01:
            yield from self.go(PadPose(_at_height(self._pose.point, height), self._pose.yaw))
        yield from self.go(PadPose(_at_height(goal.point, height), goal.yaw))
        yield from self.go(goal)

    def grip(self, width_m: float) -> Iterator[None]:
        """Open or close the gripper to a width (m) and wait for it."""
        self._send_width(width_m)
        for _ in range(2):
            yield from self._tick()
        for _ in range(25):
            if self.station.gripper.state().object_status is not ObjectStatus.MOVING:
                break
            yield from self._tick()
        yield from self._tick()

    def hold(self, steps: int) -> Iterator[None]:
        """Stay where the arm is now."""
        self._q = self.station.arm.state().q
        for _ in range(steps):
            yield from self._tick()

    def _send_width(self, width_m: float) -> None:
        if self._whole_strokes:
            width_m = 0.0 if width_m < SHUT_M else ROBOTIQ_2F85.stroke_m
        self._width = 1.0 - min(width_m / ROBOTIQ_2F85.stroke_m, 1.0)

    def _towards(self, pose: PadPose) -> Iterator[None]:
        point = pose.point.copy()
        point[2] = max(point[2], LOWEST_M)
        self._pose = PadPose(point, pose.yaw)
        self._q = self.kinematics.solve(self._q, point, downward(pose.yaw))
        yield from self._tick()

    def _tick(self) -> Iterator[None]:
        if self._left <= 0:
            raise OutOfSteps('the simulated steps of this subtask are used up')
        self._left -= 1
        self.steps += 1
        stamp_ns = self.station.clock.now_ns()
        sent = self._arm.command(ArmCommand(self._q, stamp_ns))
        self.station.gripper.command(GripperCommand(self._width, stamp_ns, force=0.0))
        self.station.step(PERIOD_S)
        self.sent = np.append(sent.q, self._width)
        self._watch()
        yield


def _at_height(point: Floats, height: float) -> Floats:
    return np.array([point[0], point[1], height])
