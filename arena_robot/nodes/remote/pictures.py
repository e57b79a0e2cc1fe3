"""What the evaluator's page shows of the cameras: live pictures, start photographs, clips."""

import time
from collections.abc import Callable

from rclpy.node import Node
from sensor_msgs.msg import CompressedImage

from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError
from arena_robot.core.observation import EYES, view
from arena_robot.core.verdict import Extras
from arena_robot.nodes.lib.calls import parameters_of
from arena_robot.nodes.lib.images import styles_of, topic_of

CLIP_PERIOD_S = 0.2    # five pictures a second are enough to see what happened
LONGEST_CLIP = 3000    # pictures: ten minutes
NAMES = ('roles', 'cameras', 'eyes', 'topic_style', 'consent', 'ask', 'stages', 'failure_tags',
         'arena', 'site', 'topic_styles')


class Pictures:
    """
    The newest JPEG of every view, and five a second of the last rollout of each slot.

    ``running`` returns the slot that runs. The callbacks are called by one thread; the other
    methods by any.
    """

    def __init__(self, running: Callable[[], Slot | None]) -> None:
        self._running = running
        self._slot: Slot | None = None
        self._live: dict[str, bytes] = {}
        self._start: dict[str, bytes] = {}
        self._stamps: dict[str, tuple[int, int]] = {}
        self._arrived_s: dict[str, float] = {}
        self._clips: dict[tuple[Slot, str], list[bytes]] = {}
        self._taken_s: dict[str, float] = {}

    def live(self, view: str) -> Callable[[CompressedImage], None]:
        """Return the callback of a view's camera."""
        def keep(message: CompressedImage) -> None:
            stamp = (message.header.stamp.sec, message.header.stamp.nanosec)
            if stamp != self._stamps.get(view):    # a picture that is sent again is not new
                self._stamps[view], self._arrived_s[view] = stamp, time.monotonic()
            self._live[view] = bytes(message.data)
            self._film(view)
        return keep

    def start(self, view: str) -> Callable[[CompressedImage], None]:
        """Return the callback of a view's start photograph."""
        def keep(message: CompressedImage) -> None:
            self._start[view] = bytes(message.data)
        return keep

    def frame(self, view: str) -> bytes | None:
        """Return the newest picture of a view; None before the first."""
        return self._live.get(view)

    def age_s(self, view: str) -> float | None:
        """Return how long ago the newest picture of a view arrived; None before the first."""
        arrived_s = self._arrived_s.get(view)
        return None if arrived_s is None else time.monotonic() - arrived_s

    def reference(self, view: str) -> bytes | None:
        """Return the start photograph of a view; None before the first."""
        return self._start.get(view)

    def clip(self, slot: Slot, view: str) -> tuple[bytes, ...]:
        """Return the pictures of a slot's last rollout, one every CLIP_PERIOD_S."""
        return tuple(self._clips.get((slot, view), ()))

    def _film(self, view: str) -> None:
        slot = self._running()
        if slot is not self._slot:
            self._slot = slot
            if slot is not None:
                later = tuple(Slot)[tuple(Slot).index(slot):]
                self._clips = {key: pictures for key, pictures in self._clips.items()
                               if key[0] not in later}
        now_s = time.monotonic()
        if slot is None or now_s - self._taken_s.get(view, 0.0) < CLIP_PERIOD_S:
            return
        self._taken_s[view] = now_s
        clip = self._clips.setdefault((slot, view), [])
        if len(clip) < LONGEST_CLIP:
            clip.append(self._live[view])


def session_views(node: Node, session: str, timeout_s: float
                  ) -> tuple[dict[str, str], str, Extras, str | None]:
    """
    Return the raw image topic of one view of each camera, the text on consent, what is asked.

    The view is the left eye's where that is used. The last value is the address of the server's
    site, None without a server.

    Blocks the calling thread. Raises SessionError when the session node does not answer.
    """
    values = parameters_of(node, session, NAMES, timeout_s, SessionError)
    roles, cameras, eyes = (list(value.string_array_value) for value in values[:3])
    eye = next((candidate for candidate in EYES if candidate in eyes), EYES[0])
    styles = styles_of(values[3].string_value, values[10].string_array_value, cameras)
    topics = {view(role, eye): f'{camera}/{topic_of(style, eye)}'
              for role, camera, style in zip(roles, cameras, styles, strict=False)}
    extras = Extras(*(tuple(value.string_array_value) for value in values[5:8]))
    return topics, values[4].string_value, extras, (
        None if values[8].string_value == 'local' else values[9].string_value)
