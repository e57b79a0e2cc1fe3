"""
The Modbus RTU frames of a Robotiq 2F gripper: 115200 baud, 8N1, slave address 9.

Three output registers at 0x03E8 are written with function 16, three input registers at 0x07D0 are
read with function 3. Nothing here opens a port.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from arena_robot.core.errors import DriverError

OUTPUTS, INPUTS, COUNT = 0x03E8, 0x07D0, 3
READ, READ_INPUTS, WRITE, EXCEPTION = 3, 4, 16, 0x80
READ_BYTES, WRITE_BYTES, EXCEPTION_BYTES = 11, 8, 5
OPEN, CLOSED = 3, 230           # positions gPO at both ends of the stroke
AMPERE_PER_COUNT = 0.010        # gCU counts 10 mA
RESET, ACTIVATING, ACTIVE = 0, 1, 3
NOT_ACTIVATED = 7

FAULTS: Mapping[int, str] = {
    0x5: 'the action waits for the end of the activation',
    0x7: 'the gripper is not activated',
    0x8: 'the gripper is too hot; let it cool down',
    0x9: 'the gripper heard nothing for a second',
    0xA: 'the supply is below 21.6 V',
    0xB: 'an automatic release is running',
    0xC: 'an internal fault; if it comes again, call the maker',
    0xD: 'the activation failed: something was in the way of the fingers',
    0xE: 'the motor drew too much current',
    0xF: 'an automatic release has ended',
}
_EXCEPTIONS = {1: 'it does not know the function', 2: 'it does not have the register',
               3: 'it does not accept the value', 4: 'it failed'}


class FrameError(DriverError):
    """A reply that is no frame of this gripper: too short, damaged, or of another slave."""


def crc(body: bytes) -> bytes:
    """Return the CRC-16/MODBUS of a frame, low byte first."""
    value = 0xFFFF
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0xA001 if value & 1 else value >> 1
    return struct.pack('<H', value)


def framed(body: bytes) -> bytes:
    """Return a frame: the body and its CRC."""
    return body + crc(body)


@dataclass(frozen=True)
class Outputs:
    """The command registers: activate, go to a position, with speed and force (0 to 255)."""

    activate: bool = True
    go: bool = False
    position: int = 0
    speed: int = 0
    force: int = 0

    @property
    def data(self) -> bytes:
        """The three registers."""
        return bytes([self.activate | self.go << 3, 0, 0, self.position, self.speed, self.force])


@dataclass(frozen=True)
class Inputs:
    """The six bytes of the status registers, by Robotiq's names."""

    activated: bool      # gACT
    going: bool          # gGTO
    status: int          # gSTA
    found: int           # gOBJ
    fault: int           # gFLT
    requested: int       # gPR
    position: int        # gPO
    current: int         # gCU

    @property
    def current_a(self) -> float:
        """Current of the motor in ampere."""
        return self.current * AMPERE_PER_COUNT


def read_request(slave: int) -> bytes:
    """Return the request of the status registers."""
    return framed(struct.pack('>BBHH', slave, READ, INPUTS, COUNT))


def write_request(slave: int, outputs: Outputs) -> bytes:
    """Return the request that writes the command registers."""
    return framed(struct.pack('>BBHHB', slave, WRITE, OUTPUTS, COUNT, 2 * COUNT) + outputs.data)


def read_reply(slave: int, frame: bytes) -> Inputs:
    """Return what a reply to :func:`read_request` says. Raises FrameError."""
    check_reply(slave, READ, frame, READ_BYTES)
    if frame[2] != 2 * COUNT:
        raise FrameError(f'the reply holds {frame[2]} bytes of registers, expected {2 * COUNT}')
    status, _, fault, requested, position, current = frame[3:9]
    return Inputs(bool(status & 1), bool(status >> 3 & 1), status >> 4 & 3, status >> 6,
                  fault & 0x0F, requested, position, current)


def check_reply(slave: int, function: int, frame: bytes, size: int) -> None:
    """Raise FrameError unless ``frame`` is a whole reply to ``function`` from ``slave``."""
    if not frame:
        raise FrameError(f'no answer from slave address {slave}')
    is_exception = len(frame) == EXCEPTION_BYTES and frame[1] & EXCEPTION
    if len(frame) != size and not is_exception:
        raise FrameError(f'{len(frame)} bytes of a reply came, expected {size}')
    if crc(frame[:-2]) != frame[-2:]:
        raise FrameError(f'the reply {frame.hex(" ")} is damaged: its check sum is wrong')
    if frame[0] != slave:
        raise FrameError(f'slave address {frame[0]} answered, asked was {slave}')
    if is_exception:
        why = _EXCEPTIONS.get(frame[2], f'exception {frame[2]}')
        raise FrameError(f'slave address {slave} refused function {function}: {why}; is it a '
                         'Robotiq 2F gripper?')
    if frame[1] != function:
        raise FrameError(f'the reply is to function {frame[1]}, asked was {function}')
