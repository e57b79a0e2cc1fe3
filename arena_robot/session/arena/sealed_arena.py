"""Wrapper of a remote arena that stores its slot tokens sealed, so that they survive a restart."""

from pathlib import Path
from typing import Protocol

from arena_robot.core.clock import Clock
from arena_robot.core.episode import Episode, Slot
from arena_robot.core.errors import ServerError
from arena_robot.core.files import write_text
from arena_robot.core.pair import Assignment, Reveal, StationInfo
from arena_robot.core.verdict import Verdict
from arena_robot.policy.base import Policy
from arena_robot.session.arena.blind import BlindPolicy
from arena_robot.session.arena.seal import read_key, seal, unseal
from arena_robot.session.base import Arena


class TokenArena(Arena, Protocol):
    """Interface of an arena that calls its policies with slot tokens."""

    def check(self) -> float:
        """Return the arena's clock minus the station's in seconds. Raises ServerError."""

    def tokens(self, session_id: str) -> dict[str, str]:
        """Return the slot tokens of a session that was assigned here."""

    def resume(self, session_id: str, tokens: dict[str, str]) -> None:
        """Restore slot tokens after a restart."""

    def close(self) -> None:
        """Let every connection go."""


class SealedArena:
    """
    Forwards every call to ``arena`` and stores the slot tokens in ``folder``.

    Its policies are blind: their errors name only the slot.
    """

    def __init__(self, arena: TokenArena, folder: Path, clock: Clock) -> None:
        self._arena = arena
        self._folder = folder
        self._clock = clock
        self._known: set[str] = set()

    def check(self) -> float:
        """Return the arena's clock minus the station's in seconds."""
        return self._arena.check()

    def assign(self, station: StationInfo, evaluator: str, prompt: str) -> Assignment:
        """Return a new blind pair, after its tokens are stored."""
        pair = self._arena.assign(station, evaluator, prompt)
        self._folder.mkdir(parents=True, exist_ok=True)
        text = seal(self._key(), pair.session_id, self._arena.tokens(pair.session_id))
        write_text(self._path(pair.session_id), text + '\n')
        self._known.add(pair.session_id)
        return pair

    def policy(self, session_id: str, slot: Slot) -> Policy:
        """Return the policy behind a slot, before and after a restart."""
        if session_id not in self._known:
            try:
                text = self._path(session_id).read_text(encoding='utf-8').strip()
            except OSError as error:
                raise ServerError(f'session {session_id} was not assigned to this station') \
                    from error
            self._arena.resume(session_id, unseal(self._key(), session_id, text))
            self._known.add(session_id)
        return BlindPolicy(self._arena.policy(session_id, slot), slot, self._clock)

    def heartbeat(self, session_id: str, state: str) -> None:
        """Pass it on."""
        self._arena.heartbeat(session_id, state)

    def upload(self, session_id: str, episode: Episode, folder: Path) -> None:
        """Pass it on."""
        self._arena.upload(session_id, episode, folder)

    def feedback(self, session_id: str, verdict: Verdict) -> None:
        """Pass it on."""
        self._arena.feedback(session_id, verdict)

    def abort(self, session_id: str, reason: str) -> None:
        """Forward the call, then delete the tokens."""
        self._arena.abort(session_id, reason)
        self._forget(session_id)

    def reveal(self, session_id: str) -> Reveal:
        """Return the names, and delete the tokens."""
        reveal = self._arena.reveal(session_id)
        self._forget(session_id)
        return reveal

    def close(self) -> None:
        """Let every connection go."""
        self._arena.close()

    def _forget(self, session_id: str) -> None:
        self._path(session_id).unlink(missing_ok=True)
        self._known.discard(session_id)

    def _key(self) -> bytes:
        return read_key(self._folder / '.key')

    def _path(self, session_id: str) -> Path:
        return self._folder / f'{session_id}.sealed'
