"""
What an evaluator sees and presses, the same for the web page and the terminal.

A :class:`Desk` is either in the station's own process or talks to its session node.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from arena_robot.core.episode import Slot
from arena_robot.core.verdict import Verdict
from arena_robot.session.loop.match import ViewMatch, moved_cameras
from arena_robot.session.ports import Check
from arena_robot.session.protocol.record import SessionRecord
from arena_robot.session.protocol.states import State

HINTS = {
    State.IDLE: 'Check the station to begin a session.',
    State.PREFLIGHT: 'Say who you are and what the robot shall do.',
    State.TASK_ENTERED: 'The arena is asked for two policies.',
    State.ASSIGNED: 'Arrange the scene, stand clear, then photograph the start.',
    State.START_PHOTOGRAPHED: 'Keep a hand near STOP, then start A.',
    State.RUNNING_A: 'A is running. STOP brings the arm to rest at once.',
    State.SCORING_A: 'How far did A get? Stand clear: the arm moves to its reset pose next.',
    State.RESET: 'Put everything back as in the start photograph, stand clear, then start B.',
    State.RUNNING_B: 'B is running. STOP brings the arm to rest at once.',
    State.SCORING_B: 'How far did B get?',
    State.PREFERENCE: 'Which was better, and why?',
    State.REVIEW: 'Look over everything once more, then submit.',
    State.SUBMITTING: 'The session is on its way to the arena.',
    State.DONE: 'Thank you. This session is complete.',
    State.ABORTED: 'This session was ended without a verdict.',
}
RUBRIC = ((0, 'nothing useful'), (25, 'first sub-goal, such as reached'),
          (50, 'half of it, such as grasped'), (75, 'nearly all, small fault'), (100, 'all of it'))


class Button:
    """The commands that need no words, or one line of them."""

    CHECK = 'check'
    PHOTOGRAPH = 'photograph'
    DONE = 'done'
    PREPARE_RESET = 'prepare_reset'
    CONFIRM_RESET = 'confirm_reset'
    INVALIDATE = 'invalidate'
    REVALIDATE = 'revalidate'
    RETRY = 'retry'
    ABORT = 'abort'


@dataclass(frozen=True)
class SlotView:
    """One slot's rollout as it is shown."""

    slot: Slot
    end: str = ''
    detail: str = ''
    steps: int = 0


@dataclass(frozen=True)
class DeskState:
    """Everything there is to show of a session; names no policy before the reveal."""

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
    missing: tuple[str, ...] = ()
    waiting: int = 0
    policy_a: str = ''
    policy_b: str = ''
    verified: bool = False

    @property
    def ready(self) -> bool:
        """Tell whether the last preflight found nothing wrong."""
        return all(check.ok for check in self.checks)


@dataclass(frozen=True)
class RunView:
    """How a running rollout is doing; ``inference_s`` in steps of 50 ms."""

    slot: Slot
    steps: int
    max_steps: int
    loop_s: float = 0.0
    late_s: float = 0.0
    inference_s: float = 0.0
    elapsed_s: float = 0.0


def always() -> bool:
    """Return True: somebody looks on, as at a terminal, as long as this process runs."""
    return True


class Desk(Protocol):
    """
    An evaluator's place. Methods raise an ArenaError that says what to do.

    While a rollout that was started here runs, ``attended`` of its start is asked several times a
    second; the arm is stopped some seconds after it last said True, or after this process was last
    heard of.
    """

    def state(self) -> DeskState:
        """Return the newest state."""

    def wait_change(self, seen: DeskState, timeout_s: float) -> DeskState:
        """Return the state once it is not ``seen`` any more, or after ``timeout_s``."""

    def running(self) -> RunView | None:
        """Return how the running rollout is doing, None when none runs."""

    def take(self, name: str, take_over: bool = False) -> None:
        """Become the one who commands."""

    def release(self) -> None:
        """Let go of control."""

    def open_session(self, evaluator: str, instruction: str, repeat: bool = False) -> None:
        """Fix evaluator and instruction and have a blind pair assigned."""

    def press(self, button: str, text: str = '') -> str:
        """Press a button, one of :class:`Button`; return what happened."""

    def start(self, slot: Slot, attended: Callable[[], bool] = always) -> None:
        """Start a slot's rollout; returns once it runs."""

    def stop(self) -> None:
        """Stop the arm now; return once it has confirmed rest. Needs no control."""

    def score(self, slot: Slot, verdict: Verdict) -> None:
        """Keep what ``verdict`` says of a slot's rollout."""

    def judge(self, verdict: Verdict) -> None:
        """Keep what ``verdict`` says of the pair: preference, why, and the rest."""

    def draft(self, verdict: Verdict, instruction: str = '') -> None:
        """Keep what was typed so far; what is not said stays as it was."""

    def submit(self) -> None:
        """Let go of the session for good."""

    def today(self) -> list[DeskState]:
        """Return today's sessions, newest first."""

    def views(self) -> tuple[str, ...]:
        """Return the views that can be shown, such as ``left_left``."""

    def frame(self, view: str) -> bytes | None:
        """Return the newest image of a view as a JPEG, None when there is none."""

    def reference(self, view: str) -> bytes | None:
        """Return the start photograph of a view as a JPEG, None when there is none."""


def shown(record: SessionRecord, control: str = '', doing: str = '', problem: str = '',
          live: Mapping[str, ViewMatch] | None = None, waiting: int = 0) -> DeskState:
    """Return what is shown of a record; ``live`` are matches newer than the record's."""
    views = live or {}
    matches = {name: one.score for name, one in views.items()} or dict(record.matches)
    match = min(matches.values()) if matches else record.match
    notice = ' '.join(text for text in (record.notice, problem) if text)
    reveal = record.reveal
    return DeskState(
        state=record.state, session_id=record.session_id, station=record.station,
        evaluator=record.evaluator, control=control, created_ns=record.created_ns,
        entered_ns=record.updated_ns, instruction=record.prompt, commitment=record.commitment,
        message=HINTS[record.state], doing=doing, notice=notice,
        checks=tuple(Check(str(c['name']), bool(c['ok']), str(c['detail']),
                           bool(c.get('warning', False)))
                     for c in record.checks),
        slots=tuple(_slot(record, slot) for slot in Slot), matches=matches, match=match,
        moved_cameras=moved_cameras(views), reset_confirmed=record.reset_confirmed,
        verdict=record.verdict, draft=record.draft, draft_instruction=record.draft_instruction,
        missing=record.missing(), waiting=waiting,
        policy_a=reveal.policy_a if reveal else '', policy_b=reveal.policy_b if reveal else '',
        verified=bool(record.verified))


def _slot(record: SessionRecord, slot: Slot) -> SlotView:
    one = record.slots[slot]
    return SlotView(slot, one.end.value if one.end else '', one.detail, one.steps)
