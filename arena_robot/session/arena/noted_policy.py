"""A policy whose exact answers are kept sealed until the names are revealed."""

import time
from pathlib import Path

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.clock import Clock
from arena_robot.core.files import write_text
from arena_robot.core.inferences import (
    Inference,
    inferences_of_json,
    inferences_to_json,
    packed,
)
from arena_robot.core.observation import Observation
from arena_robot.policy.base import Closable, Policy, PolicySpec
from arena_robot.session.arena.seal import seal, unseal

# The size of the file is a multiple of it, so that it does not tell the number of inferences.
BLOCK_CHARS = 1 << 16


class NotedPolicy:
    """
    Passes calls on; :meth:`reset` writes all answers of the rollout to a sealed ``path``.

    No answer comes earlier than ``least_s`` after its query.
    """

    def __init__(self, policy: Policy, path: Path, key: bytes, clock: Clock,
                 least_s: float = 0.0) -> None:
        self._least_s = least_s
        self._policy = policy
        self._path = path
        self._key = key
        self._clock = clock
        self._made: list[Inference] = []

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's."""
        return self._policy.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Call the policy, store the answer; a step that goes back begins a new rollout."""
        began_s = time.monotonic()
        chunk = self._policy.infer(observation, episode)
        time.sleep(max(0.0, self._least_s - (time.monotonic() - began_s)))
        took_s = round(time.monotonic() - began_s, 6)
        if self._made and observation.step < self._made[-1].step:
            self._made = []
        used = chunk.actions
        if self.spec.open_loop_horizon and not self.spec.pipelined:
            used = used[:self.spec.open_loop_horizon]
        self._made.append(Inference(observation.step, self._clock.now_ns(), took_s, len(used),
                                    packed(used.astype(np.float32).ravel().tolist())))
        return chunk

    def reset(self, episode: str = '') -> None:
        """Write the stored answers, then reset the inner policy."""
        if self._made:
            text = inferences_to_json({'': self._made})
            value = {'made': text, 'pad': ' ' * (-len(text) % BLOCK_CHARS)}
            write_text(self._path, seal(self._key, self._path.name, value) + '\n')
        self._policy.reset(episode)

    def close(self) -> None:
        """Close the inner policy, if it holds something."""
        if isinstance(self._policy, Closable):
            self._policy.close()


def noted(path: Path, key: bytes) -> tuple[Inference, ...]:
    """Return what a :class:`NotedPolicy` wrote to ``path``; nothing when it wrote nothing."""
    if not path.exists():
        return ()
    value = unseal(key, path.name, path.read_text(encoding='utf-8').strip())
    return inferences_of_json(value['made'])['']
