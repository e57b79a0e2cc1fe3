"""Progress of the running rollout, by a judge, several times a second in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from arena_robot.audit.base import Judge
from arena_robot.audit.run import ProgressFollower
from arena_robot.core.errors import ArenaError, DriverError
from arena_robot.core.observation import Pixels
from arena_robot.drivers.base import Camera

log = logging.getLogger(__name__)

MAX_AGE_S = 1.0


class LiveProgress:
    """
    Tells the progress of a rollout ``rate_hz`` times a second, between ``start`` and ``stop``.

    ``cameras`` are by role, their left eyes are judged; they are opened with the first rollout.
    """

    def __init__(self, judge: Judge, cameras: Mapping[str, Camera], rate_hz: float,
                 tell: Callable[[float], None]) -> None:
        self._judge, self._rate_hz, self._tell = judge, rate_hz, tell
        self._cameras = cameras
        self._opened: set[str] = set()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, instruction: str) -> None:
        """Follow a rollout; does nothing while one is followed."""
        if self._thread is not None:
            return
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(instruction, self._over),
                                        name='live progress', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it without waiting for the judge; what it says now is not told."""
        self._over.set()
        self._thread = None

    def _run(self, instruction: str, over: threading.Event) -> None:
        try:
            self._open()
            self._follow(ProgressFollower(self._judge, instruction), over)
        except ArenaError as error:
            log.warning('this rollout is not followed: %s', error)

    def _open(self) -> None:
        for role, camera in self._cameras.items():
            if role not in self._opened:
                camera.open()
                self._opened.add(role)

    def _follow(self, follower: ProgressFollower, over: threading.Event) -> None:
        due_s = began_s = time.monotonic()
        while not over.is_set():
            try:
                value = follower.add(time.monotonic() - began_s, self._pictures())
            except DriverError:
                value = None    # no fresh picture: the next one counts
            if value is not None and not over.is_set():
                self._tell(value)
            if follower.problem:
                log.warning('this rollout is not followed: %s', follower.problem)
                return
            due_s = max(due_s + 1.0 / self._rate_hz, time.monotonic())
            over.wait(due_s - time.monotonic())

    def _pictures(self) -> dict[str, Pixels]:
        return {role: camera.frame(MAX_AGE_S).left.pixels
                for role, camera in self._cameras.items()}
