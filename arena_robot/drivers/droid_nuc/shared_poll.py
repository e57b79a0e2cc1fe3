"""
The gripper's position, from the driver that polls the arm to that of the gripper.

A gripper read takes 32 ms on DROID's NUC, and its server answers one call at a time: two pollers
would leave ten states of the arm a second. get_robot_state holds the gripper's position already,
so the arm's driver tells it to the other process of this machine.
"""

import contextlib
import os
from typing import Any

import msgpack
import zmq

SILENT_NS = 400_000_000     # an arm that brakes tells nothing for 300 ms


def _place(server: tuple[str, int]) -> str:
    """Return a socket of this machine and user that ends with the process which opened it."""
    host, port = server
    return f'ipc://@arena-nuc-{os.getuid()}-{host}-{port}'


class GripperReport:
    """Tells the gripper's positions; a second one for the same server tells nothing."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._place = _place(server)
        self._socket: zmq.Socket[bytes] | None = None

    def open(self) -> None:
        """Open the socket."""
        made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUB)
        made.linger = 0
        try:
            made.bind(self._place)
        except zmq.ZMQError:
            made.close()
        else:
            self._socket = made

    def send(self, position: float, trip_ns: int) -> None:
        """Tell a position, 0 open to 1 closed, and how long the call took that read it."""
        if self._socket is not None:
            self._socket.send(msgpack.packb((position, trip_ns)))

    def close(self) -> None:
        """Close the socket; can be called twice."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


class ReportedGripper:
    """Hears the positions that a :class:`GripperReport` for the same server tells."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._place = _place(server)
        self._socket: zmq.Socket[bytes] | None = None
        self._heard_ns: int | None = None

    def open(self) -> None:
        """Open the socket; whether somebody tells is seen later."""
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        for option, value in ((zmq.LINGER, 0), (zmq.CONFLATE, 1)):
            self._socket.setsockopt(option, value)
        self._socket.subscribe(b'')
        self._socket.connect(self._place)
        self._heard_ns = None

    def newest(self, now_ns: int) -> tuple[float, int] | None:
        """Return (position, trip_ns) that came since the last call, None if nothing did."""
        assert self._socket is not None
        with contextlib.suppress(zmq.Again):
            told: Any = msgpack.unpackb(self._socket.recv(zmq.NOBLOCK))
            self._heard_ns = now_ns
            return float(told[0]), int(told[1])
        return None

    def silent(self, now_ns: int) -> bool:
        """Return whether nobody tells positions."""
        return self._heard_ns is None or now_ns - self._heard_ns > SILENT_NS

    def close(self) -> None:
        """Close the socket; can be called twice."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
