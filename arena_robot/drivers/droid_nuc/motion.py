"""What the fingers do, concluded from their positions: DROID's server gives nothing else."""

from collections import deque

from arena_robot.core.observation import ObjectStatus

ARRIVED, MOVED = 0.02, 0.004    # shares of the stroke
LOOK_NS, BEGIN_NS = 200_000_000, 500_000_000
UNRESPONSIVE_NS = 2_000_000_000
OPEN = 0.02


class FingerMotion:
    """
    Fingers that were told to go to ``requested`` (None: they were told nothing).

    ``position`` is the newest. ``unresponsive`` is set when they do not leave a position that
    nothing can hold them at: fully open when they are to close, or any when they are to open.
    ``follows`` says whether they have moved since the request.
    """

    def __init__(self) -> None:
        self.requested: float | None = None
        self.unresponsive = False
        self.status = ObjectStatus.AT_REQUESTED
        self.position = self._from = 0.0
        self._begin_ns = 0
        self.follows = True
        self._seen: deque[tuple[int, float]] = deque()

    @property
    def travelling(self) -> bool:
        """Return whether they are on their way."""
        return self.requested is not None and self.status is ObjectStatus.MOVING

    def go(self, position: float, now_ns: int) -> None:
        """Take a new request."""
        self.requested, self._from, self._begin_ns = position, self.position, now_ns
        self.unresponsive = False
        self.follows = abs(position - self.position) < ARRIVED
        self.status = ObjectStatus.AT_REQUESTED if self.follows else ObjectStatus.MOVING

    def see(self, position: float, now_ns: int) -> None:
        """Take a measured position."""
        self.position = position
        self._seen.append((now_ns, position))
        while self._seen[0][0] < now_ns - LOOK_NS:
            self._seen.popleft()
        if self.requested is None:
            return
        places = [place for _, place in self._seen]
        moves = max(places) - min(places) > MOVED
        self.follows |= abs(position - self._from) > MOVED
        passed_ns = now_ns - self._begin_ns
        if abs(position - self.requested) < ARRIVED:
            self.status = ObjectStatus.AT_REQUESTED
        elif moves or passed_ns < BEGIN_NS:
            self.status = ObjectStatus.MOVING
        elif self.requested > position:
            self.status = ObjectStatus.GRIPPED_CLOSING
        else:
            self.status = ObjectStatus.GRIPPED_OPENING
        free = self.requested < self._from or self._from < OPEN
        self.unresponsive = free and not self.follows and passed_ns > UNRESPONSIVE_NS
