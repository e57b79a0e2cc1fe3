"""Recovery of a session after a restart, and the notice for the evaluator."""

import logging

from arena_robot.core.errors import ArenaError
from arena_robot.session.base import Arena
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import KeptSession, SessionStore
from arena_robot.session.protocol.submission import Submissions

log = logging.getLogger(__name__)

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
                'saw, or say that the session shall not count.')
    return ('The station was interrupted. Nothing that was entered is lost. '
            + _WHERE.get(session.state, ''))


def pick_up(store: SessionStore, arena: Arena, submissions: Submissions) -> KeptSession | None:
    """
    Return the session that was open when the station stopped, None when there was none.

    Submitted ones are added to ``submissions``; older unfinished ones are aborted.
    """
    current: KeptSession | None = None
    for folder in store.unfinished():
        try:
            session = store.resume(folder)
        except ArenaError as error:
            log.error('%s cannot be continued: %s', folder, error)
            continue
        if session.state is State.SUBMITTING:
            submissions.park(session)
            continue
        if current is not None:
            give_up(current, arena, 'left unfinished when another session was begun')
        current = session
    if current is not None:
        current.recovered(notice(current))
        current.write_summary()
    return current


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
