"""Capture and arrival times of a camera's newest frames."""

from collections import deque
from collections.abc import Sequence

KEPT = 120


class Arrivals:
    """Stores (stamp_ns, came_ns) of the newest frames; one thread writes, any thread reads."""

    def __init__(self) -> None:
        self._pairs: tuple[tuple[int, int], ...] = ()
        self._newest: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def note(self, stamp_ns: int, came_ns: int) -> None:
        """Store one frame's times."""
        self._newest.append((stamp_ns, came_ns))
        self._pairs = tuple(self._newest)

    def pairs(self) -> Sequence[tuple[int, int]]:
        """Return the newest frames' times, oldest first."""
        return self._pairs
