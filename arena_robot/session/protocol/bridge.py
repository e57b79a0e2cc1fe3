"""The state that lost lines of a journal led to, from the moves before and after them."""

from collections.abc import Sequence

from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.session.protocol.states import TRANSITIONS, Move, State

# These moves leave the protocol's order, so they are not assumed for lost lines.
_ASIDE = (Move.INVALIDATED, Move.ABORTED, Move.RERUN)
_STARTS = {Slot.A: Move.STARTED_A, Slot.B: Move.STARTED_B}
_SCORES = {Slot.A: Move.SCORED_A, Slot.B: Move.SCORED_B}
_ROLLOUTS = {State.RUNNING_A: Slot.A, State.SCORING_A: Slot.A,
             State.RUNNING_B: Slot.B, State.SCORING_B: Slot.B}
_AFTER_RERUN = (Move.MATCHED, Move.RESET, Move.STARTED_A, Move.STARTED_B, Move.TICKED, Move.ENDED)


def state_before(state: State, move: Move, next_slot: Slot) -> State:
    """
    Return the state nearest to ``state`` in which ``move`` is allowed.

    ``next_slot`` is run after a reset. DataError when no state that can follow allows the move.
    """
    found, waiting = {state}, [state]
    for one in waiting:
        if (one, move) in TRANSITIONS:
            return one
        for following in _following(one, next_slot):
            if following not in found:
                found.add(following)
                waiting.append(following)
    raise DataError(f"'{move.value}' does not follow '{state.value}'")


def _following(state: State, next_slot: Slot) -> list[State]:
    return [after for (before, move), after in sorted(
        TRANSITIONS.items(), key=lambda one: one[0][1] is not _STARTS[next_slot])
        if before is state and move not in _ASIDE]


def ran_again(state: State, move: Move, moves: Sequence[str]) -> Slot | None:
    """
    Return the slot that was run again in lost lines, None when none was.

    ``move`` is the first readable one behind ``state``, and ``moves`` are all from it on. After a
    rollout of A a reset can also mean that its score is lost: the next start tells.
    """
    slot = _ROLLOUTS.get(state)
    if slot is None or move not in _AFTER_RERUN:
        return None
    if slot is Slot.B:
        return Slot.B if move is not Move.STARTED_A else None
    if move in (Move.TICKED, Move.ENDED):
        telling = (*_SCORES.values(), *_STARTS.values())
        wanted = _SCORES[Slot.A]
    else:
        telling, wanted = tuple(_STARTS.values()), _STARTS[Slot.A]
    first = next((one for one in moves if one in telling), None)
    return Slot.A if first == wanted else None
