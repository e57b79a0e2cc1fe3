"""The part of a policy server that no protocol changes: checks, queue, timing, errors."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from arena_robot.core.action import Chunk
from arena_robot.core.errors import ArenaError, PolicyError, PolicyTimeout
from arena_robot.core.observation import Observation
from arena_robot.policy.base import Policy, PolicySpec
from arena_robot.policy.batching import Batches, batch_call
from arena_robot.policy.contract import check_chunk, check_observation, check_spec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """A checked chunk, with seconds spent waiting for other callers and in the policy."""

    chunk: Chunk
    queue_s: float
    infer_s: float


class ServedPolicy:
    """
    A policy as servers call it: checked on both sides, by default one call at a time.

    One that has ``infer_batch`` gets the queries that wait together, see :class:`Batches`.

    Every error that leaves is an ArenaError whose message may be shown to the caller; what the
    policy itself raised goes to the log, under a reference that the message names.
    """

    def __init__(self, policy: Policy, parallel: bool = False) -> None:
        self._policy = policy
        call = None if parallel else batch_call(policy)
        self._batches = None if call is None else Batches(call)
        self._turn: threading.Lock | None = None if parallel else threading.Lock()
        self.spec: PolicySpec = check_spec(policy.spec, 'this policy')

    @property
    def one_at_a_time(self) -> bool:
        """Whether a query waits until the policy has answered the one before."""
        return self._turn is not None and self._batches is None

    def infer(self, observation: Observation, episode: str, timeout_s: float) -> Answer:
        """Return the policy's answer; waits at most ``timeout_s`` for other callers."""
        check_observation(observation, self.spec)
        if self._batches is not None:
            with _translated('infer'):
                reply, queue_s, infer_s = self._batches.infer(observation, episode, timeout_s)
            return Answer(self._checked(reply), queue_s, infer_s)
        asked = time.perf_counter()
        with self._called('infer', timeout_s):
            started = time.perf_counter()
            reply = self._policy.infer(observation, episode)
            ended = time.perf_counter()
        return Answer(self._checked(reply), started - asked, ended - started)

    def reset(self, episode: str, timeout_s: float) -> None:
        """Reset one episode; waits at most ``timeout_s`` for other callers."""
        if self._batches is not None:
            with _translated('reset'):
                self._batches.alone(lambda: self._policy.reset(episode), timeout_s)
            return
        with self._called('reset', timeout_s):
            self._policy.reset(episode)

    def _checked(self, reply: Chunk) -> Chunk:
        try:
            return check_chunk(reply, self.spec)
        except ArenaError as error:
            logger.error('the policy broke its own spec: %s', error)
            raise

    @contextlib.contextmanager
    def _called(self, method: str, timeout_s: float) -> Iterator[None]:
        turn = self._turn
        if turn is not None and not turn.acquire(timeout=max(0.0, timeout_s)):
            raise PolicyTimeout(f'{method} waited {timeout_s:.3g} s for other callers; the policy '
                                'is busy: raise the deadline or serve it in parallel')
        try:
            with _translated(method):
                yield
        finally:
            if turn is not None:
                turn.release()


@contextlib.contextmanager
def _translated(method: str) -> Iterator[None]:
    """Log what the policy raises, and raise what a caller may be shown."""
    try:
        yield
    except ArenaError:
        logger.exception('%s was refused by the policy', method)
        raise
    except Exception as error:
        reference = uuid.uuid4().hex[:8]
        logger.exception('%s failed in the policy, reference %s', method, reference)
        raise PolicyError(f'{method} failed in the policy with {type(error).__name__}; the '
                          f'log of its server has the traceback, reference {reference}'
                          ) from error
