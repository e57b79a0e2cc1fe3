"""Audits that stand beside the episodes in the server's store: curves, marks, numbers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from arena_robot.audit.marks import Marks
from arena_robot.core.errors import ArenaError
from arena_robot.records.audit_file import FOLDER, EpisodeAudit, audit_from_json
from arena_robot.server.blobs import Blobs
from arena_robot.server.files import FileId
from arena_robot.server.store.browse import Browse

AUDIT_BYTES = 1 << 20
MOST_JUDGES = 4


@dataclass(frozen=True)
class AuditNote:
    """What a page says of a judge's audit of one slot: ``metrics`` are shares by name."""

    calibrated: bool
    convention: str
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)


def label(audit: EpisodeAudit) -> str:
    """Return how a judge is named on pages."""
    return audit.judge[:40] + ('' if audit.calibrated else ', not calibrated')


def shifted(marks: Marks, by_s: float) -> Marks:
    """Return marks in the time of the videos."""
    def moved(spans: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        return tuple((a + by_s, b + by_s) for a, b in spans)
    return Marks(tuple((t + by_s, q) for t, q in marks.milestones), moved(marks.falls),
                 moved(marks.still))


class AuditCurves:
    """
    Reads audits, as `arena audit` and the server's own worker write them beside the episodes.

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

    def audit(self, session_id: str, slot: str, name: str) -> EpisodeAudit | None:
        """Return an audit, without the judge's replies; None when it has none to show."""
        try:
            key = FileId(session_id, slot, f'{FOLDER}/{name}').key
            if self._blobs.size(key) > AUDIT_BYTES:
                return None
            audit = audit_from_json(json.loads(b''.join(self._blobs.read(key))), key)
        except (ArenaError, OSError, ValueError, RecursionError):
            return None
        phi = np.array(audit.phi, float)
        if not audit.valid or len(phi) != len(audit.times_s) or not np.isfinite(phi).any():
            return None
        return replace(audit, phi=tuple(np.clip(phi, 0.0, 1.0).tolist()), raw=())
