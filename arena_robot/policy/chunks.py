"""
Chunk execution: one action per control step from chunks of N.

As DROID does it: all N actions, or as many as the spec says, are executed before the next query,
and the gripper is binarised at > 0.5. Between queries the observation is not read.
:class:`ChunkProgress` knows where an episode is in its chunk, and when the next chunk is due.
"""

import dataclasses
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from arena_robot.core.action import Action, Chunk
from arena_robot.core.errors import BadReply, PolicyTimeout
from arena_robot.core.observation import Floats, LeftOver, Observation
from arena_robot.policy.base import Policy, PolicySpec
from arena_robot.policy.ensembling import mixed
from arena_robot.safety.action_spaces import binarised

NEWEST = 5    # answers whose times say how early the next query is made
T = TypeVar('T')
NOTHING: Floats = np.zeros((0, 0))


def with_binary_gripper(values: Floats) -> Floats:
    """Return an action with its last number, the gripper, made 0.0 or 1.0."""
    result = np.array(values, np.float64)
    result[-1] = binarised(float(result[-1]))
    return result


def checked(chunk: Chunk, joints: int) -> Chunk:
    """
    Return ``chunk`` for an arm with so many joints.

    BadReply unless it is (N, size) finite numbers, N at least 1.
    """
    shape, size = np.shape(chunk.actions), chunk.space.size(joints)
    if len(shape) != 2 or shape[0] < 1 or shape[1] != size:
        raise BadReply(f'a chunk in {chunk.space.value} is (N, {size}), got {shape}')
    if not np.all(np.isfinite(chunk.actions)):
        raise BadReply('the chunk has numbers that are not finite')
    return chunk


@dataclass(frozen=True)
class ChunkStep:
    """
    One control step's action and where it comes from.

    ``action`` has a binarised gripper, ``requested`` is as the policy gave it, mixed with the
    chunk before where the policy wants that. ``chunk`` was
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


class CallThread:
    """
    Makes calls one after the other on a daemon thread.

    A call that hangs keeps neither its caller nor the end of the process waiting.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name='policy', daemon=True).start()

    def submit(self, call: Callable[[], T]) -> 'futures.Future[T]':
        """Have ``call`` made after those before it; return its result to be."""
        future: futures.Future[T] = futures.Future()

        def make() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # raised again where the result is waited for
                    future.set_exception(error)

        self._calls.put(make)
        return future

    def end(self) -> None:
        """End the thread after the calls so far."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


@dataclass
class ChunkProgress:
    """
    The chunk of one episode and the query of the next.

    ``step`` is the index of the action that is executed next; at ``end`` the next chunk is due.
    ``since_ask`` counts the actions that were executed since the newest query. ``pipelined`` and
    ``continues`` (real-time chunking) are as the spec says, or the last chunk.
    """

    chunk: Chunk | None = None
    asked_at: int = 0
    index: int = -1
    step: int = 0
    start: int = 0
    end: int = 0
    horizon: int = 0
    blended: Floats = field(default_factory=lambda: NOTHING)
    since_ask: int = 0
    ahead: 'futures.Future[Chunk] | None' = None
    ahead_asked_at: int = 0
    asked_with_none_left: bool = False
    pipelined: bool = False
    continues: bool = False

    @property
    def left(self) -> int:
        """Return how many actions of the chunk are not executed yet."""
        return 0 if self.chunk is None else len(self.chunk) - self.step

    @property
    def due(self) -> int:
        """Return how many actions are executed before the next chunk is due."""
        return 0 if self.chunk is None else self.end - self.step

    def hurries(self, since_ask: int, due: int, takes_steps: int) -> bool:
        """
        Tell whether an answer is used before it is due, ``since_ask`` steps after its query.

        It is where otherwise no more of its actions would follow its first than an answer takes
        steps: the query after it could then not be made a step earlier than it has to be.
        """
        length = 0 if self.chunk is None else len(self.chunk)    # of the answer too
        then, now = (min(length - since, self.horizon or length) - 1
                     for since in (since_ask + due, since_ask))
        return due > 0 and then <= takes_steps and now > then

    def asks(self, observed_at: int, query: 'futures.Future[Chunk]') -> None:
        """Note a query."""
        self.ahead, self.ahead_asked_at, self.since_ask = query, observed_at, 0
        self.asked_with_none_left = self.left == 0

    def expected_delay(self, takes_steps: int) -> int:
        """Return how many actions will be executed before the answer to a query made now."""
        early = self.hurries(takes_steps, self.due - takes_steps, takes_steps)
        return min(self.left, takes_steps if early else max(self.due, takes_steps))

    def left_over(self, takes_steps: int) -> LeftOver | None:
        """Return what is left of the chunk for a query that is made now."""
        if self.chunk is None or self.left == 0:
            return None
        return LeftOver(self.chunk.actions[self.step:].astype(np.float64),
                        self.expected_delay(takes_steps))

    def use(self, chunk: Chunk, spec: PolicySpec) -> None:
        """
        Begin a chunk, without as many of its first actions as were executed since its query.

        At least one is left. What the chunk itself says of its use counts more than the spec.
        """
        blend = chunk.blend_steps or spec.blend_steps
        rest = NOTHING if self.chunk is None or self.chunk.space is not chunk.space \
            else self.chunk.actions[self.step:self.step + blend].astype(np.float64)
        horizon = chunk.open_loop_horizon or spec.open_loop_horizon
        self.blended, self.horizon = rest, horizon
        self.pipelined = chunk.pipelined or spec.pipelined
        self.continues = chunk.real_time_chunking or spec.real_time_chunking
        self.chunk, self.start = chunk, min(self.since_ask, len(chunk) - 1)
        self.step = self.start
        self.end = min(len(chunk), self.start + horizon) if horizon else len(chunk)
        self.asked_at = self.ahead_asked_at
        self.index += 1

    def take(self) -> Floats:
        """
        Return the next action, mixed with that of the chunk before in the first steps.

        Of K steps, step k = 1, 2 … K has k / (K + 1) of the new chunk.
        """
        assert self.chunk is not None
        action: Floats = self.chunk.actions[self.step].astype(np.float64)
        since, steps = self.step - self.start, len(self.blended)
        if since < steps:
            share = (since + 1) / (steps + 1)
            action = mixed(np.stack([self.blended[since], action]),
                           np.array([1.0 - share, share]), self.chunk.space)
        self.step += 1
        self.since_ask += 1
        return action


class ChunkExecutor:
    """
    A policy that answers one action at a time, and queries the inner policy when none is left.

    Queries run on a thread of their own, so that :meth:`cancel` ends a wait at once.
    ``timeout_s`` bounds every wait.

    When the inner spec is ``pipelined``, the next chunk is queried before it is due. The lead is
    one step more than the slowest of the newest answers took. It is at least ``lead_steps``, as
    before the first answer, and at most half of a chunk: with more, the chunk after it would come
    too late. While a due chunk has not come, the actions that are left are executed. Of a chunk
    that comes, the first actions are dropped: as many as were executed since its query.

    For answers that take D steps, the arm never waits if a chunk has 2 D + 1 actions. With
    2 D + 2, one answer may take a step longer: a chunk that is there replaces the last one early
    where too few of its own actions would be left.

    ``now_s`` measures at ``control_rate_hz`` (None: that of the spec).
    """

    def __init__(self, policy: Policy, lead_steps: int = 2, timeout_s: float = 30.0,
                 now_s: Callable[[], float] = time.monotonic,
                 control_rate_hz: float | None = None) -> None:
        self._policy = policy
        self._rate_hz = control_rate_hz
        self._lead_steps = lead_steps
        self._took_s: deque[float] = deque(maxlen=NEWEST)
        self._timeout_s = timeout_s
        self._now_s = now_s
        self._episodes: dict[str, ChunkProgress] = {}
        self._worker: CallThread | None = None
        self._cancelled: futures.Future[None] = futures.Future()

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's, with chunks of one."""
        return dataclasses.replace(self._policy.spec, chunk_length=1, pipelined=False,
                                   open_loop_horizon=0, real_time_chunking=False, blend_steps=0)

    def step(self, observation: Observation, episode: str = '') -> ChunkStep:
        """
        Return this control step's action.

        Waits only when a query is due. Raises PolicyTimeout after ``timeout_s`` or after
        :meth:`cancel`, BadReply for a chunk that cannot be executed, and what the policy raised.
        """
        progress = self._episodes.setdefault(episode, ChunkProgress())
        waited_s = 0.0
        if progress.ahead is None and self._asks(progress):
            self._query(progress, observation, episode)
        if self._changes(progress):
            began_s = self._now_s()
            ahead = progress.ahead
            assert ahead is not None
            self._use(progress,
                      lambda: checked(self._arrived(ahead), len(observation.arm.q)))
            waited_s = self._now_s() - began_s
            if self._asks(progress):
                self._query(progress, observation, episode)
        return self._next(progress, waited_s)

    def _next(self, progress: ChunkProgress, waited_s: float) -> ChunkStep:
        chunk, number = progress.chunk, progress.step
        assert chunk is not None
        requested = progress.take()
        return ChunkStep(Action(with_binary_gripper(requested), chunk.space), requested, chunk,
                         progress.asked_at, progress.index, number, waited_s)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return a chunk of one action, its gripper binarised."""
        step = self.step(observation, episode)
        return Chunk(step.action.values[None].astype(np.float32), step.action.space,
                     step.inference_s)

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

    def _query(self, progress: ChunkProgress, observation: Observation, episode: str) -> None:
        asked_s, seen = self._now_s(), observation
        if progress.left and progress.continues:
            left = progress.left_over(self._takes())
            seen = dataclasses.replace(observation, left_over=left)
        query = self._thread().submit(lambda: self._policy.infer(seen, episode))

        def measure(done: 'futures.Future[Chunk]') -> None:
            if not done.cancelled() and done.exception() is None:
                self._took_s.append(self._now_s() - asked_s)

        progress.asks(observation.step, query)
        query.add_done_callback(measure)

    def _use(self, progress: ChunkProgress, answer: Callable[[], Chunk]) -> None:
        ahead, asked_with_none_left = progress.ahead, progress.asked_with_none_left
        try:
            chunk = answer()
        finally:
            if ahead is None or ahead.done() or asked_with_none_left:
                progress.ahead = None
        progress.use(chunk, self._policy.spec)

    def _arrived(self, query: 'futures.Future[Chunk]') -> Chunk:
        ends: tuple[futures.Future[Any], ...] = (query, self._cancelled)
        futures.wait(ends, self._timeout_s, futures.FIRST_COMPLETED)
        if query.done():
            return query.result()
        if self._cancelled.done():
            raise PolicyTimeout('the wait for the policy was cancelled')
        raise PolicyTimeout(f'the policy did not answer within {self._timeout_s:.3g} s')

    def _asks(self, progress: ChunkProgress) -> bool:
        """Tell whether the next chunk is to be queried at this step."""
        chunk = progress.chunk
        if chunk is None or progress.due <= 0:
            return True
        if not progress.pipelined or progress.ahead or progress.since_ask == 0 \
                or len(chunk) <= self._lead_steps:
            return False
        early = max(self._lead_steps, 1 + self._takes())
        return progress.due <= min(early, len(chunk) // 2)

    def _changes(self, progress: ChunkProgress) -> bool:
        """Tell whether the next chunk is used at this step; an error waits until it is due."""
        if progress.due <= 0:
            return not self._goes_on(progress)
        ahead = progress.ahead
        return (progress.pipelined and ahead is not None and ahead.done()
                and not ahead.cancelled() and ahead.exception() is None
                and progress.hurries(progress.since_ask, progress.due, self._takes()))

    def _goes_on(self, progress: ChunkProgress) -> bool:
        """Tell whether what is left is executed because the next chunk is not there yet."""
        return (progress.left > 0 and progress.pipelined
                and progress.ahead is not None and not progress.ahead.done())

    def _takes(self) -> int:
        """Return in how many steps an answer comes: the slowest of the newest ones."""
        if not self._took_s:
            return 0
        rate_hz = self._rate_hz or self._policy.spec.control_rate_hz
        return max(0, math.ceil(max(self._took_s) * rate_hz))

    def _thread(self) -> CallThread:
        if self._worker is None:
            self._worker = CallThread()
        return self._worker
