"""Addresses of policies, the same in every verb: ``scheme://host:port/path?option=value``."""

import dataclasses
import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arena_robot.core.action import ActionSpace
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.policy.base import MAX_CHUNK
from arena_robot.policy.options import AUTH, CallOptions

SCHEMES = {'grpc': False, 'grpcs': True, 'openpi': False, 'openpis': True}    # and whether TLS
WITH_PATH = ('openpi', 'openpis')
CONNECT_TO = 'connect_to'
ANSWER_S = 1.0    # a host of the same laboratory answers within milliseconds
_PATH = re.compile(r'(/[A-Za-z0-9._~%\-]+)*')
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PolicyAddress:
    """
    A policy's address taken apart; ``str()`` writes it again.

    ``path`` and most options exist for openpi servers alone: a gRPC server says them itself.
    """

    scheme: str
    host: str
    port: int
    path: str = ''
    options: Pairs = ()

    @property
    def secure(self) -> bool:
        """Whether the connection must use TLS."""
        return SCHEMES[self.scheme]

    @property
    def is_openpi(self) -> bool:
        """Whether the server speaks openpi's protocol."""
        return self.scheme in WITH_PATH

    @property
    def target(self) -> str:
        """Return ``host:port`` and the path."""
        host = f'[{self.host}]' if ':' in self.host else self.host
        return f'{host}:{self.port}{self.path}'

    def __str__(self) -> str:
        query = urllib.parse.urlencode(self.options, safe=':')
        return f'{self.scheme}://{self.target}{"?" if query else ""}{query}'

    def applied(self, options: CallOptions) -> CallOptions:
        """Return ``options`` with those of the address."""
        for key, value in self.options:
            change: dict[str, Any] = {key: READERS[key](value)}
            options = dataclasses.replace(options, **change)
        return options


def parse_address(text: str) -> PolicyAddress:
    """Return the parts of an address; ConfigError saying what one looks like."""
    scheme, mark, _ = text.partition('://')
    if not mark:
        raise ConfigError(f"'{text}' is not an address; write one such as grpc://host:8000 or "
                          'openpi://host:8000')
    if scheme not in SCHEMES:
        raise ConfigError(f"'{text}': unknown protocol '{scheme}'.{nearest(scheme, SCHEMES)}")
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or '', parts.port or 0
    except ValueError as error:
        raise ConfigError(f"'{text}' is not an address: {error}") from error
    if not host or not port:
        raise ConfigError(f"'{text}' needs a host and a port of 1 to 65535, such as "
                          f'{scheme}://host:8000')
    path = parts.path.rstrip('/')
    if '@' in parts.netloc or '#' in text or not text.isprintable() or not _PATH.fullmatch(path):
        raise ConfigError(f"'{text}': an address is scheme://host:port/path?option=value")
    if path and scheme not in WITH_PATH:
        raise ConfigError(f"'{text}': a gRPC address has no path, found '{path}'")
    address = PolicyAddress(scheme, host, port, path, _options(text, scheme, parts.query))
    address.applied(CallOptions())
    return address


def host_answers(address: str) -> bool:
    """
    Tell whether the host of a policy's address answers, be it that nobody listens there.

    False for an address without a host, such as that of an example.
    """
    try:
        where = parse_address(address)
        socket.create_connection((where.host, where.port), ANSWER_S).close()
    except ConnectionRefusedError:
        return True
    except (ConfigError, OSError):
        return False
    return True


def _options(text: str, scheme: str, query: str) -> Pairs:
    known = [*(_OPENPI if scheme in WITH_PATH else ()), CONNECT_TO]
    pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
    if (keys := [key for key, _ in pairs]) != list(dict.fromkeys(keys)):
        again = next(key for key in keys if keys.count(key) > 1)
        raise ConfigError(f"'{text}': {again} is {_ONE.get(again, 'given once')}, found it twice")
    for key in keys:
        if key not in known:
            shown = ', '.join(known[:-1]) or 'none; a gRPC server says them in its spec'
            raise ConfigError(f"'{text}': unknown option '{key}'. Known: {shown}.")
    return tuple(pairs)


def _space(value: str) -> ActionSpace:
    known = {space.value: space for space in ActionSpace}
    if value not in known:
        raise ConfigError(f"unknown action space '{value}'.{nearest(value, known)}")
    return known[value]


def _auth(value: str) -> str:
    if value not in AUTH:
        raise ConfigError(f"auth is {' or '.join(AUTH)}, found '{value}'")
    return value


def _yes(value: str) -> bool:
    if value not in ('yes', 'no'):
        raise ConfigError(f"episode_seed and pipelined are yes or no, found '{value}'")
    return value == 'yes'


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) > MAX_CHUNK:
        raise ConfigError('open_loop_horizon, blend_steps and warm_up are whole numbers up to '
                          f"{MAX_CHUNK}, found '{value}'")
    return int(value)


def _ip(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ConfigError(f'{CONNECT_TO} is {_ONE[CONNECT_TO]}, found {value}') from None


_ONE = {CONNECT_TO: 'one IP address'}
_OPENPI: dict[str, Callable[[str], object]] = {
    'action_space': _space, 'auth': _auth, 'episode_seed': _yes, 'open_loop_horizon': _count,
    'pipelined': _yes, 'blend_steps': _count, 'warm_up': _count}
READERS: dict[str, Callable[[str], object]] = {**_OPENPI, CONNECT_TO: _ip}
