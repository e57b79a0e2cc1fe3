"""Control of a session: one client has the token and may command; all may watch and stop."""

import hmac
import secrets
import threading

from arena_robot.core.errors import Conflict


class Control:
    """The control token of a session; another client gets it only with ``take_over``."""

    def __init__(self) -> None:
        self._holder = ''
        self._token = ''
        self._lock = threading.Lock()

    @property
    def holder(self) -> str:
        """Return the name of the client in control, empty when none is."""
        return self._holder

    def take(self, name: str, take_over: bool = False) -> str:
        """Return the token; Conflict when another client has it and ``take_over`` is false."""
        with self._lock:
            if self._holder and not take_over:
                raise Conflict(f"'{self._holder}' controls this session; watch, or take over")
            self._holder = name.strip() or 'somebody'
            self._token = secrets.token_urlsafe(16)
            return self._token

    def release(self, token: str) -> None:
        """Release control; does nothing for a token that is no longer valid."""
        with self._lock:
            if self._is(token):
                self._holder = self._token = ''

    def check(self, token: str) -> None:
        """Raise Conflict unless ``token`` has control, or no client has."""
        with self._lock:
            if self._holder and not self._is(token):
                raise Conflict(f"'{self._holder}' controls this session; take over first")

    def holds(self, token: str) -> bool:
        """Return whether ``token`` has control."""
        with self._lock:
            return self._is(token)

    def _is(self, token: str) -> bool:
        return bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())
