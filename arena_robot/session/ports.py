"""What a session asks of its surroundings, besides the arena and the robot parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.session.base import StationInfo
from arena_robot.session.loop.rollout import RolloutConfig, RolloutRequest, StepSink


@dataclass(frozen=True)
class Check:
    """
    One line of a preflight: what was looked at, whether it is fine, what to do if not.

    With ``warning`` a session may begin, and ``detail`` says what needs attention.
    """

    name: str
    ok: bool
    detail: str = ''
    warning: bool = False

    def plain(self) -> Mapping[str, Any]:
        """Return the check as a journal keeps it."""
        return {'name': self.name, 'ok': self.ok, 'detail': self.detail,
                'warning': self.warning}


class Recorder(Protocol):
    """Keeps an episode as it happens."""

    def check(self) -> Check:
        """Tell whether it could record now."""

    def start(self, session_id: str, slot: Slot) -> None:
        """Start recording; RecordingError when it refuses, for want of disk space for instance."""

    def lost(self) -> str:
        """Tell why what was started is no longer being recorded; empty while it is."""

    def stop(self, end: EndReason, detail: str) -> None:
        """Finish the recording; RecordingError when that fails. Nothing to stop is fine."""

    def ready(self, folder: Path) -> bool:
        """Tell whether an episode's folder is complete, with what is made from the recording."""


class Scene(Protocol):
    """Who puts the objects back between A and B: a person, or the simulator."""

    def keep(self) -> None:
        """Remember the scene as it is now as the start."""

    def restore(self) -> None:
        """Put the scene back, as a person would; does nothing where a person does it."""


class Audience(StepSink, Protocol):
    """Who is told what goes on."""

    def changed(self) -> None:
        """Take note that the record, the notice, or what is being done changed."""

    def episode(self, job: RolloutRequest, episode: Episode | None) -> None:
        """Take note that a rollout starts (None) or how it ended."""


class NoRecorder:
    """Keeps nothing but an empty folder; for tests and dry runs."""

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

    def stop(self, end: EndReason, detail: str) -> None:
        """Nothing to do."""

    def ready(self, folder: Path) -> bool:
        """Return True: nothing is made from nothing."""
        return True


class ScenePerson:
    """The evaluator's own hands."""

    def keep(self) -> None:
        """The photographs are enough."""

    def restore(self) -> None:
        """The evaluator does it."""


@dataclass(frozen=True)
class SessionConfig:
    """What is fixed for a station."""

    station: StationInfo
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    reset_q: tuple[float, ...] = ()
    min_free_gb: float = 5.0
