"""A playback clock that can be paused, and stepped by one message."""

import threading
import time


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
