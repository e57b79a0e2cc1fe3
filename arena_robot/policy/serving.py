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
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from arena_robot.core.action import Chunk
from arena_robot.core.errors import ArenaError, BadReply, PolicyError, PolicyTimeout
from arena_robot.core.observation import Observation
from arena_robot.policy.base import Policy, PolicySpec, check_chunk, check_observation, check_spec

logger = logging.getLogger(__name__)
MAX_BATCH = 16         # bounds the memory that a call takes
TIMES_KEPT = 8         # of each size: one slow call changes nothing, a slower GPU is noticed
WAIT_COSTS = 2.0       # times a wait: it is certain, and the stations that it is for are not
LONGEST_WAIT = 0.5     # of the time of a call of one
ARRIVAL_S = 0.001      # one is waited for until so long after it is due
LATE_S = 0.01          # the pauses of a station that asks flat out vary by less
FORGOTTEN_S = 60.0     # no rollout is silent for as long
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
            return Answer(self._checked(reply, observation), queue_s, infer_s)
        asked = time.perf_counter()
        with self._called('infer', timeout_s):
            started = time.perf_counter()
            reply = self._policy.infer(observation, episode)
            ended = time.perf_counter()
        return Answer(self._checked(reply, observation), started - asked, ended - started)

    def reset(self, episode: str, timeout_s: float) -> None:
        """Reset one episode; waits at most ``timeout_s`` for other callers."""
        if self._batches is not None:
            with _translated('reset'):
                self._batches.reset(episode, self._policy.reset, timeout_s)
            return
        with self._called('reset', timeout_s):
            self._policy.reset(episode)

    def _checked(self, reply: Chunk, observation: Observation) -> Chunk:
        try:
            return check_chunk(reply, self.spec, len(observation.arm.q))
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


class BatchPlan:
    """
    Which of the waiting queries go into a call together, and whether it waits for more first.

    It learns how long calls of each size take, and each station's pause between an answer and its
    next query. A call takes so many queries that the time per query is least. It waits for
    stations that are due, where that lowers the time per query although the wait counts
    ``WAIT_COSTS`` times. A size whose time it does not know is waited for until it was in vain
    twice. A station that is alone never waits.
    """

    def __init__(self) -> None:
        self._times: dict[int, deque[float]] = {}
        self._answered_s: dict[str, float] = {}
        self._pause_s: dict[str, float] = {}
        self._hoped = 0    # the size that was waited for
        self._in_vain: Counter[int] = Counter()

    def asked(self, episode: str, now_s: float) -> None:
        """Note a query."""
        answered_s = self._answered_s.pop(episode, None)
        if answered_s is not None:
            self._pause_s[episode] = now_s - answered_s

    def answered(self, episodes: Sequence[str], took_s: float, now_s: float) -> None:
        """Note a call that has ended; also forget stations that have been silent."""
        self._times.setdefault(len(episodes), deque(maxlen=TIMES_KEPT)).append(took_s)
        self._in_vain[self._hoped] += self._hoped > len(episodes)
        self._hoped = 0
        self._answered_s.update(dict.fromkeys(episodes, now_s))
        for episode, answered_s in tuple(self._answered_s.items()):
            if now_s - answered_s > FORGOTTEN_S:
                self.forget(episode)

    def forget(self, episode: str) -> None:
        """Note the end of a rollout."""
        self._answered_s.pop(episode, None)
        self._pause_s.pop(episode, None)

    def next_call(self, waiting: int, now_s: float, since_s: float) -> tuple[int, float]:
        """
        Return how many of ``waiting`` queries to answer, and the seconds to wait for more.

        The call could have begun at ``since_s``.
        """
        seconds = self._seconds()
        longest_s = LONGEST_WAIT * seconds[1] - (now_s - since_s)
        size = min(range(min(waiting, MAX_BATCH), 0, -1),
                   key=lambda n: round(seconds[n] / n, 6))
        least, wait_s = seconds[size] / size, 0.0
        more = self._due(now_s)[:max(0, MAX_BATCH - waiting)]
        for number, due_s in enumerate(more, waiting + 1):
            until_s = max(0.0, due_s - now_s) + ARRIVAL_S
            each = (seconds[number] + WAIT_COSTS * until_s) / number
            hopeful = len(self._times.get(number, ())) > 1 or self._in_vain[number] < 2
            if each < least and hopeful and until_s <= longest_s:
                least, wait_s, self._hoped = each, until_s, number
        return size, wait_s

    def _due(self, now_s: float) -> list[float]:
        """Return when the stations that are not waiting should ask, unless they are late."""
        return sorted(due_s for episode, answered_s in self._answered_s.items()
                      if episode in self._pause_s
                      and (due_s := answered_s + self._pause_s[episode]) > now_s - LATE_S)

    def _seconds(self) -> list[float]:
        """
        Return how long a call of each size takes, the size as index; zeros: nothing is known.

        A size is known after two calls, because the first may compile. Others count as the next
        smaller one, so that each is tried, or where none is smaller, in proportion to a larger.
        """
        known = {size: min(times) for size, times in sorted(self._times.items())
                 if len(times) > 1}
        first = min(known, default=1)
        seconds = [known.get(first, 0.0) * size / first for size in range(first + 1)]
        for size in range(first + 1, MAX_BATCH + 1):
            seconds.append(known.get(size, seconds[-1]))
        return seconds


class Batches:
    """
    Collects the queries that wait while the policy is busy, and calls it with them together.

    ``BatchPlan`` decides how many go into a call and when it begins. The oldest come first, at
    most MAX_BATCH in a call, those of one episode one after the other.
    A call that fails is repeated for each of its queries alone: an error stays with its own.
    """

    def __init__(self, call: BatchCall) -> None:
        self._call = call
        self._plan = BatchPlan()
        self._waiting: deque[_Waiting] = deque()
        lock = threading.Lock()
        self._turn, self._arrived = threading.Condition(lock), threading.Condition(lock)
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
            self._plan.asked(episode, mine.asked_s)
            self._arrived.notify()
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

    def reset(self, episode: str, call: Callable[[str], None], timeout_s: float) -> None:
        """Reset an episode while no batch is in the policy; raises PolicyTimeout."""
        with self._turn:
            self._plan.forget(episode)
            if not self._turn.wait_for(lambda: not self._busy, timeout_s):
                raise PolicyTimeout(f'the policy was busy for {timeout_s:.3g} s')
            self._busy = True
        try:
            call(episode)
        finally:
            self._free()

    def _serve(self) -> None:
        """Answer the oldest queries; called and left with the turn held."""
        self._busy = True
        batch = self._collected()
        for query in batch:
            query.taken = True
            self._waiting.remove(query)
        self._turn.release()
        try:
            self._answer(batch)
        finally:
            self._turn.acquire()
            self._busy = False
            for query in batch:
                query.done = True
            self._turn.notify_all()

    def _collected(self) -> list[_Waiting]:
        """Wait for others as planned; return the oldest queries, one of each episode."""
        since_s = time.perf_counter()
        while True:
            oldest: dict[str, _Waiting] = {}
            for query in self._waiting:
                oldest.setdefault(query.episode, query)
            size, wait_s = self._plan.next_call(len(oldest), time.perf_counter(), since_s)
            if not wait_s:
                return list(oldest.values())[:size]
            self._arrived.wait(wait_s)

    def _answer(self, batch: list[_Waiting]) -> None:
        started_s = time.perf_counter()
        answers = self._asked(batch)
        if len(batch) > 1 and isinstance(answers, Exception):
            for query in batch:
                self._answer([query])
            return
        ended_s = time.perf_counter()
        took_s = ended_s - started_s
        if not isinstance(answers, Exception):
            with self._turn:
                self._plan.answered([query.episode for query in batch], took_s, ended_s)
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
