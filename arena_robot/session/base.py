"""
Interface of an arena: assigns blind pairs, stores results, reveals names.

The local arena (policies from a file) and the remote one (the server) pass the same contract
tests. What a station shows of a policy's error has the error's class and a fixed text: the
original text may contain an address or a name.
"""

from pathlib import Path
from typing import Protocol

from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import (
    BadReply,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.core.pair import Assignment, Reveal, StationInfo, commitment
from arena_robot.core.verdict import Verdict
from arena_robot.policy.base import Policy

UNREACHABLE = 'cannot be reached'
_WORDS: tuple[tuple[type[PolicyError], str], ...] = (
    (PolicyEnded, 'is not running any more'),
    (PolicyUnavailable, UNREACHABLE),
    (PolicyTimeout, 'did not answer in time'),
    (PolicyRefused, 'refused the request'),
    (BadReply, 'answered with something that cannot be executed'),
)


class Arena(Protocol):
    """Assigns blind pairs and stores the results."""

    def assign(self, station: StationInfo, evaluator: str, prompt: str,
               third_person: str = 'left') -> Assignment:
        """
        Return a new blind pair for this instruction. Raises ServerError.

        ``third_person`` is the outside camera that a policy with only one sees.
        """

    def policy(self, session_id: str, slot: Slot) -> Policy:
        """Return the policy of a slot; its errors and timings do not identify it."""

    def heartbeat(self, session_id: str, state: str) -> None:
        """Report that the session is running; Conflict when the arena has cancelled it."""

    def upload(self, session_id: str, episode: Episode, folder: Path) -> None:
        """Upload the episode's folder; resumable and idempotent."""

    def feedback(self, session_id: str, verdict: Verdict) -> str:
        """
        Store the verdict once; the same again is accepted, a different one is a Conflict.

        Returns what the arena signed of it, '' without.
        """

    def abort(self, session_id: str, reason: str) -> None:
        """Close a session without a verdict."""

    def reveal(self, session_id: str) -> Reveal:
        """
        Return the names, after the verdict is stored and everything has arrived; Conflict before.

        Raises NotRevealed for a session that does not count.
        """


__all__ = ['Arena', 'Assignment', 'Reveal', 'StationInfo', 'commitment']


def blinded(error: Exception, slot: Slot) -> PolicyError:
    """Return an error of the same class that names only the slot."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return kind(f'the policy of slot {slot.value} {words}')
    return PolicyError(f'the policy of slot {slot.value} failed')
