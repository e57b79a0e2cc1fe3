"""When a camera's newest frames were taken, and when they came."""

from collections import deque
from collections.abc import Sequence

KEPT = 120


class Arrivals:
    """Keeps (stamp_ns, came_ns) of the newest frames; noted by one thread, read by any."""

    def __init__(self) -> None:
        self._pairs: tuple[tuple[int, int], ...] = ()
        self._newest: deque[tuple[int, int]] = deque(maxlen=KEPT)

    def note(self, stamp_ns: int, came_ns: int) -> None:
        """Take one frame's times."""
        self._newest.append((stamp_ns, came_ns))
        self._pairs = tuple(self._newest)

    def pairs(self) -> Sequence[tuple[int, int]]:
        """Return the newest frames' times, oldest first."""
        return self._pairs
