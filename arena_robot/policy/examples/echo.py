"""Policy that returns the observed joint positions: for connection checks and benchmarks."""

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec


class Echo:
    """Returns the observed joints and gripper as ``length`` actions."""

    def __init__(self, length: int = 8, image_size: tuple[int, int] = (224, 224)) -> None:
        self.spec = PolicySpec(action_space=ActionSpace.JOINT_POSITION, chunk_length=length,
                               image_size=(image_size[0], image_size[1]))

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return the observed joints and gripper as every action."""
        action = np.append(observation.arm.q, observation.gripper.position)
        return Chunk(np.tile(action.astype(np.float32), (self.spec.chunk_length, 1)),
                     self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Do nothing: there is no state."""
