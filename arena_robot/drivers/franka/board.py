"""Memory that a driver shares with its control process: state, newest command, request."""

import json
import mmap
import os
import struct
import zlib
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF

SIZE = 8192                                        # two pages, with room behind each record
ERRORS, ERROR_LENGTH, TEXT_LENGTH = 6, 100, 400    # with every character escaped below 3 KB
TRIES = 1000                                       # a writer holds a record for microseconds
_WORD = 8                                          # bytes of a counter
_HEAD = struct.Struct('<II')                       # size of the payload, its CRC
_BEAT, _STATE, _COMMAND, _REQUEST = 0, 64, 4096, 6144
_STATE_NUMBERS = struct.Struct(f'<6Q3Bx{1 + 5 * DOF}d')
_COMMAND_NUMBERS = struct.Struct(f'<QBQQ{1 + DOF}d')
_REQUEST_NUMBERS = struct.Struct('<QB26d')
_ZERO = np.zeros(DOF)


class FrankaOrder(IntEnum):
    """What the control process is to do, or does."""

    HOLD = 0
    TRACK = 1
    MOVE = 2


class FrankaRequest(IntEnum):
    """What is asked once, and answered."""

    NONE = 0
    RECOVER = 1
    COLLISION = 2


@dataclass(frozen=True)
class FrankaState:
    """
    What the control process last read and did; times are monotonic nanoseconds.

    ``robot_ms`` is the robot's own time; ``obeyed`` and ``answered`` are the newest command and
    request that were carried out, ``answer`` is why a request failed. ``busy_until_ns``: a call of
    the library may take until then, ``awaits`` says which answer of the robot it waits for.
    ``trouble`` is why the process ended.
    """

    count: int = 0
    read_ns: int = 0
    robot_ms: int = 0
    obeyed: int = 0
    answered: int = 0
    busy_until_ns: int = 0
    mode: int = 0
    order: FrankaOrder = FrankaOrder.HOLD
    version: int = 0
    success_rate: float = 0.0
    q: Floats = field(default_factory=lambda: _ZERO)
    dq: Floats = field(default_factory=lambda: _ZERO)
    tau: Floats = field(default_factory=lambda: _ZERO)
    tau_ext: Floats = field(default_factory=lambda: _ZERO)
    q_d: Floats = field(default_factory=lambda: _ZERO)
    errors: tuple[str, ...] = ()
    trouble: str = ''
    answer: str = ''
    awaits: str = ''

    @property
    def unanswered(self) -> str:
        """Return what the robot has not answered yet, as a sentence; '' for nothing."""
        return self.awaits and f'the robot has not answered {self.awaits} yet'


@dataclass(frozen=True)
class FrankaCommand:
    """The newest command: ``until_ns`` is when tracking ends without another one."""

    serial: int = 0
    order: FrankaOrder = FrankaOrder.HOLD
    posted_ns: int = 0
    until_ns: int = 0
    duration_s: float = 0.0
    q: Floats = field(default_factory=lambda: _ZERO)


class FrankaBoard:
    """
    The shared memory, in a file; one side writes states, the other commands and requests.

    Each record has a counter that is odd while it is written, so that a reader never gets half of
    it, even when the writer was killed. Counters and the sign of life are written as whole words:
    ``struct`` first clears what it writes to, and the other side would read 0.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        number = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(number, SIZE)
            self._memory = mmap.mmap(number, SIZE)
        finally:
            os.close(number)
        self._words = memoryview(self._memory).cast('Q')

    def close(self) -> None:
        """Let go of the memory; the file stays."""
        self._words.release()
        self._memory.close()

    def beat(self, now_ns: int) -> None:
        """Tell the control process that the driver lives."""
        self._words[_BEAT // _WORD] = now_ns

    @property
    def last_beat_ns(self) -> int:
        """Return when the driver last told that."""
        return self._words[_BEAT // _WORD]

    def post_state(self, state: FrankaState) -> None:
        """Publish a state."""
        texts = json.dumps([[_plain(error, ERROR_LENGTH) for error in state.errors[:ERRORS]],
                            _plain(state.trouble, TEXT_LENGTH),
                            _plain(state.answer, TEXT_LENGTH),
                            _plain(state.awaits, ERROR_LENGTH)]).encode()
        self._write(_STATE, _STATE_NUMBERS.pack(
            state.count, state.read_ns, state.robot_ms, state.obeyed, state.answered,
            state.busy_until_ns, state.mode, state.order, state.version, state.success_rate,
            *state.q, *state.dq, *state.tau, *state.tau_ext, *state.q_d) + texts)

    def state(self) -> FrankaState | None:
        """Return the newest state, None before the first."""
        payload = self._read(_STATE)
        if payload is None:
            return None
        numbers = _STATE_NUMBERS.unpack_from(payload)
        errors, trouble, answer, awaits = json.loads(payload[_STATE_NUMBERS.size:])
        joints = np.array(numbers[10:]).reshape(5, DOF)
        joints.setflags(write=False)
        count, read, robot_ms, obeyed, answered, busy, mode, order, version = numbers[:9]
        q, dq, tau, tau_ext, q_d = joints
        return FrankaState(
            count, read, robot_ms, obeyed, answered, busy, mode, FrankaOrder(order), version,
            numbers[9], q, dq, tau, tau_ext, q_d, tuple(errors), trouble, answer, awaits)

    def post_command(self, command: FrankaCommand) -> None:
        """Replace the command."""
        self._write(_COMMAND, _COMMAND_NUMBERS.pack(
            command.serial, command.order, command.posted_ns, command.until_ns,
            command.duration_s, *command.q))

    def command(self) -> FrankaCommand | None:
        """Return the newest command, None before the first and while one is being written."""
        payload = self._read(_COMMAND)
        if payload is None:
            return None
        serial, order, posted, until, duration, *q = _COMMAND_NUMBERS.unpack(payload)
        return FrankaCommand(serial, FrankaOrder(order), posted, until, duration, np.array(q))

    def post_request(self, serial: int, request: FrankaRequest,
                     values: tuple[float, ...] = (0.0,) * 26) -> None:
        """Ask for something once; ``values`` are collision thresholds, those of torques first."""
        self._write(_REQUEST, _REQUEST_NUMBERS.pack(serial, request, *values))

    def request(self) -> tuple[int, FrankaRequest, tuple[float, ...]] | None:
        """Return the newest request: its number, what it is, its values; None as for a command."""
        payload = self._read(_REQUEST)
        if payload is None:
            return None
        serial, request, *values = _REQUEST_NUMBERS.unpack(payload)
        return serial, FrankaRequest(request), tuple(values)

    def _write(self, at: int, payload: bytes) -> None:
        before = self._words[at // _WORD] & ~1
        self._words[at // _WORD] = before + 1
        begin = at + _WORD
        _HEAD.pack_into(self._memory, begin, len(payload), zlib.crc32(payload))
        begin += _HEAD.size
        self._memory[begin:begin + len(payload)] = payload
        self._words[at // _WORD] = before + 2

    def _read(self, at: int) -> bytes | None:
        for _ in range(TRIES):
            before = self._words[at // _WORD]
            if before == 0:
                return None
            begin = at + _WORD
            size, crc = _HEAD.unpack_from(self._memory, begin)
            begin += _HEAD.size
            payload = self._memory[begin:begin + min(size, SIZE)]
            if before % 2 == 0 and zlib.crc32(payload) == crc \
                    and self._words[at // _WORD] == before:
                return payload
        return None


def _plain(text: str, length: int) -> str:
    return ' '.join(text.encode('ascii', 'replace').decode().split())[:length]


def ended(state: FrankaState | None, trouble: str) -> FrankaState:
    """Return a state that says why the control process ends."""
    return replace(state or FrankaState(), trouble=trouble, busy_until_ns=0)
