"""
Conductor: runs the sessions of a station with the protocol, the robot, the arena and the files.

Its methods are the commands of all clients of a session; any thread may call them. On an error
they raise an ArenaError that says what to do, and the session's state does not change.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from arena_robot.core.clock import Clock, JumpDetector
from arena_robot.core.config import nearest
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.core.errors import ArenaError, Conflict, ServerError, SessionError
from arena_robot.core.verdict import Plain, Verdict
from arena_robot.session.base import Arena, Audience, Check, Recorder, Scene, SessionConfig
from arena_robot.session.evaluator.checks import Control, check_clear
from arena_robot.session.evaluator.desk import REPAIRS, Button, DeskState, shown
from arena_robot.session.loop.match import ViewMatch, overall
from arena_robot.session.loop.preflight import preflight
from arena_robot.session.loop.robot_motions import RobotMotions
from arena_robot.session.loop.rollout import RolloutRequest
from arena_robot.session.protocol.record import SessionRecord
from arena_robot.session.protocol.recovery import end_recording, give_up, pick_up
from arena_robot.session.protocol.states import TRANSITIONS, Move, State
from arena_robot.session.protocol.store import KeptSession, SessionStore
from arena_robot.session.protocol.submission import NotReady, Submissions

log = logging.getLogger(__name__)
TICK_S = 1.0     # of the step count that a power failure may lose
WHOLE = (EndReason.DONE, EndReason.STOPPED, EndReason.TIMEOUT)    # if the recording is
START, RESET = 'start', 'reset'
T = TypeVar('T')
SOON_S = 0.05    # until the work that begins has said what it does


class Conductor:
    """
    Runs the sessions of one station.

    ``more_checks`` adds lines to the preflight; ``sign_in`` takes an evaluator's personal token
    and returns whose it is, where the arena asks for one.
    """

    def __init__(self, motions: RobotMotions, arena: Arena, store: SessionStore,
                 recorder: Recorder, scene: Scene, audience: Audience, clock: Clock,
                 config: SessionConfig, more_checks: Callable[[], list[Check]] = list,
                 sign_in: Callable[[str], str] | None = None) -> None:
        self.motions = motions
        self._arena = arena
        self._store = store
        self._recorder = recorder
        self._scene = scene
        self._audience = audience
        self._clock = clock
        self._config = config
        self._more_checks = more_checks
        self._sign_in = sign_in
        self.control = Control()
        self._submissions = Submissions(arena, recorder.ready, clock)
        self._session: KeptSession | None = None
        self._lock = threading.RLock()
        self.live: dict[str, ViewMatch] = {}
        self.problem = ''
        self._waits = ''    # what a submitted session waits for, such as its videos
        self._jumps = JumpDetector(clock)
        self._stops_confirmed = 0    # stops that came before the scene was confirmed

    @property
    def record(self) -> SessionRecord:
        """Return the record of the present session; an idle one when there is none."""
        session = self._session
        return session.record if session else SessionRecord(station=self._config.station.station)

    @property
    def repairs(self) -> tuple[str, ...]:
        """Return the buttons of :data:`REPAIRS` that arm or gripper need now, where possible."""
        if (self.record.state, Move.REPAIRING) not in TRANSITIONS:
            return ()
        needed = {Button.RECOVER: self.motions.arm_tripped(),
                  Button.ACTIVATE_GRIPPER: self.motions.gripper_failed()}
        return tuple(button for button, is_needed in needed.items() if is_needed)

    @property
    def waiting(self) -> int:
        """Return how many finished sessions are not uploaded yet."""
        return self._submissions.waiting

    def today(self) -> list[DeskState]:
        """Return today's sessions as shown, newest first."""
        return [shown(record) for record in self._store.today()]

    def shown(self) -> DeskState:
        """Return the state for display."""
        problem = ' '.join(text for text in (self.problem, self.motions.waiting) if text)
        waits = self._waits if self.record.state is State.SUBMITTING else ''
        return shown(self.record, self.control.holder, self.motions.doing or waits, problem,
                     self.live, self.waiting, self._config.outside_cameras, self.repairs,
                     self.record.driver)

    def controlled(self, token: str) -> 'Conductor':
        """Return this object to the client in control; Conflict for another's token."""
        self.control.check(token)
        return self

    def press(self, button: str, text: str = '') -> str:
        """Execute a command of :class:`Button`; return what happened, or who signed in."""
        if button == Button.SIGN_IN:
            if self._sign_in is None:
                raise SessionError('this station has no server; type who evaluates')
            return self._sign_in(text)
        buttons: Mapping[str, Callable[[], Any]] = {
            Button.CHECK: self.check,
            Button.PHOTOGRAPH: self.photograph,
            Button.DONE: lambda: self.stop(EndReason.DONE),
            Button.PREPARE_RESET: self.prepare_reset,
            Button.CONFIRM_RESET: self.confirm_reset,
            Button.INVALIDATE: lambda: self.invalidate(text),
            Button.REVALIDATE: self.revalidate,
            Button.RETRY: self.deliver,
            Button.RERUN: lambda: self.rerun(text),
            Button.ABORT: lambda: self.abort(text),
            Button.RECOVER: lambda: self._repair(button, self.motions.recover),
            Button.ACTIVATE_GRIPPER: lambda: self._repair(button, self.motions.activate_gripper),
        }
        if button not in buttons:
            raise SessionError(f"there is no button '{button}'.{nearest(button, buttons)}")
        if button in REPAIRS:
            check_clear(text)
        buttons[button]()
        return f'{button}: done'

    def open(self) -> None:
        """Have the arm hold, then continue the interrupted session, if there is one."""
        self._try(self.motions.parts.arm.stop, 'the arm could not be stopped')
        with self._lock:
            self._session = pick_up(self._store, self._arena, self._submissions, self._tell)
            if self._session:
                self.motions.remember(self._session.folder / START)
        end_recording(self._recorder)
        self._audience.changed()

    def close(self) -> None:
        """Stop the arm and close the files; the session continues at the next start."""
        if self.motions.doing:
            self._try(lambda: self.motions.stop(EndReason.INTERRUPTED), 'the arm may still move')
        with self._lock:
            if self._session:
                self._session.close()
            self._submissions.close()
            self._store.release()

    def upkeep(self) -> None:
        """Note a clock that was set, and what could not be written; call it every second."""
        jump_s = self._jumps.jump_s()
        with self._lock:
            if self._session and self._session.upkeep(jump_s):
                self._shown_to_all(self.record)

    def open_session(self, evaluator: str, instruction: str, repeat: bool = False,
                     third_person: str = '') -> DeskState:
        """Check the station if it was not checked, store the task, request a pair."""
        if not self.record.checks or self.record.state.is_final:
            self.check()
        self.enter_task(evaluator, instruction, repeat, third_person)
        return self.shown()

    def check(self) -> SessionRecord:
        """Check every part of the station; begins a new session when there is none."""
        checks = preflight(self.motions.parts, self._clock, self._store.root,
                           self._config.min_free_gb)
        checks += [self._recorder.check(), *self._more_checks()]
        with self._lock:
            session = self._fresh()
            return self._shown_to_all(session.checked(
                self._config.station.station, [check.plain() for check in checks]))

    def enter_task(self, evaluator: str, prompt: str, repeat: bool = False,
                   third_person: str = '') -> SessionRecord:
        """
        Store evaluator and instruction, then request a blind pair from the arena.

        ``third_person`` is the outside camera that a policy with only one sees, empty: the
        station's.
        """
        outside = self._config.outside_cameras
        if third_person and third_person not in outside:
            raise SessionError(f"there is no outside camera '{third_person}'; this station has "
                               f"{', '.join(outside) or 'none'}")
        with self._lock:
            session = self._open_session()
            earlier = [r.prompt for r in self._store.today()
                       if r.session_id != session.record.session_id and r.state is State.DONE]
            session.enter_task(evaluator, prompt, earlier, repeat,
                               third_person or next(iter(outside), 'left'))
            self._audience.changed()
            arm, station = self.motions.parts.arm.description(), self._config.station
            pair = self._arena.assign(
                replace(station, robot=arm.robot.name), session.record.evaluator,
                session.record.prompt, session.record.third_person)
            session.assigned(pair, station.equal_latency, arm.backend, arm.robot.name)
            session.adopt_id()
            return self._shown_to_all(session.record)

    def photograph(self) -> SessionRecord:
        """Move the arm to its reset pose and photograph the start scene."""
        session = self._in(State.ASSIGNED, State.START_PHOTOGRAPHED)
        announced(lambda: self.motions.photograph(session.folder / START), self._audience.changed)
        self._scene.keep()
        return self._shown_to_all(session.photographed(self.motions.start_photos))

    def run(self, slot: Slot, max_steps: int = 0) -> Episode:
        """Run a slot's policy to its end; blocks until then. ``max_steps`` above 0 shortens it."""
        session, stops = self._open_session(), self.motions.stops
        session.require_ready(slot)
        if session.state is State.RESET and stops != self._stops_confirmed:
            raise SessionError('STOP was pressed since the scene was confirmed; when it is safe, '
                               'confirm the scene again')
        record = session.record
        driver = self.motions.parts.arm.description().backend
        if driver != record.driver:
            raise SessionError(
                f'the arm is driven by {driver} now, and was by {record.driver} when the session '
                'began: both rollouts of a session are made with one driver. Start arm_node with '
                'it again, or close the session')
        job = RolloutRequest(record.session_id, slot, record.prompt, record.third_person)
        policy = self._arena.policy(job.session_id, slot)
        self._recorder.start(job.session_id, slot)
        try:
            with self.motions.rollout(job, policy, self._audience, max_steps, stops) as rollout:
                self._audience.episode(job, None)
                self._shown_to_all(session.started(slot))
                over = self._watch(session)
                try:
                    episode = rollout.run()
                finally:
                    over.set()
        except BaseException:
            self._try(lambda: self._recorder.stop(
                EndReason.INTERRUPTED, 'the rollout could not be carried out'),
                'the recording could not be finished')
            raise
        self._audience.episode(job, episode)
        if (kept := self._as_recorded(episode)) != episode:
            self._audience.episode(job, kept)
        with self._lock:
            if session.state.running is slot:
                session.ended(kept)
        self._shown_to_all(session.record)
        return kept

    def stop(self, reason: EndReason = EndReason.STOPPED, detail: str = '') -> None:
        """Bring the arm to rest now; a running rollout ends with ``reason``."""
        self.motions.stop(reason, detail)

    def score(self, slot: Slot, verdict: Verdict) -> SessionRecord:
        """Store the verdict on a slot's rollout."""
        config = self._config
        seconds = self.record.slots[slot].steps / config.rollout.control_rate_hz
        whole = config.extras.completed(verdict, slot, seconds)
        return self._change(lambda session: session.score(slot, whole))

    def rerun(self, reason: str = '') -> SessionRecord:
        """Run the slot that has just ended again, after a reset; see :meth:`Session.rerun`."""
        return self._change(lambda session: session.rerun(reason))

    def prepare_reset(self) -> None:
        """Move the arm to its reset pose; in simulation, also restore the scene."""
        self._in(State.RESET)
        announced(self.motions.home, self._audience.changed)
        self._scene.restore()
        self.look()

    def look(self) -> None:
        """Compare the live views with the start photographs, for display."""
        self.live = self.motions.match()
        self._audience.changed()

    def confirm_reset(self) -> SessionRecord:
        """Photograph and compare the scene once more, and store the evaluator's confirmation."""
        session, stops = self._in(State.RESET), self.motions.stops
        self.live = announced(lambda: self.motions.keep_reset(session.folder / RESET),
                              self._audience.changed)
        with self._lock:
            if self.live:
                session.matched(overall(self.live), {k: m.score for k, m in self.live.items()})
            self._stops_confirmed = stops
            return self._shown_to_all(session.confirm_reset())

    def judge(self, verdict: Verdict) -> SessionRecord:
        """Store the verdict on the pair."""
        return self._change(lambda session: session.judge(verdict))

    def draft(self, words: Mapping[str, Plain]) -> SessionRecord:
        """Store what was typed and is not final."""
        return self._change(lambda session: session.draft(words))

    def invalidate(self, reason: str) -> SessionRecord:
        """Mark the session as not counting, with the reason."""
        return self._change(lambda session: session.invalidate(reason))

    def revalidate(self) -> SessionRecord:
        """Mark the session as counting again."""
        return self._change(lambda session: session.revalidate())

    def submit(self) -> SessionRecord:
        """Submit the session; :meth:`deliver` then uploads it."""
        return self._change(lambda session: session.submit())

    def deliver(self) -> None:
        """Upload finished sessions; what cannot be sent now is sent by the next call."""
        if self.record.state is not State.SUBMITTING:
            self._submissions.deliver()
            return
        session, before = self._session, (self.record, self.problem, self._waits)
        problem = waits = ''
        try:
            self._submissions.deliver(session)
        except NotReady as error:
            waits = str(error)
        except ArenaError as error:
            problem = f'the session is safe here and will be sent: {error}'
        if session is not self._session:    # the next one began meanwhile
            return
        self.problem, self._waits = problem, waits
        if before != (self.record, problem, waits):
            self._shown_to_all(self.record)

    def heartbeat(self) -> None:
        """Send a heartbeat; a session that the arena has cancelled is aborted here."""
        record = self.record
        if record.state.is_final or record.state is State.SUBMITTING or not record.session_id:
            return
        try:
            self._arena.heartbeat(record.session_id, record.state.value)
        except Conflict as error:
            self.abort(f'the arena cancelled the session: {error}')
        except ServerError as error:
            log.warning('no heartbeat to the arena: %s', error)

    def abort(self, reason: str = '') -> SessionRecord:
        """Stop the arm and end the session without a verdict."""
        self.motions.stop(EndReason.STOPPED)
        with self._lock:
            session = self._open_session()
            give_up(session, self._arena, reason)
            return self._shown_to_all(session.record)

    def _fresh(self) -> KeptSession:
        session = self._session
        if session is not None and session.state is State.SUBMITTING:
            self._submissions.park(session)
            session = None
        elif session and session.state.is_final:
            session.close()
            session = None
        if session is None:
            session = self._session = self._store.begin()
            self.live, self.problem = {}, ''
        return session

    def _repair(self, button: str, work: Callable[[], None]) -> None:
        """Recover the arm or activate the gripper; who asked and how it ended are stored."""
        if self.motions.doing:
            raise SessionError(f'wait: {self.motions.doing}')
        session, by = self._open_session(), (self.record.evaluator, self.control.holder)
        repair = session.repairing(button, ', '.join(filter(None, by)) or 'nobody in control')
        result = 'the station failed'
        try:
            announced(work, self._audience.changed)
            result = 'done'
        except ArenaError as error:
            result = str(error)
            raise
        finally:
            if session.is_open:
                self._try(lambda: self._shown_to_all(session.repaired(repair, result)),
                          'the end of the repair could not be stored')

    def _change(self, change: Callable[[KeptSession], SessionRecord]) -> SessionRecord:
        with self._lock:
            return self._shown_to_all(change(self._open_session()))

    def _open_session(self) -> KeptSession:
        if self._session is None:
            raise SessionError('no session is going on; check the station to begin one')
        return self._session

    def _in(self, *states: State) -> KeptSession:
        (session := self._open_session()).require(*states)
        return session

    def _watch(self, session: KeptSession) -> threading.Event:
        """Once a second store the step count and check the recorder, outside the loop's thread."""
        def look() -> bool:
            with self._lock:
                if not session.is_open:
                    return False
                if session.state.running and (steps := self.motions.steps):
                    session.ticked(steps)
            if lost := self._recorder.lost():
                self._try(lambda: self.motions.stop(EndReason.INTERRUPTED, lost),
                          'the arm may still move')
            return not lost
        return repeated(look, TICK_S, 'journal ticks')

    def _as_recorded(self, episode: Episode) -> Episode:
        """
        Finish the recording; an episode that is not whole there was interrupted by the station.

        One that ended by a failure keeps its end.
        """
        try:
            recorded = self._recorder.stop(episode.end, episode.detail, episode.steps)
            missing = recorded.lacks(episode) if recorded else ''
        except (ArenaError, OSError) as error:
            missing = str(error)
        if not missing:
            return episode
        problem = f'the recording of {episode.slot.value} is not whole: {missing}'
        self._tell(problem)
        end = EndReason.INTERRUPTED if episode.end in WHOLE else episode.end
        ended = f'it ended as {episode.end.value}' if end is not episode.end else ''
        return replace(episode, end=end, detail='; '.join(
            part for part in (ended, episode.detail, problem) if part))

    def _shown_to_all(self, record: SessionRecord) -> SessionRecord:
        if self._session is not None and not record.state.is_final:
            self._try(self._session.write_summary, 'session.json could not be written')
        self._audience.changed()
        return record

    def _try(self, work: Callable[[], object], what: str) -> None:
        try:
            work()
        except (ArenaError, OSError) as error:
            self._tell(f'{what}: {error}')

    def _tell(self, problem: str) -> None:
        self.problem = problem
        log.error(problem)


def announced(work: Callable[[], T], changed: Callable[[], None]) -> T:
    """Return what ``work`` returns; ``changed`` is called soon after it begins, and at its end."""
    timer = threading.Timer(SOON_S, changed)
    timer.start()
    try:
        return work()
    finally:
        timer.cancel()
        changed()


def repeated(look: Callable[[], bool], period_s: float, name: str) -> threading.Event:
    """Call ``look`` every ``period_s`` in a thread until it returns False or the event is set."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(period_s):
            if not look():
                return
    threading.Thread(target=run, name=name, daemon=True).start()
    return over
