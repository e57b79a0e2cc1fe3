"""
Scripted expert: uses the Arm and Gripper interfaces, and object poses from the simulator.

Its contact sheet shows all tasks from all cameras, half way through the rollout.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import mujoco
import numpy as np

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_STEPS
from arena_robot.core.errors import ConfigError, DriverError
from arena_robot.core.observation import Floats, ObjectStatus, Pixels
from arena_robot.drivers.sim.gripper_model import PAD_SITE
from arena_robot.drivers.sim.render import MAX_HEIGHT, MAX_WIDTH, Shot
from arena_robot.drivers.sim.room_model import OVERVIEW
from arena_robot.drivers.sim.station import SimStation
from arena_robot.drivers.sim.world import SimWorld

log = logging.getLogger(__name__)
PERIOD_S = 1.0 / CONTROL_RATE_HZ
SPEED_M_S = 0.28
TURN_RAD_S = 1.6
_HOVER_M = 0.11
NEAR_M = 0.004    # from here on the pads are at their goal
_PAPER, _INK = 250, (40, 40, 40)
_HALF_WAY = {'do_not_move': 0.1}
_GAP = 6
_HEAD = 30
_DAMPING = 0.02     # m and rad; less lets the joints jump near a singularity
_POSTURE = 0.04     # share of the way to the rest pose per step, in the null space
_TIPPING = 0.1      # m for each rad
_STEPS = 12         # nearly every call takes them all: posture pulls against the target


@dataclass(frozen=True)
class ExpertRun:
    """
    Result of an expert rollout: ``progress`` after every control step.

    ``short_m`` is how far the arm stayed away from the place that it reaches least.
    """

    task: str
    seed: int
    succeeded: bool
    progress: tuple[float, ...]
    short_m: float = 0.0

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
        self._kinematics, arm = PadKinematics(station.world), self._arm.state()
        others = list(station.world.arm.robot.limits.chain.others)
        self._q = arm.q
        self._q[others] = arm.q_desired[others]    # what they hold, they go on holding
        self._at, turn = self._kinematics.pose(self._q)
        self._yaw, self._pitch = float(np.arctan2(turn[1, 0], turn[0, 0])), 0.0
        self._closed, self._force, self.short_m = 0.0, 0.0, 0.0

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
        away_m = float(np.linalg.norm(self._kinematics.pose(self._q)[0] - goal))
        self.short_m = max(self.short_m, away_m)
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
    motions = ExpertMotions(station)
    try:
        for _ in station.task.solve(motions):
            station.step(PERIOD_S)
            progress.append(station.progress())
            if len(progress) >= max_steps:
                break
    except DriverError as error:
        log.warning('%s seed %d: the expert was stopped: %s', station.task.name, seed, error)
    return ExpertRun(station.task.name, seed, station.succeeded(), tuple(progress),
                     motions.short_m)


def _square(yaw: float) -> float:
    return float((yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def _half_turn(yaw: float) -> float:
    return float((yaw + np.pi / 2) % np.pi - np.pi / 2)


def contact_sheet(names: Sequence[str], seed: int, width: int, columns: int, *,
                  beauty: bool = True, robots: Sequence[str] = ('panda',)) -> Pixels:
    """
    Return (H, W, 3) RGB: a strip of three views, ``width`` pixels each, for every task.

    Task number i is drawn with seed ``seed + i``, so that looks vary, and with the robots in
    turn. Above them are whole stations, one per column, at tasks spread over the list.
    """
    tiles = [_tile(name, seed + i, robots[i % len(robots)], width, beauty)
             for i, name in enumerate(names)]
    shown = [int((column + 0.5) * len(tiles) / columns) for column in range(columns)]
    rows = [[tiles[i][1] for i in shown]]
    strips = [strip for strip, _ in tiles]
    while len(strips) % columns:
        strips.append(np.full_like(strips[0], _PAPER))
    rows += [strips[i:i + columns] for i in range(0, len(strips), columns)]
    return np.vstack([np.hstack(row) for row in rows])


def _tile(name: str, seed: int, robot: str, width: int,
          beauty: bool) -> tuple[Pixels, Pixels]:
    """Return a task's strip of views and a picture of the whole station, equally wide."""
    with SimStation.make(name, seed, robot, size=(MAX_WIDTH, MAX_HEIGHT), eyes=('left',),
                         beauty=beauty) as station:
        _work(station, _moment(name, seed, robot))
        title = f"{name}: '{station.instruction}'"
        views = [camera.frame().left.pixels for camera in station.cameras.values()]
        whole = station.studio.picture(Shot(OVERVIEW, MAX_WIDTH, MAX_HEIGHT))
    full = 3 * (width + _GAP) + _GAP
    strip = np.full((width * 9 // 16 + _HEAD, full, 3), _PAPER, np.uint8)
    for column, picture in enumerate(views):
        left = _GAP + column * (width + _GAP)
        strip[_HEAD:, left:left + width] = _shrunk(picture, width)
    cv2.putText(strip, title, (_GAP, _HEAD - 9), cv2.FONT_HERSHEY_SIMPLEX, 0.5, _INK, 1,
                cv2.LINE_AA)
    banner = np.full((full * 9 // 16 + _GAP, full, 3), _PAPER, np.uint8)
    inner = _shrunk(whole, full - 2 * _GAP)
    banner[_GAP:_GAP + len(inner), _GAP:-_GAP] = inner
    return strip, banner


def _shrunk(picture: Pixels, width: int) -> Pixels:
    small = cv2.resize(picture, (width, width * 9 // 16), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8)


def _moment(name: str, seed: int, robot: str) -> int:
    """Return the step of the expert's rollout that shows the task best."""
    with SimStation.make(name, seed, robot, cameras=()) as station:
        progress = np.array(run_expert(station).progress)
    wanted = min(_HALF_WAY.get(name, 0.48), float(progress.max()))
    return int(np.argmax(progress >= wanted)) + 1


def _work(station: SimStation, steps: int) -> None:
    for done, _ in enumerate(station.task.solve(ExpertMotions(station)), 1):
        station.step(PERIOD_S)
        if done >= steps:
            return


def write_picture(path: Path, pixels: Pixels) -> None:
    """Write an RGB picture; ConfigError when the suffix is not a picture's."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, 88]
    try:
        written = cv2.imwrite(str(path), np.ascontiguousarray(pixels[..., ::-1]), quality)
    except cv2.error as error:
        raise ConfigError(f'cannot write {path}: use .jpg or .png') from error
    if not written:
        raise ConfigError(f'cannot write {path}: is the folder there?')


class PadKinematics:
    """Joint angles that put the point between the pads at a pose in the base frame."""

    def __init__(self, world: SimWorld) -> None:
        self._model = world.model
        self._data = mujoco.MjData(world.model)
        self._data.qpos[:] = world.data.qpos
        self._qpos = world.arm.impedance.qpos
        self._dofs = world.arm.impedance.dofs
        self._site = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_SITE, PAD_SITE)
        robot = world.arm.robot
        self._bends = robot.limits.chain.moves[-1]
        margin = np.where(self._bends, 0.06, 0.0)
        self._low = np.array(robot.limits.hardware_lower) + margin
        self._high = np.array(robot.limits.hardware_upper) - margin
        self._rest = np.array(robot.reset_joints)
        # With fewer than six joints the fingers tip rather than stay away from their place.
        self._turning = 1.0 if robot.joints >= 6 else _TIPPING
        self._weights = np.repeat([[1.0], [self._turning]], 3, axis=0)

    def pose(self, q: Floats) -> tuple[Floats, Floats]:
        """Return position (3,) and rotation (3, 3) of the pads for ``q`` (n,)."""
        self._data.qpos[self._qpos] = q
        mujoco.mj_kinematics(self._model, self._data)
        return (self._data.site_xpos[self._site].copy(),
                self._data.site_xmat[self._site].reshape(3, 3).copy())

    def solve(self, q: Floats, position: Floats, rotation: Floats) -> Floats:
        """Return (n,) rad near ``q``; the best found when the pose cannot be reached."""
        jac = np.zeros((6, self._model.nv))
        q = np.array(q, dtype=float)
        for _ in range(_STEPS):
            at, turn = self.pose(q)
            error = np.concatenate([position - at, self._turning * _rotation_vector(
                rotation @ turn.T)])
            if np.linalg.norm(error) < 1e-5:
                break
            mujoco.mj_comPos(self._model, self._data)
            mujoco.mj_jacSite(self._model, self._data, jac[:3], jac[3:], self._site)
            j = jac[:, self._dofs] * self._weights
            gain = j.T @ np.linalg.inv(j @ j.T + _DAMPING ** 2 * np.eye(6))
            rest = _POSTURE * self._bends * (self._rest - q)
            free = np.eye(len(q)) - gain @ j
            q = np.clip(q + gain @ error + free @ rest, self._low, self._high)
        return q


def _rotation_vector(turn: Floats) -> Floats:
    quat, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quat, turn.ravel())
    mujoco.mju_quat2Vel(vector, quat, 1.0)
    return vector


def downward(yaw: float, pitch: float = 0.0) -> Floats:
    """Return (3, 3) for fingers pointing down, turned by ``yaw``, tipped forward by ``pitch``."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    turn = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    tip = np.array([[cp, 0, -sp], [0, 1, 0], [sp, 0, cp]])
    out: Floats = turn @ tip @ np.diag([1.0, -1.0, -1.0])
    return out
