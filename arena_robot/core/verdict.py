"""
What the evaluator says of a session: one type, and one list of its fields.

A field is declared once, in :class:`Verdict`. :data:`FIELDS` lists the declarations; the page, the
terminal, the journal, ``session.json``, the ROS message, protobuf, the database and the site all
convert by that list. A field that a message or a table lacks is an error when its module is
imported; see :func:`need_fields`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import ConfigError, DataError

MAX_TEXT_CHARS = 10_000
SCENE_FIELDS = ('lighting', 'clutter')    # of a verdict, about the scene
BETWEEN = '; '               # of several words of a list
LARGEST = 1e6                # seconds or times: eleven days, more than any rollout has
FAILURE_TAGS = ('missed the object', 'dropped the object', 'wrong object', 'collision', 'stuck',
                'wandered off', 'stopped early')    # labs have lists of their own

Plain = str | float | bool | None


class Kind(str, Enum):
    """What a field holds; the value that stands for "not said" is in brackets."""

    SHARE = 'share'      # a number from 0 to 1, shown as 0 to 100 [None]
    CHOICE = 'choice'    # a member of an enumeration [None]
    TEXT = 'text'        # words ['']
    FLAG = 'flag'        # yes or no
    NUMBER = 'number'    # how many, or how many seconds; not negative [None]
    LISTED = 'listed'    # a word of a list of the station or study, or several ['']


class Asked(str, Enum):
    """When the evaluator is asked for a field."""

    SCORE = 'score'      # after a slot's rollout
    JUDGE = 'judge'      # once, together with the preference
    BUTTON = 'button'    # by the button that marks the session as not to be counted


@dataclass(frozen=True)
class VerdictField:
    """
    One field: how it is stored, asked for and shown.

    ``slot`` is set for what is said per slot; ``choices`` maps the values to the words that people
    see. ``required`` fields have to be said before a valid session can be submitted, ``optional``
    ones are asked for where a station or study says so. ``unit`` is that of a number, ``whole``
    means that it counts; of a list ``many`` words can be said.
    """

    name: str
    kind: Kind
    asked: Asked
    label: str
    question: str
    slot: Slot | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    choice: type[Enum] | None = None
    required: bool = False
    optional: bool = False
    unit: str = ''
    whole: bool = False
    many: bool = False
    min_chars: int = 0
    on_site: bool = True

    @property
    def key(self) -> str:
        """Return the name without its slot, such as ``progress`` for ``progress_a``."""
        return self.name.removesuffix(f'_{self.slot.value.lower()}') if self.slot else self.name

    @property
    def in_text(self) -> str:
        """Return the label as it stands within a sentence."""
        return self.label[0].lower() + self.label[1:]

    @property
    def is_text(self) -> bool:
        """Whether the value is words, '' while nobody said."""
        return self.kind in (Kind.TEXT, Kind.LISTED)

    def shown(self) -> dict[str, Any]:
        """Return what a page has to know of the field."""
        return {'name': self.name, 'key': self.key, 'kind': self.kind, 'asked': self.asked,
                'label': self.label, 'question': self.question, 'slot': self.slot,
                'choices': dict(self.choices), 'required': self.required,
                'unit': self.unit, 'whole': self.whole, 'many': self.many}

    def is_said(self, value: object) -> bool:
        """Tell whether ``value`` says something; of a flag only a yes does."""
        if self.kind is Kind.FLAG:
            return bool(value)
        return value is not None and bool(str(value).strip())

    def parse(self, value: object) -> Any:
        """Return the value of the field for a plain one. Raises DataError."""
        if self.kind is Kind.SHARE:
            return None if value is None else self._number(value, 'from 0 to 1')
        if self.kind is Kind.CHOICE:
            return self._member(value) if self.is_said(value) else None
        if self.kind is Kind.FLAG:
            return bool(value)
        if self.kind is Kind.NUMBER:
            return None if value is None or value == '' else self._number(value)
        if self.kind is Kind.LISTED and isinstance(value, list | tuple):
            return BETWEEN.join(map(str, value))
        return '' if value is None else str(value)

    def choice_words(self) -> str:
        """Return the values to choose from, such as ``A, TIE or B``."""
        *most, last = self.choices
        return f"{', '.join(most)} or {last}"

    def plain(self, value: Any) -> Plain:
        """Return a value of the field as JSON has it."""
        word: Plain = value.value if isinstance(value, Enum) else value
        return float(value) if self.kind is Kind.NUMBER and value is not None else word

    def words(self, value: Any) -> str:
        """Return a value as people read it, a dash when it is not said."""
        if self.kind is Kind.FLAG:
            return 'yes' if value else 'no'
        if not self.is_said(value):
            return '–'
        if self.kind is Kind.SHARE:
            return f'{100.0 * value:.0f} of 100'
        if self.kind is Kind.NUMBER:
            return f'{value:g} {self.unit}'.strip()
        return self.choices[value.value] if self.kind is Kind.CHOICE else str(value)

    def check(self, value: Any) -> None:
        """Raise DataError when ``value`` is out of range."""
        if self.kind is Kind.SHARE and value is not None and not 0.0 <= value <= 1.0:
            raise DataError(f'{self.in_text} runs from 0 to 1, got {value}')
        if self.kind is Kind.NUMBER and value is not None and not (
                0.0 <= value <= LARGEST and (not self.whole or value == int(value))):
            raise DataError(f"{self.in_text} is a {'whole ' * self.whole}number from 0 to "
                            f'{LARGEST:.0f}, got {value}')
        if self.is_text and (len(value) > MAX_TEXT_CHARS or '\x00' in value):
            raise DataError(f'{self.in_text}: a text has at most {MAX_TEXT_CHARS} '
                            'characters and no NUL')

    def _number(self, value: object, span: str = 'not below 0') -> float:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f'{self.in_text} is a number {span}, got {value!r:.40}')
        return number

    def _member(self, value: object) -> Enum:
        assert self.choice is not None
        for member in self.choice:
            if value in (member, member.value):
                return member
        raise DataError(f'{self.name}: choose {self.choice_words()}, got {value!r:.40}')


class Success(str, Enum):
    """Whether a rollout did its task."""

    YES = 'yes'
    NO = 'no'


class Lighting(str, Enum):
    """How bright the scene was."""

    DIM = 'dim'
    NORMAL = 'normal'
    BRIGHT = 'bright'


class Clutter(str, Enum):
    """How many objects besides those of the task were in the scene."""

    LOW = 'low'
    MODERATE = 'moderate'
    HIGH = 'high'


def _about(kind: Kind, asked: Asked, label: str, question: str = '',
           **more: Any) -> dict[str, Any]:
    return {'words': {'kind': kind, 'asked': asked, 'label': label, 'question': question, **more}}


def _choice(asked: Asked, label: str, question: str, choices: Mapping[Any, str],
            **more: Any) -> dict[str, Any]:
    return _about(Kind.CHOICE, asked, label, question, choice=type(next(iter(choices))),
                  choices={member.value: words for member, words in choices.items()}, **more)


def _progress(slot: Slot) -> dict[str, Any]:
    return _about(Kind.SHARE, Asked.SCORE, f'Progress of {slot.value}',
                  f'How far did {slot.value} get?', slot=slot, required=True)


def _notes(slot: Slot) -> dict[str, Any]:
    return _about(Kind.TEXT, Asked.SCORE, f'Notes on {slot.value}',
                  f'Notes on {slot.value} (may be empty)', slot=slot)


def _extra(slot: Slot, kind: Kind, label: str, question: str, **more: Any) -> dict[str, Any]:
    """Return what is asked of a slot where a station or study says so."""
    return _about(kind, Asked.SCORE, f'{label} of {slot.value}', question.format(slot.value),
                  slot=slot, optional=True, **more)


def _success(slot: Slot) -> dict[str, Any]:
    return _extra(slot, Kind.CHOICE, 'Success', 'Did {} succeed?', choice=Success,
                  choices={member.value: member.value for member in Success})


def _stage(slot: Slot) -> dict[str, Any]:
    return _extra(slot, Kind.LISTED, 'Furthest stage', 'Which stage did {} reach?')


def _tags(slot: Slot) -> dict[str, Any]:
    return _extra(slot, Kind.LISTED, 'Failure tags', 'What went wrong with {}? (may be left out)',
                  many=True)


def _time(slot: Slot) -> dict[str, Any]:
    return _extra(slot, Kind.NUMBER, 'Time to success',
                  'After how long had {} succeeded? (left out: its whole rollout)', unit='s')


def _interventions(slot: Slot) -> dict[str, Any]:
    return _extra(slot, Kind.NUMBER, 'Interventions',
                  'How often did a person step in while {} ran? (may be left out)', whole=True)


def _by_hand(slot: Slot) -> dict[str, Any]:
    return _extra(slot, Kind.NUMBER, 'Time by hand',
                  'For how long did a person step in while {} ran? (may be left out)', unit='s')


def _unsafe(slot: Slot) -> dict[str, Any]:
    return _about(Kind.FLAG, Asked.SCORE, f'{slot.value} was unsafe',
                  f'{slot.value} was unsafe: it hit or pushed something hard, or somebody was in '
                  'danger', slot=slot)


@dataclass(frozen=True)
class Verdict:
    """
    What the evaluator says of a session; a field that is not said yet holds None or ''.

    ``progress_*`` run from 0 to 1. ``stage_*`` is a stage of the task, ``failure_tags_*`` are tags
    with '; ' between. ``time_to_success_s_*`` needs a success; ``interventions_*`` is how often a
    person stepped in, ``intervention_s_*`` for how many seconds.
    A valid session needs both progresses, the preference and the explanation;
    one that is not valid needs ``invalid_reason``. ``unsafe_*`` keep the policy of that slot away
    from this station until a maintainer looked, and away from all after reports of two stations.
    """

    progress_a: float | None = field(default=None, metadata=_progress(Slot.A))
    progress_b: float | None = field(default=None, metadata=_progress(Slot.B))
    notes_a: str = field(default='', metadata=_notes(Slot.A))
    notes_b: str = field(default='', metadata=_notes(Slot.B))
    unsafe_a: bool = field(default=False, metadata=_unsafe(Slot.A))
    unsafe_b: bool = field(default=False, metadata=_unsafe(Slot.B))
    success_a: Success | None = field(default=None, metadata=_success(Slot.A))
    success_b: Success | None = field(default=None, metadata=_success(Slot.B))
    stage_a: str = field(default='', metadata=_stage(Slot.A))
    stage_b: str = field(default='', metadata=_stage(Slot.B))
    failure_tags_a: str = field(default='', metadata=_tags(Slot.A))
    failure_tags_b: str = field(default='', metadata=_tags(Slot.B))
    time_to_success_s_a: float | None = field(default=None, metadata=_time(Slot.A))
    time_to_success_s_b: float | None = field(default=None, metadata=_time(Slot.B))
    interventions_a: float | None = field(default=None, metadata=_interventions(Slot.A))
    interventions_b: float | None = field(default=None, metadata=_interventions(Slot.B))
    intervention_s_a: float | None = field(default=None, metadata=_by_hand(Slot.A))
    intervention_s_b: float | None = field(default=None, metadata=_by_hand(Slot.B))
    preference: Preference | None = field(default=None, metadata=_choice(
        Asked.JUDGE, 'Preference', 'Which was better?',
        {Preference.A: 'A was better', Preference.TIE: 'no difference',
         Preference.B: 'B was better'}, required=True))
    explanation: str = field(default='', metadata=_about(
        Kind.TEXT, Asked.JUDGE, 'Explanation', 'Why? What did one do better than the other?',
        required=True, min_chars=10))
    notes: str = field(default='', metadata=_about(
        Kind.TEXT, Asked.JUDGE, 'Notes', 'Anything else (may be empty)'))
    lighting: Lighting | None = field(default=None, metadata=_choice(
        Asked.JUDGE, 'Lighting', 'How bright was the scene? (may be left out)',
        {Lighting.DIM: 'dim', Lighting.NORMAL: 'normal', Lighting.BRIGHT: 'bright'}))
    clutter: Clutter | None = field(default=None, metadata=_choice(
        Asked.JUDGE, 'Clutter', 'How cluttered was the scene? (may be left out)',
        {Clutter.LOW: 'low', Clutter.MODERATE: 'moderate', Clutter.HIGH: 'high'}))
    valid: bool = field(default=True, metadata=_about(Kind.FLAG, Asked.BUTTON, 'Counts'))
    invalid_reason: str = field(default='', metadata=_about(
        Kind.TEXT, Asked.BUTTON, 'Why it does not count', 'Why does this session not count?'))

    def of_slot(self, key: str, slot: str) -> Any:
        """Return a field that is said per slot: ``of_slot('progress', Slot.A)``."""
        return getattr(self, f'{key}_{Slot(slot).value.lower()}')


FIELDS = tuple(VerdictField(declared.name, **declared.metadata['words'])
               for declared in dataclasses.fields(Verdict))
NAMES = tuple(field.name for field in FIELDS)
OPTIONAL = tuple(dict.fromkeys(field.key for field in FIELDS if field.optional))    # keys
Wanted = Callable[[VerdictField], bool]


@dataclass(frozen=True)
class Extras:
    """
    What a station or study asks beside the fields that every session has.

    ``ask`` are keys of :data:`OPTIONAL`; ``stages`` and ``failure_tags`` are the words to choose
    from. Raises ConfigError for an unknown key and for words that cannot be a list.
    """

    ask: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    failure_tags: tuple[str, ...] = FAILURE_TAGS

    def __post_init__(self) -> None:
        for key in self.ask:
            if key not in OPTIONAL:
                raise ConfigError(f"no optional field '{key}'.{nearest(key, OPTIONAL)}")
        for words in (self.stages, self.failure_tags):
            if len(set(words)) < len(words) or any(not word.strip() or BETWEEN.strip() in word
                                                   for word in words):
                raise ConfigError('stages and failure_tags are different words without a '
                                  f"semicolon, found {', '.join(map(repr, words))}")
        if 'stage' in self.ask and not self.stages:
            raise ConfigError('to ask for the furthest stage, list the stages of the task')

    def wants(self, field: VerdictField) -> bool:
        """Tell whether a field is asked for."""
        return not field.optional or field.key in self.ask

    def words(self, field: VerdictField) -> tuple[str, ...]:
        """Return the words to choose from for a field of a list."""
        return self.stages if field.key == 'stage' else self.failure_tags

    def shown(self) -> list[dict[str, Any]]:
        """Return what a page has to know of every field; what is not asked is never asked."""
        return [{**field.shown(), 'asked': field.asked if self.wants(field) else '',
                 **({'choices': {word: word for word in self.words(field)}}
                    if field.kind is Kind.LISTED else {})} for field in FIELDS]

    def completed(self, verdict: 'Verdict', slot: Slot, seconds: float) -> 'Verdict':
        """
        Return what is said of a slot; a success without a time took the whole ``seconds``.

        Raises DataError for a word that is in no list here.
        """
        self._check(verdict, slot)
        name = f'time_to_success_s_{slot.value.lower()}'
        if 'time_to_success_s' not in self.ask or getattr(verdict, name) is not None \
                or verdict.of_slot('success', slot) is not Success.YES:
            return verdict
        return with_said(verdict, {name: round(seconds, 3)})

    def _check(self, verdict: 'Verdict', slot: Slot) -> None:
        for row in asked_at(Asked.SCORE, slot, lambda row: row.kind is Kind.LISTED):
            said = getattr(verdict, row.name)
            words = said.split(BETWEEN) if row.many else [said] if said else []
            if unknown := [word for word in words if word and word not in self.words(row)]:
                raise DataError(f"{row.in_text} cannot be '{unknown[0]:.60}'; choose "
                                f"from: {', '.join(self.words(row)) or 'nothing'}")


def asked_at(asked: Asked, slot: Slot | None = None,
             wanted: Wanted = lambda field: True) -> tuple[VerdictField, ...]:
    """Return the wanted fields of one moment; of one slot when it is given."""
    return tuple(field for field in FIELDS if field.asked is asked
                 and field.slot in (None, slot) and wanted(field))


def to_plain(verdict: Verdict) -> dict[str, Plain]:
    """Return every field as JSON values, by name."""
    return {field.name: field.plain(getattr(verdict, field.name)) for field in FIELDS}


def present(verdict: Verdict) -> dict[str, Any]:
    """Return the fields that hold a value as JSON values, by name; None is left out."""
    return {name: value for name, value in to_plain(verdict).items() if value is not None}


def described(verdict: Verdict) -> dict[str, str]:
    """Return what is said of the scene, the choices that may be left out, by name."""
    return {name: value.value for name in SCENE_FIELDS
            if (value := getattr(verdict, name)) is not None}


def scored(slot: Slot, progress: float, notes: str = '') -> Verdict:
    """Return what is said of one slot."""
    letter = slot.value.lower()
    words: dict[str, Any] = {f'progress_{letter}': progress, f'notes_{letter}': notes}
    return Verdict(**words)


def from_plain(data: Mapping[str, Any]) -> Verdict:
    """
    Return the verdict that :func:`to_plain` wrote.

    Other names are left out; None stands for what is not said. Raises DataError when a value
    is not one of its field.
    """
    return Verdict(**{field.name: field.parse(data[field.name]) for field in FIELDS
                      if data.get(field.name) is not None})


def with_said(verdict: Verdict, changes: Mapping[str, Any]) -> Verdict:
    """Return ``verdict`` with the fields in ``changes`` (plain values by name) replaced."""
    return from_plain({**to_plain(verdict), **changes})


def missing(verdict: Verdict) -> tuple[str, ...]:
    """Return what a valid session still lacks, as labels for people."""
    return tuple(field.in_text for field in FIELDS
                 if field.required and not field.is_said(getattr(verdict, field.name)))


def check_times(verdict: Verdict) -> None:
    """Raise DataError for a time to success of a slot that did not succeed."""
    for slot in Slot:
        if verdict.of_slot('time_to_success_s', slot) is not None and verdict.of_slot(
                'success', slot) is not Success.YES:
            raise DataError(f'a time to success of {slot.value} needs its success')


def check_verdict(verdict: Verdict) -> None:
    """Raise DataError when a finished verdict is incomplete or out of range."""
    for row in FIELDS:
        row.check(getattr(verdict, row.name))
    check_times(verdict)
    if verdict.valid and missing(verdict):
        raise DataError(f"a valid session needs {', '.join(missing(verdict))}")
    if not verdict.valid and not verdict.invalid_reason.strip():
        raise DataError('an invalid session needs its reason')


def need_fields(where: str, present: Iterable[str], others: Iterable[str] = ()) -> None:
    """
    Raise ConfigError unless ``present`` names every field of a verdict.

    ``others`` are names that ``where`` holds besides; any further name is an error too.
    """
    given = set(present)
    lacks = sorted(set(NAMES) - given)
    more = sorted(given - set(NAMES) - set(others)) if others else []
    if lacks:
        raise ConfigError(f"{where} lacks {', '.join(lacks)}, declared in core/verdict.py; add "
                          'it there')
    if more:
        raise ConfigError(f"{where} has {', '.join(more)}, which is no field of a verdict; "
                          'declare it in core/verdict.py')
