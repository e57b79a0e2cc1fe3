"""
Reward subtasks by reinforcement learning: the station as an environment, and its learner.

The environment is plain numpy. Soft actor-critic is that of stable-baselines3, which is imported
when it is chosen; the extra ``rl`` brings it, gymnasium and PyTorch. Actions go
through the same motions as the search's, so safety filter, Arm and Gripper are the same.
"""

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from arena_robot import DISTRIBUTION
from arena_robot.core.errors import ConfigError, DriverError, OutOfSteps, SafetyError
from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.expert import PERIOD_S, SPEED_M_S, TURN_RAD_S
from arena_robot.drivers.sim.station import SavedState
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.skills.confined.code import RewardCode
from arena_robot.trials.skills.motion import PadPose, SkillMotions
from arena_robot.trials.skills.proposals import MotionProposal
from arena_robot.trials.skills.search import FinderMaker, RewardSearch, made_true, rests
from arena_robot.trials.skills.view import StationView

ACTIONS = 5                 # velocity of the hand x, y, z, about z, and the gripper
EPISODE_STEPS = 120
REPEAT = 3                  # control steps of one action: 5 decisions a second
_LEAD_M = 0.05              # how far the pads may be sent ahead of where they are
_GRIP_PART, _GRIP_AT = 0.3, 0.6
_LOW, _HIGH = np.array([0.25, -0.5, 0.0]), np.array([0.85, 0.5, 0.5])
_FAR_M = 0.2
_MOST = 5.0                 # of an observation
WARM_UP = 120           # random actions before the first update
_SETTINGS = {'learning_rate': 1e-3, 'batch_size': 128, 'gamma': 0.95, 'ent_coef': 'auto_0.1',
             'learning_starts': WARM_UP, 'policy_kwargs': {'net_arch': [64, 64]},
             'device': 'cpu', 'verbose': 0}


@dataclass(frozen=True)
class LearningBudget:
    """
    Most simulated control steps and seconds of CPU time of one reward subtask.

    Only a limit of ``cpu_s`` that is reached makes results depend on the machine.
    """

    steps: int = 12000
    cpu_s: float = 120.0


@dataclass(frozen=True)
class SkillStep:
    """What an action led to; ``ended``: success or an arm that stopped, ``cut``: no steps left."""

    observation: Floats
    reward: float
    ended: bool = False
    cut: bool = False


class SkillEnvironment:
    """
    One reward subtask as an environment; every episode begins in the state ``start``.

    Observation: where the hand is and where it was sent, its yaw, the gripper, then the joints and
    positions that the code reads. Action (5,), each -1 to 1: velocity of the hand, turning, and
    the gripper, which moves only when the mean of recent actions says so clearly. The reward is
    the code's, less its value at the start. ``found`` is the first motion with success at rest.
    """

    def __init__(self, motions: SkillMotions, view: StationView, code: RewardCode,
                 start: SavedState) -> None:
        self._motions, self._view, self._code, self._start = motions, view, code, start
        self._links = motions.links
        self._first, _ = code(view)
        self._lowest = 0.0
        self._joints = list(view.asked_joints)
        moved = [self._links.body_of(joint) for joint in self._joints]
        unseen = [body for body in moved
                  if not set(self._links.tree(body)) & set(view.asked_bodies)]
        self._bodies = list(dict.fromkeys([*view.asked_bodies, *unseen]))
        self._path: list[PadPose] = []
        self._widths: list[float] = []
        self.found: MotionProposal | None = None
        self.observations = len(self.reset(EPISODE_STEPS))

    def reset(self, allowed: int) -> Floats:
        """Begin an episode of at most ``allowed`` control steps; return the observation."""
        self._motions.station.restore(self._start)
        self._motions.begin(min(allowed, EPISODE_STEPS))
        requested = self._motions.station.gripper.state().requested_position
        self._width = (1.0 - requested) * ROBOTIQ_2F85.stroke_m
        self._wish = 1.0 if requested < 0.5 else -1.0
        self._path.clear()
        self._widths.clear()
        return self._observation()

    def step(self, action: Floats) -> SkillStep:
        """Act for ``REPEAT`` control steps, fewer when the episode ends."""
        values = np.clip(np.asarray(action, float), -1.0, 1.0)
        self._wish += _GRIP_PART * (float(values[4]) - self._wish)
        if abs(self._wish) > _GRIP_AT:
            self._width = ROBOTIQ_2F85.stroke_m if self._wish > 0 else 0.0
        reward = self._first
        try:
            for _ in range(REPEAT):
                reward, success = self._moved(values)
                if success and rests(self._motions, self._view, self._code):
                    self.found = MotionProposal('learned', tuple(self._path),
                                                widths=tuple(self._widths))
                    return SkillStep(self._observation(), self._gain(reward), ended=True)
        except (DriverError, SafetyError):
            return SkillStep(self._observation(), 10.0 * self._lowest, ended=True)
        except OutOfSteps:
            return SkillStep(self._observation(), self._gain(reward), cut=True)
        return SkillStep(self._observation(), self._gain(reward))

    def _moved(self, values: Floats) -> tuple[float, bool]:
        pose = self._motions.pose
        at = self._hand()[0]
        point = pose.point + values[:3] * SPEED_M_S * PERIOD_S
        point = np.clip(np.clip(point, at - _LEAD_M, at + _LEAD_M), _LOW, _HIGH)
        self._path.append(PadPose(point, pose.yaw + float(values[3]) * TURN_RAD_S * PERIOD_S))
        self._widths.append(self._width)
        self._motions.run(self._motions.follow(self._path[-1:], self._widths[-1:]))
        return self._code(self._view)

    def _gain(self, reward: float) -> float:
        gain = reward - self._first
        self._lowest = min(self._lowest, gain)
        return gain

    def _hand(self) -> tuple[Floats, float]:
        point, angles = self._view.get_eef_pos()
        return point, float(angles[2])

    def _observation(self) -> Floats:
        point, yaw = self._hand()
        links, truth = self._links, self._motions.station.truth
        parts = [2.0 * (point - _LOW) / (_HIGH - _LOW) - 1.0,
                 (self._motions.pose.point - point) / _LEAD_M,
                 [np.sin(yaw), np.cos(yaw), self._wish,
                  self._motions.station.gripper.state().width_m / ROBOTIQ_2F85.stroke_m]]
        for joint in self._joints:
            state = links.motion(joint)
            parts.append([2.0 * (state.position - state.low) / (state.high - state.low) - 1.0])
        for body in self._bodies:
            grip = links.grip(body)
            place = truth.position(body) if grip is None else grip.point
            parts.append((place - point) / _FAR_M)
        out: Floats = np.clip(np.concatenate(parts), -_MOST, _MOST)
        return out


Trainer = Callable[[SkillEnvironment, Callable[[], int], int], None]


class SkillLearner:
    """
    Learns a motion that makes one subtask's success indicator true; see MotionFinder.

    ``train`` acts in an environment until it has found a motion or the second argument, which
    returns the number of control steps that are left, returns 0; the third one is its seed. The
    motion counts when it succeeds once more from the start.
    """

    def __init__(self, motions: SkillMotions, view: StationView, code: RewardCode,
                 train: Trainer, budget: LearningBudget) -> None:
        self._motions, self._view, self._code = motions, view, code
        self._train, self._budget = train, budget
        self._begun, self._begun_s = motions.steps, time.process_time()
        self.found: MotionProposal | None = None

    def run(self, rng: np.random.Generator) -> bool:
        """Return whether a motion was learned; if not, the station is as it was before."""
        return made_true(self._motions, self._view, self._code,
                         lambda start: self._learned(start, rng))

    def again(self, proposal: MotionProposal) -> bool:
        """Make one motion from the present state; return its success."""
        return RewardSearch(self._motions, self._view, self._code).again(proposal)

    def _learned(self, start: SavedState, rng: np.random.Generator) -> bool:
        place = SkillEnvironment(self._motions, self._view, self._code, start)
        self._train(place, self._left, int(rng.integers(2 ** 31)))
        self._motions.station.restore(start)
        if place.found is None or not self.again(place.found):
            return False
        self.found = place.found
        return True

    def _left(self) -> int:
        if time.process_time() - self._begun_s >= self._budget.cpu_s:
            return 0
        return max(0, self._budget.steps - (self._motions.steps - self._begun))


_DEFAULT = LearningBudget()


def sac_learner(budget: LearningBudget = _DEFAULT) -> FinderMaker:
    """Return what makes learners; ConfigError names what to install where it is missing."""
    for module in ('torch', 'gymnasium', 'stable_baselines3'):
        _imported(module)
    return partial(SkillLearner, train=train, budget=budget)


def train(place: SkillEnvironment, left: Callable[[], int], seed: int) -> None:
    """Train from nothing until a motion is found or nothing is left; on one CPU thread."""
    torch = _imported('torch')
    sb3 = _imported('stable_baselines3')
    vec = _imported('stable_baselines3.common.vec_env')
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        world = vec.VecNormalize(vec.DummyVecEnv([lambda: _gymnasium(place, left)]),
                                 norm_obs=False, gamma=_SETTINGS['gamma'])
        model = sb3.SAC('MlpPolicy', world, seed=seed, buffer_size=max(1, left()), **_SETTINGS)
        model.learn(max(1, left()), callback=lambda *_: place.found is None and left() > 0)
    finally:
        torch.set_num_threads(threads)


def _gymnasium(place: SkillEnvironment, left: Callable[[], int]) -> Any:
    gym = _imported('gymnasium')
    base: Any = gym.Env

    class SkillGymnasium(base):  # type: ignore[misc]
        """The environment under gymnasium's names."""

        observation_space = gym.spaces.Box(-5.0, 5.0, (place.observations,), np.float32)
        action_space = gym.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
                  ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            return place.reset(min(EPISODE_STEPS, left())).astype(np.float32), {}

        def step(self, action: Floats) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            result = place.step(action)
            return (result.observation.astype(np.float32), result.reward, result.ended, result.cut,
                    {})

    return SkillGymnasium()


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"the learner 'sac' needs {module}, which cannot be imported here: "
                          f"{error}; pip install '{DISTRIBUTION}[rl]'") from error
