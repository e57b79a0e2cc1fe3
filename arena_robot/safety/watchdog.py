"""
Command watchdog: stop latches, stale commands, and timeout of a command stream.

All command sources of one arm share one watchdog. After :meth:`CommandWatchdog.halt` only
:meth:`CommandWatchdog.resume` of the same owner allows commands again; a command from before a
halt, a drop or a resume is always refused.
"""

import threading
from enum import Enum

from arena_robot.core.clock import Clock, JumpDetector
from arena_robot.core.errors import LateCommand, SafetyError

FUTURE_S = 0.05    # clocks of two machines differ by less


class StopOwner(Enum):
    """Whose stop is latched. Each owner releases only its own: the arm waits for both."""

    LAB = 'lab'
    SESSION = 'session'


class CommandWatchdog:
    """
    Accepts or refuses commands, and detects when a command stream ends.

    ``timeout_s`` is the time without a command after which :meth:`ceased` reports that the arm
    must hold; ``max_age_s`` the largest age that is accepted. The timeout is in steady time; when
    the clock is set, the stamps of earlier commands are moved by the same amount.
    """

    def __init__(self, clock: Clock, timeout_s: float, max_age_s: float = 0.2) -> None:
        self._clock = clock
        self.timeout_s = timeout_s
        self.max_age_s = max_age_s
        self._lock = threading.Lock()
        self._halts: dict[StopOwner, str] = {}
        self._not_before_ns: int | None = None
        self._newest_ns: int | None = None
        self._accepted_ns: int | None = None    # steady
        self._jumps = JumpDetector(clock)

    @property
    def halted(self) -> str:
        """Reasons of the halts that are in force; empty when commands are allowed."""
        return '; '.join(self._halts.values())

    @property
    def streaming(self) -> bool:
        """Whether a command was accepted and the stream has not ended since."""
        return self._accepted_ns is not None

    def follow(self, stamp_ns: int) -> None:
        """Refuse commands older than ``stamp_ns``, when the path being followed was made."""
        with self._lock:
            self._follow_clock()
            if self._newest_ns is None or stamp_ns > self._newest_ns:
                self._newest_ns = stamp_ns

    def accept(self, stamp_ns: int, of_path: bool = False) -> None:
        """
        Accept one command.

        ``of_path`` is for the points of a path, stamped here while it is followed: a command that
        was on its way meanwhile is newer than the path and must be able to take over from it.

        Raises SafetyError while halted, and for a command from the future or from before the last
        halt, drop or resume; LateCommand for one that is too old, or older than one already
        accepted.
        """
        with self._lock:
            self.open_or_raise()
            self._follow_clock()
            now_ns = self._clock.now_ns()
            age_s = (now_ns - stamp_ns) * 1e-9
            if age_s > self.max_age_s:
                raise LateCommand(f'command is {age_s:.3f} s old, allowed are '
                                  f'{self.max_age_s:g} s: refused')
            if age_s < -FUTURE_S:
                raise SafetyError(f'command is stamped {-age_s:.3f} s in the future: compare the '
                                  'clocks of sender and robot')
            if not of_path and self._newest_ns is not None and stamp_ns < self._newest_ns:
                raise LateCommand('command is older than one already accepted: refused')
            if self._not_before_ns is not None and stamp_ns < self._not_before_ns:
                raise SafetyError('command was made before the last stop: refused')
            self._accepted_ns = self._clock.steady_ns()
            if not of_path:
                self._newest_ns = stamp_ns

    def open_or_raise(self) -> None:
        """Raise SafetyError while halted."""
        if self._halts:
            raise SafetyError(f'halted: {self.halted}')

    def halt(self, reason: str, owner: StopOwner = StopOwner.LAB) -> None:
        """Refuse commands until :meth:`resume` of ``owner``; ``reason`` says what releases it."""
        with self._lock:
            self._halts = {**self._halts, owner: reason}
            self._forget()

    def resume(self, owner: StopOwner = StopOwner.LAB) -> None:
        """Allow commands made from now on, unless the other owner's halt is in force."""
        with self._lock:
            self._halts = {who: why for who, why in self._halts.items() if who is not owner}
            self._forget()

    def drop(self) -> None:
        """Refuse commands made before now, without a halt."""
        with self._lock:
            self._forget()

    def ceased(self) -> bool:
        """Return True, once per stream, when no command was accepted for ``timeout_s``."""
        with self._lock:
            if self._accepted_ns is None:
                return False
            if (self._clock.steady_ns() - self._accepted_ns) * 1e-9 <= self.timeout_s:
                return False
            self._accepted_ns = None
            return True

    def _follow_clock(self) -> None:
        jump_ns = round(self._jumps.jump_s() * 1e9)
        if self._newest_ns is not None:
            self._newest_ns += jump_ns
        if self._not_before_ns is not None:
            self._not_before_ns += jump_ns

    def _forget(self) -> None:
        self._follow_clock()
        self._not_before_ns = self._clock.now_ns()
        self._newest_ns = self._accepted_ns = None
