"""What audits say in a tournament's report: curves per rollout, a table per policy, agreement."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arena_robot.audit.aggregate import Mean, PolicySummary, summaries
from arena_robot.audit.evaluators import EvaluatorAgreement
from arena_robot.audit.marks import marks_of
from arena_robot.core.errors import DataError
from arena_robot.records.audit_file import EpisodeAudit, audits_of, read_audit
from arena_robot.reports.audit_agreement import (
    Agreement,
    agreement_rate,
    agreements,
    by_evaluator,
    by_institution,
    not_calibrated,
    not_comparable,
)
from arena_robot.reports.audit_words import ROWS
from arena_robot.reports.episode_audit import FoundEpisode, audited
from arena_robot.reports.tournament_records import Record


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
    evaluators: Sequence[EvaluatorAgreement] = ()
    institutions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def parts(self) -> list[tuple[str, list[tuple[PolicySummary, Mapping[str, Mean]]]]]:
        """Return the tables: all rollouts, then successes and failures alone where there are."""
        tables = {'all': [(s, s.overall) for s in self.summaries],
                  'successes': [(s, s.successes) for s in self.summaries],
                  'failures': [(s, s.failures) for s in self.summaries]}
        return [(words, tables[part]) for part, words in ROWS
                if any(m.count for _, means in tables[part] for m in means.values())]

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
                            summaries(audits), found, rate, decisive, not_calibrated(pairs),
                            by_evaluator(found), by_institution(found))


def audit_lines(record: Record, seconds: float, line: Callable[[Any, float], str]
                ) -> list[dict[str, Any]]:
    """Return the curves of a session for its plot: judge, slot, points."""
    return [{'judge': judge, 'slot': slot, 'line': line(
        tuple(zip(audit.times_s, audit.phi, strict=True)), seconds), 'marks': marks_of(audit),
        'metrics': audit.metrics, 'refused': audit.refused}
        for judge, slots in sorted(audits_of_record(record).items())
        for slot, audit in sorted(slots.items()) if audit.valid]
