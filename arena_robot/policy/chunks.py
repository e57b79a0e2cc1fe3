"""
Chunk execution: one action per control step from chunks of N.

As DROID does it: all N actions are executed before the next query, and the gripper is binarised
at > 0.5. Between queries the observation is not read.
"""

import contextlib
import dataclasses
import math
import secrets
import time
from collections import deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arena_robot.core.action import Action, Chunk
from arena_robot.core.errors import BadReply, PolicyTimeout
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.base import AskedEveryStep, Policy, PolicySpec, StepQuery
from arena_robot.policy.call_thread import CallThread

GRIPPER_CLOSES_ABOVE = 0.5
NEWEST = 5    # answers whose times say how early the next query is made


def binarised(values: Floats) -> Floats:
    """Return an action with its last number, the gripper, made 0.0 or 1.0."""
    result = np.array(values, np.float64)
    result[-1] = 1.0 if result[-1] > GRIPPER_CLOSES_ABOVE else 0.0
    return result


def checked(chunk: Chunk) -> Chunk:
    """Return ``chunk``; BadReply unless it is (N, size) finite numbers, N at least 1."""
    shape = np.shape(chunk.actions)
    if len(shape) != 2 or shape[0] < 1 or shape[1] != chunk.space.size:
        raise BadReply(f'a chunk in {chunk.space.value} is (N, {chunk.space.size}), got {shape}')
    if not np.all(np.isfinite(chunk.actions)):
        raise BadReply('the chunk has numbers that are not finite')
    return chunk


@dataclass(frozen=True)
class ChunkStep:
    """
    One control step's action and where it comes from.

    ``action`` has a binarised gripper, ``requested`` is as the policy gave it. ``chunk`` was
    inferred from the observation of step ``asked_at``. ``inference_s`` is the time this step
    waited for the policy: 0 when no query was due.
    """

    action: Action
    requested: Floats
    chunk: Chunk
    asked_at: int
    chunk_index: int
    chunk_step: int
    inference_s: float


@dataclass
class _Progress:
    chunk: Chunk | None = None
    asked_at: int = 0
    index: int = -1
    step: int = 0
    ticks_since_ask: int = 0
    ahead: 'futures.Future[Chunk] | None' = None
    ahead_asked_at: int = 0
    ahead_drops: bool = False
    # Not from 0: a rollout that is begun again must not get a chunk of the one before.
    number: int = field(default_factory=lambda: 1 + secrets.randbelow(1 << 31))

    @property
    def left(self) -> int:
        return 0 if self.chunk is None else len(self.chunk) - self.step


class ChunkExecutor:
    """
    A policy that answers one action at a time and queries the inner one when it has run out.

    Queries run on a thread of their own, so that :meth:`cancel` ends a wait at once.
    ``timeout_s`` bounds every wait. When the inner spec is ``pipelined``, the next chunk is
    queried before the last one ends: as many steps as the slowest of the newest answers took and
    one more, so that the arm does not stand still while a chunk covers the wait; ``lead_steps``
    before there is an answer, and at least; ``now_s`` measures. As many of its first actions as
    control steps have passed since are dropped, because their time is over.

    :meth:`ask` sends a query at every step to a policy that is asked at every step.
    """

    def __init__(self, policy: Policy, lead_steps: int = 2, timeout_s: float = 30.0,
                 now_s: Callable[[], float] = time.monotonic) -> None:
        self._policy = policy
        self._lead_steps = lead_steps
        self._took_s: deque[float] = deque(maxlen=NEWEST)
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._episodes: dict[str, _Progress] = {}
        self._worker: CallThread | None = None
        self._steps = policy if isinstance(policy, AskedEveryStep) and policy.every_step else None
        self._sending: futures.Future[None] | None = None
        self._cancelled: futures.Future[None] = futures.Future()

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's, with chunks of one."""
        return dataclasses.replace(self._policy.spec, chunk_length=1, pipelined=False)

    def step(self, observation: Observation, episode: str = '') -> ChunkStep:
        """
        Return this control step's action.

        Waits only when a query is due. Raises PolicyTimeout after ``timeout_s`` or after
        :meth:`cancel`, BadReply for a chunk that cannot be executed, and what the policy raised.
        """
        progress = self._episodes.setdefault(episode, _Progress())
        waited_s = 0.0
        if progress.left == 0:
            started = time.perf_counter()
            self._refill(progress, observation, episode)
            waited_s = time.perf_counter() - started
        if self._asks_ahead(progress):
            self._ask(progress, observation, self._query(observation, episode))
        return self._next(progress, waited_s)

    def ask(self, observation: Observation, episode: str = '') -> None:
        """Query the policy if a query is due at this control step, without waiting."""
        progress = self._episodes.setdefault(episode, _Progress())
        new = progress.ahead is None and (progress.left == 0 or self._asks_ahead(progress))
        if new:
            self._ask(progress, observation, self._query(observation, episode)
                      if self._steps is None else futures.Future())
        if self._steps is not None:
            self._send(self._steps, progress, observation, episode, new)

    def take(self, episode: str = '') -> ChunkStep | None:
        """
        Return this control step's action, after :meth:`ask`; None while the query runs.

        Raises BadReply for a chunk that cannot be executed, and what the policy raised.
        """
        progress = self._episodes.setdefault(episode, _Progress())
        if progress.left == 0:
            if progress.ahead is None or not progress.ahead.done():
                progress.ticks_since_ask += 1
                return None
            self._use(progress, progress.ahead.result)
        return self._next(progress, 0.0)

    def _next(self, progress: _Progress, waited_s: float) -> ChunkStep:
        chunk = progress.chunk
        assert chunk is not None
        requested = chunk.actions[progress.step].astype(np.float64)
        taken = ChunkStep(Action(binarised(requested), chunk.space), requested, chunk,
                          progress.asked_at, progress.index, progress.step, waited_s)
        progress.step += 1
        progress.ticks_since_ask += 1
        return taken

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return a chunk of one action, its gripper binarised."""
        taken = self.step(observation, episode)
        return Chunk(taken.action.values[None].astype(np.float32), taken.action.space,
                     taken.inference_s)

    def cancel(self) -> None:
        """End a wait for the policy now, and every later one; any thread may call it."""
        if not self._cancelled.done():
            self._cancelled.set_result(None)

    def reset(self, episode: str = '', timeout_s: float | None = None) -> None:
        """
        Drop what is left of the chunk and reset the inner policy after queries under way.

        Raises PolicyTimeout after ``timeout_s`` (None: that of the executor), and what the
        policy raised. Works after :meth:`cancel` too.
        """
        self._episodes.pop(episode, None)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            self._thread().submit(lambda: self._policy.reset(episode)).result(limit_s)
        except futures.TimeoutError as error:
            raise PolicyTimeout(f'the policy was not reset within {limit_s:.3g} s') from error

    def close(self) -> None:
        """End the thread once the call under way has returned; does not wait for it."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _send(self, policy: AskedEveryStep, progress: _Progress, observation: Observation,
              episode: str, new: bool) -> None:
        """Send this step's query; skip it when the last one is not sent and no chunk is new."""
        if not new and self._sending is not None and not self._sending.done():
            return
        ahead = progress.ahead
        answer = ahead if ahead is not None and not ahead.done() else None
        query = StepQuery(progress.number, answer)

        def send() -> None:
            try:
                policy.at_step(observation, episode, query)
            except Exception as error:  # raised again where the answer is taken
                if answer is not None:
                    with contextlib.suppress(futures.InvalidStateError):
                        answer.set_exception(error)

        self._sending = self._thread().submit(send)

    def _ask(self, progress: _Progress, observation: Observation,
             query: 'futures.Future[Chunk]') -> None:
        asked_s = self._now_s()

        def measure(done: 'futures.Future[Chunk]') -> None:
            if not done.cancelled() and done.exception() is None:
                self._took_s.append(self._now_s() - asked_s)

        query.add_done_callback(measure)
        progress.ahead = query
        progress.number += 1
        progress.ahead_asked_at, progress.ticks_since_ask = observation.step, 0
        # Only what is asked while actions are left is late when it is used.
        progress.ahead_drops = progress.left > 0

    def _refill(self, progress: _Progress, observation: Observation, episode: str) -> None:
        if progress.ahead is None:
            self._ask(progress, observation, self._query(observation, episode))
        ahead = progress.ahead
        assert ahead is not None
        self._use(progress, lambda: self._arrived(ahead))

    def _use(self, progress: _Progress, answer: Callable[[], Chunk]) -> None:
        ahead = progress.ahead
        try:
            chunk = checked(answer())
        finally:
            if ahead is None or ahead.done() or not progress.ahead_drops:
                progress.ahead = None
        skip = min(progress.ticks_since_ask, len(chunk) - 1) if progress.ahead_drops else 0
        progress.chunk, progress.step = chunk, skip
        progress.asked_at = progress.ahead_asked_at
        progress.index += 1

    def _arrived(self, query: 'futures.Future[Chunk]') -> Chunk:
        ends: tuple[futures.Future[Any], ...] = (query, self._cancelled)
        futures.wait(ends, self._timeout_s, futures.FIRST_COMPLETED)
        if query.done():
            return query.result()
        if self._cancelled.done():
            raise PolicyTimeout('the wait for the policy was cancelled')
        raise PolicyTimeout(f'the policy did not answer within {self._timeout_s:.3g} s')

    def _asks_ahead(self, progress: _Progress) -> bool:
        if not self._policy.spec.pipelined or progress.chunk is None or progress.ahead is not None:
            return False
        least = self._lead_steps
        if self._took_s:
            took = max(self._took_s) * self._policy.spec.control_rate_hz
            least = max(least, 1 + math.ceil(took))
        if len(progress.chunk) <= self._lead_steps:
            return False
        return progress.left <= min(least, len(progress.chunk) - 1)

    def _query(self, observation: Observation, episode: str) -> 'futures.Future[Chunk]':
        return self._thread().submit(lambda: self._policy.infer(observation, episode))

    def _thread(self) -> CallThread:
        if self._worker is None:
            self._worker = CallThread()
        return self._worker
