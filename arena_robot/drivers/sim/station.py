"""
A whole simulated DROID station: one world, one arm, one gripper, three stereo cameras.

A saved start can be put in a file, so that it outlives the process of the simulation.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import mujoco
import numpy as np
from typing_extensions import Self

from arena_robot.core.errors import ConfigError, DriverError
from arena_robot.core.files import write_json
from arena_robot.core.observation import EYES, ROLES
from arena_robot.drivers.base import Part
from arena_robot.drivers.part import Opened
from arena_robot.drivers.sim.arm_model import base_of, read_model
from arena_robot.drivers.sim.camera import SimCamera, Studio
from arena_robot.drivers.sim.gripper_model import GripperControl
from arena_robot.drivers.sim.mjcf import yaw_quat
from arena_robot.drivers.sim.parts import SimArm, SimGripper
from arena_robot.drivers.sim.scene import CompiledScene, SceneSpec, build_scene
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.drivers.sim.tasks.base import Task
from arena_robot.drivers.sim.truth import SceneTruth
from arena_robot.drivers.sim.world import FULL_STATE, SimWorld, full_state
from arena_robot.robots.arms import Robot
from arena_robot.robots.cameras import CameraKind
from arena_robot.safety.embodiments import cameras_of
from arena_robot.safety.limits import robot_of

SETTLE_S = 0.15      # until placed props are at rest
_ORACLE_TICKS = 5    # every 20 ms
VERSION = 1          # of kept starts


@dataclass(frozen=True)
class KeptStart:
    """A start by its task, seed and physics (MuJoCo's integration state) with the gripper open."""

    task: str
    seed: int
    physics: tuple[float, ...]


def write_start(path: Path, start: KeptStart) -> None:
    """Replace the file's content, whose folder is made. Raises DriverError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {'version': VERSION, **asdict(start)}, indent=None)
    except OSError as error:
        raise DriverError(f'the start could not be kept in {path}: {error.strerror}') from error


def read_start(path: Path) -> KeptStart | None:
    """Return the start in a file, None where there is no file. Raises DriverError."""
    try:
        kept = json.loads(path.read_text(encoding='utf-8'))
        if kept['version'] != VERSION:
            raise ValueError(f"version {kept['version']}, this is {VERSION}")
        return KeptStart(str(kept['task']), int(kept['seed']), tuple(map(float, kept['physics'])))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DriverError(f'{path} holds no start of a scene: {error}; delete it, and restore the '
                          'scene by ~/reset_scene') from error


@dataclass(frozen=True)
class SavedState:
    """A start state of one scene: full physics, the grip, and the oracle's memory."""

    scene: CompiledScene
    physics: mujoco.MjData
    grip: GripperControl
    task: Task
    best: float


def make_task(name: str, seed: int) -> Task:
    """Return a task's instance for a seed; ConfigError names the nearest known task."""
    return TASKS.find(name)(task_generator(seed))


def task_generator(seed: int) -> np.random.Generator:
    """Return the random generator that a task's instance is drawn with."""
    return np.random.default_rng((seed, 11))


class SimStation(Opened):
    """Parts around one world; the parts follow when :meth:`reset` loads another task or seed."""

    def __init__(self, world: SimWorld, robot: Robot, cameras: Mapping[str, CameraKind],
                 size: tuple[int, int], rate_hz: float, eyes: Sequence[str],
                 command_timeout_s: float) -> None:
        self.world, self.robot = world, robot
        self.arm, self.gripper = SimArm(world, command_timeout_s), SimGripper(world)
        self.studio = Studio(world)
        self.cameras = {role: SimCamera(world, self.studio, role, size=size, rate_hz=rate_hz,
                                        eyes=eyes, kind=kind) for role, kind in cameras.items()}
        self._parts: tuple[Part, ...] = (self.arm, self.gripper, *self.cameras.values())
        self.truth = SceneTruth(world)
        self.clock = world.clock
        self._task: Task | None = None
        self._best = 0.0
        world.on_tick.append(self._observe)

    @classmethod
    def make(cls, task: str | Task = 'cube_in_bowl', seed: int = 0, robot: str = 'panda', *,
             cameras: Sequence[str] | Mapping[str, CameraKind] = ROLES,
             size: tuple[int, int] = (320, 180), rate_hz: float = 15.0,
             eyes: Sequence[str] = EYES, epoch_ns: int = 0, command_timeout_s: float = 0.5,
             beauty: bool = False) -> Self:
        """
        Return a station with ``task`` (a name, or a task) set up, parts not yet open.

        ``robot`` is panda, fr3, or an embodiment's name or file; ``size`` (width, height) of
        every image; ``cameras`` and ``eyes`` choose what is drawn of the embodiment's cameras, or
        ``cameras`` says of which kind each is; ``epoch_ns`` is the stamp of the first instant;
        ``beauty`` adds shadows (slow). Raises ConfigError.
        """
        instance = make_task(task, seed) if isinstance(task, str) else task
        model, own = robot_of(robot), base_of(robot)
        scene = build_scene(SceneSpec(model, instance.setup.props, seed, beauty=beauty,
                                      arm=read_model(*own) if own else None))
        world = SimWorld(scene, epoch_ns=epoch_ns)
        kinds = cameras if isinstance(cameras, Mapping) else cameras_of(robot)
        chosen = {role: kinds.get(role, CameraKind.STEREO) for role in cameras
                  if role in kinds or role not in ROLES}    # a wrong role is refused by its name
        station = cls(world, model, chosen, size, rate_hz, eyes, command_timeout_s)
        if own and (height_m := float(station.truth.tcp()[2])) < 0.0:
            raise ConfigError(f'at reset the fingers of {model.name} are {-height_m:.2f} m below '
                              'the table: change reset or base_pose in its file')
        station._begin(instance)
        return station

    # -- parts -----------------------------------------------------------------------------

    def open(self) -> None:
        """Open every part, all or none."""
        try:
            for part in self._parts:
                part.open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the world's thread, close every part; can be called twice."""
        for part in self._parts:
            part.close()
        self.world.stop()
        self.studio.close()

    def step(self, dt_s: float) -> None:
        """Advance an idle world by ``dt_s`` of simulated time."""
        self.world.step(dt_s)

    # -- task ------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """The task that is set up now."""
        assert self._task is not None
        return self._task

    @property
    def instruction(self) -> str:
        """The task's instruction in this seed's wording."""
        return self.task.setup.instruction

    def reset(self, task: str | None = None, seed: int = 0) -> None:
        """Set up a task (None: the same one) for a seed; the arm is back at its reset pose."""
        instance = make_task(task or self.task.name, seed)
        spec = SceneSpec(self.robot, instance.setup.props, seed,
                         beauty=self.world.scene.spec.beauty, arm=self.world.scene.spec.arm)
        scene = build_scene(spec)
        with self.world.ticked:
            self.world.load(scene)
            self._begin(instance)

    def progress(self) -> float:
        """Return the oracle's progress, 0 to 1."""
        with self.world.ticked:
            self._judge()
            return 1.0 if self.task.done(self.truth) else self._best

    def succeeded(self) -> bool:
        """Return whether the task is done now."""
        with self.world.ticked:
            return self.task.done(self.truth)

    def potential(self) -> float:
        """Return the progress of the present state, 0 to 1; it falls when work is undone."""
        with self.world.ticked:
            return float(self.task.potential(self.truth))

    def save(self) -> SavedState:
        """Return the present state, to be restored later."""
        world = self.world
        with world.ticked:
            physics = mujoco.MjData(world.model)
            mujoco.mj_copyData(physics, world.model, world.data)
            return SavedState(world.scene, physics, copy.copy(world.gripper),
                              copy.deepcopy(self.task), self._best)

    def restore(self, state: SavedState, *, moved_mm: float = 0.0, turned_deg: float = 0.0,
                seed: int = 0) -> None:
        """
        Restore the saved state; time continues.

        ``moved_mm`` and ``turned_deg`` are standard deviations: of the errors with which free
        props are restored; 0 restores exactly.
        """
        world = self.world
        with world.ticked:
            if world.scene is not state.scene:
                world.load(state.scene)
            world.adopt(state.physics)
            self._task, self._best = copy.deepcopy(state.task), state.best
            if moved_mm > 0.0 or turned_deg > 0.0:
                self._disturb(np.random.default_rng((seed, 13)), moved_mm * 1e-3,
                              np.radians(turned_deg))
                world.rebind()
            world.gripper.resume(state.grip, world.data)

    def kept(self, state: SavedState) -> KeptStart:
        """Return a saved start as it is kept in a file."""
        physics = full_state(state.scene.model, state.physics)
        return KeptStart(state.task.name, state.scene.spec.seed, tuple(physics.tolist()))

    def load(self, start: KeptStart) -> SavedState:
        """Set up a start that was kept by another process. Raises DriverError; see `save`."""
        self.reset(start.task, start.seed)
        world = self.world
        with world.ticked:
            if len(start.physics) != mujoco.mj_stateSize(world.model, FULL_STATE):
                raise DriverError(f"the kept start of '{start.task}' is of another version of the "
                                  'scene; set one up with ~/reset_scene')
            mujoco.mj_setState(world.model, world.data, np.array(start.physics), FULL_STATE)
            world.data.time = world.now_s
            world.rebind()
            self._task, self._best = make_task(start.task, start.seed), 0.0
            self._task.potential(self.truth)
            return self.save()

    # -- inside ----------------------------------------------------------------------------

    def _begin(self, instance: Task) -> None:
        data = self.world.data
        for name, place in instance.setup.places.items():
            at, _ = self.world.joint(name)
            data.qpos[at:at + 3] = place.x, place.y, place.z
            quat = yaw_quat(place.yaw)
            data.qpos[at + 3:at + 7] = (0.0, quat[0], quat[3], 0.0) if place.flipped else quat
        for name, value in instance.setup.joints.items():
            data.qpos[self.world.joint(name)[0]] = value
        self._task, self._best = None, 0.0
        self.world.rebind()
        self.world.settle(SETTLE_S)
        self._task = instance
        instance.potential(self.truth)

    def _disturb(self, rng: np.random.Generator, moved_m: float, turned_rad: float) -> None:
        data = self.world.data
        for name in self.task.setup.places:
            at, _ = self.world.joint(name)
            data.qpos[at:at + 2] += rng.normal(0.0, moved_m, 2)
            data.qpos[at + 2] += 0.001
            turn = np.zeros(4)
            mujoco.mju_mulQuat(turn, yaw_quat(rng.normal(0.0, turned_rad)),
                               data.qpos[at + 3:at + 7])
            data.qpos[at + 3:at + 7] = turn

    def _observe(self) -> None:
        if self.world.ticks % _ORACLE_TICKS == 0:
            self._judge()

    def _judge(self) -> None:
        if self._task is not None:
            self._best = max(self._best, min(self._task.stage(self.truth), 0.99))
