"""The sessions that a policy report is made of, with the evaluators' words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arena_robot.core.episode import CONTROL_RATE_HZ, Preference
from arena_robot.core.errors import DataError
from arena_robot.core.iso_time import from_iso
from arena_robot.core.task_categories import categorise
from arena_robot.records.roboarena import SLOTS, RoboArenaSession

_SPACE = re.compile(r'\s+')
_WON = {Preference.A: {'A': 1.0, 'B': 0.0}, Preference.B: {'A': 0.0, 'B': 1.0},
        Preference.TIE: {'A': 0.5, 'B': 0.5}}


@dataclass(frozen=True)
class ReportSession:
    """
    One session that counts; mappings are by slot, A and B.

    ``words`` are the evaluator's texts, ``notes`` those on one slot. ``audits`` are metrics,
    ``moments`` the seconds at which an audit saw a slot fall back first.
    ``scene`` has what is known of lighting, clutter and camera, by name.
    """

    session_id: str
    created: str
    instruction: str
    category: str
    preference: Preference
    policies: Mapping[str, str]
    progress: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    latency_s: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, str] = field(default_factory=dict)
    audits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    moments: Mapping[str, float] = field(default_factory=dict)
    scene: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    evaluator: str = ''
    institution: str = ''

    def slot(self, policy: str) -> str:
        """Return the slot of a policy, '' when it is not of the pair."""
        return next((slot for slot, name in self.policies.items() if name == policy), '')

    def opponent(self, policy: str) -> str:
        """Return the other policy of the pair."""
        return next(name for name in self.policies.values() if name != policy)

    def won(self, policy: str) -> float:
        """Return 1 where a policy of the pair was preferred, 0.5 for a tie, else 0."""
        return _WON[self.preference][self.slot(policy)]

    def score(self, policy: str) -> float | None:
        """Return the progress of a policy of the pair, 0 to 1, None without."""
        return self.progress.get(self.slot(policy))

    def says(self, quote: str) -> bool:
        """Tell whether the evaluator's words hold ``quote``, whatever its spaces and case."""
        wanted = flat(quote)
        return bool(wanted) and any(wanted in flat(one) for one in self.texts())

    def texts(self) -> tuple[str, ...]:
        """Return everything that the evaluator wrote."""
        return (*self.words, *(one for one in self.notes.values() if one))


@dataclass(frozen=True)
class ReportMaterial:
    """All sessions that count, oldest first, those of other policies too."""

    sessions: tuple[ReportSession, ...]

    def by_id(self) -> dict[str, ReportSession]:
        """Return the sessions by their id."""
        return {one.session_id: one for one in self.sessions}

    def policies(self) -> tuple[str, ...]:
        """Return the names of all policies."""
        return tuple(sorted({name for s in self.sessions for name in s.policies.values()}))

    def of(self, policy: str, since: str = '') -> list[ReportSession]:
        """Return the sessions of a policy since a day; DataError for one without sessions."""
        found = [s for s in self.sessions if s.slot(policy)]
        if not found:
            raise DataError(f"there is no counted session of '{policy:.100}'; policies: "
                            f"{', '.join(self.policies()) or 'none'}")
        return [s for s in found if not since or (s.created and from_iso(s.created) >= from_iso(
            since))]

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
    kept = sorted((s for s in sessions if s.counts), key=lambda s: (s.created, s.session_id))
    return ReportMaterial(tuple(_session(s, (categories or {}).get(s.session_id))
                                for s in kept))


def _session(given: RoboArenaSession, category: str | None) -> ReportSession:
    assert given.preference is not None
    slots = {slot: one for slot, one in given.slots().items() if slot in SLOTS}
    cameras = sorted({one.camera for one in slots.values() if one.camera})
    return ReportSession(
        given.session_id, given.created, given.prompt,
        categorise(given.prompt) if category is None else category, given.preference,
        given.policies(),
        {k: one.progress for k, one in slots.items() if one.progress is not None},
        {k: one.steps / CONTROL_RATE_HZ for k, one in slots.items() if one.steps},
        {k: one.latency_s for k, one in slots.items() if one.latency_s is not None},
        scene={'camera': cameras[0]} if len(cameras) == 1 else {},
        words=(given.explanation,) if given.explanation.strip() else (),
        evaluator=given.evaluator, institution=given.institution)


def compared(session: ReportSession, policy: str) -> list[tuple[float, float]]:
    """Return the progress of a policy and of its opponent, where both are known."""
    mine, other = session.score(policy), session.score(session.opponent(policy))
    return [] if mine is None or other is None else [(mine, other)]


def flat(text: str) -> str:
    """Return a text in lower case with single spaces, for comparing quotes."""
    return _SPACE.sub(' ', text).strip().casefold()
