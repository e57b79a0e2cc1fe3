"""Slot tokens of a remote arena in sealed files, which survive a restart of the station."""

from pathlib import Path

from arena_robot.core.files import write_text
from arena_robot.session.arena.seal import read_key, seal, unseal


class SealedTokens:
    """
    Keeps the slot tokens of each session in ``folder``, encrypted under a key of this station.

    The tokens of a session that is revealed or aborted are deleted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, session_id: str, tokens: dict[str, str]) -> None:
        """Store the tokens of a session, by slot."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(self._path(session_id), seal(self._key(), session_id, tokens) + '\n')

    def find(self, session_id: str) -> dict[str, str] | None:
        """Return the tokens of a session, by slot; None when there are none."""
        try:
            text = self._path(session_id).read_text(encoding='utf-8').strip()
        except FileNotFoundError:
            return None
        return unseal(self._key(), session_id, text)

    def forget(self, session_id: str) -> None:
        """Delete the tokens of a session."""
        self._path(session_id).unlink(missing_ok=True)

    def _key(self) -> bytes:
        return read_key(self._folder / '.key')

    def _path(self, session_id: str) -> Path:
        return self._folder / f'{session_id}.sealed'
