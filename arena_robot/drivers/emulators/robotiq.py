"""An emulated Robotiq 2F-85: its registers and its motion, behind Modbus RTU on a pty."""

import contextlib
import os
import select
import struct
import threading
import time
import tty
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Self

from arena_robot.drivers.emulators import CountedFaults
from arena_robot.drivers.robotiq import (
    ACTIVATING,
    ACTIVE,
    CLOSED,
    COUNT,
    EXCEPTION,
    INPUTS,
    NOT_ACTIVATED,
    OPEN,
    OUTPUTS,
    READ,
    READ_INPUTS,
    RESET,
    WRITE,
    crc,
    framed,
)
from arena_robot.robots.grippers import ROBOTIQ_2F85

CHARACTER_S = 10 / 115200       # on the wire: start, eight data bits, stop
TURN_S = 0.002                  # between request and reply
LOOK_S = 0.002    # how often the thread looks whether it is to end, and for the end of a frame
ACTIVATION_S = 1.0              # the fingers close and open fully; the real one takes about 1.5
SLOWEST_M_S, FASTEST_M_S = 0.020, 0.150    # of the manual, at speed 0 and 255
CURRENT_COUNTS = 12             # while the fingers move
MOVING, STOPPED_OPENING, STOPPED_CLOSING, ARRIVED = 0, 1, 2, 3    # gOBJ
LATCHED = 0xA                   # this fault and those above need a new activation
UNKNOWN_FUNCTION, UNKNOWN_REGISTER = 1, 2    # Modbus exception codes


class EmulatedFingers:
    """
    Registers and motion of the gripper, at times that the caller gives in seconds.

    ``object_m`` is the width of an object between the fingers; None: there is none.
    """

    def __init__(self, now_s: float, activated: bool = False,
                 object_m: float | None = None) -> None:
        self.object_m = object_m
        self.fault = 0
        self.position = float(OPEN)
        self.status = ACTIVE if activated else RESET
        self._outputs = bytes([int(activated)]) + bytes(5)
        self._now_s = self._active_s = now_s
        self._object = ARRIVED

    def write(self, outputs: bytes, now_s: float) -> None:
        """Take the command registers."""
        self.advance(now_s)
        rising = outputs[0] & 1 and not self._outputs[0] & 1
        self._outputs = outputs
        if not outputs[0] & 1:
            self.status, self.fault = RESET, 0
        elif rising:
            self.status, self._active_s = ACTIVATING, now_s + ACTIVATION_S
            self.fault = 0
        elif self.status == RESET or (outputs[0] >> 3 & 1 and self.status != ACTIVE):
            self.fault = NOT_ACTIVATED
        self._object = MOVING if self._goes() else self._object

    def read(self, now_s: float) -> bytes:
        """Return the six bytes of the status registers."""
        self.advance(now_s)
        moving = self._goes() and self._object == MOVING
        first = (self._outputs[0] & 0b1001) | self.status << 4
        if self.status == ACTIVE:
            first |= self._object << 6
        return bytes([first, 0, self.fault, self._outputs[3], round(self.position),
                      CURRENT_COUNTS if moving else 0])

    def advance(self, now_s: float) -> None:
        """Move the fingers for the time that has passed."""
        passed_s, self._now_s = now_s - self._now_s, now_s
        if self.status == ACTIVATING and now_s >= self._active_s:
            self.status, self.position = ACTIVE, float(OPEN)
        if not self._goes():
            return
        goal = min(max(self._outputs[3], OPEN), CLOSED)
        speed_m_s = SLOWEST_M_S + (FASTEST_M_S - SLOWEST_M_S) * self._outputs[4] / 255
        most = speed_m_s / ROBOTIQ_2F85.stroke_m * (CLOSED - OPEN) * passed_s
        way = goal - self.position
        reached = self.position + min(max(way, -most), most)
        blocked = self._blocked_at()
        if blocked is not None and self.position <= blocked < reached:
            self.position, self._object = blocked, STOPPED_CLOSING
            return
        self.position = reached
        self._object = ARRIVED if reached == goal else MOVING

    def _goes(self) -> bool:
        return bool(self.status == ACTIVE and self._outputs[0] >> 3 & 1 and self.fault < LATCHED)

    def _blocked_at(self) -> float | None:
        if self.object_m is None:
            return None
        return OPEN + (CLOSED - OPEN) * (1.0 - self.object_m / ROBOTIQ_2F85.stroke_m)


@dataclass
class WireFaults(CountedFaults):
    """
    What goes wrong on the wire: each counts the requests that it will still affect.

    ``deaf``: the request is not heard. ``mute``: it is carried out, and the reply is lost.
    """

    deaf: int = 0
    mute: int = 0
    damaged: int = 0
    cut: int = 0
    doubled: int = 0
    noisy: int = 0
    late: int = 0
    late_s: float = 0.2
    refused: int = 0


class RobotiqEmulator:
    """
    The gripper on a pty at ``path``; ``link`` is a symbolic link to it with a name that stays.

    Runs in a thread, paced as at 115200 baud. ``latency_s`` is added to every reply, such as the
    16 ms of a USB adapter's latency timer.
    """

    def __init__(self, slave: int = 9, *, activated: bool = False, object_m: float | None = None,
                 link: Path | None = None, latency_s: float = 0.0) -> None:
        self.slave, self._latency_s, self._link = slave, latency_s, link
        self.fingers = EmulatedFingers(time.monotonic(), activated, object_m)
        self.faults = WireFaults()
        self.requests = 0
        self.path = ''
        self._main = self._end = -1
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the pty and answer on it."""
        self._main, self._end = os.openpty()
        tty.setraw(self._main)
        tty.setraw(self._end)
        self.path = os.ttyname(self._end)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self.path)
        self._over.clear()
        self._thread = threading.Thread(target=self._serve, name='robotiq emulator', daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """Simulate a pulled cable: the port disappears, also for a program that has it open."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(2.0)
            self._thread = None
        for end in (self._main, self._end):
            with contextlib.suppress(OSError):
                os.close(end)
        self._main = self._end = -1
        if self._link is not None:
            self._link.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.unplug()

    def _serve(self) -> None:
        waiting, came_s = b'', 0.0
        while not self._over.is_set():
            ready, _, _ = select.select([self._main], [], [], LOOK_S)
            if ready:
                try:
                    waiting += os.read(self._main, 256)
                except OSError:
                    return
                came_s = time.monotonic()
            elif waiting and time.monotonic() - came_s > 10 * LOOK_S:
                waiting = b''       # an incomplete frame followed by a pause is discarded
            while (size := _size(waiting)) and len(waiting) >= size:
                frame, waiting = waiting[:size], waiting[size:]
                self._answer(frame)

    def _answer(self, frame: bytes) -> None:
        self._over.wait(len(frame) * CHARACTER_S)
        if crc(frame[:-2]) != frame[-2:] or frame[0] != self.slave:
            return
        self.requests += 1
        faults = self.faults
        if faults.spend('deaf'):
            return
        reply = self._reply(frame)
        if faults.spend('mute'):
            return
        if faults.spend('damaged'):
            reply = reply[:-1] + bytes([reply[-1] ^ 0x55])
        if faults.spend('cut'):
            reply = reply[:len(reply) // 2]
        if faults.spend('doubled'):
            reply += reply
        if faults.spend('noisy'):
            reply = b'\x00\xff' + reply
        if faults.spend('late'):
            self._over.wait(faults.late_s)
        self._over.wait(TURN_S + self._latency_s + len(reply) * CHARACTER_S)
        with contextlib.suppress(OSError):      # the other side has gone
            os.write(self._main, reply)

    def _reply(self, frame: bytes) -> bytes:
        slave, function = frame[0], frame[1]
        start, count = struct.unpack('>HH', frame[2:6])
        refusal = 0
        if function not in (READ, READ_INPUTS, WRITE):
            refusal = UNKNOWN_FUNCTION
        elif (start, count) != ((OUTPUTS if function == WRITE else INPUTS), COUNT) \
                or self.faults.spend('refused'):
            refusal = UNKNOWN_REGISTER
        if refusal:
            return framed(bytes([slave, function | EXCEPTION, refusal]))
        if function == WRITE:
            self.fingers.write(frame[7:13], time.monotonic())
            return framed(frame[:6])
        return framed(bytes([slave, function, 2 * COUNT]) + self.fingers.read(time.monotonic()))


def _size(waiting: bytes) -> int:
    """Return the size of the request that ``waiting`` begins with; 0 when not yet known."""
    if len(waiting) < 8:
        return 0
    return 9 + waiting[6] if waiting[1] == WRITE else 8
