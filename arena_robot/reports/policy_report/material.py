"""The sessions that a policy report is made of, the evaluators' words, and means over sessions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from arena_robot.core.clock import from_iso
from arena_robot.core.episode import CONTROL_RATE_HZ, Preference
from arena_robot.core.errors import DataError
from arena_robot.core.task_categories import categorise
from arena_robot.core.verdict import Verdict, described, with_said
from arena_robot.records.roboarena import SLOTS, RoboArenaSession

_SPACE = re.compile(r'\s+')
_WON = {Preference.A: {'A': 1.0, 'B': 0.0}, Preference.B: {'A': 0.0, 'B': 1.0},
        Preference.TIE: {'A': 0.5, 'B': 0.5}}
LEAST = 5    # sessions of a mean; with fewer, Student's interval says next to nothing


@dataclass(frozen=True)
class ReportSession:
    """
    One session that counts, with the verdict on it; mappings are by slot, A and B.

    ``audits`` are metrics, ``moments`` the seconds at which an audit saw a slot fall back first.
    ``camera`` is the name of the camera where only one was used.
    """

    session_id: str
    created: str
    instruction: str
    category: str
    verdict: Verdict
    policies: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    latency_s: Mapping[str, float] = field(default_factory=dict)
    waited: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    ends: Mapping[str, str] = field(default_factory=dict)
    audits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    moments: Mapping[str, float] = field(default_factory=dict)
    camera: str = ''
    evaluator: str = ''
    institution: str = ''

    @property
    def words(self) -> tuple[str, ...]:
        """What the evaluator wrote on the pair."""
        return tuple(x for x in (self.verdict.explanation, self.verdict.notes) if x.strip())

    def note(self, slot: str) -> str:
        """Return what the evaluator wrote on one slot, '' for a slot that there is not."""
        return str(self.verdict.of_slot('notes', slot)).strip() if slot else ''

    def scene(self) -> dict[str, str]:
        """Return what is known of the scene, by name."""
        return {**described(self.verdict), **({'camera': self.camera} if self.camera else {})}

    def slot(self, policy: str) -> str:
        """Return the slot of a policy, '' when it is not of the pair."""
        return next((slot for slot, name in self.policies.items() if name == policy), '')

    def opponent(self, policy: str) -> str:
        """Return the other policy of the pair."""
        return next(name for name in self.policies.values() if name != policy)

    def won(self, policy: str) -> float:
        """Return 1 where a policy of the pair was preferred, 0.5 for a tie, else 0."""
        assert self.verdict.preference is not None
        return _WON[self.verdict.preference][self.slot(policy)]

    def score(self, policy: str) -> float | None:
        """Return the progress of a policy of the pair, 0 to 1, None without."""
        slot = self.slot(policy)
        return self.verdict.of_slot('progress', slot) if slot else None

    def says(self, quote: str) -> bool:
        """Tell whether the evaluator's words hold ``quote``, whatever its spaces and case."""
        wanted = flat(quote)
        return bool(wanted) and any(wanted in flat(text) for text in self.texts())

    def texts(self) -> tuple[str, ...]:
        """Return everything that the evaluator wrote."""
        return (*self.words, *(note for slot in self.policies if (note := self.note(slot))))


@dataclass(frozen=True)
class ReportMaterial:
    """All sessions that count, oldest first, those of other policies too."""

    sessions: tuple[ReportSession, ...]

    def by_id(self) -> dict[str, ReportSession]:
        """Return the sessions by their id."""
        return {session.session_id: session for session in self.sessions}

    def policies(self) -> tuple[str, ...]:
        """Return the names of all policies."""
        return tuple(sorted({name for s in self.sessions for name in s.policies.values()}))

    def of(self, policy: str, since: str = '') -> list[ReportSession]:
        """Return the sessions of a policy since a day; DataError for one without sessions."""
        sessions = [s for s in self.sessions if s.slot(policy)]
        if not sessions:
            raise DataError(f"there is no counted session of '{policy:.100}'; policies: "
                            f"{', '.join(self.policies()) or 'none'}")
        return [s for s in sessions if not since
                or (s.created and from_iso(s.created) >= from_iso(since))]

    def between(self, policies: Sequence[str]) -> 'ReportMaterial':
        """Return the sessions whose policies are all among ``policies``."""
        wanted = set(policies)
        return ReportMaterial(tuple(s for s in self.sessions
                                    if set(s.policies.values()) <= wanted))


def material_of(sessions: Iterable[RoboArenaSession],
                categories: Mapping[str, str] | None = None) -> ReportMaterial:
    """
    Return the material of tables; ``categories`` by session id win over the rules.

    Sessions that do not count are left out.
    """
    counted = sorted((s for s in sessions if s.counts), key=lambda s: (s.created, s.session_id))
    return ReportMaterial(tuple(_session(s, (categories or {}).get(s.session_id))
                                for s in counted))


def _session(row: RoboArenaSession, category: str | None) -> ReportSession:
    slots = {slot: entry for slot, entry in row.slots().items() if slot in SLOTS}
    cameras = {entry.camera for entry in slots.values() if entry.camera}
    progress = {f'progress_{k.lower()}': entry.progress for k, entry in slots.items()}
    return ReportSession(
        row.session_id, row.created, row.prompt,
        categorise(row.prompt) if category is None else category,
        with_said(Verdict(), {**progress, 'preference': row.preference,
                              'explanation': row.explanation}),
        row.policies(),
        {k: entry.steps / CONTROL_RATE_HZ for k, entry in slots.items() if entry.steps},
        {k: entry.latency_s for k, entry in slots.items() if entry.latency_s is not None},
        waited={k: share for k, share in zip(SLOTS, (row.waited_a, row.waited_b), strict=True)
                if share is not None},
        camera=cameras.pop() if len(cameras) == 1 else '',
        evaluator=row.evaluator, institution=row.institution)


def compared(session: ReportSession, policy: str) -> list[tuple[float, float]]:
    """Return the progress of a policy and of its opponent, where both are known."""
    mine, theirs = session.score(policy), session.score(session.opponent(policy))
    return [] if mine is None or theirs is None else [(mine, theirs)]


def flat(text: str) -> str:
    """Return a text in lower case with single spaces, for comparing quotes."""
    return _SPACE.sub(' ', text).strip().casefold()


@dataclass(frozen=True)
class SampleMean:
    """A mean over ``count`` sessions with its 95 % interval (Student's t); NaN with one."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> 'SampleMean':
        """Return the mean of values; NaN without any."""
        x = np.asarray(values, dtype=float)
        if len(x) < 2:
            return cls(float(x.mean()) if len(x) else float('nan'), float('nan'), float('nan'),
                       len(x))
        reach = float(stdtrit(len(x) - 1, 0.975) * x.std(ddof=1) / np.sqrt(len(x)))
        return cls(float(x.mean()), float(x.mean()) - reach, float(x.mean()) + reach, len(x))

    @property
    def clear(self) -> bool:
        """Tell whether the interval leaves zero out."""
        return self.low > 0.0 or self.high < 0.0

    def words(self, signed: bool = False) -> str:
        """Return a mean of shares in percent with its interval."""
        if self.count < LEAST:
            return f'too few to tell, n = {self.count}'
        form = '+.0f' if signed else '.0f'
        low, high = (100 * min(max(x, -1.0 if signed else 0.0), 1.0)
                     for x in (self.low, self.high))
        return f'{100 * self.mean:{form}} ({low:{form}} to {high:{form}}), n = {self.count}'
