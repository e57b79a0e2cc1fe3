"""
Recorder: writes messages from any thread to a bag, without blocking the callers.

``push`` puts a message in a queue of bounded size; one thread writes. A message that does not fit
is counted as lost, by topic. Twice a second the open chunks are closed and written to the disk, so
a killed recorder loses less than a second.
"""

import json
import logging
import shutil
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from arena_robot.core.clock import Clock
from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag.base import Custom, Message, Topic
from arena_robot.recording.bag.metadata import BagMetadata
from arena_robot.recording.bag.topic_stats import SkewMeter, TopicCounter, TopicReport
from arena_robot.recording.bag.writer import BagWriter

log = logging.getLogger(__name__)

STATISTICS = 'statistics'
_POLL_S = 0.02    # a message waits in the queue for that long


@dataclass(frozen=True)
class RecorderSettings:
    """
    Settings of a recorder.

    ``cache_bytes`` bounds the queue, ``level`` is zstd's for state (0: none). A recording does not
    start with less than ``min_free_bytes`` of free disk, and is closed properly below
    ``reserve_bytes``.
    """

    cache_bytes: int = 200 * 2**20
    chunk_bytes: int = 2 * 2**20
    level: int = 1
    flush_s: float = 0.5
    min_free_bytes: int = 4 * 2**30
    reserve_bytes: int = 256 * 2**20


@dataclass(frozen=True)
class RecorderReport:
    """State of the recorder; ``problem`` says what is wrong and what to do, or is empty."""

    recording: bool
    paused: bool
    folder: str
    duration_s: float
    bytes_written: int
    bytes_queued: int
    disk_free: int
    max_skew_s: float
    topics: tuple[TopicReport, ...]
    problem: str


def _counters(report: TopicReport) -> dict[str, float | None]:
    return {'received': report.received, 'written': report.written, 'lost': report.lost,
            'max_gap_s': report.max_gap_s,
            'max_latency_s': report.max_latency_s if isfinite(report.max_latency_s) else None}


def disk_free(path: Path) -> int:
    """Return the free bytes where ``path`` is or will be."""
    folder = path.absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


class BagRecorder:
    """
    Records one bag after the other.

    Any thread may call any method. Times are those of ``clock`` in integer nanoseconds.
    """

    def __init__(self, settings: RecorderSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.folder: Path | None = None
        self._guard = threading.Lock()
        self._bag_guard = threading.Lock()
        self._queue: deque[Message | Topic] = deque()
        self._queued_bytes = 0
        self._counters: dict[str, TopicCounter] = {}
        self._skew = SkewMeter()
        self._bag: BagWriter | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._paused = False
        self._started_ns = self._started_stamp_ns = 0
        self._pause_ns = 0
        self._paused_since_ns = 0
        self._problem = ''

    @property
    def is_recording(self) -> bool:
        """Whether a recording is open, also while it is paused."""
        return self._bag is not None

    @property
    def is_paused(self) -> bool:
        """Whether the recording is paused: messages are dropped."""
        return self._paused

    def check_disk(self, folder: Path) -> None:
        """Raise RecordingError when there is too little disk space for a recording."""
        free = disk_free(folder)
        if free < self.settings.min_free_bytes:
            raise RecordingError(
                f'{free / 2**30:.1f} GiB are free at {folder}, and a recording is not started '
                f'below {self.settings.min_free_bytes / 2**30:.1f} GiB: remove old sessions, or '
                'lower min_free_disk')

    def start(self, folder: Path, topics: Iterable[Topic], latched: Sequence[Message] = (),
              custom: Custom | None = None) -> None:
        """
        Open a bag in ``folder`` and write the ``latched`` messages first.

        Raises RecordingError when one is open, the disk is too full, or the folder has a bag.
        """
        if self.is_recording:
            raise RecordingError(f'{self.folder} is being recorded; stop it first')
        self.check_disk(folder)
        bag = BagWriter(folder, custom, self.settings.chunk_bytes, level=self.settings.level)
        bag.open()
        announced = list(topics)
        for topic in announced:
            bag.add_topic(topic)
        self._reset(folder, {topic.name: TopicCounter(topic) for topic in announced})
        for message in latched:
            self._counters[message.topic].received += 1
            self._keep(bag, message._replace(log_ns=self._started_stamp_ns))
        bag.flush()
        self._bag = bag
        self._thread = threading.Thread(target=self._write, name='recorder', daemon=True)
        self._thread.start()

    def add_topic(self, topic: Topic) -> None:
        """Add a new topic; required before its messages are pushed."""
        with self._guard:
            if self._bag is not None and topic.name not in self._counters:
                self._counters[topic.name] = TopicCounter(topic)
                self._queue.append(topic)

    def push(self, message: Message) -> None:
        """Queue a message; never blocks; it is counted as lost when the queue is full."""
        counter = self._counters.get(message.topic)
        if self._bag is None or self._paused or counter is None:
            return
        size = len(message.data)
        with self._guard:
            counter.received += 1
            if self._problem or self._queued_bytes + size > self.settings.cache_bytes:
                counter.lost += 1
                return
            self._queued_bytes += size
            self._queue.append(message)

    def received(self, topic: str) -> int:
        """Return how many messages of a topic of this recording have arrived."""
        counter = self._counters.get(topic)
        return counter.received if counter is not None else 0

    def count_lost(self, topic: str, count: int) -> None:
        """Count messages that were lost before they reached the recorder."""
        counter = self._counters.get(topic)
        if counter is not None and self._bag is not None:
            with self._guard:
                counter.lost += count

    def pause(self) -> None:
        """Drop messages from now on."""
        if not self._paused:
            self._paused, self._paused_since_ns = True, self.clock.steady_ns()

    def resume(self) -> None:
        """Record messages again."""
        if self._paused:
            self._paused = False
            self._pause_ns += self.clock.steady_ns() - max(self._paused_since_ns, self._started_ns)

    def split(self) -> Path:
        """Continue in a new file; return its path. Raises RecordingError when not recording."""
        with self._bag_guard:
            if self._bag is None:
                raise RecordingError('nothing is being recorded, so there is no file to split')
            self._drain(self._bag)
            return self._bag.split(self.clock.now_ns())

    def stop(self, custom: Custom | None = None) -> tuple[BagMetadata, RecorderReport]:
        """
        Write the queued messages, close the bag, and return its metadata.

        Raises RecordingError when nothing is recorded or writing failed; the written part stays,
        and ``arena episode recover`` recovers it.
        """
        bag = self._bag
        if bag is None or self._thread is None:
            raise RecordingError('nothing is being recorded')
        self._paused = True
        self._stopping.set()
        self._thread.join(timeout=60.0)
        with self._bag_guard:
            try:
                self._drain(bag)
                report = self.report()
                statistics = {STATISTICS: json.dumps(
                    {t.topic: _counters(t) for t in report.topics})}
                return bag.close({**(custom or {}), **statistics}), report
            except RecordingError:
                bag.abandon()
                raise
            finally:
                self._bag = None
                self._paused = False

    def report(self) -> RecorderReport:
        """Return the current counters."""
        now_ns = self.clock.steady_ns()
        recording = self._bag is not None
        paused_ns = self._pause_ns
        if self._paused and recording:
            paused_ns += max(0, now_ns - max(self._paused_since_ns, self._started_ns))
        with self._guard:
            topics = tuple(c.report(now_ns) for c in self._counters.values())
            queued = self._queued_bytes
        return RecorderReport(
            recording=recording, paused=self._paused, folder=str(self.folder or ''),
            duration_s=(now_ns - self._started_ns - paused_ns) * 1e-9 if recording else 0.0,
            bytes_written=self._bag.bytes_written if self._bag else 0, bytes_queued=queued,
            disk_free=disk_free(self.folder) if self.folder else 0,
            max_skew_s=self._skew.max_ns * 1e-9, topics=topics, problem=self._problem)

    def _reset(self, folder: Path, counters: dict[str, TopicCounter]) -> None:
        self.folder = folder
        self._queue.clear()
        self._queued_bytes = 0
        self._counters = counters
        self._skew = SkewMeter()
        self._problem = ''
        self._paused = False
        self._pause_ns = 0
        self._started_ns, self._started_stamp_ns = self.clock.steady_ns(), self.clock.now_ns()
        self._stopping.clear()

    def _keep(self, bag: BagWriter, message: Message) -> None:
        bag.write(message)
        counter = self._counters[message.topic]
        counter.wrote(message)
        if counter.topic.is_image and counter.stamped:
            self._skew.add(message.topic, counter.last_stamp_ns)

    def _drain(self, bag: BagWriter) -> None:
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, Topic):
                bag.add_topic(item)
                continue
            with self._guard:
                self._queued_bytes -= len(item.data)
            self._keep(bag, item)

    def _write(self) -> None:
        flushes = max(1, round(self.settings.flush_s / _POLL_S))
        rounds = 0
        while not self._stopping.wait(_POLL_S):
            rounds += 1
            with self._bag_guard:
                bag = self._bag
                if bag is None or self._problem:
                    continue
                try:
                    self._drain(bag)
                    if rounds % flushes == 0:
                        bag.flush()
                        self._watch_disk(bag)
                except RecordingError as error:
                    self._fail(error)

    def _watch_disk(self, bag: BagWriter) -> None:
        if disk_free(bag.folder) < self.settings.reserve_bytes:
            self._fail(RecordingError(
                f'the disk at {bag.folder} is nearly full; everything up to now is kept and '
                'nothing more is recorded: remove old sessions and start again'))

    def _fail(self, error: RecordingError) -> None:
        log.error('recording stopped: %s', error)
        with self._guard:
            self._problem = str(error)
            for item in self._queue:
                if isinstance(item, Message):
                    self._counters[item.topic].lost += 1
            self._queue.clear()
            self._queued_bytes = 0
