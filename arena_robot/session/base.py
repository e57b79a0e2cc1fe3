"""
What a session needs of the outside: an arena that assigns, keeps and reveals.

The local arena (policies from a file) and the remote one (the server) pass the same contract
tests.
"""

from pathlib import Path
from typing import Protocol

from arena_robot.core.episode import Episode, Slot
from arena_robot.core.pair import Assignment, Reveal, StationInfo, commitment
from arena_robot.core.verdict import Verdict
from arena_robot.policy.base import Policy


class Arena(Protocol):
    """Hands out blind pairs and keeps the results."""

    def assign(self, station: StationInfo, evaluator: str, prompt: str) -> Assignment:
        """Return a new blind pair for this instruction. Raises ServerError."""

    def policy(self, session_id: str, slot: Slot) -> Policy:
        """Return the policy behind a slot; errors and timings from it name no policy."""

    def heartbeat(self, session_id: str, state: str) -> None:
        """Say that the session is alive; Conflict when the arena has cancelled it."""

    def upload(self, session_id: str, episode: Episode, folder: Path) -> None:
        """Keep the episode's folder; resumable and idempotent."""

    def feedback(self, session_id: str, verdict: Verdict) -> None:
        """Store the verdict, once; the same again is accepted, another is a Conflict."""

    def abort(self, session_id: str, reason: str) -> None:
        """Close a session without a verdict."""

    def reveal(self, session_id: str) -> Reveal:
        """Return the names, after the verdict is stored. Conflict before."""


__all__ = ['Arena', 'Assignment', 'Reveal', 'StationInfo', 'commitment']
