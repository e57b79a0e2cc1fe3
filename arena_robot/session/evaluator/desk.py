"""
Interface of an evaluator's client (web page, terminal): the shown state and the commands.

A :class:`Desk` is in the station's own process or is a client of its session node.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.verdict import Extras, Plain, Verdict, with_said
from arena_robot.session.base import Check
from arena_robot.session.loop.match import ViewMatch, moved_cameras
from arena_robot.session.protocol.record import SessionRecord, is_fault, possible_cause
from arena_robot.session.protocol.states import State

HINTS = {
    State.IDLE: 'Check the station to begin a session.',
    State.PREFLIGHT: 'Enter your name and the task of the robot.',
    State.TASK_ENTERED: 'Two policies are requested from the arena.',
    State.ASSIGNED: 'Arrange the scene, step back, then photograph the start.',
    State.START_PHOTOGRAPHED: 'Keep a hand near STOP, then start A.',
    State.RUNNING_A: 'A is running. STOP brings the arm to rest.',
    State.SCORING_A: 'How far did A get? Step back: the arm moves to its reset pose next.',
    State.RESET: 'Put everything back as in the start photograph, step back, then start B.',
    State.RUNNING_B: 'B is running. STOP brings the arm to rest.',
    State.SCORING_B: 'How far did B get?',
    State.PREFERENCE: 'Which was better, and why?',
    State.REVIEW: 'Check everything once more, then submit.',
    State.SUBMITTING: 'The session is stored, and is being finished.',
    State.DONE: 'Thank you. This session is complete.',
    State.ABORTED: 'This session was ended without a verdict.',
}
# How a rollout ended, as a person says it.
ENDS = {
    EndReason.DONE: 'you said that the task is done',
    EndReason.STOPPED: 'you stopped it',
    EndReason.TIMEOUT: 'its time was over',
    EndReason.POLICY_ERROR: 'its policy failed',
    EndReason.SAFETY_STOP: 'it asked for something unsafe',
    EndReason.DRIVER_ERROR: 'the station failed',
    EndReason.INTERRUPTED: 'it was interrupted',
}
# Where a stop takes longer than 150 ms: docs/safety.md has the measurements of all backends.
SLOW_STOPS = {'droid_nuc': ' Over droid_nuc that takes 0.2 to 0.35 s: keep clear of its way.'}
NOT_AT_REST = 'The arm has not confirmed that it is at rest. Use the hardware stop.'
SCORING = {Slot.A: State.SCORING_A, Slot.B: State.SCORING_B}
RUBRIC = ((0, 'nothing useful'), (25, 'first part, such as reaching'),
          (50, 'half of it, such as grasping'), (75, 'nearly all, small fault'),
          (100, 'all of it'))


class Button:
    """Commands with no text or one line of text."""

    CHECK = 'check'
    SIGN_IN = 'sign_in'
    PHOTOGRAPH = 'photograph'
    DONE = 'done'
    PREPARE_RESET = 'prepare_reset'
    CONFIRM_RESET = 'confirm_reset'
    INVALIDATE = 'invalidate'
    REVALIDATE = 'revalidate'
    RETRY = 'retry'
    ABORT = 'abort'
    RERUN = 'rerun'
    RECOVER = 'recover'
    ACTIVATE_GRIPPER = 'activate_gripper'


REPAIRS = {
    Button.RECOVER: 'The arm will be recovered: it may move a little, and its next way to the '
                    'reset pose is slow.',
    Button.ACTIVATE_GRIPPER: 'The gripper will be activated: its fingers open and close fully.'}
NEEDS = {
    Button.RECOVER: 'The arm has stopped by itself. Remove the cause, then recover it.',
    Button.ACTIVATE_GRIPPER: 'The gripper is not active, or has a fault. Activate it.'}


@dataclass(frozen=True)
class SlotView:
    """
    One slot's rollout as it is shown.

    ``reruns`` is how often the slot was run again. ``again`` tells whether it can be now:
    ``'fault'`` as the station failed, ``'mistake'`` with the evaluator's reason, or empty.
    """

    slot: Slot
    end: str = ''
    detail: str = ''
    steps: int = 0
    reruns: int = 0
    again: str = ''


@dataclass(frozen=True)
class DeskState:
    """
    The state of a session for display; without policy names before the reveal.

    ``draft`` and ``draft_instruction`` are what a form shows: what was typed since, also when it
    was cleared, and otherwise what was said. ``third_person`` is which of the ``outside_cameras``
    a policy with only one sees, ``photo_code`` what the start photograph has to show. ``repairs``
    are the buttons of :data:`REPAIRS` that are needed.
    """

    state: State = State.IDLE
    session_id: str = ''
    station: str = ''
    evaluator: str = ''
    control: str = ''
    created_ns: int = 0
    entered_ns: int = 0
    instruction: str = ''
    commitment: str = ''
    message: str = ''
    doing: str = ''
    notice: str = ''
    checks: tuple[Check, ...] = ()
    slots: tuple[SlotView, ...] = (SlotView(Slot.A), SlotView(Slot.B))
    matches: Mapping[str, float] = field(default_factory=dict)
    match: float | None = None
    moved_cameras: tuple[str, ...] = ()
    reset_confirmed: bool = False
    verdict: Verdict = field(default_factory=Verdict)
    draft: Verdict = field(default_factory=Verdict)
    draft_instruction: str = ''
    third_person: str = ''
    outside_cameras: tuple[str, ...] = ()
    photo_code: str = ''
    missing: tuple[str, ...] = ()
    waiting: int = 0
    repairs: tuple[str, ...] = ()
    policy_a: str = ''
    policy_b: str = ''
    verified: bool = False

    @property
    def ready(self) -> bool:
        """Return whether every check of the last preflight passed."""
        return all(check.ok for check in self.checks)


@dataclass(frozen=True)
class RunView:
    """State of a running rollout; nothing in it tells how long the policy takes for an answer."""

    slot: Slot
    steps: int
    max_steps: int
    elapsed_s: float = 0.0


def always() -> bool:
    """Return True: a terminal counts as attended as long as its process runs."""
    return True


class Desk(Protocol):
    """
    The evaluator's client interface. Methods raise an ArenaError that says what to do.

    While a rollout that was started here runs, ``attended`` of its start is asked several times a
    second; the arm is stopped some seconds after it last said True, or after this process was last
    heard of.
    """

    def state(self) -> DeskState:
        """Return the newest state."""

    def wait_change(self, seen: DeskState, timeout_s: float) -> DeskState:
        """Return the state once it is not ``seen`` any more, or after ``timeout_s``."""

    def running(self) -> RunView | None:
        """Return the state of the running rollout, None when none runs."""

    def take(self, name: str, take_over: bool = False) -> None:
        """Take control."""

    def release(self) -> None:
        """Release control."""

    def open_session(self, evaluator: str, instruction: str, repeat: bool = False,
                     third_person: str = '') -> None:
        """Store evaluator, instruction, outside camera ('': the station's); request a pair."""

    def press(self, button: str, text: str = '') -> str:
        """
        Press a button, one of :class:`Button`; return what happened.

        A button of :data:`REPAIRS` wants :data:`checks.CLEAR` as the text, typed by a person.
        """

    def start(self, slot: Slot, attended: Callable[[], bool] = always) -> None:
        """Start a slot's rollout; returns once it runs."""

    def stop(self) -> None:
        """Stop the arm now; return once it has confirmed rest. Needs no control."""

    def score(self, slot: Slot, verdict: Verdict) -> None:
        """Store the fields of ``verdict`` about a slot's rollout."""

    def judge(self, verdict: Verdict) -> None:
        """Store the fields of ``verdict`` about the pair: preference, explanation, and others."""

    def draft(self, words: Mapping[str, Plain]) -> None:
        """
        Store what was typed, by the names of :data:`checks.DRAFTED`; others stay unchanged.

        '' and None are stored too: a text that was cleared, a choice that was taken back.
        """

    def submit(self) -> None:
        """Submit the session; it cannot be changed afterwards."""

    def today(self) -> list[DeskState]:
        """Return today's sessions, newest first."""

    def views(self) -> tuple[str, ...]:
        """Return the views that can be shown, such as ``left_left``."""

    def site(self) -> str | None:
        """Return the address of the server's site, '' where nobody says; None: no server."""

    def consent(self) -> str:
        """Return what people in the pictures are told before a session, '' for nothing."""

    def extras(self) -> Extras:
        """Return which optional fields are asked for, and the words to choose from."""

    def frame(self, view: str) -> bytes | None:
        """Return the newest image of a view as a JPEG, None when there is none."""

    def frame_age_s(self, view: str) -> float | None:
        """Return how long ago the newest image of a view arrived, None when there is none."""

    def reference(self, view: str) -> bytes | None:
        """Return the start photograph of a view as a JPEG, None when there is none."""

    def clip(self, slot: Slot, view: str) -> tuple[bytes, ...]:
        """Return JPEGs of a slot's last rollout, five a second; empty when there are none."""


def shown(record: SessionRecord, control: str = '', doing: str = '', problem: str = '',
          live: Mapping[str, ViewMatch] | None = None, waiting: int = 0,
          outside: tuple[str, ...] = (), repairs: tuple[str, ...] = (), backend: str = ''
          ) -> DeskState:
    """
    Return what is shown of a record; ``live`` are matches newer than the record's.

    ``outside`` are the station's outside cameras, its own choice first; ``repairs`` what arm and
    gripper need; ``backend`` is the arm's driver, of which some stop slowly.
    """
    views = live or {}
    matches = {name: view.score for name, view in views.items()} or dict(record.matches)
    match = min(matches.values()) if matches else record.match
    notice = ' '.join(text for text in (record.notice, problem) if text)
    reveal = record.reveal
    return DeskState(
        state=record.state, session_id=record.session_id, station=record.station,
        evaluator=record.evaluator, control=control, created_ns=record.created_ns,
        entered_ns=record.updated_ns, instruction=record.prompt, commitment=record.commitment,
        message=_hint(record) + (SLOW_STOPS.get(backend, '') if record.state.running else ''),
        doing=doing, notice=notice,
        checks=one_per_part(Check(str(c['name']), bool(c['ok']), str(c['detail']),
                                  bool(c.get('warning', False)))
                            for c in record.checks),
        slots=tuple(_slot(record, slot) for slot in Slot), matches=matches, match=match,
        moved_cameras=moved_cameras(views), reset_confirmed=record.reset_confirmed,
        verdict=record.verdict, draft=with_said(record.verdict, record.draft),
        draft_instruction=_first(record.draft_instruction, record.prompt),
        third_person=record.third_person or next(iter(outside), ''), outside_cameras=outside,
        photo_code=record.photo_code, missing=record.missing(), waiting=waiting, repairs=repairs,
        policy_a=reveal.policy_a if reveal else '', policy_b=reveal.policy_b if reveal else '',
        verified=bool(record.verified))


def one_per_part(checks: Iterable[Check]) -> tuple[Check, ...]:
    """
    Return one line per part: that of the part, or that of its node where only the node needs it.

    The check of the node of a part ``x`` is called ``x node``. So no part is good and bad at once.
    """
    by_part: dict[str, Check] = {}
    for check in checks:
        part = check.name.removesuffix(' node')
        first = by_part.setdefault(part, replace(check, name=part))
        if first.ok and (not check.ok or check.warning > first.warning):
            by_part[part] = replace(check, name=part)
    return tuple(by_part.values())


def _first(typed: str | None, otherwise: str) -> str:
    return otherwise if typed is None else typed


def _slot(record: SessionRecord, slot: Slot) -> SlotView:
    rollout, earlier = record.slots[slot], record.reruns_of(slot)
    cause = possible_cause(rollout, earlier) if record.state is SCORING[slot] else None
    return SlotView(slot, rollout.end.value if rollout.end else '', rollout.detail, rollout.steps,
                    len(earlier), cause.value if cause else '')


def _hint(record: SessionRecord) -> str:
    if record.state is State.PREFLIGHT and not all(check['ok'] for check in record.checks):
        return 'A check failed. Do what it says, then check again.'
    if record.state is State.DONE and record.credited:
        return f'{HINTS[State.DONE]} You have earned one credit.'
    if record.state is State.RESET and record.next_slot is Slot.A:
        return HINTS[State.RESET].replace('start B', 'start A again')
    if record.state is State.RESET and record.reruns_of(Slot.B):
        return HINTS[State.RESET].replace('start B', 'start B again')
    for slot in Slot:
        if record.state is SCORING[slot] and is_fault(record.slots[slot]):
            return f'The station failed while {slot.value} was running.'
    return HINTS[record.state]
