"""
Interfaces of a session: arena, recorder, scene and audience.

The local arena (policies from a file) and the remote one (the server) pass the same contract
tests. What a station shows of a policy's error has the error's class and a fixed text: the
original text may contain an address or a name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.core.errors import (
    BadReply,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.core.pair import Assignment, Reveal, StationInfo, commitment
from arena_robot.core.verdict import Extras, Verdict
from arena_robot.policy.base import Policy
from arena_robot.session.loop.rollout import RolloutConfig, RolloutRequest, StepSink

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


@dataclass(frozen=True)
class Check:
    """
    One check of a preflight: name, whether it passed, what was found or what to do.

    With ``warning`` a session may begin, and ``detail`` says what needs attention.
    """

    name: str
    ok: bool
    detail: str = ''
    warning: bool = False

    def plain(self) -> Mapping[str, Any]:
        """Return the check as plain values for the journal."""
        return {'name': self.name, 'ok': self.ok, 'detail': self.detail,
                'warning': self.warning}


@dataclass(frozen=True)
class RecordedSteps:
    """What a recorder has on its disk of an episode: of which one, and how many steps."""

    session_id: str
    slot: str
    steps: int

    def lacks(self, episode: Episode) -> str:
        """Return what is missing of an episode, as a sentence; empty when it is whole."""
        if (self.session_id, self.slot) != (episode.session_id, episode.slot.value):
            return f'another rollout was recorded: {self.slot} of session {self.session_id}'
        return '' if self.steps == episode.steps else \
            f'{self.steps} of {episode.steps} steps are recorded'


class Recorder(Protocol):
    """Records episodes."""

    def check(self) -> Check:
        """Return whether it could record now."""

    def start(self, session_id: str, slot: Slot) -> None:
        """Start recording; RecordingError when it cannot, for example without disk space."""

    def lost(self) -> str:
        """Return why the recording has ended unexpectedly; empty while it runs."""

    def stop(self, end: EndReason, detail: str, steps: int = 0) -> RecordedSteps | None:
        """
        Finish a recording of so many steps and return what it has; RecordingError on failure.

        None where nothing is recorded at all.
        """

    def ready(self, folder: Path) -> bool:
        """Return whether an episode's folder has all files that the recorder makes."""


class Scene(Protocol):
    """Restores the scene between A and B: a person, or the simulator."""

    def keep(self) -> None:
        """Remember the scene as it is now as the start."""

    def restore(self) -> None:
        """Restore the scene; does nothing where a person does it."""


class Audience(StepSink, Protocol):
    """Receiver of a session's events."""

    def changed(self) -> None:
        """Called when the record, the notice, or the current action changed."""

    def episode(self, job: RolloutRequest, episode: Episode | None) -> None:
        """Called when a rollout starts (None) or ended."""


class NoRecorder:
    """Makes only an empty folder; for tests and dry runs."""

    def __init__(self, sessions: Path) -> None:
        self._sessions = sessions

    def check(self) -> Check:
        """Nothing can be wrong with it."""
        return Check('recorder', True, 'nothing is recorded')

    def start(self, session_id: str, slot: Slot) -> None:
        """Make the episode's folder."""
        (self._sessions / session_id / slot.value).mkdir(parents=True, exist_ok=True)

    def lost(self) -> str:
        """Nothing can be lost."""
        return ''

    def stop(self, end: EndReason, detail: str, steps: int = 0) -> RecordedSteps | None:
        """Nothing to do."""
        return None

    def ready(self, folder: Path) -> bool:
        """Return True: there are no files to wait for."""
        return True


class ScenePerson:
    """The evaluator restores the scene by hand."""

    def keep(self) -> None:
        """The photographs are enough."""

    def restore(self) -> None:
        """The evaluator does it."""


@dataclass(frozen=True)
class SessionConfig:
    """
    Fixed settings of a station.

    ``outside_cameras`` are the roles of its cameras that are not on the arm: a policy with only
    one of them sees the first, unless the evaluator chooses another for a session. Which robot it
    is, the arm says itself. ``extras`` are the further fields of a verdict that are asked for.
    """

    station: StationInfo
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    min_free_gb: float = 5.0
    outside_cameras: tuple[str, ...] = ('left', 'right')
    extras: Extras = field(default_factory=Extras)
