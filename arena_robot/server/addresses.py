"""Which policy addresses a server may call: public ones, and those of ``allowed_networks``."""

import dataclasses
import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from arena_robot.core.errors import DataError

_HOST = re.compile(r'[A-Za-z0-9.\-]{1,253}|[0-9A-Fa-f:.]{2,45}')
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# IPv4-compatible, mapped, and NAT64 (well-known and local): the IPv4 address is at their end.
_CARRIES_IPV4 = tuple(map(ipaddress.IPv6Network, (
    '::/96', '::ffff:0:0/96', '64:ff9b::/96', '64:ff9b:1::/48')))
SCHEMES = ('grpc', 'grpcs', 'openpi', 'openpis')


@dataclass(frozen=True)
class Endpoint:
    """A policy's address taken apart; ``ip`` once it was resolved."""

    scheme: str
    host: str
    port: int
    ip: str = ''

    @property
    def address(self) -> str:
        """Return the address written from its parts."""
        host = f'[{self.host}]' if ':' in self.host else self.host
        return f'{self.scheme}://{host}:{self.port}'


def parse(address: str) -> Endpoint:
    """Return the parts of ``scheme://host:port``; DataError when it is anything else."""
    try:
        parts = urlsplit(address)
        endpoint = Endpoint(parts.scheme, parts.hostname or '', parts.port or 0)
    except ValueError as error:
        raise DataError(f'{address!r:.100} is not an address: {error}') from error
    extra = (parts.path.strip('/') or '@' in parts.netloc or not address.isprintable()
             or any(mark in address for mark in '?#'))
    if (endpoint.scheme not in SCHEMES or not _HOST.fullmatch(endpoint.host)
            or not endpoint.port or extra):
        raise DataError(f'a policy address is grpc://, grpcs://, openpi:// or '
                        f'openpis://host:port, found {address!r:.100}')
    return endpoint


def pinned(address: str, allowed_networks: Iterable[str],
           own: Iterable[tuple[str, int]] = ()) -> str:
    """
    Return an address with the IP address that was checked, so that nothing else is connected to.

    DataError as for :func:`check`.
    """
    endpoint = check(address, allowed_networks, own)
    return f'{endpoint.address}?connect_to={endpoint.ip}'


def check(address: str, allowed_networks: Iterable[str],
          own: Iterable[tuple[str, int]] = ()) -> Endpoint:
    """
    Return the endpoint of an address that this server may call.

    ``own`` are the server's own listening (host, port) pairs. DataError when the name does not
    resolve, points at the server itself, or into a network that is neither public nor allowed.
    """
    endpoint = parse(address)
    networks = [ipaddress.ip_network(n) for n in allowed_networks]
    found = resolve(endpoint.host, endpoint.port)
    for ip in found:
        if any(endpoint.port == port and _same(ip, host) for host, port in own):
            raise DataError(f"{address} is this server itself; give the policy server's address")
        if not is_public(ip) and not any(ip in network for network in networks):
            raise DataError(f'{address} is in a network that is not public ({ip}) and that '
                            'allowed_networks of the server configuration does not name')
    return dataclasses.replace(endpoint, ip=str(found[0]))


def is_public(ip: Address) -> bool:
    """
    Tell whether an address, and every address that is written inside it, is a public one.

    IPv6 addresses that lead to an IPv4 one (mapped, compatible, 6to4, NAT64, Teredo) are as public
    as that. Multicast is not.
    """
    return all(one.is_global and not one.is_multicast for one in (ip, *_inside(ip)))


def _inside(ip: Address) -> Iterator[ipaddress.IPv4Address]:
    if ip.version == 4:
        return
    low = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    if any(ip in network for network in _CARRIES_IPV4):
        yield low
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo


def resolve(host: str, port: int) -> list[Address]:
    """
    Return the IP addresses of a host in the resolver's order, IPv4 first.

    Not every server reaches IPv6. DataError when there are none.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DataError(f"cannot find the host '{host}': {error}") from error
    once = dict.fromkeys(ipaddress.ip_address(str(info[4][0]).split('%')[0]) for info in found)
    return sorted(once, key=lambda ip: ip.version)


def _same(ip: Address, host: str) -> bool:
    if host in ('0.0.0.0', '::', ''):
        return ip.is_loopback or ip.is_private
    try:
        return ip in resolve(host, 0) or (ip.is_loopback and host == 'localhost')
    except DataError:
        return False
