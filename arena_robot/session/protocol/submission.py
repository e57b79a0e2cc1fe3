"""Upload of finished sessions to the arena, repeated until it succeeds."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from arena_robot.core.clock import Clock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, ServerUnavailable, SessionError
from arena_robot.session.base import Arena
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import KeptSession

log = logging.getLogger(__name__)

FEEDBACK = 'feedback'
PATIENCE_S = 120.0


class NotReady(SessionError):
    """An episode's folder is not complete yet."""


class Submissions:
    """
    Sessions that are being uploaded.

    Each part (episode A, episode B, the verdict) is sent until the arena has it, and then not
    again; after a restart the missing parts are sent. An episode is sent when it is ``ready``, or
    after two minutes without waiting longer.
    """

    def __init__(self, arena: Arena, ready: Callable[[Path], bool], clock: Clock) -> None:
        self._arena = arena
        self._ready = ready
        self._clock = clock
        self._parked: list[KeptSession] = []
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Return how many sessions are not uploaded yet."""
        return len(self._parked)

    def park(self, session: KeptSession) -> None:
        """Add a submitted session that could not be uploaded yet."""
        with self._lock:
            self._parked.append(session)

    def deliver(self, session: KeptSession) -> None:
        """Send the missing parts, then request and store the reveal. Raises ServerError."""
        with self._lock:
            self._deliver(session)

    def retry(self) -> None:
        """Try the parked sessions again; those that are complete are closed."""
        with self._lock:
            for session in tuple(self._parked):
                try:
                    self._deliver(session)
                except (ServerUnavailable, NotReady) as error:
                    log.info('a session still waits: %s', error)
                    continue
                except ArenaError as error:
                    log.error('a finished session cannot be delivered: %s', error)
                    continue
                self._parked.remove(session)
                session.close()

    def close(self) -> None:
        """Close the parked sessions' files; they continue at the next start."""
        with self._lock:
            for session in self._parked:
                session.close()
            self._parked.clear()

    def _deliver(self, session: KeptSession) -> None:
        record = session.record
        if record.state is not State.SUBMITTING:
            return
        for slot in Slot:
            episode = record.episode(slot)
            if episode is not None and slot.value not in record.delivered:
                folder = session.folder / slot.value
                waited_s = (self._clock.now_ns() - record.updated_ns) * 1e-9
                if not self._ready(folder) and waited_s < PATIENCE_S:
                    raise NotReady(f'the videos of {slot.value} are still being made')
                self._arena.upload(record.session_id, episode, folder)
                session.delivered(slot.value)
        if FEEDBACK not in record.delivered:
            self._arena.feedback(record.session_id, record.final_verdict())
            session.delivered(FEEDBACK)
        session.revealed(self._arena.reveal(record.session_id))
        session.write_summary()

