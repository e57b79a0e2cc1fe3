"""The sessions of the demonstration, one after the other, as a scripted evaluator leads them."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from arena_robot.core.episode import EndReason
from arena_robot.core.errors import ArenaError, SessionError
from arena_robot.demo.plan import SessionPlan
from arena_robot.nodes.remote.scene import SceneClient
from arena_robot.session.evaluator.desk import Button, Desk, DeskState, shown
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.journal import JOURNAL, read_journal
from arena_robot.session.protocol.record import replay
from arena_robot.session.protocol.states import State

log = logging.getLogger(__name__)

READY_S, DELIVER_S = 40.0, 60.0
TRIES, AGAIN_S = 4, 1.0
RESUMABLE = (State.TASK_ENTERED, State.ASSIGNED, State.START_PHOTOGRAPHED, State.RESET,
             State.PREFERENCE, State.REVIEW)
# Ends of a rollout for which no policy is to blame, only the machine that simulates.
BLAMELESS = (EndReason.SAFETY_STOP.value, EndReason.DRIVER_ERROR.value,
             EndReason.INTERRUPTED.value)


class DemoTournament:
    """Leads sessions on the desk of a session node, in scenes of a simulated station."""

    def __init__(self, desk: Desk, scene: SceneClient, evaluator: str,
                 alive: Callable[[], None], derived: Callable[[DeskState], None]) -> None:
        self._desk = desk
        self._scene = scene
        self._evaluator = evaluator
        self._alive = alive
        self._derived = derived
        self._instruction = ''

    def pick_up(self, job: SessionPlan) -> bool:
        """
        Return whether the session that an earlier run left can be gone on with, else close it.

        A scene is set up again as it was; a rollout that was cut off cannot be judged.
        """
        state = self._desk.state().state
        if state.is_final or state in (State.IDLE, State.PREFLIGHT):
            return False
        if state not in RESUMABLE:
            self._desk.press(Button.ABORT, 'the demonstration was interrupted during a rollout')
            return False
        self._instruction = self._scene.set_up(job.task, job.seed)
        if state is State.RESET:
            self._scene.keep()
        return True

    def run(self, job: SessionPlan, named: Callable[[str], None], fresh: bool = True) -> DeskState:
        """
        Run one session to its end, or go on with one; ``named`` is told its id at once.

        It ends as aborted when the machine, not a policy, ended a rollout.
        """
        if fresh:
            self._instruction = self._scene.set_up(job.task, job.seed)
            self._make_ready()
        told: list[str] = []

        def tell(state: DeskState) -> None:
            if state.session_id and not told:
                told.append(state.session_id)
                named(state.session_id)
            self._derived(state)

        script = Script(self._evaluator, self._instruction, self._scene.progress)
        return _Patient(self._desk, script, tell, self._alive).run()

    def _make_ready(self) -> None:
        """Check the station until everything is there, which takes a while after its start."""
        end_s = time.monotonic() + READY_S
        while True:
            self._alive()
            self._desk.press(Button.CHECK)
            seen = self._desk.state()
            if seen.state is State.PREFLIGHT and seen.ready:
                return
            if time.monotonic() > end_s:
                wrong = '; '.join(check.detail for check in seen.checks if not check.ok)
                raise SessionError(f'the station is not ready after {READY_S:g} s: {wrong}')
            time.sleep(0.2)


def on_disk(folder: Path) -> DeskState:
    """Return what the journal in a session's folder says; idle when there is none."""
    path = folder / JOURNAL
    return shown(replay(read_journal(path))) if path.exists() else DeskState()


def delivered(folder: Path, alive: Callable[[], None]) -> DeskState | None:
    """
    Return a session that was submitted before an interruption, once the arena has all of it.

    None when it had not come so far. Raises SessionError when it takes too long.
    """
    end_s = time.monotonic() + DELIVER_S
    while True:
        state = on_disk(folder)
        if state.state is State.DONE:
            return state
        if state.state is not State.SUBMITTING:
            return None
        alive()
        if time.monotonic() > end_s:
            raise SessionError(f'{folder.name} was submitted, and the arena has not taken it '
                               f'within {DELIVER_S:g} s; see the log of the session node')
        time.sleep(0.2)


class _Patient(Scripted):
    """
    A script that looks before each act whether everything is still running.

    What fails is tried again, as a person would press the button again.
    """

    def __init__(self, desk: Desk, script: Script, tell: Callable[[DeskState], None],
                 alive: Callable[[], None]) -> None:
        super().__init__(desk, script, tell)
        self._alive = alive

    def _act(self, seen: DeskState) -> None:
        broken = [slot for slot in seen.slots if slot.end in BLAMELESS]
        if broken:
            self._desk.press(Button.ABORT, f'the machine ended {broken[0].slot.value}: '
                             f'{broken[0].detail or broken[0].end}')
            return
        for left in reversed(range(TRIES)):
            self._alive()
            try:
                super()._act(seen)
                return
            except ArenaError as error:
                if self._desk.state().state is not seen.state:
                    log.warning('in %s: %s; it happened all the same', seen.state.value, error)
                    return
                if not left:
                    raise
                log.warning('in %s: %s; tried again', seen.state.value, error)
                time.sleep(AGAIN_S)
