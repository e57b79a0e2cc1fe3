"""What the log says of a session, as canonical JSON: the same facts give the same bytes."""

import hashlib
from collections.abc import Mapping
from typing import Any

from arena_robot.core.log_entry import canonical, said
from arena_robot.server.evidence import SessionEvidence
from arena_robot.server.store.sessions import SessionRow

SESSION, CORRECTION, ERASURE = 'session', 'correction', 'erasure'
RELAYED, IMPORTED, EARLIER = 'relayed', 'imported', 'before the log'


def pseudonym(name: str) -> str:
    """Return a stable word for an evaluator; who knows the name can compute it."""
    return hashlib.sha256(f'evaluator\n{name}'.encode()).hexdigest()[:16]


def session_entry(session: SessionRow, evaluator: str, station: str,
                  evidence: SessionEvidence | None, names: tuple[str, str],
                  accepted_ns: int) -> str:
    """
    Return the entry of a session that was accepted.

    The policies are named where there was no commitment; otherwise the commitment stands for them.
    """
    values: dict[str, Any] = {
        'kind': SESSION, 'session': session.id, 'commitment': session.commitment,
        'evaluator': pseudonym(evaluator), 'institution': session.institution,
        'station': station, 'prompt': session.prompt, 'created_ns': session.created_ns,
        'accepted_ns': accepted_ns, 'probation': session.probation,
        'verdict': said(session.verdict)}
    if session.imported:
        values['origin'] = IMPORTED
    elif evidence is None:
        values['origin'] = EARLIER
    else:
        values |= {'origin': RELAYED, **_seen(evidence)}
    if not session.commitment:
        values['policies'] = list(names)
    return canonical(values)


def correction_entry(session_id: str, author: str, text: str, withdraw: bool,
                     now_ns: int) -> str:
    """Return the entry of a correction, or of a withdrawal."""
    return canonical({'kind': CORRECTION, 'session': session_id, 'author': pseudonym(author),
                      'text': text, 'withdraw': withdraw, 'created_ns': now_ns})


def erasure_entry(session_id: str, author: str, reason: str, files: Mapping[str, str],
                  now_ns: int) -> str:
    """Return the tombstone of deleted files: their SHA-256 by key, and why they are gone."""
    return canonical({'kind': ERASURE, 'session': session_id, 'author': pseudonym(author),
                      'reason': reason, 'files': dict(files), 'created_ns': now_ns})


def _seen(evidence: SessionEvidence) -> dict[str, Any]:
    return {
        'manifests': {slot: one.sha256 for slot, one in evidence.manifests.items()},
        'rollouts': {slot: {'queries': one.queries, 'actions': one.actions,
                            'seconds': round(one.seconds, 3),
                            'steps': evidence.episodes[slot].steps}
                     for slot, one in evidence.rollouts.items()}}
