"""Scripted evaluator, for demonstrations, tests and unattended runs."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import Verdict
from arena_robot.records.session_file import RerunCause
from arena_robot.session.evaluator.desk import Button, Desk, DeskState
from arena_robot.session.protocol.states import State

log = logging.getLogger(__name__)

EPSILON = 0.02    # progress that differs by less is a tie
WAIT_S = 120.0    # for one state: a rollout of MAX_STEPS takes less
# An assignment by a server takes less than this.
ASSIGN_S = 5
READY_TRIES = 30    # checks of a station that is still starting


@dataclass(frozen=True)
class Script:
    """Evaluator, instruction, and the oracle's progress of the rollout: ``progress()`` 0 to 1."""

    evaluator: str
    instruction: str
    progress: Callable[[], float]


class Scripted:
    """
    Runs a session through a desk, starting in any state.

    Ends a rollout as done when the oracle says 1, scores by the oracle, prefers the higher score.
    """

    def __init__(self, desk: Desk, script: Script,
                 tell: Callable[[DeskState], None] = lambda state: None) -> None:
        self._desk = desk
        self._script = script
        self._tell = tell

    def run(self) -> DeskState:
        """Return the final state of the session. Raises SessionError when it does not advance."""
        desk = self._desk
        finished = desk.state()
        if finished.state.is_final:
            desk.press(Button.CHECK)
            self._settle(finished)
        while not desk.state().state.is_final:
            before = desk.state()
            self._tell(before)
            self._act(before)
            self._settle(before)
        self._tell(desk.state())
        return desk.state()

    def _act(self, seen: DeskState) -> None:
        desk, script = self._desk, self._script
        if seen.state is State.IDLE:
            desk.press(Button.CHECK)
        elif seen.state is State.PREFLIGHT or self._stays(seen):
            self._make_ready()
            desk.open_session(script.evaluator, script.instruction, repeat=True)
        elif seen.state is State.ASSIGNED:
            desk.press(Button.PHOTOGRAPH)
        elif seen.state is State.START_PHOTOGRAPHED:
            self._roll(Slot.A)
        elif any(slot.again == RerunCause.FAULT for slot in seen.slots):
            desk.press(Button.RERUN)
        elif seen.state is State.SCORING_A:
            desk.score(Slot.A, Verdict(progress_a=script.progress()))
        elif seen.state is State.RESET:
            desk.press(Button.PREPARE_RESET)
            desk.press(Button.CONFIRM_RESET)
            self._roll(Slot.B if seen.slots[0].end else Slot.A)
        elif seen.state is State.SCORING_B:
            desk.score(Slot.B, Verdict(progress_b=script.progress()))
        elif seen.state is State.PREFERENCE:
            self._judge(seen)
        elif seen.state is State.REVIEW:
            desk.submit()

    def _roll(self, slot: Slot) -> None:
        self._desk.start(slot)
        state = self._desk.state()
        while state.state.running:
            if self._script.progress() >= 1.0:
                self._desk.press(Button.DONE)
            self._tell(state)
            state = self._desk.wait_change(state, 0.2)

    def _judge(self, seen: DeskState) -> None:
        a, b = seen.verdict.progress_a or 0.0, seen.verdict.progress_b or 0.0
        better = Preference.A if a > b else Preference.B
        self._desk.judge(Verdict(
            preference=Preference.TIE if abs(a - b) < EPSILON else better,
            explanation=f'the oracle saw A at {100 * a:.0f} and B at {100 * b:.0f} of 100'))

    def _make_ready(self) -> None:
        """Repeat the checks while they fail: a station that was just started needs some time."""
        seen = self._desk.state()
        for _ in range(READY_TRIES):
            if seen.ready or seen.state is not State.PREFLIGHT:
                return
            self._desk.press(Button.CHECK)
            seen = self._desk.wait_change(seen, 1.0)

    def _stays(self, seen: DeskState) -> bool:
        """Return whether a session with a task stays without policies, as after a restart."""
        if seen.state is not State.TASK_ENTERED:
            return False
        for _ in range(ASSIGN_S):
            seen = self._desk.wait_change(seen, 1.0)
            if seen.state is not State.TASK_ENTERED:
                return False
        return True

    def _settle(self, before: DeskState) -> None:
        """Wait until the state has changed; it may arrive after the answer."""
        state = self._desk.state()
        waited = 0.0
        while state.state is before.state:
            if waited > WAIT_S:
                raise SessionError(f"the session is stuck in '{state.state.value}': "
                                   f'{state.notice or state.message}')
            state = self._desk.wait_change(state, 1.0)
            waited += 1.0
