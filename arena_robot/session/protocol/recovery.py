"""Recovery of a session after a restart, and the notice for the evaluator."""

import logging
from collections.abc import Callable
from contextlib import suppress

from arena_robot.core.episode import EndReason
from arena_robot.core.errors import ArenaError, RecordingError, SessionError
from arena_robot.session.base import Arena, Recorder
from arena_robot.session.protocol.salvage import DAMAGED
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import InUse, KeptSession, SessionStore
from arena_robot.session.protocol.submission import Submissions

log = logging.getLogger(__name__)

FIND_RECORDER = 4    # checks; a recorder that starts with the session node is found by then

_WHERE = {
    State.PREFLIGHT: 'Check the station again.',
    State.TASK_ENTERED: 'Request the pair again.',
    State.ASSIGNED: 'Continue with the start photograph.',
    State.START_PHOTOGRAPHED: 'Check that the scene is still as photographed, then start A.',
    State.SCORING_A: 'Continue with the score of A.',
    State.RESET: 'Continue with the reset.',
    State.SCORING_B: 'Continue with the score of B.',
    State.PREFERENCE: 'Continue with the preference.',
    State.REVIEW: 'Continue with the review.',
}


def notice(session: KeptSession) -> str:
    """Return the notice about an interruption, two or three sentences."""
    slot = session.state.running
    if slot is not None:
        steps = session.record.slots[slot].steps
        return (f'The station was interrupted while {slot.value} was running. The arm was '
                f'stopped after about {steps} steps; what was recorded is kept. Score what you '
                'saw, or say that the session should not count.')
    damaged = session.record.notice if DAMAGED in session.record.notice else ''
    kept = damaged or 'Nothing that was entered is lost.'
    return f"The station was interrupted. {kept} {_WHERE.get(session.state, '')}".strip()


def pick_up(store: SessionStore, arena: Arena, submissions: Submissions,
            tell: Callable[[str], None] = log.error) -> KeptSession | None:
    """
    Return the session that was open when the station stopped, None when there was none.

    Submitted ones are added to ``submissions``; older unfinished ones are aborted. One that cannot
    be read or continued is passed to ``tell`` and left as it is; the station starts anyway. Raises
    SessionError when another process runs sessions in the folder.
    """
    try:
        store.hold()
    except InUse:
        raise
    except SessionError as error:
        tell(str(error))
    current: KeptSession | None = None
    for folder in store.unfinished(tell):
        try:
            session = store.resume(folder)
        except Exception as error:  # whatever is in one folder must not stop the others
            tell(f'{folder} cannot be continued now: {error}')
            continue
        if session.state is State.SUBMITTING:
            submissions.park(session)
            continue
        if current is not None:
            _leave(current, arena, tell)
        current = session
    if current is not None:
        try:
            current.interrupted(notice(current))
            current.write_summary()
        except OSError as error:
            tell(f'{current.folder}: session.json could not be written: {error.strerror}')
    return current


def end_recording(recorder: Recorder) -> None:
    """End what a recorder may still record for a session node that was killed."""
    # It keeps recording until `stop`; after a restart it is asked up to four times.
    if any(recorder.check().ok for _ in range(FIND_RECORDER)):
        with suppress(RecordingError):    # usually nothing is being recorded
            recorder.stop(EndReason.INTERRUPTED, 'the station restarted')


def _leave(session: KeptSession, arena: Arena, tell: Callable[[str], None]) -> None:
    try:
        give_up(session, arena, 'left unfinished when another session was begun')
    except (ArenaError, OSError) as error:
        session.close()
        tell(f'{session.folder} could not be aborted: {error}')


def give_up(session: KeptSession, arena: Arena, reason: str) -> None:
    """Abort a session here and, if possible, at the arena; close its files."""
    session.abort(reason)
    session.write_summary()
    if session.record.session_id:
        try:
            arena.abort(session.record.session_id, reason)
        except ArenaError as error:
            log.warning('the arena was not told that a session was aborted: %s', error)
    session.close()
