"""A policy that writes every query to another one, and its answer, to the disk."""

import itertools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import DataError, RecordingError
from arena_robot.core.observation import Image, LeftOver, Observation
from arena_robot.policy.base import Policy, PolicySpec
from arena_robot.policy.grpc.wire import partial_observation


class Recording:
    """
    Passes calls on and writes each to ``folder/000000.npz``, counting up; never overwrites.

    A file holds ``episode``, ``prompt``, ``step``, stamps, ``joint_position`` (7,),
    ``cartesian_position`` (6,), ``gripper_position``, the chunk as ``actions`` (N, 7 or 8), and
    one ``image_<view>`` (H, W, 3) each. :func:`read` returns the call.
    """

    def __init__(self, policy: Policy, folder: Path) -> None:
        self._policy = policy
        self._folder = folder
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's."""
        return self._policy.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query, then write; raises RecordingError when the file cannot be written."""
        seen = _seen(observation, episode)   # before: the policy may write into its input
        chunk = self._policy.infer(observation, episode)
        with self._lock:
            path = self._folder / f'{next(self._numbers):06d}.npz'
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open('xb') as file:
                np.savez(file, **seen, **_answered(chunk))
        except OSError as error:
            raise RecordingError(f'cannot write {path}: {error.strerror or error}; record into a '
                                 'new folder') from error
        return chunk

    def reset(self, episode: str = '') -> None:
        """Pass on."""
        self._policy.reset(episode)


def read(path: Path) -> tuple[Observation, str, Chunk]:
    """Return the observation, episode and chunk of one file; raises DataError."""
    try:
        with np.load(path, allow_pickle=False) as data:
            images = {name.removeprefix('image_'): Image(data[name], int(data[f'stamp_{name}']))
                      for name in data.files if name.startswith('image_')}
            observation = partial_observation(
                int(data['stamp_ns']), data['joint_position'], data['cartesian_position'],
                float(data['gripper_position']), str(data['prompt']), int(data['step']), images,
                int(data['arm_stamp_ns']), int(data['gripper_stamp_ns']),
                int(data['episode_seed']) if 'episode_seed' in data else 0)
            if 'left_over' in data:
                observation = replace(observation, left_over=LeftOver(
                    data['left_over'], int(data['inference_delay'])))
            chunk = Chunk(data['actions'], ActionSpace(str(data['action_space'])),
                          float(data['inference_s']))
            return observation, str(data['episode']), chunk
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f'{path} is not a recorded policy call: {error}') from error


def _answered(chunk: Chunk) -> dict[str, Any]:
    return {'actions': np.asarray(chunk.actions), 'action_space': np.asarray(chunk.space.value),
            'inference_s': np.asarray(chunk.inference_s)}


def _seen(observation: Observation, episode: str) -> dict[str, Any]:
    values = {
        'episode': episode, 'prompt': observation.prompt, 'step': observation.step,
        'stamp_ns': observation.stamp_ns, 'arm_stamp_ns': observation.arm.stamp_ns,
        'gripper_stamp_ns': observation.gripper.stamp_ns, 'joint_position': observation.arm.q,
        'cartesian_position': observation.arm.pose,
        'gripper_position': observation.gripper.position,
        'episode_seed': observation.episode_seed,
    }
    if left := observation.left_over:
        values.update(left_over=left.actions, inference_delay=left.inference_delay)
    for name, image in observation.images.items():
        values[f'image_{name}'] = image.pixels
        values[f'stamp_image_{name}'] = image.stamp_ns
    return {name: np.array(value) for name, value in values.items()}
