"""The simulated world's time as a core Clock."""

from typing import Protocol


class Steppable(Protocol):
    """Interface of a world for the clock."""

    def now_ns(self) -> int:
        """Return the world's time."""

    def run_until_ns(self, stamp_ns: int) -> None:
        """Return once the world's time is ``stamp_ns`` or later."""


class SimClock:
    """
    Simulated time; integer nanoseconds since the world's epoch.

    ``sleep_until_ns`` waits for the thread that runs the world. Without such a thread, the sleep
    itself advances the simulation, so code written against a Clock runs as fast as it can.
    """

    def __init__(self, world: Steppable) -> None:
        self._world = world

    def now_ns(self) -> int:
        """Return the world's time."""
        return self._world.now_ns()

    def steady_ns(self) -> int:
        """Return the world's time, which never jumps."""
        return self._world.now_ns()

    def sleep_until_ns(self, stamp_ns: int) -> None:
        """Return once the world's time is ``stamp_ns`` or later."""
        self._world.run_until_ns(stamp_ns)

    def sleep_until_steady_ns(self, stamp_ns: int) -> None:
        """Return once the world's time is ``stamp_ns`` or later."""
        self._world.run_until_ns(stamp_ns)
