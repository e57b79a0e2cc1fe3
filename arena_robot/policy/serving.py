"""
The part of a policy server that no protocol changes: checks, queue, timing, errors.

:class:`Batches` puts the queries of several stations into one call of a policy that can answer
them together.
"""

import contextlib
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from arena_robot.core.action import Chunk
from arena_robot.core.errors import ArenaError, BadReply, PolicyError, PolicyTimeout
from arena_robot.core.observation import Observation
from arena_robot.policy.base import Policy, PolicySpec, check_chunk, check_observation, check_spec

logger = logging.getLogger(__name__)
WINDOW_S = 0.004    # a small part of the 66 ms that a station's step has
MAX_BATCH = 16      # bounds the memory that a call takes
BatchCall = Callable[[Sequence[Observation], Sequence[str]], Sequence[Chunk | Exception]]


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


@runtime_checkable
class InfersBatches(Protocol):
    """A policy that can answer several observations together; None: it cannot."""

    @property
    def infer_batch(self) -> BatchCall | None:
        """
        The call: observations and episodes in, a chunk or an exception for each in their order.

        No two observations of a call are of the same episode.
        """


def batch_call(policy: object) -> BatchCall | None:
    """Return the ``infer_batch`` of a policy that has one, else None."""
    return policy.infer_batch if isinstance(policy, InfersBatches) else None


@dataclass
class _Waiting:
    observation: Observation
    episode: str
    asked_s: float = field(default_factory=time.perf_counter)
    taken: bool = False
    done: bool = False
    answer: Any = None
    queue_s: float = 0.0
    infer_s: float = 0.0


class Batches:
    """
    Collects the queries that wait while the policy is busy, and calls it with them together.

    The oldest come first, at most MAX_BATCH in a call, those of one episode one after the other.
    A query that is alone does not wait; with more than one, others have ``window_s`` to come too.
    A call that fails is repeated for each of its queries alone: an error stays with its own.
    """

    def __init__(self, call: BatchCall, window_s: float = WINDOW_S) -> None:
        self._call = call
        self._window_s = window_s
        self._waiting: deque[_Waiting] = deque()
        self._turn = threading.Condition()
        self._busy = False

    def infer(self, observation: Observation, episode: str,
              timeout_s: float) -> tuple[Chunk, float, float]:
        """
        Return the chunk, the seconds waited, and those in the policy.

        Raises PolicyTimeout when the query was not taken within ``timeout_s``, or what the policy
        raised.
        """
        mine = _Waiting(observation, episode)
        with self._turn:
            self._waiting.append(mine)
            while not mine.done:
                left_s = mine.asked_s + timeout_s - time.perf_counter()
                if not self._busy:
                    self._serve()
                elif mine.taken:
                    self._turn.wait()
                elif not self._turn.wait(max(0.0, left_s)) and not (mine.taken or mine.done) \
                        and time.perf_counter() >= mine.asked_s + timeout_s:
                    self._waiting.remove(mine)
                    raise PolicyTimeout(f'infer waited {timeout_s:.3g} s for other callers; the '
                                        'policy is busy: raise the deadline')
        if isinstance(mine.answer, Exception):
            raise mine.answer
        return mine.answer, mine.queue_s, mine.infer_s

    def alone(self, call: Callable[[], None], timeout_s: float) -> None:
        """Make another call to the policy while no batch is in it; PolicyTimeout."""
        with self._turn:
            if not self._turn.wait_for(lambda: not self._busy, timeout_s):
                raise PolicyTimeout(f'the policy was busy for {timeout_s:.3g} s')
            self._busy = True
        try:
            call()
        finally:
            self._free()

    def _serve(self) -> None:
        """Answer the oldest queries; called and left with the turn held."""
        self._busy = True
        more = len(self._waiting) > 1
        if more:
            self._turn.release()
            time.sleep(self._window_s)
            self._turn.acquire()
        batch = self._taken()
        self._turn.release()
        try:
            self._answer(batch)
        finally:
            self._turn.acquire()
            self._busy = False
            for query in batch:
                query.done = True
            self._turn.notify_all()

    def _taken(self) -> list[_Waiting]:
        """Take the oldest queries from the queue, one of each episode."""
        batch: list[_Waiting] = []
        episodes: set[str] = set()
        for query in tuple(self._waiting):
            if len(batch) < MAX_BATCH and query.episode not in episodes:
                batch.append(query)
                query.taken = True
                self._waiting.remove(query)
            episodes.add(query.episode)
        return batch

    def _answer(self, batch: list[_Waiting]) -> None:
        started_s = time.perf_counter()
        answers = self._asked(batch)
        if len(batch) > 1 and isinstance(answers, Exception):
            for query in batch:
                self._answer([query])
            return
        took_s = time.perf_counter() - started_s
        for k, query in enumerate(batch):
            query.answer = answers if isinstance(answers, Exception) else answers[k]
            query.queue_s, query.infer_s = started_s - query.asked_s, took_s

    def _asked(self, batch: list[_Waiting]) -> Sequence[Chunk | Exception] | Exception:
        try:
            answers = self._call([query.observation for query in batch],
                                 [query.episode for query in batch])
            if len(answers) != len(batch):
                raise BadReply(f'infer_batch got {len(batch)} observations and returned '
                               f'{len(answers)} answers; return one for each, in their order')
            return answers
        except Exception as error:  # raised again where the answer is waited for
            return error

    def _free(self) -> None:
        with self._turn:
            self._busy = False
            self._turn.notify_all()
