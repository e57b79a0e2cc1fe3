"""Looks at a control box without any library: its FCI version, its mode, how states arrive."""

import socket
import struct
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka.advice import NO_ANSWER, NO_FCI
from arena_robot.drivers.franka.wire import CONNECT, CONNECTED, DIALECTS, HEADER, ROBOT_PORT

ANSWER_S, STATE_S = 0.8, 1.0
OTHER = 1       # a version that no supported system has: the box says its own, sends no states
CLOSED = (ConnectionResetError, BrokenPipeError)


@dataclass(frozen=True)
class FciLook:
    """
    ``version`` of the FCI; of the states: how many came, were lost, and the longest gap.

    ``mode`` is the robot's in the newest state.
    """

    version: int
    states: int
    lost: int
    gap_ms: float
    mode: RobotMode = RobotMode.IDLE


def version_at(address: str) -> int:
    """
    Return the FCI version of what answers at an address, within 2 s; it gets no client by this.

    ``address`` is a host or ``host:port``. Raises DriverError: what was found, ``: ``, what to do.
    """
    host, _, port = address.partition(':')
    return _version(host, int(port or ROBOT_PORT), OTHER)


def look_at(address: str, seconds: float = 1.0) -> FciLook:
    """
    Receive states for some seconds; nothing is commanded.

    ``address`` is a host or ``host:port``. Raises DriverError with what to do.
    """
    host, _, port = address.partition(':')
    version = _version(host, int(port or ROBOT_PORT), 10)
    if version not in DIALECTS:
        raise DriverError(f'{address} speaks version {version} of the FCI; known are '
                          f'{" and ".join(map(str, DIALECTS))}: update the robot to system 5.9.0 '
                          'or newer (FR3) or 4.2.1 (Panda)')
    return _states(host, int(port or ROBOT_PORT), version, seconds)


def _version(host: str, port: int, asked: int) -> int:
    with _line(host, port) as line, _udp() as udp:
        return _connect(line, asked, udp.getsockname()[1])[1]


def _states(host: str, port: int, version: int, seconds: float) -> FciLook:
    size, stamps, ids = DIALECTS[version].state.itemsize, list[float](), set[int]()
    with _line(host, port) as line, _udp() as udp:
        status, _ = _connect(line, version, udp.getsockname()[1])
        if status:
            raise DriverError(f'{host} refuses version {version}, which it said it has')
        end_s = time.monotonic() + seconds
        while not stamps or time.monotonic() < end_s:
            try:
                packet = udp.recv(1 << 16)
            except TimeoutError as error:
                raise DriverError(f'{host} sends no states: is a firewall between, does UDP pass?'
                                  ) from error
            if len(packet) != size:
                raise DriverError(f'{host} sends states of {len(packet)} bytes, version {version} '
                                  f'has {size}: its system is another one')
            stamps.append(time.monotonic())
            ids.add(int(struct.unpack_from('<Q', packet)[0]))
    gaps = [1e3 * (after - before) for before, after in pairwise(stamps)]
    mode = np.frombuffer(packet, DIALECTS[version].state)[0]['robot_mode']
    return FciLook(version, len(stamps), max(ids) - min(ids) + 1 - len(ids),
                   max(gaps, default=0.0), RobotMode(int(mode)))


def _line(host: str, port: int) -> socket.socket:
    try:
        line = socket.create_connection((host, port), ANSWER_S)
    except ConnectionRefusedError as error:
        raise DriverError(f'{host}:{port} refuses the connection ({error.strerror}): check '
                          f'robot_ip; {NO_FCI}') from error
    except (OSError, ValueError, OverflowError) as error:
        reason = (error.strerror if isinstance(error, OSError) else '') or str(error)
        raise DriverError(f'{host}:{port} cannot be reached ({reason}): check robot_ip, cable, '
                          'power and the addresses of both machines') from error
    line.settimeout(ANSWER_S)
    return line


def _udp() -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(('0.0.0.0', 0))
    udp.settimeout(STATE_S)
    return udp


def _connect(line: socket.socket, version: int, port: int) -> tuple[int, int]:
    """Return the status and the version that the box answers with."""
    payload = CONNECT.pack(version, port)
    size = HEADER.size + CONNECTED.size
    answer, closed = b'', f'the connection was closed at once: {NO_FCI}'
    try:
        line.sendall(HEADER.pack(0, 0, HEADER.size + len(payload)) + payload)
        while len(answer) < size and (more := line.recv(size - len(answer))):
            answer += more
    except CLOSED as error:
        raise DriverError(closed) from error
    except OSError as error:
        raise DriverError(f'what accepts the connection is silent: {NO_ANSWER}') from error
    if len(answer) < size:
        raise DriverError(closed)
    command, call, said = HEADER.unpack_from(answer)
    if (command, call, said) != (0, 0, size):
        raise DriverError(f'what answers is no Franka control box: {answer[:16]!r}; check '
                          'robot_ip')
    status, found = CONNECTED.unpack_from(answer, HEADER.size)
    return int(status), int(found)
