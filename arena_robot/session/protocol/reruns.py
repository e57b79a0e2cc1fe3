"""
When a slot may be run again, and what is kept of the rollout that does not count.

A failure of the station (arm, gripper, camera, recorder, network, the programs themselves) says
nothing of the policy: its slot is run again. So is a rollout that the evaluator spoiled, with a
reason. Both are decided before the rollout is scored, are limited, and stay in the record, so a
rollout cannot be repeated until its result pleases.
"""

from collections.abc import Iterable, Mapping

from arena_robot.core.episode import MAX_RERUNS, EndReason, Slot
from arena_robot.core.errors import SessionError
from arena_robot.records.session_file import Rerun, RerunCause, SessionSlot
from arena_robot.session.arena.blind import UNREACHABLE

MAX_MISTAKES = 1    # of these
MIN_REASON_CHARS = 10
STATION_FAULTS = (EndReason.DRIVER_ERROR, EndReason.INTERRUPTED)


def is_fault(rollout: SessionSlot) -> bool:
    """Return whether the station, not the policy, is why a rollout ended."""
    cut_off = rollout.end is EndReason.POLICY_ERROR and UNREACHABLE in rollout.detail
    return rollout.end in STATION_FAULTS or cut_off


def possible_cause(rollout: SessionSlot, earlier: Iterable[Rerun]) -> RerunCause | None:
    """Return the cause for repeating a rollout after ``earlier`` reruns; None: not allowed."""
    causes = [one.cause for one in earlier]
    if rollout.end is None or len(causes) >= MAX_RERUNS:
        return None
    if is_fault(rollout):
        return RerunCause.FAULT
    return RerunCause.MISTAKE if causes.count(RerunCause.MISTAKE) < MAX_MISTAKES else None


def check_rerun(slot: Slot, rollout: SessionSlot, earlier: Iterable[Rerun],
                reason: str) -> Mapping[str, str]:
    """Return cause and reason for the journal. Raises SessionError when it may not be repeated."""
    cause, words = possible_cause(rollout, earlier), ' '.join(reason.split())
    if cause is None:
        raise SessionError(
            f'{slot.value} cannot be run again: at most {MAX_RERUNS} times, {MAX_MISTAKES} of '
            'them for a mistake of yours. Score what you saw, or say that the session should not '
            'count')
    if cause is RerunCause.MISTAKE and len(words) < MIN_REASON_CHARS:
        raise SessionError(
            f'{slot.value} ended by itself or by you, so say what your mistake was, in a sentence '
            f'(at least {MIN_REASON_CHARS} characters): it stays in the record')
    return {'slot': slot.value, 'cause': cause.value, 'reason': words}


def told(reruns: Iterable[Rerun]) -> str:
    """Return a sentence on a slot's repeated rollouts; empty when there are none."""
    parts = []
    for one in reruns:
        end = one.rollout.end.value if one.rollout.end else 'unknown'
        why = one.reason or one.rollout.detail
        parts.append(f"{one.cause.value} ({end} after {one.rollout.steps} steps"
                     f"{': ' + why if why else ''})")
    times = '1 time' if len(parts) == 1 else f'{len(parts)} times'
    return f"run again {times}: {'; '.join(parts)}" if parts else ''
