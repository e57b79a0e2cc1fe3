"""What audits and evaluators agree on, and which audits can be compared; needs no recording."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from arena_robot.audit.evaluators import EvaluatorAgreement, evaluator_kinds
from arena_robot.audit.local.text import words
from arena_robot.ranking.pairwise.progress import MARGIN
from arena_robot.records.audit_file import EpisodeAudit
from arena_robot.records.session_file import SessionFile

FULL = 0.995
SAME_INTERVAL = 0.01
AuditedSession = tuple[SessionFile, EpisodeAudit, EpisodeAudit]


def intervals(audits: Sequence[EpisodeAudit]) -> tuple[float, float] | None:
    """Return the shortest and the longest time between frames, None when there is none."""
    found = [a.interval_s for a in audits if a.valid and a.interval_s]
    return (min(found), max(found)) if found else None


def not_comparable(audits: Sequence[EpisodeAudit]) -> dict[str, str]:
    """Return the metrics that depend on the time between frames, where it differs, with why."""
    span = intervals(audits)
    if span is None or span[1] <= span[0] * (1.0 + SAME_INTERVAL):
        return {}
    longest = ceil(100.0 * span[1]) / 100.0
    return dict.fromkeys(('ppl', 'str', 'sqs'), (
        f'the time between frames differs, {span[0]:.3g} to {span[1]:.3g} s; `--interval '
        f'{longest:g}` makes it the same'))


def task_words(instruction: str) -> str:
    """Return the task of an instruction: its words without colours and articles."""
    return ' '.join(words(instruction))


@dataclass(frozen=True)
class Agreement:
    """What the evaluator preferred against what the audit says of one session."""

    session: str
    evaluator: str
    station: str
    preference: str
    audit: str
    margin: float


def audit_winner(a: EpisodeAudit, b: EpisodeAudit, margin: float) -> tuple[str, float]:
    """
    Return A, B or TIE by final progress, then by PPL, and the difference; '' is undecidable.

    Progress that is not calibrated in one of them cannot be compared.
    """
    if not (a.valid and b.valid and a.phi and b.phi and a.calibrated and b.calibrated):
        return '', float('nan')
    for x, y in ((a.phi[-1], b.phi[-1]), (a.metrics.get('ppl'), b.metrics.get('ppl'))):
        if x is not None and y is not None and abs(x - y) > margin:
            return ('A' if x > y else 'B'), float(x - y)
    return 'TIE', float(a.phi[-1] - b.phi[-1])


def agreements(sessions: Sequence[AuditedSession], margin: float = MARGIN) -> list[Agreement]:
    """Return preference against audit for the sessions that are judged and audited."""
    return list(_agreements(sessions, margin))


def not_calibrated(sessions: Sequence[AuditedSession]) -> int:
    """Return the number of judged sessions left out because an audit is not calibrated there."""
    return sum(session.verdict.preference is not None and bool(session.verdict.valid)
               and a.valid and b.valid and not (a.calibrated and b.calibrated)
               for session, a, b in sessions)


def _agreements(sessions: Sequence[AuditedSession], margin: float) -> Iterator[Agreement]:
    for session, a, b in sessions:
        preference = session.verdict.preference
        winner, by = audit_winner(a, b, margin)
        if preference is not None and winner and session.verdict.valid:
            yield Agreement(session.session_id, session.evaluator, session.station,
                            preference.value, winner, by)


def by_evaluator(found: Sequence[Agreement]) -> list[EvaluatorAgreement]:
    """Return each evaluator's agreement with the audit, over decisive sessions."""
    rows: dict[str, list[bool]] = {}
    for one in found:
        if 'TIE' not in (one.preference, one.audit):
            rows.setdefault(one.evaluator, []).append(one.preference == one.audit)
    return evaluator_kinds(rows)


def by_institution(found: Sequence[Agreement]) -> dict[str, tuple[int, int]]:
    """Return (agree, decisive) of each station, over decisive sessions."""
    rows: dict[str, tuple[int, int]] = {}
    for one in found:
        if 'TIE' not in (one.preference, one.audit):
            agree, decisive = rows.get(one.station, (0, 0))
            rows[one.station] = agree + (one.preference == one.audit), decisive + 1
    return dict(sorted(rows.items()))


def agreement_rate(found: Sequence[Agreement]) -> tuple[float, int]:
    """Return the share of sessions without a tie that agree, and the number of those sessions."""
    decisive = [f for f in found if 'TIE' not in (f.preference, f.audit)]
    agree = [f.preference == f.audit for f in decisive]
    return (float(np.mean(agree)) if agree else float('nan')), len(agree)
