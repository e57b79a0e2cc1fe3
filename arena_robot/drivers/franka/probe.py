"""
Looks at a control box without any library: its FCI version, its mode, how states arrive.

Settings and box are looked at before a Franka is connected. ADVICE has what a person can do about
what a Franka, its library or the connection said.
"""

import re
import socket
import struct
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka.client import FrankaConfig, late_share
from arena_robot.drivers.franka.wire import (
    CONNECT,
    CONNECTED,
    DIALECTS,
    HEADER,
    ROBOT_PORT,
    VERSIONS,
)

ANSWER_S, STATE_S = 0.8, 1.0    # for the connection and each answer; for the first state
OTHER = 1       # a version that no supported system has: the box says its own, sends no states
CLOSED = (ConnectionResetError, BrokenPipeError)
# A robot in programming mode, or stopped by a safety rule, shows the mode of the user stop.
HINTS = {
    RobotMode.USER_STOPPED: "the user stop is pressed: release it; where it is released, choose "
                            "execution mode in Franka's Desk, and remove safety rules in Watchman",
    RobotMode.GUIDING: 'the arm is guided by hand: let go of its buttons',
    RobotMode.OTHER: "the robot is not ready: open the brakes and activate FCI in Franka's Desk, "
                     'in execution mode',
}
RECOVER = {RobotMode.REFLEX: 'see that nothing touches the arm, then recover it: on the page, by '
           '!recover in `arena session`, or ~/error_recovery of arm_node'}
NO_ANSWER = ('check robot_ip, cable and power, that FCI is active and that no other program uses '
             'the robot; a firewall must let UDP through')
NO_FCI = ("activate FCI in Franka's Desk, in execution mode, and end other programs that use the "
          'robot: it has one client at a time')
SAFETY = 'safety function'
WENT = 'the control process was ended, which stops the robot'
# The first that fits; words of both libraries and of this package.
ADVICE = (
    ('refused', f'check robot_ip; {NO_FCI}'),
    (SAFETY, "choose execution mode in Franka's Desk, and remove safety rules in "
     'Watchman'),
    ('(?i)incompatible|object size|unexpected response', 'the system of the robot and the library '
     'do not fit: check robot_type, use the other backend, or update the robot'),
    ('(?i)clos|reset by peer|net exception|interrupt', NO_FCI),
    ('(?i)time-?d? ?out|unreachable|no route|silent|does not answer', NO_ANSWER),
)


@dataclass(frozen=True)
class FciLook:
    """
    ``version`` of the FCI; of the states: how many came, were lost, and the longest gap.

    ``late`` is the share that was lost or came too late to be answered at 1 kHz, ``mode`` the
    robot's in the newest state.
    """

    version: int
    states: int
    lost: int
    gap_ms: float
    late: float
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
    size, stamps, came_s = DIALECTS[version].state.itemsize, list[float](), dict[int, float]()
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
            came_s.setdefault(int(struct.unpack_from('<Q', packet)[0]), stamps[-1])
    gaps = [1e3 * (after - before) for before, after in pairwise(stamps)]
    mode = np.frombuffer(packet, DIALECTS[version].state)[0]['robot_mode']
    return FciLook(version, len(stamps), max(came_s) - min(came_s) + 1 - len(came_s),
                   max(gaps, default=0.0), late_share(came_s), RobotMode(int(mode)))


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
    command, call, answer_size = HEADER.unpack_from(answer)
    if (command, call, answer_size) != (0, 0, size):
        raise DriverError(f'what answers is no Franka control box: {answer[:16]!r}; check '
                          'robot_ip')
    status, box_version = CONNECTED.unpack_from(answer, HEADER.size)
    return int(status), int(box_version)


def advised(words: str) -> str:
    """Return what was said when no connection could be made, and what can be done about it."""
    advice = next((text for pattern, text in ADVICE if re.search(pattern, words)), '')
    return f'{words.rstrip(". ")}; {advice}' if advice and advice not in words else words


def explained(error: str) -> str:
    """Return an error of a motion, with what can be done where its own words do not say it."""
    return advised(error) if SAFETY in error else error


def system_of(version: int) -> str:
    """Return which systems of a robot have a version of the FCI."""
    newest, panda = VERSIONS['fr3'], VERSIONS['panda']
    return ('system 5.9.0 or newer of an FR3' if version == newest else
            'a newer system than any that was tried' if version > newest else
            'a system before 5.9.0 of an FR3' if version > panda else
            'system 4.2.1 of a Panda' if version == panda else
            'a system before 4.2.1 of a Panda')


def misfit(version: int, robot_type: str) -> str:
    """Return what to do when a robot speaks this version of the FCI, '' when it fits."""
    wanted = VERSIONS.get(robot_type, 0)
    if version == wanted:
        return ''
    if version in VERSIONS.values():
        return 'correct robot_type, or update the robot'
    return (f'for {system_of(version)} use backend ros_control with a library of your own, or '
            f'update the robot to {system_of(VERSIONS["fr3"])} or {system_of(VERSIONS["panda"])}')


def require_settings(library: str, robots: tuple[str, ...], config: FrankaConfig) -> None:
    """Raise NotConnected for settings that the library cannot have."""
    if config.robot_type not in robots:
        raise NotConnected(f'{library} drives {" and ".join(robots)} only, robot_type is '
                           f'{config.robot_type}; use franka_rs or droid_nuc')


def require_box(config: FrankaConfig) -> None:
    """
    Raise NotConnected within 2 s where no control box of this robot answers.

    The libraries would wait for ever for one that is silent or closes the connection.
    """
    try:
        version = version_at(config.address)
    except DriverError as error:
        raise NotConnected(f'no connection to the robot at {config.address}: '
                           + str(error).replace(': ', '; ', 1)) from error
    require_version(version, config.robot_type)


def require_version(version: int, robot_type: str) -> None:
    """Raise NotConnected when a robot of this type speaks another version of the FCI."""
    if advice := misfit(version, robot_type):
        known = '' if version in VERSIONS.values() else 'incompatible library version as '
        raise NotConnected(f'{known}the robot speaks version {version} of the FCI, a {robot_type} '
                           f'version {VERSIONS[robot_type]}: {advice}')
