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
from arena_robot.core.observation import VIEWS
from arena_robot.policy.base import MAX_CHUNK
from arena_robot.policy.options import AUTH, CallOptions

# And whether TLS.
SCHEMES = {'grpc': False, 'grpcs': True, 'openpi': False, 'openpis': True, 'lerobot': False,
           'gr00t': False}
WITH_PATH = ('openpi', 'openpis')
CONNECT_TO = 'connect_to'
# What nobody else says, by protocol.
NEEDED: dict[str, tuple[str, ...]] = {
    'lerobot': ('checkpoint', 'policy_type', 'action_space'), 'gr00t': ()}
ANSWER_S = 1.0    # a host of the same laboratory answers within milliseconds
_PATH = re.compile(r'(/[A-Za-z0-9._~%\-]+)*')
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PolicyAddress:
    """
    A policy's address taken apart; ``str()`` writes it again.

    ``path`` exists for openpi servers alone. A gRPC server says itself what is an option for
    others.
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
    def is_translated(self) -> bool:
        """Whether only the client of this package speaks the server's protocol."""
        return self.scheme in NEEDED

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
        raise ConfigError(f"'{text}': an address of {scheme}:// has no path, found '{path}'")
    address = PolicyAddress(scheme, host, port, path, _options(text, scheme, parts.query))
    address.applied(CallOptions())
    given = dict(address.options)
    if lacking := [key for key in NEEDED.get(scheme, ()) if not given.get(key)]:
        raise ConfigError(f"'{text}': a server of {scheme}:// does not say its "
                          f"{', '.join(lacking)}; add {'&'.join(f'{key}=…' for key in lacking)} "
                          'behind a question mark')
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
    known = [*_BY_SCHEME.get(scheme, ()), CONNECT_TO]
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
        raise ConfigError('episode_seed, pipelined and state_gripper are yes or no, found '
                          f"'{value}'")
    return value == 'yes'


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) > MAX_CHUNK:
        raise ConfigError('open_loop_horizon, blend_steps, warm_up and joints are whole numbers '
                          f"up to {MAX_CHUNK}, found '{value}'")
    return int(value)


def _pictures(value: str) -> Pairs:
    parted = [pair.partition(':') for pair in value.split(',')]
    pairs = tuple((name, view) for name, _, view in parted)
    views = [view for _, view in pairs]
    if not all(name and view in VIEWS for name, view in pairs) or len(set(views)) < len(views) \
            or len({name for name, _ in pairs}) < len(pairs):
        raise ConfigError('cameras is PICTURE:VIEW, as often as there are pictures, with a comma '
                          f"between, each VIEW another one of {', '.join(VIEWS)}, found '{value}'")
    return pairs


def _size(value: str) -> tuple[int, int]:
    height, mark, width = value.partition('x')
    if not mark or not (height.isdecimal() and width.isdecimal()):
        raise ConfigError(f"image_size is HEIGHTxWIDTH, such as 224x224, found '{value}'")
    return int(height), int(width)


def _ip(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ConfigError(f'{CONNECT_TO} is {_ONE[CONNECT_TO]}, found {value}') from None


_ONE = {CONNECT_TO: 'one IP address'}
Readers = dict[str, Callable[[str], object]]
_CHUNKS: Readers = {'action_space': _space, 'open_loop_horizon': _count, 'pipelined': _yes,
                    'blend_steps': _count, 'warm_up': _count, 'joints': _count}
_OPENPI: Readers = {**_CHUNKS, 'auth': _auth, 'episode_seed': _yes, 'layout': str}
_LEROBOT: Readers = {**_CHUNKS, 'checkpoint': str, 'policy_type': str, 'device': str,
                     'cameras': _pictures, 'image_size': _size, 'state_gripper': _yes,
                     'layout': str}
_GR00T: Readers = {**_CHUNKS, 'cameras': _pictures, 'image_size': _size}
_BY_SCHEME = {'openpi': _OPENPI, 'openpis': _OPENPI, 'lerobot': _LEROBOT, 'gr00t': _GR00T}
READERS: Readers = {**_OPENPI, **_LEROBOT, CONNECT_TO: _ip}
