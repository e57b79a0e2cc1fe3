"""
Policies from files: ``LOADER:PLACE``, such as ``lerobot:/data/act`` or ``skill:box.json``.

A loader is called with the place and keyword arguments and returns a policy. Installed packages
add loaders in the entry point group ``arena_robot.policy_loaders``.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.action import ActionSpace
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import Table, callable_as

PolicyLoader = Callable[..., Any]


LOADERS: Table[PolicyLoader] = Table('policy loader', 'arena_robot.policy_loaders', {
    'openpi': 'arena_robot.policy.checkpoints.openpi:OpenpiCheckpoint',
    'lerobot': 'arena_robot.policy.checkpoints.lerobot:LerobotCheckpoint',
    'skill': 'arena_robot.policy.recorded_skill:RecordedSkill',
}, callable_as('loader'))


def imported(module: str, loader: str, install: str) -> Any:
    """Return a module that a loader needs; ConfigError says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"'{loader}:' needs {module}, which cannot be imported here: {error}. Install "
            f'{install} in the environment that runs arena policy serve') from error


def said_space(value: str, loader: str) -> ActionSpace:
    """Return the action space that an author states; ConfigError: a checkpoint does not say it."""
    known = {space.value: space for space in ActionSpace}
    if value not in known:
        problem = f"unknown action space '{value}'.{nearest(value, known)}" if value else \
            'a checkpoint does not say its action space'
        raise ConfigError(f'{loader}: {problem}; add --kwargs action_space=joint_velocity, or '
                          'another one')
    return known[value]


def clipped(actions: NDArray[np.float32], space: ActionSpace) -> NDArray[np.float32]:
    """Return actions (N, D) with velocities within -1..1 and the gripper within 0..1."""
    out: NDArray[np.float32] = np.array(actions, np.float32)
    if space.is_velocity:
        out[:, :-1] = np.clip(out[:, :-1], -1.0, 1.0)
    out[:, -1] = np.clip(out[:, -1], 0.0, 1.0)
    return out
