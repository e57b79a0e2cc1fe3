"""Which policy addresses a server may call: public ones, and those of ``allowed_networks``."""

import dataclasses
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.policy.address import CONNECT_TO, PolicyAddress, parse_address

_HOST = re.compile(r'[A-Za-z0-9.\-]{1,253}|[0-9A-Fa-f:.]{2,45}')
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# IPv6 has global unicast addresses here only, and at well-known NAT64, whose end is an IPv4 one.
_UNICAST, _NAT64 = ipaddress.IPv6Network('2000::/3'), ipaddress.IPv6Network('64:ff9b::/96')
# Global by their registries, and not the address of one host: protocol assignments with Teredo,
# documentation, 6to4's relays, AS112, AMT.
_SPECIAL = tuple(map(ipaddress.ip_network, (
    '2001::/23', '2001:db8::/32', '3fff::/20', '2620:4f:8000::/48', '192.0.0.0/24',
    '192.88.99.0/24', '192.31.196.0/24', '192.52.193.0/24', '192.175.48.0/24')))
MAX_CHARS = 500    # the column of the database


@dataclass(frozen=True)
class Endpoint(PolicyAddress):
    """A policy's address taken apart; ``ip`` once it was resolved."""

    ip: str = ''


def parse(address: str) -> Endpoint:
    """
    Return the parts of ``scheme://host:port/path?option=value``.

    DataError when it is anything else, and for ``connect_to``, which only the server adds.
    """
    what = ('a policy address is grpc://, grpcs://, openpi:// or openpis://host:port, the last '
            f'two with /path?option=value, found {address!r:.200}')
    try:
        parsed = parse_address(address)
    except ConfigError as error:
        raise DataError(f'{what}: {error!s:.300}') from error
    if parsed.is_translated:
        raise DataError(f"{what}. Run arena policy serve '{address:.200}' beside it, and submit "
                        'the address which that command prints')
    if not _HOST.fullmatch(parsed.host) or len(address) > MAX_CHARS or address[-1] in '?#' \
            or any(key == CONNECT_TO for key, _ in parsed.options):
        raise DataError(what)
    return Endpoint(**dataclasses.asdict(parsed) | {'options': parsed.options})


def pinned(address: str, allowed_networks: Iterable[str],
           own: Iterable[tuple[str, int]] = ()) -> str:
    """
    Return an address with the IP address that was checked, so that nothing else is connected to.

    DataError as for :func:`check`.
    """
    endpoint = check(address, allowed_networks, own)
    return at(endpoint, endpoint.ip, endpoint.port)


def at(endpoint: Endpoint, ip: str, port: int) -> str:
    """Return an endpoint as an address that is connected to at another place than its host."""
    return str(dataclasses.replace(
        endpoint, port=port, options=(*endpoint.options, (CONNECT_TO, ip))))


def check(address: str, allowed_networks: Iterable[str],
          own: Iterable[tuple[str, int]] = ()) -> Endpoint:
    """
    Return the endpoint of an address that this server may call.

    ``own`` are the server's own listening (host, port) pairs. DataError when the name does not
    resolve, points at the server itself, or into a network that is neither public nor allowed.
    """
    endpoint = parse(address)
    return dataclasses.replace(endpoint, ip=allowed_ip(
        endpoint.host, endpoint.port, allowed_networks, own, address))


def allowed_ip(host: str, port: int, allowed_networks: Iterable[str],
               own: Iterable[tuple[str, int]] = (), address: str = '') -> str:
    """Return the IP address at which a host may be called; DataError as for :func:`check`."""
    address = address or f'{host}:{port}'
    networks, ips = [ipaddress.ip_network(n) for n in allowed_networks], resolve(host, port)
    for ip in ips:
        if any(port == other and _same(ip, place) for place, other in own):
            raise DataError(f"{address} is this server itself; give your server's address")
        if not is_public(ip) and not any(ip in network for network in networks):
            raise DataError(f'{address} is in a network that is not public ({ip}) and that '
                            'allowed_networks of the server configuration does not name')
    return str(ips[0])


def is_public(ip: Address) -> bool:
    """
    Tell whether an address is that of one public host.

    IPv6 addresses that are IPv4 ones (mapped, well-known NAT64, 6to4) are as public as these.
    Other forms with an address inside are not: compatible, translated, Teredo, local NAT64.
    """
    if isinstance(ip, ipaddress.IPv6Address):
        low = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF) if ip in _NAT64 else None
        if (inner := ip.ipv4_mapped or ip.sixtofour or low) is not None:
            return is_public(inner)
        if ip not in _UNICAST:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _SPECIAL)


def resolve(host: str, port: int) -> list[Address]:
    """
    Return the IP addresses of a host in the resolver's order, IPv4 first.

    Not every server reaches IPv6. DataError when there are none.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DataError(f"cannot find the host '{host}': {error}") from error
    once = dict.fromkeys(ipaddress.ip_address(str(info[4][0]).split('%')[0]) for info in infos)
    return sorted(once, key=lambda ip: ip.version)


def _same(ip: Address, host: str) -> bool:
    if host in ('0.0.0.0', '::', ''):
        return ip.is_loopback or ip.is_private
    try:
        return ip in resolve(host, 0) or (ip.is_loopback and host == 'localhost')
    except DataError:
        return False
