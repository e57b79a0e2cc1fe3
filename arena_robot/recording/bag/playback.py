"""
Playback of a bag with its recorded timing, or with a clock that can be paused.

A thread reads ahead, so that a slow disk does not disturb the timing. The lateness of each message
is measured and reported.
"""

import itertools
import queue
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.writer import LatchedSet

_AHEAD = 512       # messages: a second of a station, which a disk that hesitates may take
_LATE = 100_000    # messages whose lateness is kept, so that a loop takes no more memory


class Pace(Protocol):
    """Interface of the clock of playback; monotonic, in nanoseconds."""

    def now_ns(self) -> int:
        """Return the time."""

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once it is ``stamp_ns``."""


class SteadyPace:
    """The machine's monotonic clock; sleeps with an accuracy well below a millisecond."""

    def now_ns(self) -> int:
        """Return nanoseconds since some moment."""
        return time.monotonic_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Sleep until ``stamp_ns``; at once when that is past."""
        wait_s = (stamp_ns - time.monotonic_ns()) * 1e-9
        if wait_s > 0.0:
            time.sleep(wait_s)


@dataclass(frozen=True)
class Playing:
    """
    Settings: ``rate`` times the recorded speed, from ``start_s`` on, topics by expression.

    With ``loop`` it begins again at its end, until it is stopped.
    """

    rate: float = 1.0
    start_s: float = 0.0
    topics: tuple[str, ...] = ('.*',)
    loop: bool = False


@dataclass
class TimingReport:
    """Messages played by topic, and the lateness of the newest in nanoseconds."""

    counts: Counter[str] = field(default_factory=Counter)
    late_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_LATE))

    def late_ms(self, percentile: float) -> float:
        """Return a percentile of how late messages were, in milliseconds; 0 without any."""
        return float(np.percentile(self.late_ns, percentile)) * 1e-6 if self.late_ns else 0.0


def chosen_topics(bag: BagReader, playing: Playing) -> list[Topic]:
    """Return the topics to play. Raises DataError when there is none."""
    if not 0.01 <= playing.rate <= 100.0:
        raise DataError(f'the rate must be 0.01 to 100 times the recorded one, got {playing.rate}')
    topics = [t for n, t in sorted(bag.topics.items())
             if any(re.fullmatch(p, n) for p in playing.topics)]
    if not topics:
        raise DataError(f"none of the bag's topics matches {', '.join(playing.topics)}; it has "
                        f"{', '.join(sorted(bag.topics))}")
    return topics


def play(bag: BagReader, playing: Playing, publish: Callable[[Message], None],
         wait: Callable[[Message], bool] | None = None, pace: Pace | None = None,
         stop: threading.Event | None = None,
         at: Callable[[int, int], None] | None = None) -> TimingReport:
    """
    Pass every message to ``publish`` at its time, and report the timing.

    Messages latched before the start are played first. ``wait`` is called before each message and
    may block; when it returns True, the timing continues from there. ``stop`` ends it early.
    ``at`` is called whenever the relation of recorded time and ``pace`` changes, with a time of
    the pace and the recorded time that belongs to it.
    """
    pace, stop = pace or SteadyPace(), stop or threading.Event()
    names = [t.name for t in chosen_topics(bag, playing)]
    report = TimingReport()
    while True:
        _play_once(bag, names, playing, _Out(publish, wait, at), pace, stop, report)
        if not playing.loop or stop.is_set() or not report.counts:
            return report


@dataclass(frozen=True)
class _Out:
    publish: Callable[[Message], None]
    wait: Callable[[Message], bool] | None
    at: Callable[[int, int], None] | None


def _play_once(bag: BagReader, names: Sequence[str], playing: Playing, out: _Out, pace: Pace,
               stop: threading.Event, report: TimingReport) -> None:
    start_ns = bag.metadata.start_ns + round(playing.start_s * 1e9)
    begin_ns = pace.now_ns()
    if out.at is not None:
        out.at(begin_ns, start_ns)
    for message in itertools.chain(_latched_before(bag, names, start_ns),
                                   _ahead(bag.messages(names, start_ns), stop)):
        if stop.is_set():
            break
        if out.wait is not None and out.wait(message):
            begin_ns = pace.now_ns() - _offset(message, start_ns, playing.rate)
            if out.at is not None:
                out.at(begin_ns, start_ns)
        due_ns = begin_ns + _offset(message, start_ns, playing.rate)
        pace.sleep_until_ns(due_ns)
        out.publish(message)
        report.late_ns.append(pace.now_ns() - due_ns)
        report.counts[message.topic] += 1


def _offset(message: Message, start_ns: int, rate: float) -> int:
    return max(0, round((message.log_ns - start_ns) / rate))


def _latched_before(bag: BagReader, names: Sequence[str], start_ns: int) -> list[Message]:
    latched = [n for n in names if bag.topics[n].is_latched]
    newest = LatchedSet()
    for message in bag.messages(latched, end_ns=start_ns):
        newest.add(bag.topics[message.topic], message)
    return list(newest)


def _ahead(messages: Iterator[Message], stop: threading.Event) -> Iterator[Message]:
    """Yield messages that a thread reads ahead; an error in it is raised here."""
    ready: queue.Queue[Message | BaseException | None] = queue.Queue(_AHEAD)

    def read() -> None:
        end: BaseException | None = None
        try:
            for message in messages:
                if not _put(ready, message, stop):
                    return
        except Exception as error:
            end = error
        _put(ready, end, stop)

    thread = threading.Thread(target=read, name='playback', daemon=True)
    thread.start()
    while not stop.is_set():
        item = ready.get()
        if item is None:
            break
        if isinstance(item, BaseException):
            raise item
        yield item


def _put(ready: queue.Queue[Message | BaseException | None],
         item: Message | BaseException | None, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False


class PausablePace:
    """
    The machine's monotonic clock less the time that it was paused.

    Implements :class:`arena_robot.recording.bag.playback.Pace`. Methods may be called from any
    thread; :meth:`end` lets a waiting player go on to its end.
    """

    def __init__(self, paused: bool = False) -> None:
        self._changed = threading.Condition()
        self._paused_at_ns = time.monotonic_ns() if paused else None
        self._lost_ns = 0
        self._pass = 0
        self._ended = False

    @property
    def paused(self) -> bool:
        """Whether it is paused now."""
        return self._paused_at_ns is not None

    def now_ns(self) -> int:
        """Return the time; it stands still while paused."""
        with self._changed:
            return self._now_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once it is ``stamp_ns``, or a single message may pass."""
        with self._changed:
            while not self._ended:
                if self.paused:
                    if self._pass:
                        self._pass -= 1
                        self._lost_ns -= max(0, stamp_ns - self._now_ns())
                        return
                    self._changed.wait()
                    continue
                wait_s = (stamp_ns - self._now_ns()) * 1e-9
                if wait_s <= 0.0:
                    return
                self._changed.wait(wait_s)

    def pause(self) -> None:
        """Stop the time."""
        with self._changed:
            if not self.paused:
                self._paused_at_ns = time.monotonic_ns()
            self._changed.notify_all()

    def resume(self) -> None:
        """Continue from the time at which it was paused."""
        with self._changed:
            if self._paused_at_ns is not None:
                self._lost_ns += time.monotonic_ns() - self._paused_at_ns
                self._paused_at_ns, self._pass = None, 0
            self._changed.notify_all()

    def toggle(self) -> None:
        """Pause or resume."""
        (self.resume if self.paused else self.pause)()

    def play_next(self) -> bool:
        """Let one more message pass while paused; return whether it is paused."""
        with self._changed:
            self._pass += self.paused
            self._changed.notify_all()
            return self.paused

    def end(self) -> None:
        """Let every wait return at once."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _now_ns(self) -> int:
        now_ns = time.monotonic_ns() if self._paused_at_ns is None else self._paused_at_ns
        return now_ns - self._lost_ns
