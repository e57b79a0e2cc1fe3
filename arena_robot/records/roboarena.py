"""
One A/B evaluation in RoboArena's format, and the checks of its values.

CSV tables and data dumps have the same values under different names. Both readers build their
sessions here, so a value has the same meaning, and is refused with the same message, in both.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from arena_robot.core.clock import from_iso
from arena_robot.core.episode import (
    CONTROL_RATE_HZ,
    Comparison,
    Preference,
    ScoredRollout,
    Slot,
)
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import OPTIONAL, Success, Verdict

SLOTS = ('A', 'B')
EXTRAS = tuple(key for key in OPTIONAL if key != 'success')    # RoboArena has that one
TRUE, FALSE = ('1', '1.0', 'true', 'yes'), ('0', '0.0', 'false', 'no', '')
SHOWN = 20    # refused rows that are listed; a wrong column refuses all
_ID = re.compile(r'[^./\\\x00][^/\\\x00]{0,35}')
_NAN = float('nan')


@dataclass(frozen=True)
class RoboArenaRollout:
    """
    One scored rollout; ``letter`` is its slot A or B, or another for policies beside the pair.

    ``progress`` is 0 to 1, ``steps`` are at 15 Hz, ``order`` is its place in the session. The
    fields from ``stage`` on are those of a verdict, which RoboArena's tables lack.
    """

    policy: str
    letter: str = ''
    progress: float | None = None
    steps: int = 0
    prompt: str = ''
    order: int | None = None
    success: bool | None = None
    camera: str = ''
    latency_s: float | None = None
    stage: str = ''
    failure_tags: str = ''
    time_to_success_s: float | None = None
    interventions: float | None = None
    intervention_s: float | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took; None where that is not known."""
        return self.steps / CONTROL_RATE_HZ if self.steps else None

    def said(self, slot: str) -> dict[str, Any]:
        """Return what a verdict says of it, by the names of the verdict's fields."""
        extras = {key: getattr(self, key) for key in EXTRAS}
        if any(value not in ('', None) for value in extras.values()):    # no RoboArena table
            extras['success'] = None if self.success is None else 'yes' if self.success else 'no'
        return {f'{key}_{slot.lower()}': value
                for key, value in {'progress': self.progress, **extras}.items()}


def said_of(verdict: Verdict, slot: Slot) -> dict[str, Any]:
    """Return the fields of a rollout that a verdict says, but for its progress."""
    success = verdict.of_slot('success', slot)
    return {'success': None if success is None else success is Success.YES,
            **{key: verdict.of_slot(key, slot) for key in EXTRAS}}


class RankedBy(str, Enum):
    """What decides which of two rollouts of a session was better."""

    PREFERENCE = 'preference'    # the evaluator's
    PROGRESS = 'progress'        # one got further
    SUCCESS = 'success'          # one succeeded and the other did not
    TIME = 'time'                # one succeeded sooner


@dataclass(frozen=True)
class RoboArenaSession:
    """
    One A/B session with its rollouts; times are ISO 8601 text as they were found, or empty.

    ``waited_a`` and ``waited_b`` are shares of steps in which the arm waited for the policy.
    ``origin`` says how a server came to it: ``relayed`` for what counts after it passed the relay,
    ``probation`` for what does not count because a policy was on probation.
    ``chosen`` tells whether the pair was chosen by earlier verdicts; None: not known. ``robot`` is
    the kind of the station's, empty if not known.
    """

    session_id: str
    policy_a: str
    policy_b: str
    valid: bool = True
    preference: Preference | None = None
    institution: str = ''
    evaluator: str = ''
    created: str = ''
    completed: str = ''
    explanation: str = ''
    evaluation_type: str = 'A/B'
    origin: str = ''
    waited_a: float | None = None
    waited_b: float | None = None
    chosen: bool | None = None
    robot: str = ''
    rollouts: tuple[RoboArenaRollout, ...] = ()

    @property
    def counts(self) -> bool:
        """Return whether the session has a verdict that a ranking counts."""
        return self.valid and self.preference is not None

    @property
    def prompt(self) -> str:
        """The first instruction of its rollouts."""
        return next((r.prompt for r in self.rollouts if r.prompt), '')

    def better(self, measure: RankedBy) -> Preference | None:
        """
        Return which slot was better by a measure; None where that is not known.

        Of the time to success a rollout without success says only that it would have taken longer
        than the rollout did. So a pair counts when one succeeded, and the other succeeded too or
        went on at least as long without success.
        """
        if measure is RankedBy.PREFERENCE:
            return self.preference
        slots = self.slots()
        if set(slots) != set(SLOTS):
            return None
        if measure is RankedBy.TIME:
            return _sooner(*(slots[slot] for slot in SLOTS))
        a, b = (getattr(slots[slot], measure.value) for slot in SLOTS)
        return None if a is None or b is None else _higher(a, b)

    def policies(self) -> dict[str, str]:
        """Return the names of the pair by slot."""
        return dict(zip(SLOTS, (self.policy_a, self.policy_b), strict=True))

    def slots(self) -> dict[str, RoboArenaRollout]:
        """Return the rollout of each slot; the last scored one of several."""
        slots: dict[str, RoboArenaRollout] = {}
        for rollout in self.rollouts:
            if rollout.letter in SLOTS and (rollout.progress is not None
                                            or rollout.letter not in slots):
                slots[rollout.letter] = rollout
        return slots

    def others(self) -> tuple[RoboArenaRollout, ...]:
        """Return the rollouts that are not the one of a slot."""
        by_slot = list(map(id, self.slots().values()))
        return tuple(r for r in self.rollouts if id(r) not in by_slot)

    def comparison(self) -> Comparison:
        """Return the verdict as a ranking takes it; DataError when there is none that counts."""
        if self.preference is None or not self.valid:
            raise DataError(f'session {self.session_id} has no verdict that counts')
        scores = {slot: r.progress for slot, r in self.slots().items() if r.progress is not None}
        return Comparison(self.session_id, self.policy_a, self.policy_b, self.preference,
                          scores.get('A', _NAN), scores.get('B', _NAN), self.evaluator,
                          self.institution, self.prompt, self.created, self.origin,
                          self.waited_a, self.waited_b, self.chosen, self.robot)


@dataclass(frozen=True)
class RoboArenaData:
    """Result of reading: the usable sessions, and the position and reason of each refused row."""

    sessions: tuple[RoboArenaSession, ...]
    refused: tuple[str, ...] = ()

    def comparisons(self) -> list[Comparison]:
        """Return the verdicts that count, in their order."""
        return [s.comparison() for s in self.sessions if s.counts]

    def judged_by(self, measure: RankedBy) -> 'RoboArenaData':
        """Return the sessions with what a measure says as their preference."""
        return replace(self, sessions=tuple(replace(s, preference=s.better(measure))
                                            for s in self.sessions))

    def scored(self, invalid: bool = False) -> list[ScoredRollout]:
        """
        Return the rollouts with a score of valid sessions, with a verdict or without.

        ``invalid`` includes those of sessions that were declared invalid.
        """
        return [ScoredRollout(s.session_id, r.policy, r.progress)
                for s in self.sessions if s.valid or invalid
                for r in s.rollouts if r.progress is not None]

    def refusals(self) -> tuple[str, ...]:
        """Return a line for each refused row, the last one a count when there are many."""
        more = len(self.refused) - SHOWN
        return self.refused if more <= 0 else (
            *self.refused[:SHOWN], f'and {more} more rows are refused')


def usable(sessions: Iterable[RoboArenaSession], refused: Sequence[str]) -> RoboArenaData:
    """Return what was read; DataError when rows were refused and no session is left."""
    rows = tuple(sessions)
    if refused and not rows:
        raise DataError('\n'.join(['no session can be used:',
                                   *RoboArenaData((), tuple(refused)).refusals()]))
    return RoboArenaData(rows, tuple(refused))


def build_session(values: Mapping[str, Any]) -> RoboArenaSession:
    """Return the session of a row of sessions.csv, without rollouts; DataError for a value."""
    session_id = _text(values, 'session_uuid')
    if not _ID.fullmatch(session_id):
        raise _wrong('session_uuid', session_id, 'a name of 1 to 36 characters that a folder can '
                     'have')
    a, b = _text(values, 'policy_a'), _text(values, 'policy_b')
    if not a or not b or a == b:
        raise DataError(f"policies are '{a}' and '{b}'; expected two names")
    return RoboArenaSession(
        session_id, a, b, flag(values, 'valid') or False, _preference(values),
        _text(values, 'institution'), _text(values, 'evaluator'), _time(values, 'created'),
        _time(values, 'completed'), str(values.get('feedback_text') or ''),
        _text(values, 'evaluation_type') or 'A/B', _text(values, 'origin'),
        number(values, 'waited_a', 1.0), number(values, 'waited_b', 1.0),
        flag(values, 'chosen', empty=None), _text(values, 'robot'))


def build_rollout(values: Mapping[str, Any], session: RoboArenaSession) -> RoboArenaRollout:
    """
    Return the rollout of a row of episodes.csv; DataError for a value.

    Early tables have no letters: the pair's rollouts get theirs by their policy.
    """
    policy, letter = _text(values, 'policy'), _text(values, 'letter').upper()
    if not policy:
        raise _wrong('policy', policy, 'a name')
    if len(letter) > 1:
        raise _wrong('letter', letter, 'one letter')
    slot = {session.policy_a: 'A', session.policy_b: 'B'}.get(policy, '')
    if letter and (letter if letter in SLOTS else '') != slot:
        raise DataError(f"letter is '{letter}' and policy '{policy}'; A is "
                        f"'{session.policy_a}' and B is '{session.policy_b}'")
    order, progress = number(values, 'order'), number(values, 'partial_success', 1.0)
    binary = flag(values, 'binary_success', empty=None)
    return RoboArenaRollout(
        policy, slot or letter, progress, round(number(values, 'duration_steps') or 0),
        _text(values, 'instruction'), None if order is None else round(order),
        solved(progress) if binary is None else binary, _text(values, 'camera'),
        number(values, 'avg_latency_s'), _text(values, 'stage'), _text(values, 'failure_tags'),
        number(values, 'time_to_success_s'), number(values, 'interventions'),
        number(values, 'intervention_s'))


def _higher(a: float, b: float) -> Preference:
    return Preference.TIE if a == b else Preference.A if a > b else Preference.B


def _sooner(a: RoboArenaRollout, b: RoboArenaRollout) -> Preference | None:
    if a.success is None or b.success is None or not (a.success or b.success):
        return None
    a_s, b_s = (r.seconds if not r.success or r.time_to_success_s is None
                else r.time_to_success_s for r in (a, b))
    if a_s is None or b_s is None:
        return None
    if a.success and b.success:
        return _higher(b_s, a_s)
    if a.success:
        return Preference.A if a_s <= b_s else None
    return Preference.B if b_s <= a_s else None


def solved(progress: float | None) -> bool | None:
    """Return whether a rollout reached all of its task; None when nobody scored it."""
    return None if progress is None else progress == 1.0


def with_rollouts(session: RoboArenaSession, rollouts: Iterable[RoboArenaRollout],
                  ) -> RoboArenaSession:
    """Return the session with its rollouts."""
    return replace(session, rollouts=tuple(rollouts))


def flag(values: Mapping[str, Any], name: str, empty: bool | None = False) -> bool | None:
    """Return a truth value, ``empty`` where there is none; DataError for any other."""
    word = _text(values, name).lower()
    if not word:
        return empty
    if word not in TRUE + FALSE:
        raise _wrong(name, values[name], '1 or 0 (yes or no, true or false)')
    return word in TRUE


def number(values: Mapping[str, Any], name: str, most: float = 1e9) -> float | None:
    """Return a number from 0 to ``most``, None where there is none; DataError for any other."""
    text = _text(values, name)
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not 0.0 <= value <= most:
        raise _wrong(name, text, f'a number from 0 to {most:g}')
    return value


def _preference(values: Mapping[str, Any]) -> Preference | None:
    word = _text(values, 'preference').upper()
    if word and word not in Preference.__members__:
        raise _wrong('preference', values['preference'], 'A, B, TIE or nothing')
    return Preference[word] if word else None


def _time(values: Mapping[str, Any], name: str) -> str:
    text = _text(values, name)
    try:
        if text:
            from_iso(text)
    except DataError as error:
        raise _wrong(name, text, 'a time such as 2025-03-21 11:02:24') from error
    return text


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return '' if value is None else str(value).strip()


def _wrong(name: str, value: object, expected: str) -> DataError:
    return DataError(f"{name} is '{value}'; expected {expected}")
