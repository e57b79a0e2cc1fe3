"""
Which joint target is due on the way to DROID's server, and what the fingers do.

The server gives positions only: whether the fingers move or hold something is concluded from them.
"""

from collections import deque
from enum import Enum

import numpy as np

from arena_robot.core.observation import STILL_RAD_S, Floats, ObjectStatus
from arena_robot.safety.limits import min_jerk

AGAIN_NS = round(1e9 / 15)      # the server drops targets while its controller starts
MOVE_NS = round(1e9 / 30)       # the server has a thread for each target: not too close together
HELD_NS = 10**9                 # how long the pose that is held is sent again
BRAKE_NS = 500_000_000          # twice what an emulated arm needs at most
ARRIVED, MOVED = 0.02, 0.004    # shares of the stroke
LOOK_NS, BEGIN_NS = 200_000_000, 500_000_000    # a motion shows; fingers may start
UNRESPONSIVE_NS = 2_000_000_000    # free fingers that have not moved by then do not obey
OPEN = 0.02    # share of the stroke; below it nothing is between the fingers to open from


class TargetPhase(str, Enum):
    """Source of the target: none yet, commands, a motion, what stops the arm, the held pose."""

    NONE = 'none'
    TRACK = 'track'
    MOVE = 'move'
    BRAKE = 'brake'
    HOLD = 'hold'


class NucTargets:
    """
    Keeps the newest target, plays motions, and stops the arm when commands end.

    Before the first command nothing is due: opening a driver moves nothing.
    """

    def __init__(self, command_timeout_s: float) -> None:
        self.phase = TargetPhase.NONE
        self.target: Floats | None = None
        self._timeout_ns = round(command_timeout_s * 1e9)
        self._begin_ns = self._end_ns = self._due_ns = 0
        self._start: Floats | None = None
        self._goal: Floats | None = None

    @property
    def moving(self) -> bool:
        """Return whether targets are tracked or a motion is under way."""
        return self.phase in (TargetPhase.TRACK, TargetPhase.MOVE)

    @property
    def braking(self) -> bool:
        """Return whether the arm has to be stopped: :meth:`brake` gives the targets."""
        return self.phase is TargetPhase.BRAKE

    def track(self, q: Floats, now_ns: int) -> None:
        """Track ``q`` until the command timeout."""
        self.phase, self.target = TargetPhase.TRACK, q
        self._end_ns, self._due_ns = now_ns + self._timeout_ns, now_ns

    def move(self, start: Floats, goal: Floats, duration_s: float, now_ns: int) -> None:
        """Play a min-jerk motion."""
        self.phase, self._start, self._goal = TargetPhase.MOVE, start, goal
        self._begin_ns = self._due_ns = now_ns
        self._end_ns = now_ns + round(duration_s * 1e9)

    def hold(self) -> None:
        """Stop the arm, then hold the pose in which it came to rest."""
        if self.phase is not TargetPhase.NONE:
            self.begin_held()

    def begin_held(self) -> None:
        """Begin again: stop the arm and hold it, whatever was commanded before."""
        self.phase, self.target, self._end_ns = TargetPhase.BRAKE, None, 0

    def brake(self, q: Floats, dq: Floats, lead_s: float, now_ns: int) -> Floats:
        """
        Return a target behind the motion, against which the arm's spring brakes.

        At rest, and where the arm does not come to rest, the measured pose is held from then on.
        """
        self._end_ns = self._end_ns or now_ns + BRAKE_NS
        if now_ns >= self._end_ns or float(np.max(np.abs(dq))) < STILL_RAD_S:
            self.phase, self.target = TargetPhase.HOLD, q.copy()
            self._due_ns, self._end_ns = now_ns + AGAIN_NS, now_ns + HELD_NS
        else:
            self.target = q - lead_s * dq
        return self.target

    def forget(self) -> None:
        """Begin again: nothing is due until the next command."""
        self.phase, self.target = TargetPhase.NONE, None

    def due(self, now_ns: int) -> Floats | None:
        """Return the target to send now, None when there is none."""
        if self.phase is TargetPhase.MOVE:
            return self._on_the_way(now_ns)
        if self.phase is TargetPhase.TRACK and now_ns >= self._end_ns:
            self.hold()
        ended = self.phase is TargetPhase.HOLD and now_ns >= self._end_ns
        if (self.phase in (TargetPhase.NONE, TargetPhase.BRAKE) or ended
                or now_ns < self._due_ns):
            return None
        self._due_ns = now_ns + AGAIN_NS
        return self.target

    def _on_the_way(self, now_ns: int) -> Floats | None:
        if now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + MOVE_NS
        assert self._start is not None
        assert self._goal is not None
        share = min(1.0, (now_ns - self._begin_ns) / max(1, self._end_ns - self._begin_ns))
        self.target = min_jerk(self._start, self._goal, share)
        if share >= 1.0:
            self.phase = TargetPhase.HOLD
            self._due_ns, self._end_ns = now_ns + AGAIN_NS, now_ns + HELD_NS
        return np.asarray(self.target)


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
