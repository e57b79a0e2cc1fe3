"""
States of a session and the allowed transitions.

::

    idle → preflight → task entered → assigned → start photographed → running A → scoring A
         → reset → running B → scoring B → preference → review → submitting → done

A rollout that the station or the evaluator spoiled is run again: scoring A or B → reset → running
the same slot. ``aborted`` can be reached from every open state but the first; an invalid session
goes straight to ``review``. Transitions that are not in :data:`TRANSITIONS` are refused.
"""

from collections.abc import Mapping
from enum import Enum

from arena_robot.core.episode import Slot


class State(str, Enum):
    """State of a session."""

    IDLE = 'idle'
    PREFLIGHT = 'preflight'
    TASK_ENTERED = 'task_entered'
    ASSIGNED = 'assigned'
    START_PHOTOGRAPHED = 'start_photographed'
    RUNNING_A = 'running_a'
    SCORING_A = 'scoring_a'
    RESET = 'reset'
    RUNNING_B = 'running_b'
    SCORING_B = 'scoring_b'
    PREFERENCE = 'preference'
    REVIEW = 'review'
    SUBMITTING = 'submitting'
    DONE = 'done'
    ABORTED = 'aborted'

    @property
    def is_final(self) -> bool:
        """Whether the session has ended."""
        return self in (State.DONE, State.ABORTED)

    @property
    def running(self) -> Slot | None:
        """Return the slot whose policy moves the arm in this state."""
        return {State.RUNNING_A: Slot.A, State.RUNNING_B: Slot.B}.get(self)


class Move(str, Enum):
    """Events of a session, as named in the journal."""

    CHECKED = 'checked'              # the preflight ran
    TASK = 'task'                    # the evaluator entered the instruction
    ASSIGNED = 'assigned'            # the arena assigned a blind pair
    PHOTOGRAPHED = 'photographed'    # the start scene was photographed
    STARTED_A = 'started_a'
    STARTED_B = 'started_b'
    TICKED = 'ticked'                # a rollout is running, with its step count
    ENDED = 'ended'                  # a rollout ended
    RERUN = 'rerun'                  # the rollout does not count: the slot is run again
    SCORED_A = 'scored_a'
    SCORED_B = 'scored_b'
    MATCHED = 'matched'              # the scene was compared with its start
    RESET = 'reset'                  # the evaluator confirmed the reset
    PREFERRED = 'preferred'          # preference and explanation
    DRAFTED = 'drafted'              # texts typed and not yet entered
    INVALIDATED = 'invalidated'      # the comparison shall not count
    REVALIDATED = 'revalidated'      # it counts again
    SUBMITTED = 'submitted'          # the evaluator submitted it
    DELIVERED = 'delivered'          # the arena has one part of it
    REVEALED = 'revealed'            # the arena revealed the pair
    UNREVEALED = 'unrevealed'        # the arena has everything and does not reveal the pair
    RECOVERED = 'recovered'          # the session was found unfinished after a restart
    ABORTED = 'aborted'
    CLOCK_SET = 'clock_set'          # somebody set the station's clock
    REPAIRING = 'repairing'          # somebody asked to recover the arm or activate the gripper
    REPAIRED = 'repaired'            # that ended, well or not
    SALVAGED = 'salvaged'            # lines of the journal were lost; the state after them


_S, _M = State, Move

_MAIN: dict[tuple[State, Move], State] = {
    (_S.IDLE, _M.CHECKED): _S.PREFLIGHT,
    (_S.PREFLIGHT, _M.CHECKED): _S.PREFLIGHT,
    (_S.PREFLIGHT, _M.TASK): _S.TASK_ENTERED,
    (_S.TASK_ENTERED, _M.TASK): _S.TASK_ENTERED,
    (_S.TASK_ENTERED, _M.ASSIGNED): _S.ASSIGNED,
    (_S.ASSIGNED, _M.PHOTOGRAPHED): _S.START_PHOTOGRAPHED,
    (_S.START_PHOTOGRAPHED, _M.PHOTOGRAPHED): _S.START_PHOTOGRAPHED,
    (_S.START_PHOTOGRAPHED, _M.STARTED_A): _S.RUNNING_A,
    (_S.RUNNING_A, _M.TICKED): _S.RUNNING_A,
    (_S.RUNNING_A, _M.ENDED): _S.SCORING_A,
    (_S.SCORING_A, _M.SCORED_A): _S.RESET,
    (_S.SCORING_A, _M.RERUN): _S.RESET,
    (_S.SCORING_B, _M.RERUN): _S.RESET,
    (_S.RESET, _M.SCORED_A): _S.RESET,
    (_S.RESET, _M.MATCHED): _S.RESET,
    (_S.RESET, _M.RESET): _S.RESET,
    (_S.RESET, _M.STARTED_A): _S.RUNNING_A,
    (_S.RESET, _M.STARTED_B): _S.RUNNING_B,
    (_S.RUNNING_B, _M.TICKED): _S.RUNNING_B,
    (_S.RUNNING_B, _M.ENDED): _S.SCORING_B,
    (_S.SCORING_B, _M.SCORED_B): _S.PREFERENCE,
    (_S.PREFERENCE, _M.SCORED_A): _S.PREFERENCE,
    (_S.PREFERENCE, _M.SCORED_B): _S.PREFERENCE,
    (_S.PREFERENCE, _M.PREFERRED): _S.REVIEW,
    (_S.REVIEW, _M.SCORED_A): _S.REVIEW,
    (_S.REVIEW, _M.SCORED_B): _S.REVIEW,
    (_S.REVIEW, _M.PREFERRED): _S.REVIEW,
    (_S.REVIEW, _M.REVALIDATED): _S.REVIEW,
    (_S.REVIEW, _M.SUBMITTED): _S.SUBMITTING,
    (_S.SUBMITTING, _M.DELIVERED): _S.SUBMITTING,
    (_S.SUBMITTING, _M.REVEALED): _S.DONE,
    (_S.SUBMITTING, _M.UNREVEALED): _S.DONE,
}

# After a restart no rollout runs: one that was running has ended.
_AFTER_RESTART = {_S.RUNNING_A: _S.SCORING_A, _S.RUNNING_B: _S.SCORING_B}

# While the arm moves, only the end of the rollout changes the state.
_CAN_INVALIDATE = (_S.ASSIGNED, _S.START_PHOTOGRAPHED, _S.SCORING_A, _S.RESET, _S.SCORING_B,
                   _S.PREFERENCE, _S.REVIEW)
_CAN_REPAIR = (_S.PREFLIGHT, _S.TASK_ENTERED, *_CAN_INVALIDATE)
_CAN_DRAFT = (_S.RUNNING_A, _S.RUNNING_B, *_CAN_REPAIR)
_CAN_ABORT = (*_CAN_DRAFT, _S.SUBMITTING)
_OPEN = tuple(state for state in State if state is not _S.IDLE and not state.is_final)

TRANSITIONS: Mapping[tuple[State, Move], State] = {
    **_MAIN,
    **{(state, _M.INVALIDATED): _S.REVIEW for state in _CAN_INVALIDATE},
    **{(state, _M.ABORTED): _S.ABORTED for state in _CAN_ABORT},
    **{(state, _M.DRAFTED): state for state in _CAN_DRAFT},
    **{(state, _M.RECOVERED): _AFTER_RESTART.get(state, state) for state in _OPEN},
    **{(state, _M.CLOCK_SET): state for state in _OPEN},
    **{(state, _M.REPAIRING): state for state in _CAN_REPAIR},
    **{(state, _M.REPAIRED): state for state in _OPEN},
}


def possible(state: State) -> tuple[Move, ...]:
    """Return the events allowed in ``state``, in the order of :class:`Move`."""
    return tuple(move for move in Move if (state, move) in TRANSITIONS)
