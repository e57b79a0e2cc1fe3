"""
Soft actor-critic of stable-baselines3 on a reward subtask; imported only when it is chosen.

``pip install arena-robot[rl]`` brings stable-baselines3, gymnasium and PyTorch.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats
from arena_robot.trials.skills.finding import FinderMaker
from arena_robot.trials.skills.learning import (
    ACTIONS,
    EPISODE_STEPS,
    LearningBudget,
    SkillEnvironment,
    SkillLearner,
)

EXTRA = 'arena-robot[rl]'
WARM_UP = 120           # random actions before the first update
_DEFAULT = LearningBudget()
_SETTINGS = {'learning_rate': 1e-3, 'batch_size': 128, 'gamma': 0.95, 'ent_coef': 'auto_0.1',
             'learning_starts': WARM_UP, 'policy_kwargs': {'net_arch': [64, 64]},
             'device': 'cpu', 'verbose': 0}


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
            found = place.step(action)
            return (found.observation.astype(np.float32), found.reward, found.ended, found.cut,
                    {})

    return SkillGymnasium()


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"the learner 'sac' needs {module}, which cannot be imported here: "
                          f'{error}; pip install {EXTRA}') from error
