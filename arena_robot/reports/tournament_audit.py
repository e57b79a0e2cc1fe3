"""What audits say in a tournament's report: curves per rollout, a table per policy, agreement."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_robot.audit.aggregate import PolicySummary, summaries
from arena_robot.core.errors import DataError
from arena_robot.records.audit_file import EpisodeAudit, audits_of, read_audit
from arena_robot.reports.episode_audit import (
    Agreement,
    FoundEpisode,
    agreement_rate,
    agreements,
    audited,
    not_calibrated,
    not_comparable,
)
from arena_robot.reports.tournament_records import Record

FALL = 0.15
STILL_S = 3.0


@dataclass(frozen=True)
class JudgedTournament:
    """
    One judge's audits: a summary per policy, agreement with the evaluators.

    ``not_calibrated`` sessions are left out of the agreement: the judge has no scale there.
    """

    judge: str
    convention: str
    summaries: Sequence[PolicySummary]
    agreements: Sequence[Agreement]
    rate: float
    decisive: int
    not_calibrated: int

    @property
    def against(self) -> list[Agreement]:
        """Return the sessions in which evaluator and audit prefer different slots."""
        return [a for a in self.agreements if 'TIE' not in (a.preference, a.audit)
                and a.preference != a.audit]


def audits_of_record(record: Record) -> dict[str, dict[str, EpisodeAudit]]:
    """Return the audits of a session by judge and slot; what cannot be read is left out."""
    found: dict[str, dict[str, EpisodeAudit]] = {}
    for rollout in record.rollouts:
        for path in audits_of(record.folder / rollout.slot):
            try:
                audit = read_audit(path)
            except DataError:
                continue
            found.setdefault(audit.judge, {})[rollout.slot] = audit
    return found


def judged(records: Sequence[Record]) -> list[JudgedTournament]:
    """Return what each judge says of all sessions."""
    by_judge: dict[str, list[tuple[Record, dict[str, EpisodeAudit]]]] = {}
    for record in records:
        for judge, slots in audits_of_record(record).items():
            by_judge.setdefault(judge, []).append((record, slots))
    return [_judged(judge, rows) for judge, rows in sorted(by_judge.items())]


def _judged(judge: str, rows: Sequence[tuple[Record, dict[str, EpisodeAudit]]]
            ) -> JudgedTournament:
    refused = not_comparable([a for _, slots in rows for a in slots.values()])
    audits = [audited(FoundEpisode(record.folder / r.slot, record.session.session_id, r.policy,
                                   None if r.progress is None else r.progress >= 0.995),
                      slots[r.slot], refused)
              for record, slots in rows for r in record.rollouts
              if r.slot in slots and slots[r.slot].valid]
    pairs = [(record.session, slots['A'], slots['B']) for record, slots in rows
             if {'A', 'B'} <= set(slots)]
    found = agreements(pairs)
    rate, decisive = agreement_rate(found)
    return JudgedTournament(judge, next((s['A'].convention for _, s in rows if 'A' in s), ''),
                            summaries(audits), found, rate, decisive, not_calibrated(pairs))


def marks(audit: EpisodeAudit) -> dict[str, list[tuple[float, float]]]:
    """Return spans (from, to in s) of falls below the best so far, and of long standstill."""
    phi, times = np.array(audit.phi), np.array(audit.times_s)
    if len(phi) < 2:
        return {'falls': [], 'still': []}
    below = np.maximum.accumulate(phi) - phi > FALL
    return {'falls': _spans(below, times), 'still': [
        span for span in _spans(_still(phi, times, max(audit.epsilon, 0.02)), times)
        if span[1] - span[0] >= STILL_S]}


def _still(phi: Any, times: Any, epsilon: float) -> Any:
    steps = np.abs(np.diff(phi)) < epsilon
    return np.concatenate([steps[:1], steps])


def _spans(wanted: Any, times: Any) -> list[tuple[float, float]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(int), [0]])))
    return [(float(times[a]), float(times[b - 1])) for a, b in edges.reshape(-1, 2)]


def audit_lines(record: Record, seconds: float, line: Callable[[Any, float], str]
                ) -> list[dict[str, Any]]:
    """Return the curves of a session for its plot: judge, slot, points."""
    return [{'judge': judge, 'slot': slot, 'line': line(
        tuple(zip(audit.times_s, audit.phi, strict=True)), seconds), 'marks': marks(audit),
        'metrics': audit.metrics, 'refused': audit.refused}
        for judge, slots in sorted(audits_of_record(record).items())
        for slot, audit in sorted(slots.items()) if audit.valid]
