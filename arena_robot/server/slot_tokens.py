"""Where a station keeps the tokens of the slots that were assigned to it."""

from typing import Protocol


class SlotTokens(Protocol):
    """Tokens by session and slot."""

    def keep(self, session_id: str, tokens: dict[str, str]) -> None:
        """Store the tokens of a session, by slot."""

    def find(self, session_id: str) -> dict[str, str] | None:
        """Return the tokens of a session, by slot; None when there are none."""

    def forget(self, session_id: str) -> None:
        """Delete the tokens of a session, which is revealed or aborted."""


class TokensInMemory:
    """Tokens in memory only; lost when the process ends."""

    def __init__(self) -> None:
        self._tokens: dict[str, dict[str, str]] = {}

    def keep(self, session_id: str, tokens: dict[str, str]) -> None:
        """Store the tokens of a session, by slot."""
        self._tokens[session_id] = tokens

    def find(self, session_id: str) -> dict[str, str] | None:
        """Return the tokens of a session, by slot; None when there are none."""
        return self._tokens.get(session_id)

    def forget(self, session_id: str) -> None:
        """Delete the tokens of a session."""
        self._tokens.pop(session_id, None)
