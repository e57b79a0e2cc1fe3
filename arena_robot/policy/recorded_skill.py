"""
A verified skill as a policy: recorded motions, played back open loop.

A policy sees pictures, joints, gripper and prompt, but not where objects are, which the code of a
skill reads from the simulator. So `arena skill export` records the motions that a solution made in
some scenes. At the first query of an episode the motion is chosen whose start picture is most like
the one that is seen; from then on nothing that is observed changes it.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import ConfigError, DataError, PolicyRefused
from arena_robot.core.files import write_text
from arena_robot.core.observation import Floats, Observation, Pixels, view
from arena_robot.policy.base import PolicySpec
from arena_robot.robots.arms import DOF

PREFIX = 'skill:'
VERSION = 1
LENGTH = 8
EPISODES = 256    # more are forgotten, the oldest first
PICTURE = (224, 224)
START_RAD = 0.15    # a skill that begins farther away would jump
_VIEW = view('left')
_SIDE = 28


@dataclass(frozen=True)
class SkillMotion:
    """
    What was done in one scene: ``actions`` (N, 8), joint targets (rad) and gripper, at 15 Hz.

    ``start`` (7,) are the joints before, ``picture`` (K,) what :func:`outlines` says of the start.
    """

    scene: int
    start: Floats
    actions: Floats
    picture: Floats


@dataclass(frozen=True)
class SkillRecording:
    """A solution's motions; ``about`` says what solution it is and how it was verified."""

    task: str
    motions: tuple[SkillMotion, ...]
    about: Mapping[str, Any]


def outlines(pixels: Pixels) -> Floats:
    """Return (784,): how strong edges are over a picture, whatever the colours; norm 1."""
    gray = cv2.cvtColor(cv2.resize(pixels, PICTURE[::-1], interpolation=cv2.INTER_AREA),
                        cv2.COLOR_RGB2GRAY).astype(np.float32)
    strength = np.hypot(cv2.Sobel(gray, cv2.CV_32F, 1, 0), cv2.Sobel(gray, cv2.CV_32F, 0, 1))
    small = cv2.resize(np.minimum(strength, 60.0), (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    values: Floats = (small - small.mean()).ravel().astype(np.float64)
    norm = float(np.linalg.norm(values))
    return values / norm if norm else values


class RecordedSkill:
    """Plays the motion whose start picture is nearest, eight actions a query, then holds."""

    def __init__(self, path: str) -> None:
        self.recording = read_recording(Path(path))
        self.spec = PolicySpec(action_space=ActionSpace.JOINT_POSITION, image_size=PICTURE,
                               wrist_camera=False, session_id=True, chunk_length=LENGTH)
        self._lock = threading.Lock()
        self._episodes: OrderedDict[str, tuple[SkillMotion, int]] = OrderedDict()

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return the next actions; PolicyRefused away from the start pose, without a picture."""
        with self._lock:
            motion, at = self._episodes.get(episode) or (self._chosen(observation), 0)
            self._episodes[episode] = (motion, at + LENGTH)
            self._episodes.move_to_end(episode)
            while len(self._episodes) > EPISODES:
                self._episodes.popitem(last=False)
        rows = np.minimum(np.arange(at, at + LENGTH), len(motion.actions) - 1)
        return Chunk(motion.actions[rows].astype(np.float32), self.spec.action_space)

    def reset(self, episode: str = '') -> None:
        """Begin the episode again with its next query."""
        with self._lock:
            self._episodes.pop(episode, None)

    def _chosen(self, seen: Observation) -> SkillMotion:
        image = seen.images.get(_VIEW)
        if image is None or image.pixels.ndim != 3 or image.pixels.shape[2] != 3:
            raise PolicyRefused(f"view '{_VIEW}' must be a picture (H, W, 3), found "
                                f'{"none" if image is None else image.pixels.shape}')
        like = outlines(image.pixels)
        best = min(self.recording.motions, key=lambda m: np.linalg.norm(m.picture - like))
        if (away := float(np.max(np.abs(seen.arm.q - best.start)))) > START_RAD:
            raise PolicyRefused(f'the skill begins at its start pose; a joint is {away:.2f} rad '
                                f'from it, {START_RAD} is allowed')
        return best


def write_recording(path: Path, recording: SkillRecording) -> None:
    """Write a recording as JSON; ConfigError when it has no motion."""
    if not recording.motions:
        raise ConfigError(f'no motion of {recording.task} to write to {path}')
    write_text(path, json.dumps({
        'version': VERSION, 'task': recording.task, 'about': dict(recording.about), 'motions': [{
            'scene': motion.scene, 'start': motion.start.round(5).tolist(),
            'actions': motion.actions.round(5).tolist(),
             'picture': motion.picture.round(4).tolist()}
            for motion in recording.motions]}) + '\n')


def read_recording(path: Path) -> SkillRecording:
    """Return a recording; ConfigError when there is no file, DataError when it is none."""
    try:
        text = path.read_text(encoding='utf-8')
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}; `arena skill export` '
                          'writes such a file') from error
    try:
        data = json.loads(text)
        if data['version'] != VERSION:
            raise DataError(f'{path} has version {data["version"]}, this program reads {VERSION}')
        motions = tuple(SkillMotion(int(row['scene']), _floats(row['start'], (DOF,)),
                                    _floats(row['actions'], (-1, DOF + 1)),
                                    _floats(row['picture'], (_SIDE * _SIDE,)))
                        for row in data['motions'])
        recording = SkillRecording(str(data['task']), motions, dict(data['about']))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f'{path} is no recording of a skill: {error!r}') from error
    if not recording.motions:
        raise DataError(f'{path} has no motion')
    return recording


def _floats(value: Any, shape: tuple[int, ...]) -> Floats:
    numbers = np.asarray(value, np.float64)
    if numbers.ndim != len(shape) or numbers.shape[-1] != shape[-1] or not len(numbers) \
            or not np.all(np.isfinite(numbers)):
        raise ValueError(f'expected finite numbers {shape}, found {numbers.shape}')
    return numbers
