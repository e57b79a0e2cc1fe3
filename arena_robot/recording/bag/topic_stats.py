"""Statistics of each topic in a recording: received, written, lost, rate, gaps, latency."""

import struct
from dataclasses import dataclass, field
from math import nan

from arena_robot.recording.bag.base import Message, Topic, starts_with_header

_STAMP = {1: struct.Struct('<iI'), 0: struct.Struct('>iI')}


def header_stamp_ns(data: bytes) -> int:
    """Return the stamp of a CDR message that begins with a ``std_msgs/Header``."""
    sec, nanosec = _STAMP[data[1] & 1].unpack_from(data, 4)
    return int(sec) * 10**9 + int(nanosec)


@dataclass(frozen=True)
class TopicReport:
    """
    The counters of one topic at one moment.

    ``lost`` counts known losses before the recorder and inside it. ``rate_hz`` is over the last
    second or so, ``max_gap_s`` the longest time between two arrivals (0 before the second),
    ``max_latency_s`` the largest distance between a stamp and its arrival (NaN without stamps).
    """

    topic: str
    type: str
    received: int = 0
    written: int = 0
    lost: int = 0
    bytes: int = 0
    rate_hz: float = 0.0
    max_gap_s: float = 0.0
    max_latency_s: float = nan


@dataclass
class TopicCounter:
    """The running counters of one topic; times are integer nanoseconds."""

    topic: Topic
    received: int = 0
    written: int = 0
    lost: int = 0
    bytes: int = 0
    last_log_ns: int = 0
    last_stamp_ns: int = 0
    max_gap_ns: int = 0
    max_latency_ns: int = -1
    stamped: bool = field(init=False)
    _rate_from: tuple[int, int] = (0, 0)
    _rate_hz: float = 0.0

    def __post_init__(self) -> None:
        self.stamped = starts_with_header(self.topic.definition)

    def wrote(self, message: Message) -> None:
        """Count a message that is in the file."""
        if self.last_log_ns:
            self.max_gap_ns = max(self.max_gap_ns, message.log_ns - self.last_log_ns)
        self.last_log_ns = message.log_ns
        self.written += 1
        self.bytes += len(message.data)
        if self.stamped and len(message.data) >= 12:
            self.last_stamp_ns = header_stamp_ns(message.data)
            if self.last_stamp_ns:
                self.max_latency_ns = max(self.max_latency_ns,
                                          abs(message.log_ns - self.last_stamp_ns))

    def report(self, now_ns: int) -> TopicReport:
        """Return the counters, and restart the measurement of the rate once a second is over."""
        since_ns, count = self._rate_from
        if not since_ns:
            self._rate_from = (now_ns, self.received)
        elif now_ns - since_ns >= 900_000_000:
            self._rate_hz = (self.received - count) * 1e9 / (now_ns - since_ns)
            self._rate_from = (now_ns, self.received)
        return TopicReport(
            self.topic.name, self.topic.type, self.received, self.written, self.lost, self.bytes,
            self._rate_hz, self.max_gap_ns * 1e-9,
            self.max_latency_ns * 1e-9 if self.max_latency_ns >= 0 else nan)


class SkewMeter:
    """
    The largest distance between the stamps of pictures of one instant.

    Whenever every image topic has a new message, the newest stamps are compared.
    """

    def __init__(self) -> None:
        self.max_ns = 0
        self._stamps: dict[str, int] = {}
        self._new: set[str] = set()

    def add(self, topic: str, stamp_ns: int) -> None:
        """Add an image's stamp."""
        self._stamps[topic] = stamp_ns
        self._new.add(topic)
        if len(self._new) == len(self._stamps) > 1:
            self._new.clear()
            self.max_ns = max(self.max_ns, max(self._stamps.values())
                              - min(self._stamps.values()))
