"""Access to a conductor: control token, commands by button name, and the shown state."""

from collections.abc import Callable, Mapping
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.episode import EndReason
from arena_robot.core.errors import SessionError
from arena_robot.session.evaluator.control import Control
from arena_robot.session.evaluator.desk import Button, DeskState, shown
from arena_robot.session.ports import Check
from arena_robot.session.protocol.conductor import Conductor


class EvaluatorAccess:
    """
    The common entry for all clients of a session: checks the token, calls the conductor.

    ``more_checks`` adds lines to the preflight; ``sign_in`` takes an evaluator's personal token
    and returns whose it is, where the arena asks for one. Methods raise an ArenaError that says
    what to do.
    """

    def __init__(self, conductor: Conductor,
                 more_checks: Callable[[], list[Check]] = list,
                 sign_in: Callable[[str], str] | None = None) -> None:
        self._sign_in = sign_in
        self.conductor = conductor
        self.control = Control()
        self._more_checks = more_checks

    def shown(self) -> DeskState:
        """Return the state for display."""
        conductor = self.conductor
        problem = ' '.join(one for one in (conductor.problem, conductor.motions.waiting) if one)
        return shown(conductor.record, self.control.holder, conductor.motions.doing, problem,
                     conductor.live, conductor.waiting)

    def today(self) -> list[DeskState]:
        """Return today's sessions as shown, newest first."""
        return [shown(record) for record in self.conductor.today()]

    def open_session(self, token: str, evaluator: str, instruction: str,
                     repeat: bool = False) -> DeskState:
        """Check the station if it was not checked, store the task, request a pair."""
        self.control.check(token)
        if not self.shown().checks or self.conductor.record.state.is_final:
            self.conductor.check(self._more_checks)
        self.conductor.enter_task(evaluator, instruction, repeat)
        return self.shown()

    def press(self, token: str, button: str, text: str = '') -> str:
        """Execute a command of :class:`Button`; return what happened, or who signed in."""
        self.control.check(token)
        if button == Button.SIGN_IN:
            if self._sign_in is None:
                raise SessionError('this station has no server; type who evaluates')
            return self._sign_in(text)
        buttons = self._buttons(text)
        if button not in buttons:
            raise SessionError(f"there is no button '{button}'.{nearest(button, buttons)}")
        buttons[button]()
        return f'{button}: done'

    def commands(self, token: str) -> Conductor:
        """Return the conductor, after checking the caller's token."""
        self.control.check(token)
        return self.conductor

    def _buttons(self, text: str) -> Mapping[str, Callable[[], Any]]:
        conductor = self.conductor
        return {
            Button.CHECK: lambda: conductor.check(self._more_checks),
            Button.PHOTOGRAPH: conductor.photograph,
            Button.DONE: lambda: conductor.stop(EndReason.DONE),
            Button.PREPARE_RESET: conductor.prepare_reset,
            Button.CONFIRM_RESET: conductor.confirm_reset,
            Button.INVALIDATE: lambda: conductor.invalidate(text),
            Button.REVALIDATE: conductor.revalidate,
            Button.RETRY: conductor.deliver,
            Button.RERUN: lambda: conductor.rerun(text),
            Button.ABORT: lambda: conductor.abort(text),
        }
