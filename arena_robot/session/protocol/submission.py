"""Delivery of finished sessions to the arena: verdicts first, then files, repeated until done."""

import dataclasses
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path

from arena_robot.core.clock import Clock
from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import ArenaError, Conflict, DataError, NotRevealed, SessionError
from arena_robot.core.files import write_text
from arena_robot.core.pair import objection, read_canonical
from arena_robot.records.episode_file import SceneMatch, write_scene_match
from arena_robot.records.session_file import RECEIPT_FILE
from arena_robot.session.base import Arena, Reveal
from arena_robot.session.protocol.record import SessionRecord
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import KeptSession

log = logging.getLogger(__name__)

FEEDBACK = 'feedback'
PATIENCE_S = 900.0    # well above what making the videos takes
AGAIN_S, LONGEST_S = 30.0, 1800.0    # waits, each twice the last
TRIES = 3    # uploads of files that the arena refuses
REFUSED = (Conflict, DataError)
OBJECTION = ("The server's log does not hold what this station sent: {}. Keep this session's "
             'folder, and show it to the other stations: `arena results verify` reads it.')


class NotReady(SessionError):
    """An episode's folder is not complete yet; the text is what it waits for."""


class Submissions:
    """
    Sessions that are being delivered.

    Every verdict is sent before any file, so a slow or refused upload never holds one back. Each
    part (the verdict, episode A, episode B) is sent until the arena has it, and then not again;
    after a restart the missing parts are sent. An episode is sent when it is ``ready``, or after
    15 minutes without waiting longer. Files that the arena refuses three times stay at the
    station, the session's notice says so, and the delivery continues.

    While the arena answers that something is missing, the session stays here: verdict and both
    episodes are sent again, the first time at once, then after 30 s and ever longer waits of up to
    30 minutes.
    """

    def __init__(self, arena: Arena, ready: Callable[[Path], bool], clock: Clock) -> None:
        self._arena = arena
        self._ready = ready
        self._clock = clock
        self._parked: list[KeptSession] = []
        self._sending = threading.Lock()
        self._since_ns: dict[str, int] = {}
        self._refused: dict[tuple[str, Slot], int] = {}
        self._again: dict[str, tuple[int, float]] = {}

    @property
    def waiting(self) -> int:
        """Return how many sessions are not delivered yet."""
        return len(self._parked)

    def park(self, session: KeptSession) -> None:
        """Add a submitted session that could not be delivered yet."""
        self._parked = [*self._parked, session]

    def deliver(self, session: KeptSession | None = None) -> None:
        """
        Send what is missing of ``session`` and of the parked ones; complete ones are closed.

        Raises the ArenaError that keeps ``session`` from being complete.
        """
        with self._sending:
            parked = tuple(queued for queued in self._parked if queued is not session)
            failed = {id(queued): error for queued in (*([session] if session else []), *parked)
                      if (error := self._attempt(self._tell, queued)) is not None}
            for queued in parked:
                if id(queued) not in failed and self._attempt(self._send, queued) is None:
                    self._parked = [other for other in self._parked if other is not queued]
                    queued.close()
            if session is None:
                return
            error = failed.get(id(session)) or self._attempt(self._send, session)
            if error is not None:
                raise error

    def close(self) -> None:
        """Close the parked sessions' files; they continue at the next start."""
        parked, self._parked = self._parked, []
        for session in parked:
            session.close()

    def _attempt(self, work: Callable[[KeptSession], None],
                 session: KeptSession) -> ArenaError | None:
        try:
            work(session)
        except (ArenaError, OSError) as error:
            level = logging.ERROR if isinstance(error, REFUSED) else logging.INFO
            log.log(level, 'session %s still waits: %s', session.record.session_id, error)
            return error if isinstance(error, ArenaError) else SessionError(str(error))
        return None

    def _tell(self, session: KeptSession) -> None:
        record = session.record
        if record.state is State.SUBMITTING and FEEDBACK not in record.delivered:
            promise = self._arena.feedback(record.session_id, record.final_verdict())
            session.delivered(FEEDBACK, promise=promise)

    def _send(self, session: KeptSession) -> None:
        record = session.record
        if record.state is not State.SUBMITTING:
            return
        for slot in Slot:
            episode = record.episode(slot)
            if episode is not None and slot.value not in record.delivered:
                self._send_episode(session, episode)
        self._reveal(session)
        session.write_summary()

    def _reveal(self, session: KeptSession) -> None:
        try:
            reveal = self._revealed(session)
        except NotRevealed as error:
            session.unrevealed(str(error))
            return
        if reveal.receipt:
            write_text(session.folder / RECEIPT_FILE, reveal.receipt + '\n')
            reveal = _compared(reveal, session.record)
        if reveal.objection:
            log.error('session %s: %s', session.record.session_id, reveal.objection)
        session.revealed(reveal)

    def _revealed(self, session: KeptSession) -> Reveal:
        session_id = session.record.session_id
        try:
            return self._arena.reveal(session_id)
        except NotRevealed:
            raise
        except Conflict:
            if not self._is_time(session_id):
                raise
        # The arena was restored from a backup, or files were made after the others were sent.
        self._send_again(session)
        return self._arena.reveal(session_id)

    def _is_time(self, session_id: str) -> bool:
        """Tell whether everything may be sent again now; each time the next wait is longer."""
        now_ns = self._clock.steady_ns()
        due_ns, wait_s = self._again.get(session_id, (now_ns, AGAIN_S))
        if now_ns < due_ns:
            return False
        self._again[session_id] = (now_ns + int(wait_s * 1e9), min(2.0 * wait_s, LONGEST_S))
        return True

    def _send_again(self, session: KeptSession) -> None:
        record = session.record
        self._arena.feedback(record.session_id, record.final_verdict())
        for slot in Slot:
            if (episode := record.episode(slot)) is None:
                continue
            try:
                self._arena.upload(record.session_id, episode, session.folder / slot.value)
            except REFUSED as error:
                log.error('files of %s of session %s were refused again: %s', slot.value,
                          record.session_id, error)

    def _send_episode(self, session: KeptSession, episode: Episode) -> None:
        key, folder = (episode.session_id, episode.slot), session.folder / episode.slot.value
        now_ns = self._clock.steady_ns()
        waited_s = (now_ns - self._since_ns.setdefault(episode.session_id, now_ns)) * 1e-9
        if not self._ready(folder) and waited_s < PATIENCE_S:
            raise NotReady(f'videos of {episode.slot.value}')
        if episode.slot is Slot.B:
            _keep_match(session.record, folder)
        try:
            self._arena.upload(episode.session_id, episode, folder)
        except REFUSED as error:
            self._refused[key] = self._refused.get(key, 0) + 1
            if self._refused[key] < TRIES:
                raise
            session.delivered(episode.slot.value, f'the arena refused files of '
                              f'{episode.slot.value}, which stay in {folder}: {error}')
            return
        session.delivered(episode.slot.value)


def _compared(reveal: Reveal, record: SessionRecord) -> Reveal:
    """Return the reveal with what differs between its receipt and the station's own record."""
    try:
        entry = read_canonical(str(json.loads(reveal.receipt)['entry']), "the receipt's entry")
        difference = objection(entry, record.session_id, record.commitment, record.prompt,
                          record.final_verdict())
    except (DataError, ValueError, TypeError, KeyError) as error:
        difference = f'the receipt cannot be read: {error!s:.300}'
    if not difference and not reveal.objection:
        return reveal
    return dataclasses.replace(reveal, objection=OBJECTION.format(
        '; '.join(filter(None, (reveal.objection, difference)))))


def _keep_match(record: SessionRecord, folder: Path) -> None:
    """Write the scene match before B beside its episode; it is uploaded with the other files."""
    if record.match is None or not folder.is_dir():
        return
    try:
        write_scene_match(folder, SceneMatch(record.match, dict(record.matches)))
    except (OSError, ValueError) as error:    # session.json has it as well
        log.warning('%s: the scene match could not be written: %s', folder, error)
