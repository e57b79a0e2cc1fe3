"""One client of an emulated control box: its two sockets, the bytes on them, what goes wrong."""

import contextlib
import select
import socket
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from arena_robot.drivers.emulators import CountedFaults
from arena_robot.drivers.franka.wire import HEADER, Dialect, FciCommand

LARGEST = 1 << 16    # bytes of a datagram or message, at most


@dataclass
class FciFaults(CountedFaults):
    """
    Faults of the network and of the box; numbers count down with the packets that they affect.

    ``silent``: no state is sent. ``unanswered``: commands that get no reply. ``closes_on``:
    commands at which the box closes the connection. ``refused``: commands that are answered as
    not possible. ``unplugged``: nothing passes in either direction. ``late_ms``: how late a late
    state comes. ``falls_idle``: motions that the box interpolates, at whose goal it falls idle and
    tells nobody, as FR3s did to clients before libfranka 0.20.5.
    """

    silent: bool = False
    unplugged: bool = False
    unanswered: set[FciCommand] = field(default_factory=set)
    closes_on: set[FciCommand] = field(default_factory=set)
    refused: set[FciCommand] = field(default_factory=set)
    states_lost: int = 0
    states_doubled: int = 0
    states_damaged: int = 0
    states_cut: int = 0
    states_late: int = 0
    late_ms: int = 30
    falls_idle: int = 0
    commands_lost: int = 0
    commands_damaged: int = 0

    @property
    def broken(self) -> bool:
        """Return whether no command can be expected."""
        return self.silent or self.unplugged

    def mend(self) -> None:
        """End all of them."""
        self.__init__()  # type: ignore[misc]


class FciClient:
    """
    A connected client; every method returns at once.

    ``gone`` is set when it has left, ``lost`` counts commands that a fault has taken, ``sent`` is
    the newest state that went out.
    """

    def __init__(self, line: socket.socket, host: str, dialect: Dialect,
                 faults: FciFaults) -> None:
        line.setblocking(False)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.gone, self.lost, self.sent = False, 0, 0
        self._line, self._dialect, self._faults = line, dialect, faults
        self._address = line.getpeername()[0]
        self._waiting = b''
        self._states: tuple[str, int] | None = None
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((host, 0))
        self._udp.setblocking(False)
        self._late: list[tuple[int, bytes]] = []

    @property
    def connected(self) -> bool:
        """Return whether it said where states are to be sent."""
        return self._states is not None

    def send_states_to(self, port: int) -> None:
        """Send states to this port from now on."""
        self._states = (self._address, port)

    def close(self) -> None:
        """Close both sockets."""
        self.gone = True
        self._line.close()
        self._udp.close()

    def requests(self) -> list[tuple[FciCommand, int, bytes]]:
        """Return what has come: command, its id, its payload."""
        requests: list[tuple[FciCommand, int, bytes]] = []
        if self._faults.unplugged:
            return requests
        try:
            received = self._line.recv(LARGEST)
            self.gone = not received
            self._waiting += received
        except BlockingIOError:
            return requests
        except OSError:
            self.gone = True
        while len(self._waiting) >= HEADER.size:
            number, number_of_call, size = HEADER.unpack_from(self._waiting)
            if not HEADER.size <= size <= LARGEST:
                self.gone = True
                break
            if len(self._waiting) < size:
                break
            payload, self._waiting = self._waiting[HEADER.size:size], self._waiting[size:]
            try:
                requests.append((self._dialect.command_of(number), number_of_call, payload))
            except ValueError:
                self.gone = True
                break
        return requests

    def reply(self, command: FciCommand, number_of_call: int, body: bytes) -> None:
        """Answer a request, unless a fault keeps the answer back."""
        if command in self._faults.unanswered or self._faults.unplugged or self.gone:
            return
        message = HEADER.pack(self._dialect.number_of(command), number_of_call,
                              HEADER.size + len(body)) + body
        try:
            self._line.sendall(message)
        except OSError:
            self.gone = True

    def send_state(self, state: Any, tick: int) -> None:
        """Send a state, as the faults of the network let it through."""
        faults = self._faults
        if self._states is None or faults.broken or faults.spend('states_lost'):
            return
        packet = state.tobytes()
        if faults.spend('states_cut'):
            packet = packet[:-1]
        if faults.spend('states_damaged'):
            packet = bytes(255 - byte for byte in packet)
        if faults.spend('states_late'):
            self._late.append((tick + faults.late_ms, packet))
            return
        self.sent = tick
        for _ in range(2 if faults.spend('states_doubled') else 1):
            self._send(packet)
        while self._late and self._late[0][0] <= tick:
            self._send(self._late.pop(0)[1])

    def wait(self, timeout_s: float) -> bool:
        """Wait for a packet or ``timeout_s``; return True for a request, or the end."""
        try:
            ready, _, _ = select.select([self._line, self._udp], [], [], timeout_s)
        except (OSError, ValueError):
            return True
        return self._line in ready

    def command(self, since: int) -> Any | None:
        """Return the newest command that answers a state from ``since`` on, None without one."""
        newest = None
        size = self._dialect.command.itemsize
        while not self.gone and not self._faults.unplugged:
            try:
                packet = self._udp.recv(LARGEST)
            except OSError:
                break
            if len(packet) != size:
                continue
            if self._faults.spend('commands_lost'):
                self.lost += 1
                continue
            if self._faults.spend('commands_damaged'):
                packet = packet[:8] + bytes(255 - byte for byte in packet[8:64]) + packet[64:]
            command = np.frombuffer(packet, self._dialect.command)[0]
            newest = command if command['message_id'] >= since else newest
        return newest

    def _send(self, packet: bytes) -> None:
        assert self._states is not None
        with contextlib.suppress(OSError):
            self._udp.sendto(packet, self._states)
