"""
What audits say of sessions: agreement with evaluators, one session for a page, means in words.

It needs no recording. It also says which audits can be compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.audit.aggregate import EvaluatorAgreement, Mean, evaluator_kinds, marks_of
from arena_robot.audit.local.features import names_one_of_alike
from arena_robot.audit.local.judge import words
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.core.task_categories import categorise
from arena_robot.ranking.pairwise.progress import MARGIN
from arena_robot.ranking.standings import plain
from arena_robot.records.audit_file import UNTRUSTED, EpisodeAudit, audit_path, read_audit
from arena_robot.records.session_file import DONE, SessionFile, read_session

# Progress that counts as success: a score of 100 survives its way through floats and rounding.
FULL = 0.995
# Times between frames that differ by up to 1 % are rounding, not another choice of frames.
SAME_INTERVAL = 0.01
AuditedSession = tuple[SessionFile, EpisodeAudit, EpisodeAudit]
POINTS = 100    # of a curve on a page, which is a few hundred pixels wide
ROWS = (('all', 'all'), ('successes', 'successes alone'), ('failures', 'failures alone'))
# A bootstrap of fewer episodes is narrower than what is known, and of equal ones has no width.
ENOUGH = 5


def intervals(audits: Sequence[EpisodeAudit]) -> tuple[float, float] | None:
    """Return the shortest and the longest time between frames, None when there is none."""
    lengths = [a.interval_s for a in audits if a.valid and a.interval_s]
    return (min(lengths), max(lengths)) if lengths else None


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
    category: str = ''

    @property
    def decisive(self) -> bool:
        """Whether neither the evaluator nor the audit says that it is a tie."""
        return 'TIE' not in (self.preference, self.audit)

    @property
    def agrees(self) -> bool:
        """Whether the evaluator and the audit say the same."""
        return self.preference == self.audit


def audit_winner(a: EpisodeAudit, b: EpisodeAudit, margin: float) -> tuple[str, float]:
    """
    Return A, B or TIE by final progress, then by PPL, and the difference; '' is undecidable.

    Progress that has no scale in one of them cannot be compared. A judge that is not trusted with
    evaluators names no winner.
    """
    if untrusted([a, b]) or not all(x.valid and x.phi and has_scale(x) for x in (a, b)):
        return '', float('nan')
    for x, y in ((a.phi[-1], b.phi[-1]), (a.metrics.get('ppl'), b.metrics.get('ppl'))):
        if x is not None and y is not None and abs(x - y) > margin:
            return ('A' if x > y else 'B'), float(x - y)
    return 'TIE', float(a.phi[-1] - b.phi[-1])


def has_scale(audit: EpisodeAudit) -> bool:
    """Return whether Φ tells success: ``local`` does not heed which of several cubes is named."""
    return audit.calibrated and not (
        audit.judge in UNTRUSTED and names_one_of_alike(audit.instruction))


def agreements(sessions: Sequence[AuditedSession], margin: float = MARGIN) -> list[Agreement]:
    """Return preference against audit for the sessions that are judged and audited."""
    return list(_agreements(sessions, margin))


def untrusted(audits: Sequence[EpisodeAudit]) -> str:
    """Return why preferences are not compared with these audits; '' where they are."""
    return next((audit.untrusted for audit in audits if audit.untrusted), '')


def refusals_of(audits: Sequence[EpisodeAudit]) -> dict[str, str]:
    """Return the metrics that are refused in some of the audits, each with one reason."""
    return {metric: why for audit in audits for metric, why in sorted(audit.refused.items())}


def not_calibrated(sessions: Sequence[AuditedSession]) -> int:
    """Return the number of judged sessions left out because an audit has no scale there."""
    return sum(session.verdict.preference is not None and bool(session.verdict.valid)
               and a.valid and b.valid and not (has_scale(a) and has_scale(b))
               for session, a, b in sessions)


def _agreements(sessions: Sequence[AuditedSession], margin: float) -> Iterator[Agreement]:
    for session, a, b in sessions:
        preference = session.verdict.preference
        winner, difference = audit_winner(a, b, margin)
        if preference is not None and winner and session.verdict.valid:
            yield Agreement(session.session_id, session.evaluator, session.station,
                            preference.value, winner, difference,
                            categorise(a.instruction or session.prompt))


def by_evaluator(sessions: Sequence[Agreement]) -> list[EvaluatorAgreement]:
    """Return each evaluator's agreement with the audit, over decisive sessions."""
    rows: dict[str, list[bool]] = {}
    for session in sessions:
        if session.decisive:
            rows.setdefault(session.evaluator, []).append(session.agrees)
    return evaluator_kinds(rows)


def by_institution(sessions: Sequence[Agreement]) -> dict[str, tuple[int, int]]:
    """Return (agree, decisive) of each station, over decisive sessions."""
    return _counted(sessions, 'station')


def by_category(sessions: Sequence[Agreement]) -> dict[str, tuple[int, int]]:
    """Return (agree, decisive) of each category of tasks, over decisive sessions."""
    return _counted(sessions, 'category')


def _counted(sessions: Sequence[Agreement], field: str) -> dict[str, tuple[int, int]]:
    rows: dict[str, tuple[int, int]] = {}
    for session in sessions:
        if session.decisive:
            agree, decisive = rows.get(getattr(session, field), (0, 0))
            rows[getattr(session, field)] = agree + session.agrees, decisive + 1
    return dict(sorted(rows.items()))


def agreement_rate(sessions: Sequence[Agreement]) -> tuple[float, int]:
    """Return the share of sessions without a tie that agree, and the number of those sessions."""
    agree = [session.agrees for session in sessions if session.decisive]
    return (float(np.mean(agree)) if agree else float('nan')), len(agree)


def has_audits(session: Path, judge: str) -> bool:
    """Tell whether both slots of a session were audited by a judge."""
    return all(audit_path(session / slot.value, judge).exists() for slot in Slot)


def session_audit(folder: Path, judge: str) -> dict[str, Any]:
    """
    Return what a page shows of a session's audit; DataError before the session is done.

    That is ``session_id``, ``judge``, ``calibrated``, ``preference``, ``audit`` (A, B, TIE, or
    empty where it cannot tell), ``untrusted`` (why it is not compared), and of each slot the
    curve, the last and the best value and marks.
    """
    session = read_session(folder)
    if session.state != DONE:
        raise DataError(f"{folder}: the session is '{session.state}'; an audit is shown after it "
                        'is done')
    audits = {slot.value: read_audit(audit_path(folder / slot.value, judge)) for slot in Slot}
    winner, _ = audit_winner(audits['A'], audits['B'], MARGIN)
    preference = session.verdict.preference
    return dict(plain({
        'session_id': session.session_id, 'judge': judge,
        'calibrated': all(a.valid and a.calibrated for a in audits.values()),
        'preference': preference.value if preference else '', 'audit': winner,
        'untrusted': untrusted(list(audits.values())),
        'slots': {slot: _slot(audit) for slot, audit in audits.items()}}))


def _slot(audit: EpisodeAudit) -> dict[str, Any]:
    if not audit.valid or not audit.phi:
        return {'detail': audit.detail, 'curve': []}
    rows = np.unique(np.linspace(0, len(audit.phi) - 1, min(POINTS, len(audit.phi))).astype(int))
    marks = marks_of(audit)
    return {'detail': audit.detail, 'last': audit.phi[-1], 'best': max(audit.phi),
            'curve': [(round(audit.times_s[k], 2), round(audit.phi[k], 3)) for k in rows],
            'falls': marks.falls, 'still': marks.still, 'milestones': marks.milestones}


def mean_words(mean: Mean | None) -> str:
    """Return a mean in percent, with its interval where five or more differ; a dash for none."""
    if mean is None or not mean.count:
        return '–'
    text, low, high = (f'{100 * x:.0f}' for x in (mean.mean, mean.low, mean.high))
    bounded = mean.count >= ENOUGH and mean.low < mean.high
    return f'{text} [{low}, {high}]' if bounded else text
