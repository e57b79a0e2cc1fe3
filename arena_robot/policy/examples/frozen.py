"""The weakest example policy: it never moves."""

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec


class Frozen:
    """Always returns zero velocity and an open gripper."""

    spec = PolicySpec(action_space=ActionSpace.JOINT_VELOCITY, chunk_length=8)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return eight actions of zero velocity."""
        return Chunk(np.zeros((8, 8), np.float32), self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Do nothing: there is no state."""
