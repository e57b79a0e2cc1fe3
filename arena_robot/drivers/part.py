"""
Base classes of drivers: opened and closed once, and read by a thread of their own.

:class:`Opened` is the context manager and the check that the part is open; :class:`Polled` stores
the newest state and waits for the next one.
"""

import abc
import threading
from typing import Generic, TypeVar

import numpy as np

from arena_robot.core.clock import Clock
from arena_robot.core.errors import NotConnected, ReadTimeout, StaleData
from arena_robot.core.observation import Floats
from arena_robot.core.openable import Openable

State = TypeVar('State')


class Opened(Openable):
    """Base of parts: an :class:`Openable` that knows whether it is open."""

    _open = False

    def open(self) -> None:
        """Connect; subclasses extend this and call it last."""
        self._open = True

    def close(self) -> None:
        """Disconnect; can be called twice."""
        self._open = False

    def _require_open(self, what: str) -> None:
        if not self._open:
            raise NotConnected(f'{what} is not open; call open() or use it in a with block')


class Polled(Opened, abc.ABC, Generic[State]):
    """
    Base of drivers with a reading thread; ``what`` is the part's name, such as 'gripper'.

    ``_new`` guards ``_state``, ``_read_ns`` (steady) and ``_count``; each state notifies it.
    """

    def __init__(self, what: str, clock: Clock) -> None:
        self._what, self._clock = what, clock
        self._new = threading.Condition()
        self._state: State | None = None
        self._read_ns = self._count = 0

    def wait_state(self, timeout_s: float) -> State:
        """Return the next new state."""
        self._require_open(f'the {self._what}')
        with self._new:
            before = self._count
            if not self._new.wait_for(lambda: self._count != before, timeout_s):
                raise ReadTimeout(f'no {self._what} state within {timeout_s} s; {self._silence()}')
            assert self._state is not None
            return self._state

    def _newest(self, max_age_s: float, otherwise: str) -> State:
        """Return the newest state; StaleData names the trouble, or ``otherwise``."""
        self._require_open(f'the {self._what}')
        with self._new:
            state, age_s = self._state, (self._clock.steady_ns() - self._read_ns) * 1e-9
        if state is None or age_s > max_age_s:
            raise StaleData(f'newest {self._what} state is {age_s:.3f} s old, accepted are '
                            f'{max_age_s} s; {self._silence() or otherwise}')
        return state

    def _silence(self) -> str:
        """Return what to say of a part that gives no state, '' when nothing is known."""
        return self._trouble()

    @abc.abstractmethod
    def _trouble(self) -> str:
        """Return why nothing is read, '' when something is."""


def fixed(values: Floats) -> Floats:
    """Return a copy that cannot be written to: states share it."""
    out: Floats = np.array(values, dtype=float)
    out.setflags(write=False)
    return out
