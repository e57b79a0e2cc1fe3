"""Runs the sessions of the demonstration one after the other with a scripted evaluator."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from arena_robot.core.episode import EndReason
from arena_robot.core.errors import ArenaError, SessionError
from arena_robot.demo.plan import SessionPlan
from arena_robot.nodes.remote.scene import SceneClient
from arena_robot.records.session_file import JOURNAL, read_journal
from arena_robot.session.evaluator.desk import Button, Desk, DeskState, shown
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.record import replay
from arena_robot.session.protocol.states import State

log = logging.getLogger(__name__)

READY_S, DELIVER_S = 40.0, 60.0    # for the station's nodes, and an upload, on a busy machine
TRIES, AGAIN_S = 4, 1.0            # of a call that a busy machine answers too late
RESUMABLE = (State.TASK_ENTERED, State.ASSIGNED, State.START_PHOTOGRAPHED, State.RESET,
             State.PREFERENCE, State.REVIEW)
# End reasons that the slow machine causes, not the policy.
BLAMELESS = (EndReason.SAFETY_STOP.value, EndReason.DRIVER_ERROR.value,
             EndReason.INTERRUPTED.value)


class DemoTournament:
    """Runs sessions through a session node's desk, in scenes of a simulated station."""

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
        Return whether an earlier run's unfinished session can be continued, else close it.

        The scene is set up again; an interrupted rollout cannot be scored.
        """
        state = self._desk.state().state
        if state.is_final or state in (State.IDLE, State.PREFLIGHT):
            return False
        if state not in RESUMABLE:
            self._desk.press(Button.ABORT, 'the demonstration was interrupted during a rollout')
            return False
        self._instruction = self._scene.set_up(job.task, job.seed)
        if state in (State.START_PHOTOGRAPHED, State.RESET):    # the new simulation knows no start
            self._scene.keep()
        return True

    def run(self, job: SessionPlan, named: Callable[[str], None], fresh: bool = True) -> DeskState:
        """
        Run or continue one session to its end; ``named`` is called with its id at once.

        It is aborted when a rollout ended because of the machine, not the policy.
        """
        if fresh:
            self._instruction = self._scene.set_up(job.task, job.seed)
            self._make_ready()
        announced: list[str] = []

        def tell(state: DeskState) -> None:
            if state.session_id and not announced:
                announced.append(state.session_id)
                named(state.session_id)
            self._derived(state)

        script = Script(self._evaluator, self._instruction, self._scene.progress)
        return _Patient(self._desk, script, tell, self._alive).run()

    def _make_ready(self) -> None:
        """Repeat the preflight until every check passes, which takes a while after the start."""
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
    """Return the state from the journal in a session's folder; idle when there is none."""
    path = folder / JOURNAL
    return shown(replay(read_journal(path))) if path.exists() else DeskState()


def delivered(folder: Path, alive: Callable[[], None]) -> DeskState | None:
    """
    Return a session submitted before an interruption, once it is uploaded completely.

    None when it was not submitted. Raises SessionError when it takes too long.
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
    A scripted evaluator that checks before each command that all processes run.

    A failed command is repeated, as a person would press the button again.
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
