"""Scripted expert: uses the Arm and Gripper interfaces, and object poses from the simulator."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_STEPS
from arena_robot.core.errors import DriverError
from arena_robot.core.observation import ObjectStatus
from arena_robot.drivers.sim.kinematics import PadKinematics, downward
from arena_robot.drivers.sim.station import SimStation

log = logging.getLogger(__name__)
PERIOD_S = 1.0 / CONTROL_RATE_HZ
SPEED_M_S = 0.28
TURN_RAD_S = 1.6
_HOVER_M = 0.11
NEAR_M = 0.004


@dataclass(frozen=True)
class ExpertRun:
    """Result of an expert rollout: ``progress`` after every control step."""

    task: str
    seed: int
    succeeded: bool
    progress: tuple[float, ...]

    @property
    def steps(self) -> int:
        """Control steps taken."""
        return len(self.progress)


class ExpertMotions:
    """Straight motions of the finger pads at 15 Hz; see :class:`tasks.base.Hands`."""

    def __init__(self, station: SimStation) -> None:
        self._arm, self._gripper = station.arm, station.gripper
        self._clock = station.clock
        self.truth = station.truth
        self._kinematics = PadKinematics(station.world)
        self._q = self._arm.state().q
        self._at, turn = self._kinematics.pose(self._q)
        self._yaw, self._pitch = float(np.arctan2(turn[1, 0], turn[0, 0])), 0.0
        self._closed, self._force = 0.0, 0.0

    def pick(self, name: str, height: float = 0.0, yaw: float | None = None,
             lift: float = 0.16) -> Iterator[None]:
        """Grasp a prop ``height`` above its origin from above and lift it."""
        x, y, z = self.truth.position(name) + np.array([0.0, 0.0, height])
        turn = _square(self.truth.yaw(name)) if yaw is None else _half_turn(yaw)
        yield from self.grip(0.0)
        yield from self.go(x, y, z + _HOVER_M, turn)
        yield from self.go(x, y, z, turn)
        yield from self.grip(1.0)
        yield from self.go(x, y, z + lift, turn)

    def place(self, x: float, y: float, z: float, yaw: float | None = None) -> Iterator[None]:
        """Put the held prop's grasp point at a position, let go and retreat."""
        hover = max(z + _HOVER_M, float(self._at[2]))
        yield from self.go(x, y, hover, yaw)
        yield from self.go(x, y, z, yaw)
        yield from self.grip(0.0)
        yield from self.go(x, y, z + _HOVER_M, yaw)

    def go(self, x: float, y: float, z: float, yaw: float | None = None,
           pitch: float = 0.0) -> Iterator[None]:
        """Move the pads straight to a position, then wait until they are there."""
        start, goal = self._at.copy(), np.array([x, y, z], dtype=float)
        turn_from, turn_to = self._yaw, self._yaw if yaw is None else _half_turn(yaw)
        pitch_from = self._pitch
        seconds = max(float(np.linalg.norm(goal - start)) / SPEED_M_S,
                      abs(turn_to - turn_from) / TURN_RAD_S, 0.2) * 1.5
        steps = int(np.ceil(seconds / PERIOD_S))
        for step in range(1, steps + 1):
            s = step / steps
            s = s * s * (3.0 - 2.0 * s)
            self._at = start + s * (goal - start)
            self._yaw = turn_from + s * (turn_to - turn_from)
            self._pitch = pitch_from + s * (pitch - pitch_from)
            self._q = self._kinematics.solve(self._q, self._at, downward(self._yaw, self._pitch))
            yield from self._tick()
        for _ in range(12):
            if np.linalg.norm(self._kinematics.pose(self._arm.state().q)[0] - goal) < NEAR_M:
                return
            yield from self._tick()

    def grip(self, position: float, force: float = 0.0) -> Iterator[None]:
        """Open (0) or close (1) the gripper and wait for it."""
        self._closed, self._force = position, force
        yield from self._tick()
        yield from self._tick()
        for _ in range(30):
            if self._gripper.state().object_status is not ObjectStatus.MOVING:
                break
            yield from self._tick()
        yield from self._tick()

    def wait(self, seconds: float) -> Iterator[None]:
        """Keep still."""
        for _ in range(round(seconds / PERIOD_S)):
            yield from self._tick()

    def _tick(self) -> Iterator[None]:
        stamp_ns = self._clock.now_ns()
        self._arm.command(ArmCommand(self._q, stamp_ns))
        self._gripper.command(GripperCommand(self._closed, stamp_ns, force=self._force))
        yield


def run_expert(station: SimStation, max_steps: int = MAX_STEPS) -> ExpertRun:
    """Run the expert on the station's task once; parts must be open and the world idle."""
    seed = station.world.scene.spec.seed
    progress: list[float] = []
    try:
        for _ in station.task.solve(ExpertMotions(station)):
            station.step(PERIOD_S)
            progress.append(station.progress())
            if len(progress) >= max_steps:
                break
    except DriverError as error:
        log.warning('%s seed %d: the expert was stopped: %s', station.task.name, seed, error)
    return ExpertRun(station.task.name, seed, station.succeeded(), tuple(progress))


def _square(yaw: float) -> float:
    return float((yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def _half_turn(yaw: float) -> float:
    return float((yaw + np.pi / 2) % np.pi - np.pi / 2)


