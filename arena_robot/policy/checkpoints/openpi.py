"""A checkpoint of openpi, called in this process by openpi's own package."""

import dataclasses
from typing import Any

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec, seed_of
from arena_robot.policy.checkpoints import clipped, imported, said_space
from arena_robot.policy.openpi.wire import chunk_of, request_of

INSTALL = 'openpi (git clone https://github.com/Physical-Intelligence/openpi, then uv sync)'
# What openpi says of the checkpoints that it publishes for DROID.
SPACES = dict.fromkeys(('pi0_droid', 'pi0_fast_droid', 'pi05_droid'), 'joint_velocity')
WITHOUT_NOISE = 'pi0_fast'


class OpenpiCheckpoint:
    """
    ``openpi:CONFIG@CHECKPOINT``: a training configuration's name and a folder or gs:// address.

    Two pictures of 224x224, one external camera and the wrist's, as openpi's DROID policies want
    them. ``action_space`` is needed for configurations of your own. Flow matching begins with
    noise of the episode's seed. Velocities and gripper are clipped, as openpi's DROID client does.
    """

    def __init__(self, place: str, action_space: str = '', default_prompt: str | None = None,
                 ) -> None:
        name, mark, checkpoint = place.partition('@')
        if not mark or not name or not checkpoint:
            raise ConfigError(f"'openpi:{place}': write openpi:CONFIG@CHECKPOINT, such as "
                              'openpi:pi05_droid@gs://openpi-assets/checkpoints/pi05_droid')
        space = said_space(action_space or SPACES.get(name, ''), 'openpi')
        configs = imported('openpi.training.config', 'openpi', INSTALL)
        policies = imported('openpi.policies.policy_config', 'openpi', INSTALL)
        config = configs.get_config(name)
        self._policy = policies.create_trained_policy(config, checkpoint,
                                                      default_prompt=default_prompt)
        self._noise = _noise_shape(config.model)
        self._asked: dict[str, int] = {}
        self.spec = PolicySpec(action_space=space, samples=self._noise is not None)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query the model."""
        request = request_of(observation, episode, self.spec)
        del request['endpoint']
        given: dict[str, Any] = {}
        if self._noise is not None:
            asked = self._asked[episode] = self._asked.get(episode, 0) + 1
            random = np.random.default_rng(
                (observation.episode_seed or seed_of(episode), asked))
            given['noise'] = random.standard_normal(self._noise).astype(np.float32)
        chunk = chunk_of(self._policy.infer(request, **given), self.spec)
        return dataclasses.replace(chunk, actions=clipped(chunk.actions, chunk.space))

    def reset(self, episode: str = '') -> None:
        """Begin the episode's noise anew."""
        self._asked.pop(episode, None)


def _noise_shape(model: Any) -> tuple[int, int] | None:
    """Return the shape of the noise that a model begins with; None for one that takes none."""
    if model.model_type.value == WITHOUT_NOISE:
        return None
    return int(model.action_horizon), int(model.action_dim)
