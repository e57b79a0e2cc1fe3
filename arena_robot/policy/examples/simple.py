"""Policies that do not look: random motions, no motion, and an echo for checks and benchmarks."""

import threading
import zlib

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec

LENGTH = 8
SMOOTHING = 0.9
GRIPPER_FLIP_CHANCE = 0.1


class RandomWalk:
    """
    A random walk in joint velocity of strength ``speed`` (0 to 1), of an arm with any joints.

    Every episode has its own generator, seeded by ``seed`` and the episode's token: walks differ
    between episodes, and start again after a reset.
    """

    def __init__(self, seed: int = 0, speed: float = 0.3) -> None:
        self.spec = PolicySpec(action_space=ActionSpace.JOINT_VELOCITY, chunk_length=LENGTH,
                               session_id=True, joints=0)
        self._seed = seed
        self._speed = speed
        self._lock = threading.Lock()
        self._walks: dict[str, _Walk] = {}

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return the episode's next eight velocities."""
        seed = (self._seed, zlib.crc32(episode.encode('utf-8')))
        with self._lock:
            walk = self._walks.setdefault(
                episode, _Walk(seed, self._speed, len(observation.arm.q)))
            return Chunk(walk.next(LENGTH), self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Restart the episode's walk."""
        with self._lock:
            self._walks.pop(episode, None)


class _Walk:
    def __init__(self, seed: tuple[int, int], speed: float, joints: int) -> None:
        self._random = np.random.default_rng(seed)
        self._speed = speed
        self._velocity = np.zeros(joints)
        self._gripper = 0.0

    def next(self, length: int) -> np.ndarray:
        actions = np.empty((length, len(self._velocity) + 1), np.float32)
        if self._random.random() < GRIPPER_FLIP_CHANCE:
            self._gripper = 1.0 - self._gripper
        for action in actions:
            push = self._random.normal(0.0, self._speed, len(self._velocity))
            self._velocity = SMOOTHING * self._velocity + (1.0 - SMOOTHING) * push
            action[:] = np.clip(np.append(self._velocity, self._gripper), -1.0, 1.0)
        return actions


class Echo:
    """Returns the observed joints and gripper as ``length`` actions."""

    def __init__(self, length: int = 8, image_size: tuple[int, int] = (224, 224)) -> None:
        self.spec = PolicySpec(action_space=ActionSpace.JOINT_POSITION, chunk_length=length,
                               image_size=(image_size[0], image_size[1]), joints=0)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return the observed joints and gripper as every action."""
        action = np.append(observation.arm.q, observation.gripper.position)
        return Chunk(np.tile(action.astype(np.float32), (self.spec.chunk_length, 1)),
                     self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Do nothing: there is no state."""


class Frozen:
    """Always returns zero velocity and an open gripper."""

    spec = PolicySpec(action_space=ActionSpace.JOINT_VELOCITY, chunk_length=8, joints=0)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return eight actions of zero velocity."""
        return Chunk(np.zeros((8, len(observation.arm.q) + 1), np.float32),
                     self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Do nothing: there is no state."""
