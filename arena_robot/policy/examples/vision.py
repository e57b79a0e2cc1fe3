"""
Vision policy: finds objects by colour and shape in the wrist image and moves them.

It uses only the wrist camera's left eye, the joints, the gripper's position and the prompt. Every
episode has its own plan (look, approach, look again, grasp, check, carry, release, verify, and
again after a failure), which returns the next eight joint targets per query.
"""

import threading
import zlib
from collections import OrderedDict

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import PolicyRefused
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.examples.vision_hands import IMAGE_SIZE, VIEW, VisionHands
from arena_robot.policy.examples.vision_sight import labelled
from arena_robot.policy.examples.vision_verbs import Traits, Worker, understood, work

LENGTH = 8
EPISODES = 256    # more are forgotten, the oldest first


class Vision:
    """Finds named coloured objects with the wrist camera, grasps, carries, presses, retries."""

    traits = Traits()

    def __init__(self, seed: int = 0) -> None:
        self.spec = PolicySpec(action_space=ActionSpace.JOINT_POSITION, image_size=IMAGE_SIZE,
                               external_cameras=0, session_id=True, chunk_length=LENGTH)
        self._seed = seed
        self._lock = threading.Lock()
        self._episodes: OrderedDict[str, _Episode] = OrderedDict()
        labelled(np.zeros((1, 1, 3), np.uint8))   # builds the colour table before the first query

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return the episode's next eight joint targets; PolicyRefused for a wrong image."""
        image = observation.images.get(VIEW)
        wanted = (*IMAGE_SIZE, 3)
        if image is None or image.pixels.shape != wanted:
            shape = 'none' if image is None else image.pixels.shape
            raise PolicyRefused(f"view '{VIEW}' must be {wanted}, found {shape}")
        with self._lock:
            return Chunk(self._episode(episode, observation).next(), self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Restart the episode."""
        with self._lock:
            self._episodes.pop(episode, None)

    def _episode(self, token: str, seen: Observation) -> '_Episode':
        known = self._episodes.get(token)
        if known is None:
            random = np.random.default_rng((self._seed, zlib.crc32(token.encode('utf-8'))))
            known = self._episodes[token] = _Episode(seen, self.traits, random)
            if len(self._episodes) > EPISODES:
                self._episodes.popitem(last=False)
        else:
            known.hands.show(seen)
        self._episodes.move_to_end(token)
        return known


class _Episode:
    def __init__(self, seen: Observation, traits: Traits, random: np.random.Generator) -> None:
        self.hands = VisionHands(seen, traits.haste)
        worker = Worker(self.hands, understood(seen.prompt), traits, random)
        self._plan = work(worker)

    def next(self) -> np.ndarray:
        actions = np.empty((LENGTH, 8), np.float32)
        for action in actions:
            next(self._plan, None)
            action[:7], action[7] = self.hands.q, self.hands.closed
        return actions


class VisionSlow(Vision):
    """The vision policy at a quarter of its speed: it often reaches the time limit."""

    traits = Traits(haste=0.26)


class VisionNoisy(Vision):
    """The vision policy with random errors of object positions."""

    traits = Traits(noise_m=0.018)


class VisionDrops(Vision):
    """The vision policy with a gripper that often opens too early."""

    traits = Traits(drops=0.8)


class VisionConfused(Vision):
    """The vision policy that mostly takes the wrong object."""

    traits = Traits(confuses=0.92)
