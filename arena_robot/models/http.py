"""
HTTP calls to the server of a model: timeouts, retries with jitter, a rate limit, bounded replies.

No redirect is followed: the key goes to the configured address alone.
"""

import contextlib
import json
import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from arena_robot.core.errors import ConfigError, ModelError, ModelUnavailable

log = logging.getLogger(__name__)

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
LARGEST_REPLY = 32 * 1024 * 1024    # bytes; a broken endpoint must not fill the memory
LONGEST_WAIT_S = 60.0               # also if Retry-After asks for more
_EXCERPT = 300                      # bytes of an error's body that are shown


@dataclass(frozen=True)
class HttpSettings:
    """
    How an address is called; ``requests_per_minute`` 0 is without a limit.

    ``timeout_s`` is the time of one attempt from the first byte sent to the last one received: a
    server that sends a byte now and then gets no more. ``backoff_s`` is the mean wait before the
    second attempt; it doubles from attempt to attempt.
    """

    timeout_s: float = 60.0
    attempts: int = 4
    backoff_s: float = 1.0
    requests_per_minute: float = 0.0

    def __post_init__(self) -> None:
        if self.timeout_s <= 0 or self.attempts < 1 or self.backoff_s < 0:
            raise ConfigError('timeout_s must be above 0, attempts at least 1, backoff_s at '
                              'least 0')
        if self.requests_per_minute < 0:
            raise ConfigError('requests_per_minute must be at least 0')


class Secret:
    """A text that is never shown; ``shown`` removes it from other texts."""

    def __init__(self, text: str = '') -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret('…')" if self._text else "Secret('')"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def header(self) -> dict[str, str]:
        """Return the header that carries it."""
        return {'Authorization': f'Bearer {self._text}'} if self._text else {}

    def shown(self, text: str) -> str:
        """Return a text with the secret blacked out."""
        return text.replace(self._text, '…') if self._text else text


class _Connection:
    """The connection of one attempt, which is cut off when the attempt's time is over."""

    def __init__(self) -> None:
        self.late = False
        self._stream: Any = None
        self._lock = threading.Lock()

    def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep the stream that was just opened; httpcore's ``trace`` extension calls this."""
        if event in ('connection.connect_tcp.complete', 'connection.start_tls.complete'):
            with self._lock:
                self._stream = info['return_value']
                late = self.late
            if late:
                self.cut()

    def cut(self) -> None:
        """End what waits for bytes of the connection, in whatever thread."""
        with self._lock:
            self.late, stream = True, self._stream
        if stream is not None:
            with contextlib.suppress(OSError):    # the other side has closed it already
                stream.get_extra_info('socket').shutdown(socket.SHUT_RDWR)


@dataclass
class StreamedChat:
    """
    A chat completion that comes as server-sent events; ``enough`` ends it by the text so far.

    ``tokens`` counts the pieces of text; ``cut``: the rest was not wanted.
    """

    enough: Callable[[str], bool]
    text: str = ''
    tokens: int = 0
    finish: str = ''
    usage: Any = None
    cut: bool = False
    _rest: bytes = b''

    def add(self, part: bytes) -> bool:
        """Take the next bytes; return whether the rest is not wanted."""
        *lines, self._rest = (self._rest + part).split(b'\n')
        try:
            for line in lines:
                if line.startswith(b'data:') and line[5:].strip() not in (b'', b'[DONE]'):
                    self._take(json.loads(line[5:]))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.text, self.finish = '', 'broken'
            return True
        self.cut = bool(self.text) and not self.finish and self.enough(self.text)
        return self.cut

    def _take(self, event: Any) -> None:
        self.usage = event.get('usage') or self.usage
        for choice in event.get('choices') or ():
            new = choice['delta'].get('content') or ''
            self.text, self.tokens = self.text + new, self.tokens + bool(new)
            self.finish = choice.get('finish_reason') or self.finish

    def body(self) -> bytes:
        """Return the answer in the form of one that came whole; without its end it is cut off."""
        return json.dumps({
            'choices': [{'message': {'content': self.text},
                         'finish_reason': 'stop' if self.cut else self.finish or 'length'}],
            'usage': self.usage}).encode()


@dataclass
class HttpCaller:
    """Calls one address; may be used by several threads."""

    base_url: str
    key: Secret = field(default_factory=Secret)
    settings: HttpSettings = field(default_factory=HttpSettings)
    transport: httpx.BaseTransport | None = None
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not self.base_url.startswith(('http://', 'https://')):
            raise ConfigError(f"the address of a model's server begins with http:// or https://, "
                              f"found '{self.base_url}'")
        self._client = httpx.Client(
            base_url=self.base_url.rstrip('/'), timeout=self.settings.timeout_s,
            headers=self.key.header(), transport=self.transport, follow_redirects=False,
            limits=httpx.Limits(max_keepalive_connections=0))    # each call notes its own socket
        self._turn = threading.Lock()
        self._next_at = 0.0

    def close(self) -> None:
        """Close the connections; can be called twice."""
        self._client.close()

    def call(self, method: str, path: str,
             watch: Callable[[], Callable[[bytes], bool]] | None = None, **request: Any) -> bytes:
        """
        Return the body of the first good answer; ``request`` as httpx takes it.

        What ``watch`` makes for each attempt gets the body piece by piece, and ends it by True.
        Raises ModelUnavailable when no attempt succeeded, ModelError when the server refuses.
        """
        last, asked_s = '', 0.0
        for attempt in range(self.settings.attempts):
            if attempt:
                self.sleep(self._wait_s(attempt, asked_s))
            asked_s = 0.0
            self._wait_for_turn()
            try:
                code, body, headers = self._once(
                    method, path, request, watch() if watch else lambda part: False)
            except httpx.HTTPError as error:
                last = self.key.shown(f'{type(error).__name__}: {error}')
                log.info('%s%s, attempt %d: %s', self.base_url, path, attempt + 1, last)
                continue
            if 200 <= code < 300:
                return body
            text = self.key.shown(body[:_EXCERPT].decode('utf-8', 'replace')).strip()
            last = f'HTTP {code} {text}'
            if code not in AGAIN:
                raise ModelError(f'{self.base_url}{path} refused the request: {last}')
            asked_s = _retry_after(headers)
        raise ModelUnavailable(f'{self.base_url}{path} gave no answer in '
                               f'{self.settings.attempts} attempts; the last: {last}')

    def _once(self, method: str, path: str, request: Mapping[str, Any],
              enough: Callable[[bytes], bool]) -> tuple[int, bytes, Mapping[str, str]]:
        connection = _Connection()
        alarm = threading.Timer(self.settings.timeout_s, connection.cut)
        alarm.daemon = True
        alarm.start()
        try:
            with self._client.stream(method, path, extensions={'trace': connection.note},
                                     **request) as reply:
                parts, size = [], 0
                for part in reply.iter_bytes():
                    size += len(part)
                    if size > LARGEST_REPLY:
                        raise ModelError(f'{self.base_url}{path} answers more than '
                                         f'{LARGEST_REPLY} bytes')
                    parts.append(part)
                    if enough(part):
                        break
                code, headers = reply.status_code, dict(reply.headers)
        except httpx.HTTPError as error:
            if connection.late:
                raise self._late() from error
            raise
        finally:
            alarm.cancel()
        if connection.late:
            raise self._late()
        return code, b''.join(parts), headers

    def _late(self) -> httpx.ReadTimeout:
        return httpx.ReadTimeout(f'no whole answer within {self.settings.timeout_s:g} s')

    def _wait_s(self, attempt: int, asked_s: float) -> float:
        own_s = self.settings.backoff_s * 2.0 ** (attempt - 1) * (0.5 + self.jitter())
        return min(max(own_s, asked_s), LONGEST_WAIT_S)

    def _wait_for_turn(self) -> None:
        if not self.settings.requests_per_minute:
            return
        with self._turn:
            wait = self._next_at - self.now()
            self._next_at = max(self._next_at, self.now()) + 60 / self.settings.requests_per_minute
        if wait > 0.0:
            self.sleep(wait)


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(headers.get('retry-after', '0')))
    except ValueError:
        return 0.0
