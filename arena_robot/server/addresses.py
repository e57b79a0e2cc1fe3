"""Which policy addresses a server may call: public ones, and the networks it was told of."""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from arena_robot.core.errors import DataError

_HOST = re.compile(r'[A-Za-z0-9.\-]{1,253}|[0-9A-Fa-f:.]{2,45}')
SCHEMES = ('grpc', 'grpcs', 'openpi')


@dataclass(frozen=True)
class Endpoint:
    """A policy's address taken apart."""

    scheme: str
    host: str
    port: int


def parse(address: str) -> Endpoint:
    """Return the parts of ``scheme://host:port``; DataError when it is anything else."""
    try:
        parts = urlsplit(address)
        endpoint = Endpoint(parts.scheme, parts.hostname or '', parts.port or 0)
    except ValueError as error:
        raise DataError(f'{address!r:.100} is not an address: {error}') from error
    extra = parts.path.strip('/') or parts.query or parts.fragment or parts.username
    if (endpoint.scheme not in SCHEMES or not _HOST.fullmatch(endpoint.host)
            or not endpoint.port or extra):
        raise DataError(f'a policy address is grpc://host:port, grpcs://host:port or '
                        f'openpi://host:port, found {address!r:.100}')
    return endpoint


def check(address: str, allowed_networks: Iterable[str],
          own: Iterable[tuple[str, int]] = ()) -> Endpoint:
    """
    Return the endpoint of an address that this server may call.

    ``own`` are the server's own listening (host, port) pairs. DataError when the name does not
    resolve, points at the server itself, or into a network that is neither public nor allowed.
    """
    endpoint = parse(address)
    networks = [ipaddress.ip_network(n) for n in allowed_networks]
    for ip in resolve(endpoint.host, endpoint.port):
        if any(endpoint.port == port and _same(ip, host) for host, port in own):
            raise DataError(f"{address} is this server itself; give the policy server's address")
        if not ip.is_global and not any(ip in network for network in networks):
            raise DataError(f'{address} is in a network that is not public ({ip}) and that '
                            'allowed_networks of the server configuration does not name')
    return endpoint


def resolve(host: str, port: int) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the IP addresses of a host; DataError when there are none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DataError(f"cannot find the host '{host}': {error}") from error
    return sorted({ipaddress.ip_address(str(info[4][0]).split('%')[0]) for info in found},
                  key=str)


def _same(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, host: str) -> bool:
    if host in ('0.0.0.0', '::', ''):
        return ip.is_loopback or ip.is_private
    try:
        return ip in resolve(host, 0) or (ip.is_loopback and host == 'localhost')
    except DataError:
        return False
