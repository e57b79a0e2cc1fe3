"""
One simulated world: owns MuJoCo's data and time, and steps it on request or in a thread.

Its time is a core Clock too.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import mujoco
import numpy as np

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.arm_control import ArmControl
from arena_robot.drivers.sim.arm_model import joint_names
from arena_robot.drivers.sim.gripper_model import GripperControl
from arena_robot.drivers.sim.mjcf import pose_of
from arena_robot.drivers.sim.scene import CompiledScene
from arena_robot.safety.kinematics import rotation_of

log = logging.getLogger(__name__)
TICK_STEPS = 4    # physics steps per control tick: 250 Hz
FULL_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_LATE_S = 0.25    # later than this the world does not catch up, and counts the time as lost


@dataclass(frozen=True)
class Snapshot:
    """State of one instant for the renderer."""

    scene: CompiledScene
    stamp_ns: int
    qpos: Floats
    mocap_pos: Floats
    mocap_quat: Floats


def full_state(model: mujoco.MjModel, data: mujoco.MjData) -> Floats:
    """Return all from which MuJoCo continues exactly."""
    state = np.empty(mujoco.mj_stateSize(model, FULL_STATE))
    mujoco.mj_getState(model, data, state, FULL_STATE)
    return state


@dataclass
class Faults:
    """Parts that tests made fail: camera roles, ``'arm'`` or ``'gripper'``."""

    dead: set[str] = field(default_factory=set)


class SimWorld:
    """
    Physics at 1 kHz with control every 4 ms, safe to use from any thread.

    Without a running thread, :meth:`step` advances it: deterministic, as fast as the machine.
    :meth:`start` runs it at ``real_time_factor``; ``lag_s`` then says how much time was lost
    because the machine could not keep up.
    """

    def __init__(self, scene: CompiledScene, *, epoch_ns: int = 0) -> None:
        self.ticked = threading.Condition(threading.RLock())
        self.clock = SimClock(self)
        self.faults = Faults()
        self.arm = ArmControl(scene.spec.robot)
        self.gripper = GripperControl(scene.spec.fingers)
        self.lag_s = 0.0
        self.real_time_factor: float | None = 1.0
        self.ticks = 0
        self.generation = 0
        self.on_tick: list[Callable[[], None]] = []
        self._epoch_ns = epoch_ns
        self._steps = 0
        self._step_ns = round(scene.spec.step_s * 1e9)
        self._target_ns = 0
        self._snapshot: Snapshot | None = None
        self._snapshot_of = (0, 0)
        self._alarms: list[tuple[int, int, threading.Event]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._wall_s = time.monotonic()
        self.load(scene)

    # -- content ---------------------------------------------------------------------------

    def load(self, scene: CompiledScene) -> None:
        """Replace the scene; arm at its reset pose, gripper open; time continues."""
        with self.ticked:
            self.scene = scene
            self.model = scene.model
            self.data = mujoco.MjData(self.model)
            self.data.time = self.now_s
            arm = [self.joint(name)[0] for name in joint_names(self.arm.robot)]
            self.data.qpos[arm] = self.arm.robot.reset_joints
            for second, (first, start, slope) in (
                    scene.spec.arm.followers if scene.spec.arm else {}).items():
                self.data.qpos[self.joint(f'arm_{second}')[0]] = start + slope * self.data.qpos[
                    self.joint(f'arm_{first}')[0]]
            fingers = self.gripper.fingers
            for name, position in zip(fingers.joints, fingers.open, strict=True):
                self.data.qpos[self.joint(name)[0]] = position
            self.rebind()

    def rebind(self) -> None:
        """Let the controllers hold the present state; call after writing ``data`` directly."""
        with self.ticked:
            state = full_state(self.model, self.data)
            mujoco.mj_resetData(self.model, self.data)  # wakes sleeping bodies
            mujoco.mj_setState(self.model, self.data, state, FULL_STATE)
            mujoco.mj_forward(self.model, self.data)
            self._bind()

    def adopt(self, data: mujoco.MjData) -> None:
        """Continue exactly from a copy of ``data``, except for the time."""
        with self.ticked:
            mujoco.mj_copyData(self.data, self.model, data)
            self.data.time = self.now_s
            self._bind()

    def _bind(self) -> None:
        self.generation += 1
        self._target_ns = self._steps * self._step_ns
        self.arm.bind(self.model, self.data)
        self.gripper.bind(self.model, self.data)

    def settle(self, seconds: float) -> None:
        """Simulate until objects are at rest while the arm holds; the time does not change."""
        with self.ticked:
            mujoco.mj_step(self.model, self.data, round(seconds * 1e9) // self._step_ns)
            self.data.qvel[:] = 0.0
            self.data.time = self.now_s
            self.rebind()

    def joint(self, name: str) -> tuple[int, int]:
        """Return a joint's address in qpos and in qvel."""
        i = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_JOINT, name)
        if i < 0:
            raise DriverError(f"the scene has no joint '{name}'")
        return int(self.model.jnt_qposadr[i]), int(self.model.jnt_dofadr[i])

    def in_base(self, position: Floats, matrix: Floats) -> Floats:
        """Return the pose (6,) in the arm's base of what is at (3,) and (9,) in the world."""
        if self.scene.spec.arm is None:
            return pose_of(position, matrix)
        base = np.array(self.scene.spec.arm.part.base_pose)
        turn = rotation_of(base[3:]).T
        return pose_of(turn @ (position - base[:3]), (turn @ matrix.reshape(3, 3)).ravel())

    def snapshot(self) -> Snapshot:
        """Copy what rendering needs; the same object until something changes."""
        with self.ticked:
            key = (self.ticks, self.generation)
            if self._snapshot is None or self._snapshot_of != key:
                d = self.data
                self._snapshot_of = key
                self._snapshot = Snapshot(self.scene, self.now_ns(), d.qpos.copy(),
                                          d.mocap_pos.copy(), d.mocap_quat.copy())
            return self._snapshot

    # -- time ------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Return the world's time in nanoseconds since its epoch."""
        return self._epoch_ns + self._steps * self._step_ns

    @property
    def elapsed_ns(self) -> int:
        """Nanoseconds simulated so far."""
        return self._steps * self._step_ns

    @property
    def now_s(self) -> float:
        """Seconds simulated so far."""
        return self.elapsed_ns * 1e-9

    @property
    def running(self) -> bool:
        """Whether a thread steps the world."""
        return self._thread is not None

    def silence_s(self) -> float:
        """Return the wall time since a running world's last step; 0 without a thread."""
        return time.monotonic() - self._wall_s if self.running else 0.0

    def step(self, dt_s: float) -> None:
        """Advance by ``dt_s``; fractions of a physics step are carried over to the next call."""
        if self.running:
            raise DriverError('a thread runs this world; wait on its clock instead of stepping')
        with self.ticked:
            self._target_ns = max(self._target_ns, self._steps * self._step_ns) + round(dt_s * 1e9)
            self._advance_to(self._target_ns)

    def run_until_ns(self, stamp_ns: int) -> None:
        """Wait for a running world to reach ``stamp_ns``, or step an idle one there."""
        if not self.running:
            with self.ticked:
                goal = -(-(stamp_ns - self._epoch_ns) // self._step_ns) * self._step_ns
                self._target_ns = max(goal, self._target_ns)
                self._advance_to(goal)
            return
        while self.now_ns() < stamp_ns and self.running:
            alarm = threading.Event()
            with self.ticked:
                if self.now_ns() < stamp_ns:
                    # Waking all threads at every tick would cost more than the physics.
                    heapq.heappush(self._alarms, (stamp_ns, next(self._numbers), alarm))
                else:
                    return
            alarm.wait(1.0)

    def wait_tick(self, timeout_s: float) -> bool:
        """Return once the world has ticked again; False when ``timeout_s`` passed first."""
        if not self.running:
            with self.ticked:
                self._tick(TICK_STEPS)
            return True
        with self.ticked:
            seen = self.ticks
            return self.ticked.wait_for(lambda: self.ticks != seen, timeout_s)

    def _advance_to(self, elapsed_ns: int) -> None:
        while (left := (elapsed_ns - self._steps * self._step_ns) // self._step_ns) > 0:
            self._tick(int(min(left, TICK_STEPS)))

    def _tick(self, steps: int) -> None:
        self.arm.tick(self.data, self.elapsed_ns)
        self.gripper.tick(self.data, steps * self._step_ns * 1e-9)
        mujoco.mj_step(self.model, self.data, steps)
        self._steps += steps
        if abs(self.data.time - self.now_s) > 1e-3 * TICK_STEPS:
            raise DriverError('the simulation became unstable and MuJoCo reset it at '
                              f'{self.now_s:.3f} s; set up the scene again')
        self.ticks += 1
        self._wall_s = time.monotonic()
        now_ns = self.now_ns()
        while self._alarms and self._alarms[0][0] <= now_ns:
            heapq.heappop(self._alarms)[2].set()
        for listener in self.on_tick:
            listener()
        self.ticked.notify_all()

    # -- real time -------------------------------------------------------------------------

    def start(self, real_time_factor: float | None = 1.0) -> None:
        """
        Run in a thread at ``real_time_factor`` times real time; None: as fast as possible.

        ``real_time_factor`` may be changed while it runs.
        """
        if self.running:
            raise DriverError('this world runs already')
        self.real_time_factor = real_time_factor
        self._stopping.clear()
        self._wall_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name='sim_world', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the world then advances by :meth:`step` again."""
        if self._thread is not None:
            self._stopping.set()
            self._thread.join(timeout=5.0)
            self._thread = None

    def _run(self) -> None:
        try:
            self._pace()
        except Exception:
            log.exception('the simulated world stopped')

    def _pace(self) -> None:
        tick_s = TICK_STEPS * self._step_ns * 1e-9
        due = time.monotonic()
        while not self._stopping.is_set():
            with self.ticked:
                self._tick(TICK_STEPS)
            factor = self.real_time_factor
            if factor is None:
                time.sleep(0)
                due = time.monotonic()
                continue
            due += tick_s / factor
            wait_s = due - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            elif wait_s < -_LATE_S:
                self.lag_s -= wait_s
                due = time.monotonic()


class SimClock:
    """
    Simulated time; integer nanoseconds since the world's epoch.

    ``sleep_until_ns`` waits for the thread that runs the world. Without such a thread, the sleep
    itself advances the simulation, so code written against a Clock runs as fast as it can.
    """

    def __init__(self, world: SimWorld) -> None:
        self._world = world

    def now_ns(self) -> int:
        """Return the world's time."""
        return self._world.now_ns()

    def steady_ns(self) -> int:
        """Return the world's time, which never jumps."""
        return self._world.now_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once the world's time is ``stamp_ns`` or later."""
        self._world.run_until_ns(stamp_ns)

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Return once the world's time is ``stamp_ns`` or later."""
        self._world.run_until_ns(stamp_ns)
