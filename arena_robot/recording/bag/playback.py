"""
Playback of a bag with its recorded timing; it can be paused, sought in, slower or faster.

A thread reads ahead, so that a slow disk does not disturb the timing. The lateness of each message
is measured and reported.
"""

import queue
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.writer import LatchedSet

_AHEAD = 512       # messages: a second of a station, which a disk that hesitates may take
_LATE = 100_000    # messages whose lateness is kept, so that a loop takes no more memory


class Pace:
    """
    The recorded time of a playback, in nanoseconds: it runs at ``rate``, is paused and set.

    Methods may be called from any thread; :meth:`end` lets a waiting player go on to its end.
    """

    def __init__(self, rate: float = 1.0, paused: bool = False,
                 monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._changed = threading.Condition()
        self._monotonic_ns = monotonic_ns
        self._rate, self._paused = rate, paused
        self._since_ns, self._at_ns = monotonic_ns(), 0
        self._pass = 0
        self._sought_ns: int | None = None
        self._ended = False

    @property
    def rate(self) -> float:
        """How many times the recorded speed."""
        return self._rate

    @property
    def paused(self) -> bool:
        """Whether it is paused now."""
        return self._paused

    def now_ns(self) -> int:
        """Return the recorded time; it stands still while paused."""
        with self._changed:
            return self._now_ns()

    def sleep_until_ns(self, stamp_ns: int) -> bool:
        """
        Return True once it is ``stamp_ns``, or a single message may pass.

        False as soon as :meth:`seek` was called.
        """
        with self._changed:
            while not self._ended and self._sought_ns is None:
                if self._paused:
                    if self._pass:
                        self._pass -= 1
                        self._at_ns = max(self._at_ns, stamp_ns)
                        return True
                    self._changed.wait()
                    continue
                wait_ns = stamp_ns - self._now_ns()
                if wait_ns <= 0:
                    return True
                self._changed.wait(wait_ns * 1e-9 / self._rate)
            return self._sought_ns is None

    def begin(self, at_ns: int) -> None:
        """Set the time, as the player does; no message is left out."""
        with self._changed:
            self._set(at_ns)

    def seek(self, at_ns: int) -> None:
        """Play on from the recorded time ``at_ns``."""
        with self._changed:
            self._set(at_ns)
            self._sought_ns = at_ns

    def take_seek(self) -> int | None:
        """Return, once, the time of the last :meth:`seek`; None when there was none."""
        with self._changed:
            sought_ns, self._sought_ns = self._sought_ns, None
            return sought_ns

    def set_rate(self, rate: float) -> None:
        """Play at ``rate`` times the recorded speed from now on."""
        with self._changed:
            self._set()
            self._rate = rate

    def pause(self) -> None:
        """Stop the time."""
        with self._changed:
            self._set()
            self._paused = True

    def resume(self) -> None:
        """Continue from the time at which it was paused."""
        with self._changed:
            self._set()
            self._paused, self._pass = False, 0

    def toggle(self) -> None:
        """Pause or resume."""
        (self.resume if self._paused else self.pause)()

    def play_next(self) -> bool:
        """Let one more message pass while paused; return whether it is paused."""
        with self._changed:
            self._pass += self._paused
            self._changed.notify_all()
            return self._paused

    def end(self) -> None:
        """Let every wait return at once."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _now_ns(self) -> int:
        passed_ns = 0 if self._paused else self._monotonic_ns() - self._since_ns
        return self._at_ns + round(passed_ns * self._rate)

    def _set(self, at_ns: int | None = None) -> None:
        """Count from ``at_ns``, by default the present time, from now on."""
        self._at_ns = self._now_ns() if at_ns is None else at_ns
        self._since_ns = self._monotonic_ns()
        self._changed.notify_all()


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
         stop: threading.Event | None = None) -> TimingReport:
    """
    Pass every message to ``publish`` at its time, and report the timing.

    Messages latched before the start are played first. ``wait`` is called before each message and
    may block; when it returns True, the timing continues from there. ``stop`` ends it early.
    Whoever has ``pace`` can pause, seek and change the rate.
    """
    pace, stop = pace or Pace(playing.rate), stop or threading.Event()
    names = [t.name for t in chosen_topics(bag, playing)]
    report = TimingReport()
    start_ns = begin_ns = bag.metadata.start_ns + round(playing.start_s * 1e9)
    while True:
        pace.begin(begin_ns)
        with closing(_from(bag, names, begin_ns, stop)) as messages:
            for message in messages:
                if stop.is_set():
                    break
                if wait is not None and wait(message):
                    pace.begin(max(message.log_ns, begin_ns))
                due_ns = max(message.log_ns, begin_ns)
                if not pace.sleep_until_ns(due_ns):
                    break
                publish(message)
                report.late_ns.append(round((pace.now_ns() - due_ns) / pace.rate))
                report.counts[message.topic] += 1
        sought_ns = pace.take_seek()
        if stop.is_set() or (sought_ns is None and not (playing.loop and report.counts)):
            return report
        begin_ns = start_ns if sought_ns is None else sought_ns


def _from(bag: BagReader, names: Sequence[str], begin_ns: int,
          stop: threading.Event) -> Generator[Message, None, None]:
    """Yield the newest latched messages before a time, and all from there on."""
    yield from _latched_before(bag, names, begin_ns)
    yield from _ahead(bag.messages(names, begin_ns), stop)


def _latched_before(bag: BagReader, names: Sequence[str], start_ns: int) -> list[Message]:
    latched = [n for n in names if bag.topics[n].is_latched]
    newest = LatchedSet()
    for message in bag.messages(latched, end_ns=start_ns):
        newest.add(bag.topics[message.topic], message)
    return list(newest)


def _ahead(messages: Iterator[Message], stop: threading.Event) -> Iterator[Message]:
    """Yield messages that a thread reads ahead, to its end; an error in it is raised here."""
    ready: queue.Queue[Message | BaseException | None] = queue.Queue(_AHEAD)
    over = threading.Event()

    def read() -> None:
        end: BaseException | None = None
        try:
            for message in messages:
                if not _put(ready, message, over):
                    return
        except Exception as error:
            end = error
        _put(ready, end, over)

    thread = threading.Thread(target=read, name='playback', daemon=True)
    thread.start()
    try:
        while not stop.is_set() and (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        over.set()
        thread.join()


def _put(ready: queue.Queue[Message | BaseException | None],
         item: Message | BaseException | None, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False
