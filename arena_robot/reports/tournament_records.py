"""
Contents of a tournament's report: its sessions from their folders, and what audits say of them.

Audits have curves per rollout, a table per policy, and their agreement with the evaluators.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.audit.aggregate import (
    EvaluatorAgreement,
    Mean,
    PolicySummary,
    marks_of,
    summaries,
)
from arena_robot.core.episode import Comparison, Slot
from arena_robot.core.errors import ArenaError, DataError
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.records.audit_file import EpisodeAudit, audits_of, read_audit
from arena_robot.records.episode_file import EpisodeFile, has_episode, read_episode
from arena_robot.records.session_file import SessionFile, read_session, session_origin
from arena_robot.reports.audit_agreement import (
    FULL,
    ROWS,
    Agreement,
    agreement_rate,
    agreements,
    by_evaluator,
    by_institution,
    not_calibrated,
    not_comparable,
    refusals_of,
    untrusted,
)
from arena_robot.reports.episode_audit import FoundEpisode, audited

PROGRESS = '/progress'
VIEWS = ('left', 'right', 'wrist')


@dataclass(frozen=True)
class RolloutRow:
    """
    One slot: ``progress`` 0 to 1 as it was scored, ``curve`` of (seconds, progress) as recorded.

    ``videos`` are the files of the left eyes by camera role; ``rate_hz`` the control rate held.
    """

    slot: str
    policy: str
    progress: float | None
    steps: int
    end: str
    detail: str
    curve: tuple[tuple[float, float], ...]
    videos: dict[str, Path]
    rate_hz: float | None
    clamped: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """
    A finished session, its pair revealed.

    ``verified`` is checked by this reader and not taken from the file; it is None for sessions
    whose pair nobody committed to.
    """

    session: SessionFile
    folder: Path
    verdict: Comparison
    verified: bool | None
    rollouts: tuple[RolloutRow, ...]

    def comparison(self) -> Comparison:
        """Return the verdict as the ranking takes it."""
        return self.verdict


def read_record(folder: Path) -> Record:
    """Return the session in ``folder``; DataError when it is not a finished and revealed one."""
    session = read_session(folder)
    # The reveal is checked below, so that a report can show that it does not fit.
    verdict = dataclasses.replace(session, verified=None).comparison()
    if verdict is None:
        raise DataError(f"{folder}: the session is '{session.state}' and not a finished, valid, "
                        'judged and revealed one; leave it out')
    verdict = dataclasses.replace(verdict, origin=session_origin(session, folder))
    return Record(session, folder, verdict, session.fits(),
                  tuple(_rollout(folder / slot.value, slot, session) for slot in Slot))


def _rollout(folder: Path, slot: Slot, session: SessionFile) -> RolloutRow:
    numbers = read_episode(folder) if has_episode(folder) else EpisodeFile()
    played = session.slots[slot.value]
    videos = {view: folder / f'{view}.mp4' for view in VIEWS if (folder / f'{view}.mp4').exists()}
    return RolloutRow(slot.value, session.policy(slot.value), session.progress(slot.value),
                      played.steps, played.end.value if played.end else '', played.detail,
                      progress_curve(folder, played.started_ns, played.ended_ns), videos,
                      numbers.control.mean_hz, numbers.clamps.steps,
                      (played.ended_ns - played.started_ns) * 1e-9)


def progress_curve(folder: Path, start_ns: int, end_ns: int) -> tuple[tuple[float, float], ...]:
    """
    Return (seconds since ``start_ns``, progress) as a simulator told it; empty without one.

    Stamps are those of arrival. A bag that cannot be read gives an empty curve as well.
    """
    codec, curve = Codec(), []
    try:
        with BagReader(folder) as bag:
            topics = [n for n, t in bag.topics.items()
                      if n.endswith(PROGRESS) and t.type == 'std_msgs/msg/Float64']
            for message in bag.messages(topics) if topics else ():
                if start_ns <= message.log_ns <= end_ns:
                    value = float(codec.decode(bag.topics[message.topic], message.data).data)
                    curve.append(((message.log_ns - start_ns) * 1e-9, value))
    except ArenaError:
        return ()
    return tuple(curve)


@dataclass(frozen=True)
class JudgedTournament:
    """
    One judge's audits: a summary per policy, agreement with the evaluators.

    ``not_calibrated`` sessions are left out of the agreement: the judge has no scale there.
    Nothing agrees where the judge is ``untrusted``, for the reason given; ``refused`` are metrics
    with the reasons.
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
    untrusted: str = ''
    refused: Mapping[str, str] = field(default_factory=dict)

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
        return [a for a in self.agreements if a.decisive and not a.agrees]


def audits_of_record(record: Record) -> dict[str, dict[str, EpisodeAudit]]:
    """Return the audits of a session by judge and slot; what cannot be read is left out."""
    audits: dict[str, dict[str, EpisodeAudit]] = {}
    for rollout in record.rollouts:
        for path in audits_of(record.folder / rollout.slot):
            try:
                audit = read_audit(path)
            except DataError:
                continue
            audits.setdefault(audit.judge, {})[rollout.slot] = audit
    return audits


def judged(records: Sequence[Record]) -> list[JudgedTournament]:
    """Return what each judge says of all sessions."""
    by_judge: dict[str, list[tuple[Record, dict[str, EpisodeAudit]]]] = {}
    for record in records:
        for judge, slots in audits_of_record(record).items():
            by_judge.setdefault(judge, []).append((record, slots))
    return [_judged(judge, rows) for judge, rows in sorted(by_judge.items())]


def _judged(judge: str, rows: Sequence[tuple[Record, dict[str, EpisodeAudit]]]
            ) -> JudgedTournament:
    every = [a for _, slots in rows for a in slots.values()]
    refused = not_comparable(every)
    audits = [audited(FoundEpisode(record.folder / r.slot, record.session.session_id, r.policy,
                                   None if r.progress is None else r.progress >= FULL),
                      slots[r.slot], refused)
              for record, slots in rows for r in record.rollouts
              if r.slot in slots and slots[r.slot].valid]
    pairs = [(record.session, slots['A'], slots['B']) for record, slots in rows
             if {'A', 'B'} <= set(slots)]
    compared = agreements(pairs)
    rate, decisive = agreement_rate(compared)
    return JudgedTournament(judge, next((s['A'].convention for _, s in rows if 'A' in s), ''),
                            summaries(audits), compared, rate, decisive, not_calibrated(pairs),
                            by_evaluator(compared), by_institution(compared),
                            untrusted(every), refusals_of(every))


def audit_lines(record: Record, seconds: float, line: Callable[[Any, float], str]
                ) -> list[dict[str, Any]]:
    """Return the curves of a session for its plot: judge, slot, points."""
    return [{'judge': judge, 'slot': slot, 'line': line(
        tuple(zip(audit.times_s, audit.phi, strict=True)), seconds), 'marks': marks_of(audit),
        'metrics': audit.metrics, 'refused': audit.refused}
        for judge, slots in sorted(audits_of_record(record).items())
        for slot, audit in sorted(slots.items()) if audit.valid]
