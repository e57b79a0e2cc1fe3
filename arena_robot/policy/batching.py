"""Queries of several stations at once, in one call of a policy that can answer them together."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from arena_robot.core.action import Chunk
from arena_robot.core.errors import BadReply, PolicyTimeout
from arena_robot.core.observation import Observation

WINDOW_S = 0.004
MAX_BATCH = 16
BatchCall = Callable[[Sequence[Observation], Sequence[str]], Sequence[Chunk | Exception]]


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
    found: Any = None
    queue_s: float = 0.0
    infer_s: float = 0.0


class Batches:
    """
    Collects the queries that wait while the policy is busy, and calls it with them together.

    The oldest come first, at most ``most`` in a call, those of one episode one after the other. A
    query that is alone does not wait; with more than one, others have ``window_s`` to come too. A
    call that fails is repeated for each of its queries alone, so that an error stays with its own.
    """

    def __init__(self, call: BatchCall, most: int = MAX_BATCH,
                 window_s: float = WINDOW_S) -> None:
        self._call = call
        self._most = most
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
        if isinstance(mine.found, Exception):
            raise mine.found
        return mine.found, mine.queue_s, mine.infer_s

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
            for one in batch:
                one.done = True
            self._turn.notify_all()

    def _taken(self) -> list[_Waiting]:
        """Take the oldest queries from the queue, one of each episode."""
        batch: list[_Waiting] = []
        episodes: set[str] = set()
        for one in tuple(self._waiting):
            if len(batch) < self._most and one.episode not in episodes:
                batch.append(one)
                one.taken = True
                self._waiting.remove(one)
            episodes.add(one.episode)
        return batch

    def _answer(self, batch: list[_Waiting]) -> None:
        started_s = time.perf_counter()
        found = self._asked(batch)
        if len(batch) > 1 and isinstance(found, Exception):
            for one in batch:
                self._answer([one])
            return
        took_s = time.perf_counter() - started_s
        for k, one in enumerate(batch):
            one.found = found if isinstance(found, Exception) else found[k]
            one.queue_s, one.infer_s = started_s - one.asked_s, took_s

    def _asked(self, batch: list[_Waiting]) -> Sequence[Chunk | Exception] | Exception:
        try:
            found = self._call([one.observation for one in batch],
                               [one.episode for one in batch])
            if len(found) != len(batch):
                raise BadReply(f'infer_batch got {len(batch)} observations and returned '
                               f'{len(found)} answers; return one for each, in their order')
            return found
        except Exception as error:  # raised again where the answer is waited for
            return error

    def _free(self) -> None:
        with self._turn:
            self._busy = False
            self._turn.notify_all()
