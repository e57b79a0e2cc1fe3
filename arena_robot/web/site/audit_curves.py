"""Progress curves of audits that stand beside the episodes in the server's store."""

import json

import numpy as np

from arena_robot.core.errors import ArenaError
from arena_robot.records.audit_file import FOLDER, audit_from_json
from arena_robot.server.blobs import Blobs
from arena_robot.server.files import FileId
from arena_robot.server.store.browse import Browse

AUDIT_BYTES = 1 << 20
MOST_JUDGES = 4

Trace = tuple[str, tuple[float, ...], tuple[float, ...]]


class AuditCurves:
    """
    Reads the traces of judges, as `arena audit` writes them into the folder of a session.

    Audits that a station uploaded are left out: a station does not judge its own session.
    """

    def __init__(self, blobs: Blobs, browse: Browse) -> None:
        self._blobs = blobs
        self._browse = browse

    def names(self, session_id: str, slot: str) -> tuple[str, ...]:
        """Return the audit files of a slot, up to four."""
        found = [name for name in self._blobs.names(f'{session_id}/{slot}/{FOLDER}')
                 if name.endswith('.json')]
        if not found:
            return ()
        sent = self._browse.sent(session_id, slot)
        return tuple(n for n in found if f'{FOLDER}/{n}' not in sent)[:MOST_JUDGES]

    def trace(self, session_id: str, slot: str, name: str) -> Trace | None:
        """Return judge, times and progress of an audit; None when it has none to show."""
        try:
            key = FileId(session_id, slot, f'{FOLDER}/{name}').key
            if self._blobs.size(key) > AUDIT_BYTES:
                return None
            audit = audit_from_json(json.loads(b''.join(self._blobs.read(key))), key)
        except (ArenaError, OSError, ValueError, RecursionError):
            return None
        phi = np.array(audit.phi, float)
        if not audit.valid or len(phi) != len(audit.times_s) or not len(phi):
            return None
        words = audit.judge[:40] + ('' if audit.calibrated else ', not calibrated')
        return words, audit.times_s, tuple(np.clip(phi, 0.0, 1.0))
