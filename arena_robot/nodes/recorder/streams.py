"""Streams that a session needs recorded: which topics carry them, and whether they arrive."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.topic_endpoint_info import TopicEndpointInfo

from arena_msgs.srv import CheckStreams
from arena_robot.core.clock import LOOK_S
from arena_robot.recording.episode.views import IMAGE, JPEG, JPEGS, PNGS

PATIENCE_S = 2.0    # the ROS graph shows a camera's topics one after another
LONGEST_S = 20.0    # of a check, whatever its caller asks for


class RequiredStreams:
    """
    The streams that must be recorded, by their raw topics.

    Images come as JPEGs where ``<topic>/compressed`` is published, depth as PNGs where
    ``<topic>/compressedDepth`` is, and raw where it is not, or where nothing arrives on it; that
    ends once JPEGs arrive. ``images`` is the recorder's
    parameter: 'none' records no image.
    """

    def __init__(self, images: str,
                 publishers: Callable[[str], Sequence[TopicEndpointInfo]]) -> None:
        self._images, self._publishers = images, publishers
        self._required: set[str] = set()
        self._raw: set[str] = set()
        self._seen_s: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._jpeg_s: dict[str, float] = {}
        self._lock = threading.Lock()

    def require(self, topics: Iterable[str]) -> None:
        """Record these streams from now on."""
        with self._lock:
            self._required |= set(topics)

    def takes(self, topic: str, message_type: str) -> bool:
        """Return whether a stream needs a topic."""
        if message_type not in (IMAGE, JPEG):
            return topic in self._required
        if self._images == 'none':
            return False
        if message_type == JPEG:
            return _raw(topic) in self._required and self._images != 'raw'
        if topic not in self._required:
            return False
        return self._images == 'raw' or topic in self._raw or self._has_no_jpegs(topic)

    def count(self, topic: str) -> None:
        """Count a message that arrived."""
        self._counts[topic] = self._counts.get(topic, 0) + 1
        if (images := _raw(topic)) != topic:
            self._raw.discard(images)
            self._jpeg_s[images] = time.monotonic()

    def releases(self, topic: str, message_type: str) -> bool:
        """Return whether raw images are no longer needed, because their JPEGs arrive."""
        if message_type != IMAGE or self.takes(topic, message_type):
            return False
        jpeg_s = self._jpeg_s.get(topic)
        return jpeg_s is not None and time.monotonic() - jpeg_s < PATIENCE_S

    def missing(self, topics: Sequence[str], timeout_s: float) -> list[str]:
        """
        Require streams, and return those on which nothing arrives within ``timeout_s``.

        A stream whose JPEGs do not arrive in half of that time is taken raw, if raw images are
        published, until its JPEGs arrive.
        """
        self.require(topics)
        if self._images == 'none':
            topics = [topic for topic in topics
                      if all(info.topic_type != IMAGE for info in self._publishers(topic))]
        before = {topic: self._arrived(topic) for topic in topics}
        begin_s = time.monotonic()
        while True:
            silent = [topic for topic in topics if self._arrived(topic) <= before[topic]]
            passed_s = time.monotonic() - begin_s
            if passed_s > 0.5 * timeout_s:
                self._raw.update(topic for topic in silent if self._publishers(topic))
            if not silent or passed_s > timeout_s:
                return silent
            time.sleep(LOOK_S)

    def _arrived(self, topic: str) -> int:
        return sum(self._counts.get(topic + tail, 0) for tail in ('', JPEGS, PNGS))

    def _has_no_jpegs(self, topic: str) -> bool:
        """Return whether JPEGs have been missing for a while: topics are not found at once."""
        if self._publishers(topic + JPEGS) or self._publishers(topic + PNGS):
            self._seen_s.pop(topic, None)
            return False
        return time.monotonic() - self._seen_s.setdefault(topic, time.monotonic()) > PATIENCE_S


def _raw(topic: str) -> str:
    """Return the topic of the raw images of one with JPEGs or PNGs."""
    return topic.removesuffix(JPEGS).removesuffix(PNGS)


class StreamCheck:
    """The service ``~/check_streams``: proves that streams arrive, and has them recorded."""

    def __init__(self, node: Node, required: RequiredStreams,
                 problems: Mapping[str, str], allows: Callable[[str], bool]) -> None:
        self._required, self._problems, self._allows = required, problems, allows
        node.create_service(CheckStreams, '~/check_streams', self._check,
                            callback_group=MutuallyExclusiveCallbackGroup())

    def _check(self, request: CheckStreams.Request, response: CheckStreams.Response
               ) -> CheckStreams.Response:
        timeout_s = min(max(float(request.timeout_s), 0.0), LONGEST_S)
        response.missing = self._required.missing(list(request.topics), timeout_s)
        response.success = not response.missing
        response.message = '; '.join(self._why(topic) for topic in response.missing)
        return response

    def _why(self, topic: str) -> str:
        if topic in self._problems:
            return self._problems[topic]
        if not self._allows(topic):
            return f"{topic} is left out by the recorder's parameter exclude"
        return f'nothing arrives at the recorder on {topic}'
