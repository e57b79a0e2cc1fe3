"""
The simulated station as a Gymnasium environment, ``arena_robot/DroidStation-v0``.

::

    import gymnasium
    env = gymnasium.make('arena_robot.drivers.sim.droid_gym:arena_robot/DroidStation-v0',
                         task='cube_in_bowl', cameras=('left', 'wrist'), render_mode='rgb_array')
    observation, info = env.reset(seed=3)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())

A step is one of DROID's control loop, 1/15 s. The action passes the safety layer of a station. The
observation has the names of a policy's. The reward is what the step added to the potential of the
task, which is 1 when the task is done; so the rewards of an episode add up to how far it got.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from arena_robot.core.action import Action, ActionSpace, GripperCommand
from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_STEPS
from arena_robot.core.errors import ConfigError, DriverError, SafetyError
from arena_robot.core.observation import ROLES, Pixels
from arena_robot.drivers.guarded import guarded
from arena_robot.drivers.sim.render import Shot
from arena_robot.drivers.sim.room_model import OVERVIEW
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import DOF, PANDA, ROBOTS

ID = 'arena_robot/DroidStation-v0'
PERIOD_S = 1.0 / CONTROL_RATE_HZ
FASTEST_RAD_S = 10.0    # bound of observed joint velocities; no robot of the table reaches it
FARTHEST_M = 2.0        # bound of observed flange positions; the arms reach 0.9 m
_SEEDS = 2**31          # instances of a task that a seed of the environment chooses from
_Base: Any = gymnasium.Env


class DroidStationEnv(_Base):  # type: ignore[misc]
    """
    One station with a task; ``reset(seed=…)`` sets up the same instance for the same seed.

    ``action_space`` is one of DROID's four. ``cameras`` are roles whose left eyes are in the
    observation as (H, W, 3), of ``size`` (width, height); without them nothing is drawn.
    ``station`` is behind it, for what no policy
    may know. ``render_mode`` 'rgb_array' draws the room from a corner in that size.
    """

    metadata: ClassVar[dict[str, Any]] = {'render_modes': ['rgb_array'],
                                          'render_fps': CONTROL_RATE_HZ}

    def __init__(self, task: str = 'cube_in_bowl', action_space: str = 'joint_velocity',
                 robot: str = PANDA.name, cameras: tuple[str, ...] = (),
                 size: tuple[int, int] = (320, 180), render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata['render_modes']):
            raise ConfigError(f"there is no render_mode '{render_mode}'; there is rgb_array")
        self.render_mode, self._size = render_mode, size
        self._task, self._space = task, ActionSpace(action_space)
        self.station = SimStation.make(task, 0, robot, cameras=cameras, size=size,
                                        eyes=('left',))
        self.station.open()
        self._arm = guarded(self.station.arm, self.station.robot, self.station.clock)
        self._potential = 0.0
        self.action_space = _actions(self._space, robot)
        self.observation_space = _observations(cameras, size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Set up an instance of the task, or of ``options['task']``, that the seed chooses."""
        super().reset(seed=seed)
        self._task = (options or {}).get('task', self._task)
        self.station.reset(self._task, int(self.np_random.integers(_SEEDS)))
        self._potential = self.station.potential()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """
        Carry out an action for 1/15 s.

        It ends with success, or when the arm has stopped itself: ``info['stopped']`` says why.
        """
        station, values, stopped = self.station, np.asarray(action, np.float64), ''
        stamp_ns = station.clock.now_ns()
        try:
            safe = self._arm.decide(Action(values, self._space), stamp_ns)
            station.gripper.command(GripperCommand(float(values[-1] > 0.5), stamp_ns))
            clamps = [clamp.reason.value for clamp in safe.clamps]
        except (SafetyError, DriverError) as error:
            stopped, clamps = str(error), []
        station.step(PERIOD_S)
        done = station.succeeded()
        before, self._potential = self._potential, station.potential()
        info = {**self._info(), 'clamps': clamps, **({'stopped': stopped} if stopped else {})}
        return (self._observation(), float(self._potential - before), bool(done or stopped),
                False, info)

    def render(self) -> Pixels | None:
        """Return the room as (H, W, 3), None without a ``render_mode``."""
        if self.render_mode is None:
            return None
        return self.station.studio.picture(Shot(OVERVIEW, *self._size))

    def close(self) -> None:
        """Close the station; can be called twice."""
        self.station.close()

    def _info(self) -> dict[str, Any]:
        return {'instruction': self.station.instruction, 'progress': self.station.progress(),
                'success': self.station.succeeded()}

    def _observation(self) -> dict[str, Any]:
        arm, gripper = self.station.arm.state(), self.station.gripper.state()
        state = {'joint_position': arm.q, 'joint_velocity': arm.dq,
                 'cartesian_position': arm.pose, 'gripper_position': [gripper.position]}
        bounds = self.observation_space.spaces
        return {**{name: np.clip(np.asarray(values, np.float32), bounds[name].low,
                                 bounds[name].high) for name, values in state.items()},
                **{role: camera.frame().left.pixels
                   for role, camera in self.station.cameras.items()}}


def _actions(space: ActionSpace, robot: str) -> Any:
    """Return the actions of a space: the arm's numbers, and the gripper's from 0 to 1."""
    high = np.ones(len(space.row.names)) if space.is_velocity else np.array(space.row.largest)
    low = -high
    if space is ActionSpace.JOINT_POSITION:
        low, high = ROBOTS[robot].limits.q_min, ROBOTS[robot].limits.q_max
    return spaces.Box(np.array([*low, 0.0], np.float32), np.array([*high, 1.0], np.float32))


def _observations(cameras: tuple[str, ...], size: tuple[int, int]) -> Any:
    """Return the observations: joints and gripper, the flange's pose, and pictures by role."""
    turn = np.full(3, np.pi)
    most = {'joint_position': np.full(DOF, 2 * np.pi), 'joint_velocity': np.full(
        DOF, FASTEST_RAD_S), 'cartesian_position': np.array([*np.full(3, FARTHEST_M), *turn])}
    return spaces.Dict({
        **{name: spaces.Box(-high.astype(np.float32), high.astype(np.float32))
           for name, high in most.items()},
        'gripper_position': spaces.Box(0.0, 1.0, (1,), np.float32),
        **{role: spaces.Box(0, 255, (size[1], size[0], 3), np.uint8)
           for role in ROLES if role in cameras}})


gymnasium.register(ID, DroidStationEnv, max_episode_steps=MAX_STEPS)
