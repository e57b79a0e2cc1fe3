"""
One action per control step out of chunks of N.

As DROID does it: all N actions are executed before the next query, and the gripper is binarised
at > 0.5. Between queries an observation is not even looked at.
"""

import dataclasses
import time
from concurrent import futures
from dataclasses import dataclass

import numpy as np

from arena_robot.core.action import Action, Chunk
from arena_robot.core.errors import PolicyTimeout
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.base import Policy, PolicySpec

GRIPPER_CLOSES_ABOVE = 0.5


def binarised(values: Floats) -> Floats:
    """Return an action with its last number, the gripper, made 0.0 or 1.0."""
    result = np.array(values, np.float64)
    result[-1] = 1.0 if result[-1] > GRIPPER_CLOSES_ABOVE else 0.0
    return result


@dataclass(frozen=True)
class ChunkStep:
    """
    One control step's action and where it comes from.

    ``action`` has a binarised gripper, ``requested`` is as the policy gave it. ``inference_s`` is
    the time this step waited for the policy: 0 when no query was due.
    """

    action: Action
    requested: Floats
    chunk_index: int
    chunk_step: int
    inference_s: float


@dataclass
class _Progress:
    chunk: Chunk | None = None
    index: int = -1
    step: int = 0
    ticks_since_ask: int = 0
    ahead: 'futures.Future[Chunk] | None' = None

    @property
    def left(self) -> int:
        return 0 if self.chunk is None else len(self.chunk) - self.step


class ChunkExecutor:
    """
    A policy that answers one action at a time and asks the inner one when it has run out.

    When the inner spec is ``pipelined``, the next chunk is asked for ``lead_steps`` before the
    last one ends; as many of its first actions as control steps have passed since are dropped,
    because their time is over. ``timeout_s`` bounds the wait for such a chunk.
    """

    def __init__(self, policy: Policy, lead_steps: int = 2, timeout_s: float = 30.0) -> None:
        self._policy = policy
        self._lead_steps = lead_steps
        self._timeout_s = timeout_s
        self._episodes: dict[str, _Progress] = {}
        self._asker: futures.ThreadPoolExecutor | None = None

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's, with chunks of one."""
        return dataclasses.replace(self._policy.spec, chunk_length=1, pipelined=False)

    def due(self, episode: str = '') -> bool:
        """Tell whether the next step will look at its observation."""
        progress = self._episodes.get(episode)
        return progress is None or progress.left == 0 or self._asks_ahead(progress)

    def step(self, observation: Observation, episode: str = '') -> ChunkStep:
        """Return this control step's action; raises PolicyError from a query."""
        progress = self._episodes.setdefault(episode, _Progress())
        waited_s = 0.0
        if progress.left == 0:
            started = time.perf_counter()
            self._refill(progress, observation, episode)
            waited_s = time.perf_counter() - started
        elif self._asks_ahead(progress):
            self._ask_ahead(progress, observation, episode)
        chunk = progress.chunk
        assert chunk is not None
        requested = chunk.actions[progress.step].astype(np.float64)
        taken = ChunkStep(Action(binarised(requested), chunk.space), requested,
                          progress.index, progress.step, waited_s)
        progress.step += 1
        progress.ticks_since_ask += 1
        return taken

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return a chunk of one action, its gripper binarised."""
        taken = self.step(observation, episode)
        return Chunk(taken.action.values[None].astype(np.float32), taken.action.space,
                     taken.inference_s)

    def reset(self, episode: str = '') -> None:
        """Drop what is left of the chunk, wait for a query under way, reset the inner policy."""
        progress = self._episodes.pop(episode, None)
        if progress is not None and progress.ahead is not None and not progress.ahead.cancel():
            futures.wait([progress.ahead], self._timeout_s)
        self._policy.reset(episode)

    def close(self) -> None:
        """Let go of the thread that asks ahead."""
        if self._asker is not None:
            self._asker.shutdown(wait=False, cancel_futures=True)
            self._asker = None

    def _refill(self, progress: _Progress, observation: Observation, episode: str) -> None:
        skip = 0
        if progress.ahead is None:
            chunk = self._policy.infer(observation, episode)
        else:
            chunk = self._arrived(progress, progress.ahead)
            skip = min(progress.ticks_since_ask, len(chunk) - 1)
        progress.chunk, progress.step = chunk, skip
        progress.index += 1

    def _arrived(self, progress: _Progress, ahead: 'futures.Future[Chunk]') -> Chunk:
        try:
            return ahead.result(self._timeout_s)
        except futures.TimeoutError as error:
            raise PolicyTimeout(f'no chunk arrived within {self._timeout_s:.3g} s of the end of '
                                'the last one') from error
        finally:
            if ahead.done():
                progress.ahead = None

    def _asks_ahead(self, progress: _Progress) -> bool:
        if not self._policy.spec.pipelined or progress.chunk is None or progress.ahead is not None:
            return False
        return progress.left <= self._lead_steps < len(progress.chunk)

    def _ask_ahead(self, progress: _Progress, observation: Observation, episode: str) -> None:
        if self._asker is None:
            self._asker = futures.ThreadPoolExecutor(1, thread_name_prefix='chunk-ahead')
        progress.ahead = self._asker.submit(self._policy.infer, observation, episode)
        progress.ticks_since_ask = 0
