"""What an audit says of one finished session, beside the evaluator's preference: for a page."""

from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.audit.marks import marks_of
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.ranking.pairwise.progress import MARGIN
from arena_robot.ranking.standings import plain
from arena_robot.records.audit_file import EpisodeAudit, audit_path, read_audit
from arena_robot.records.session_file import DONE, SessionFile, read_session
from arena_robot.reports.audit_agreement import audit_winner

POINTS = 100


def has_audits(session: Path, judge: str) -> bool:
    """Tell whether both slots of a session were audited by a judge."""
    return all(audit_path(session / slot.value, judge).exists() for slot in Slot)


def session_audit(folder: Path, judge: str) -> dict[str, Any]:
    """
    Return what a page shows of a session's audit; DataError before the session is done.

    That is ``session_id``, ``judge``, ``calibrated``, ``preference``, ``audit`` (A, B, TIE, or
    empty where it cannot tell), and of each slot the curve, the last and the best value and marks.
    """
    session = read_session(folder)
    if session.state != DONE:
        raise DataError(f"{folder}: the session is '{session.state}'; an audit is shown after it "
                        'is done')
    audits = {slot.value: read_audit(audit_path(folder / slot.value, judge)) for slot in Slot}
    return dict(plain(_told(session, judge, audits)))


def _told(session: SessionFile, judge: str, audits: dict[str, EpisodeAudit]) -> dict[str, Any]:
    winner, _ = audit_winner(audits['A'], audits['B'], MARGIN)
    preference = session.verdict.preference
    return {'session_id': session.session_id, 'judge': judge,
            'calibrated': all(a.valid and a.calibrated for a in audits.values()),
            'preference': preference.value if preference else '', 'audit': winner,
            'slots': {slot: _slot(audit) for slot, audit in audits.items()}}


def _slot(audit: EpisodeAudit) -> dict[str, Any]:
    if not audit.valid or not audit.phi:
        return {'detail': audit.detail, 'curve': []}
    rows = np.unique(np.linspace(0, len(audit.phi) - 1, min(POINTS, len(audit.phi))).astype(int))
    found = marks_of(audit)
    return {'detail': audit.detail, 'last': audit.phi[-1], 'best': max(audit.phi),
            'curve': [(round(audit.times_s[k], 2), round(audit.phi[k], 3)) for k in rows],
            'falls': found.falls, 'still': found.still, 'milestones': found.milestones}
