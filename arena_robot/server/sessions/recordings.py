"""
Reads the recordings of judged sessions before they count, in processes of their own.

A session's recordings are read once for the files and queries that it has; the result is stored.
"""

import hashlib
import json
import logging
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from arena_robot.core import bounded
from arena_robot.core.clock import Clock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, ServerError
from arena_robot.core.process import wait_until
from arena_robot.server.files import FileId
from arena_robot.server.sessions.evidence import Missing
from arena_robot.server.sessions.recorded_rollout import (
    FOUND_FILE,
    RolloutClaim,
    check_files,
    write_claims,
)
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.database import Database
from arena_robot.server.store.files import SessionEvidence, found_in_recordings, store_found

log = logging.getLogger(__name__)

AT_ONCE = 2          # each may take gigabytes
LONGEST_S = 180.0    # processes of the lowest priority may wait for others
BAG_FILES = ('.mcap', 'metadata.yaml')
BEING_READ = Missing('its recordings are being read', waits=True)

Read = Callable[[Path], Mapping[str, str]]


def read_in_a_process(home: Path) -> Mapping[str, str]:
    """Return what :func:`check_files` finds; ServerError when its process does not end well."""
    process = bounded.started(check_files, home)
    try:
        wait_until(lambda: process.code is not None, LONGEST_S)
        code = process.code
    finally:
        process.kill()
    if code != 0 or not (home / FOUND_FILE).exists():
        raise ServerError(f'the process that read the recordings ended with {code}')
    whys: dict[str, str] = json.loads((home / FOUND_FILE).read_text(encoding='utf-8'))
    return whys


class Recordings:
    """
    Decides whether the recordings of a session prove its rollouts.

    They are read in processes of their own; with ``read`` by that, in the caller's thread.
    """

    def __init__(self, database: Database, blobs: Blobs, clock: Clock, max_pace: float,
                 read: Read | None = None) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._max_pace = max_pace
        self._read = read or read_in_a_process
        self._threads = None if read else ThreadPoolExecutor(AT_ONCE, 'recordings')
        self._lock = threading.Lock()
        self._running: dict[str, threading.Event] = {}
        self._waited: set[str] = set()

    def missing(self, session_id: str, evidence: SessionEvidence,
                done: Callable[[str], object], wait_s: float = 0.0) -> Missing:
        """
        Return what the recordings lack; they are read when they were not.

        ``done`` is called with the session when they were read in the background. Waits at most
        ``wait_s`` for that, for one caller of a session: no number of callers takes all threads.
        """
        seen = _seen(evidence)
        why = self._stored(session_id, seen)
        if why is None and (ended := self._begin(session_id, evidence, seen, done)):
            if wait_s and self._is_first(session_id):
                ended.wait(wait_s)
                self._waited.discard(session_id)
            why = self._stored(session_id, seen)
        return BEING_READ if why is None else Missing(why)

    def close(self) -> None:
        """Begin no further reading; what is not stored is read after the next start."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _stored(self, session_id: str, seen: str) -> str | None:
        with self._database.read() as connection:
            return found_in_recordings(connection, session_id, seen)

    def _is_first(self, session_id: str) -> bool:
        with self._lock:
            if session_id in self._waited:
                return False
            self._waited.add(session_id)
            return True

    def _begin(self, session_id: str, evidence: SessionEvidence, seen: str,
               done: Callable[[str], object]) -> threading.Event | None:
        with self._lock:
            if session_id in self._running:
                return self._running[session_id]
            ended = self._running[session_id] = threading.Event()
        if self._threads is None:
            self._job(session_id, evidence, seen, ended)
            return ended
        try:
            self._threads.submit(self._in_background, session_id, evidence, seen, ended, done)
        except RuntimeError:    # the server closes
            return None
        return ended

    def _in_background(self, session_id: str, evidence: SessionEvidence, seen: str,
                       ended: threading.Event, done: Callable[[str], object]) -> None:
        if self._job(session_id, evidence, seen, ended):
            try:
                done(session_id)
            except ArenaError as error:
                log.warning('session %s could not be looked at: %s', session_id, error)

    def _job(self, session_id: str, evidence: SessionEvidence, seen: str,
             ended: threading.Event) -> bool:
        """Read the recordings and store what was found; tell whether that was possible."""
        try:
            with tempfile.TemporaryDirectory(prefix='arena-recordings-') as folder:
                self._fetch(session_id, evidence, Path(folder))
                whys = self._read(Path(folder))
            why = next((f'{slot.value}: {whys[slot.value]}' for slot in Slot
                        if whys[slot.value]), '')
            with self._database.write() as connection:
                store_found(connection, session_id, seen, why, self._clock.now_ns())
            return True
        except (ArenaError, OSError, ValueError, KeyError) as error:
            log.warning('the recordings of session %s were not read: %s', session_id, error)
            return False
        finally:
            with self._lock:
                del self._running[session_id]
            ended.set()

    def _fetch(self, session_id: str, evidence: SessionEvidence, home: Path) -> None:
        """Put the bags of a session into ``home``, and what is known of its rollouts."""
        claims = []
        for slot in Slot:
            episode, seen = evidence.episodes[slot.value], evidence.rollouts[slot.value]
            claims.append(RolloutClaim(
                session_id, slot.value, episode.steps, episode.end, bool(seen.failure),
                self._max_pace, tuple(query.row() for query in seen.inferences())))
            for file in evidence.manifests[slot.value].files:
                if file.path.endswith(BAG_FILES):
                    self._blobs.fetch(FileId(session_id, slot.value, file.path).key,
                                      home / slot.value / file.path)
        write_claims(home, claims)


def _seen(evidence: SessionEvidence) -> str:
    """Return a hash of all that the check of a session depends on."""
    parts = [[slot.value, evidence.rollouts[slot.value].exact,
              [[file.path, file.sha256] for file in evidence.manifests[slot.value].files],
              evidence.episodes[slot.value].steps, evidence.episodes[slot.value].end]
             for slot in Slot]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
