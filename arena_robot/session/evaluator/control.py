"""One evaluator at a time: who holds the token may command, everybody may watch and stop."""

import hmac
import secrets
import threading

from arena_robot.core.errors import Conflict


class Control:
    """The right to command a session; taken over only by somebody who says so."""

    def __init__(self) -> None:
        self._holder = ''
        self._token = ''
        self._lock = threading.Lock()

    @property
    def holder(self) -> str:
        """Return the name of who is in control, empty when nobody is."""
        return self._holder

    def take(self, name: str, take_over: bool = False) -> str:
        """Return the token; Conflict when somebody else holds it and ``take_over`` is false."""
        with self._lock:
            if self._holder and not take_over:
                raise Conflict(f"'{self._holder}' controls this session; watch, or take over")
            self._holder = name.strip() or 'somebody'
            self._token = secrets.token_urlsafe(16)
            return self._token

    def release(self, token: str) -> None:
        """Let go of control; a token that is no longer valid has let go already."""
        with self._lock:
            if self._is(token):
                self._holder = self._token = ''

    def check(self, token: str) -> None:
        """Raise Conflict unless ``token`` is the one in control, or nobody is in control."""
        with self._lock:
            if self._holder and not self._is(token):
                raise Conflict(f"'{self._holder}' controls this session; take over first")

    def holds(self, token: str) -> bool:
        """Tell whether ``token`` is the one in control."""
        with self._lock:
            return self._is(token)

    def _is(self, token: str) -> bool:
        return bool(self._token) and hmac.compare_digest(token.encode(), self._token.encode())
