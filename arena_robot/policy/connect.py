"""Connect to a policy by address: ``grpc://``, ``grpcs://``, ``openpi://``, ``openpis://``."""

import dataclasses
import ipaddress
import urllib.parse

from arena_robot.core.action import ActionSpace
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.client import OpenpiPolicy
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import CallOptions

CLIENTS: dict[str, tuple[type[GrpcPolicy] | type[OpenpiPolicy], bool]] = {
    'grpc': (GrpcPolicy, False), 'grpcs': (GrpcPolicy, True),
    'openpi': (OpenpiPolicy, False), 'openpis': (OpenpiPolicy, True),
}
SERVERS: dict[str, type[GrpcPolicyServer] | type[OpenpiPolicyServer]] = {
    'grpc': GrpcPolicyServer, 'openpi': OpenpiPolicyServer}


def split(address: str) -> tuple[str, str]:
    """Return scheme and ``host:port``; raises ConfigError saying what an address looks like."""
    scheme, mark, target = address.partition('://')
    if not mark:
        raise ConfigError(f"'{address}' is not an address; write one such as grpc://host:8000 or "
                          'openpi://host:8000')
    if scheme not in CLIENTS:
        raise ConfigError(f"'{address}': unknown protocol '{scheme}'.{nearest(scheme, CLIENTS)}")
    host, _, port = target.rpartition(':')
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"'{address}' needs a host and a port of 1 to 65535, such as "
                          f'{scheme}://host:8000')
    return scheme, target


def with_query(address: str, options: CallOptions) -> tuple[str, CallOptions]:
    """Return an address without its query, and ``options`` with the query's values."""
    bare, _, query = address.partition('?')
    for key, values in urllib.parse.parse_qs(query, keep_blank_values=True).items():
        if key == 'connect_to':
            options = dataclasses.replace(options, connect_to=_ip(address, values))
            continue
        if key != 'action_space':
            raise ConfigError(f"'{address}': unknown option '{key}'. Known: action_space.")
        known = {space.value: space for space in ActionSpace}
        if values[-1] not in known:
            raise ConfigError(f"'{address}': unknown action space '{values[-1]}'."
                              f'{nearest(values[-1], known)}')
        options = dataclasses.replace(options, action_space=known[values[-1]])
    return bare, options


def _ip(address: str, values: list[str]) -> str:
    """Return the one IP address that ``connect_to`` names."""
    try:
        (value,) = values
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ConfigError(f"'{address}': connect_to is one IP address, found "
                          f'{", ".join(values)}') from None


def connect(address: str, options: CallOptions | None = None) -> GrpcPolicy | OpenpiPolicy:
    """
    Return the open policy at ``address``; use it with ``with``, or close it.

    It sends images without resizing: wrap it in
    ``Resizing`` to pass whole camera frames. An openpi address may end in
    ``?action_space=joint_velocity`` for servers that do not report it. Raises ConfigError for a
    bad address, PolicyError when no server answers.
    """
    address, options = with_query(address, options or CallOptions())
    scheme, target = split(address)
    kind, secure = CLIENTS[scheme]
    return kind(target, secure, options).open()
