"""
The Robotiq 2F-85 over Modbus RTU on a serial port (USB to RS-485), 115200 baud, 8N1.

Three output registers at 0x03E8 are written with function 16, three input registers at 0x07D0 are
read with function 3.
"""

import contextlib
import logging
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.action import GripperCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import DriverError, NotConnected, StaleData
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.part import Polled
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.filter import clipped

log = logging.getLogger(__name__)

PERIOD_S = 0.020       # 50 states a second
FRESH_S = 1.0          # age of a state that a command trusts
ACTIVATION_S = 10.0    # then activation is given up; it takes 1.5 s
AGAIN_S = 0.5          # between two attempts to connect
REPLY_S = 0.050        # three times the latency timer of a USB adapter
WRITTEN_S = 0.5        # a request that does not leave by then: the adapter hangs
ATTEMPTS = 3           # one damaged reply is noise, three are a wrong setting
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
    object_status: int   # gOBJ
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


class SerialBus:
    """
    A serial port on which one gripper answers.

    Every call raises DriverError with what to do about it, whatever the serial library raised.
    """

    def __init__(self, com_port: str, baudrate: int, slave: int) -> None:
        self.port, self.slave = com_port, slave
        try:
            import serial
        except ImportError as error:
            raise DriverError('the backend robotiq needs pyserial: pip install pyserial'
                              ) from error
        self._errors = _serial_errors()
        try:
            self._serial = serial.Serial(com_port, baudrate, timeout=REPLY_S, exclusive=True,
                                         write_timeout=WRITTEN_S)
        except self._errors as error:
            raise DriverError(f'{com_port} cannot be opened: {_why(com_port, error)}') from error
        with contextlib.suppress(*self._errors, ValueError):     # only real USB adapters have it
            self._serial.set_low_latency_mode(True)

    def close(self) -> None:
        """Close the port; can be called twice."""
        with contextlib.suppress(*self._errors):
            self._serial.close()

    def read(self) -> Inputs:
        """Return the gripper's status."""
        return read_reply(self.slave, self._ask(read_request(self.slave), READ_BYTES))

    def write(self, outputs: Outputs) -> None:
        """Write the gripper's command."""
        reply = self._ask(write_request(self.slave, outputs), WRITE_BYTES)
        check_reply(self.slave, WRITE, reply, WRITE_BYTES)

    def _ask(self, request: bytes, size: int) -> bytes:
        """Send a request, return the first whole reply; a damaged or late one is asked again."""
        function = request[1]
        error = FrameError('')
        for _ in range(ATTEMPTS):
            try:
                self._serial.reset_input_buffer()
                self._serial.write(request)
                reply: bytes = self._serial.read(EXCEPTION_BYTES)
                if len(reply) == EXCEPTION_BYTES and not reply[1] & EXCEPTION:
                    reply += self._serial.read(size - EXCEPTION_BYTES)
            except self._errors as lost:
                raise DriverError(f'{self.port}: the connection is lost ({lost}); is the cable '
                                  'plugged in?') from lost
            try:
                check_reply(self.slave, function, reply, size)
            except FrameError as damage:
                error = damage
                if reply[1:2] == bytes([function | EXCEPTION]):
                    break
            else:
                return reply
        raise FrameError(f'{self.port}: {error}; are power, cable, slave_address and baudrate '
                         'right, and does no other program use the gripper?') from error


def _serial_errors() -> tuple[type[Exception], ...]:
    """Return what pyserial raises; an unplugged adapter is a termios.error, no OSError."""
    import termios

    import serial
    return (OSError, serial.SerialException, termios.error)


def _why(port: str, error: Exception) -> str:
    path = Path(port)
    if not path.exists():
        known = sorted(str(port_path) for port_path in Path('/dev/serial/by-id').glob('*'))
        return ('there is no such port; ' + (f'found {", ".join(known)}' if known else
                                             'is the USB adapter plugged in?'))
    if isinstance(error, PermissionError) or 'Permission' in str(error):
        return 'no permission: sudo usermod -aG dialout $USER, then log in again'
    if 'exclusively lock' in str(error) or 'Errno 11' in str(error):
        return 'another program uses it'
    return str(error)


class RobotiqGripper(Polled[GripperState]):
    """
    A 2F-85 on a serial port; see :class:`arena_robot.drivers.base.Gripper`.

    A thread polls the gripper 50 times a second. When it does not answer, the port is opened
    again twice a second. Opening moves nothing: a gripper that has been without power must be
    activated, which opens and closes the fingers fully.
    """

    def __init__(self, com_port: str = '/dev/ttyUSB0', baudrate: int = 115200,
                 slave_address: int = 9, clock: Clock | None = None) -> None:
        super().__init__('gripper', clock or SystemClock())
        self._com_port, self._baudrate, self._slave = com_port, baudrate, slave_address
        self._bus: SerialBus | None = None
        self._wire = threading.Lock()       # one exchange at a time on the port
        self._sent = Outputs()              # guarded by _new, as what follows
        self._wanted: Outputs | None = None
        self._problem = ''
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Open the port and read the first state; nothing moves."""
        if self._open:
            return
        try:
            with self._wire:
                self._connect()
        except DriverError as error:
            self._disconnect()
            raise NotConnected(str(error)) from error
        super().open()
        self._ended.clear()
        self._thread = threading.Thread(target=self._poll, name='robotiq', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the fingers if the gripper answers, and close the port."""
        if self._open:
            try:
                self.stop()
            except DriverError as error:
                log.warning('the gripper did not accept stop: %s', error)
        super().close()
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2.0)
            self._thread = None
        self._disconnect()

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state."""
        return self._newest(max_age_s, 'the gripper is being read')

    def command(self, command: GripperCommand) -> GripperCommand:
        """Go to a position, with speed and force, each clipped to 0..1; the newest wins."""
        self._require_open('the gripper')
        sent = clipped(command)
        if self._problem:
            raise DriverError(self._problem)
        fault = self.state(FRESH_S).fault
        if fault:
            raise DriverError(f'gripper fault {fault}: {FAULTS.get(fault, "unknown")}; '
                              'activate() it (the fingers open and close fully)')
        with self._new:
            self._wanted = Outputs(go=True, position=_counts(sent.position),
                                   speed=round(255 * sent.speed), force=round(255 * sent.force))
        return sent

    def stop(self) -> None:
        """Stop the fingers where they are; returns when the gripper has taken it."""
        if not self._open:
            return
        with self._new:
            self._wanted = None
        with self._wire:
            self._write(Outputs(self._sent.activate, False, self._sent.position,
                                self._sent.speed, self._sent.force))
            self._take(self._require_bus().read())

    def activate(self) -> None:
        """Activate, which opens and closes the fingers fully; nothing if it is active and well."""
        self._require_open('the gripper')
        with self._new:
            self._wanted = None
        with self._wire:
            inputs = self._require_bus().read()
            if inputs.status == ACTIVE and not inputs.fault:
                return
            self._write(Outputs(activate=False))     # faults are cleared by a rising edge
            self._write(Outputs())
            self._take(self._require_bus().read())
        end_ns = self._clock.steady_ns() + round(ACTIVATION_S * 1e9)
        while True:
            try:
                fault = self.state(FRESH_S).fault
            except StaleData:
                fault = NOT_ACTIVATED    # it may answer again before the time is over
            if not fault:
                return
            if fault > NOT_ACTIVATED:
                raise DriverError(f'activation ended with fault {fault}: '
                                  f'{FAULTS.get(fault, "unknown")}')
            if self._clock.steady_ns() > end_ns or self._ended.is_set():
                raise DriverError(f'the gripper was not active {ACTIVATION_S:g} s after '
                                  'activation; is something between its fingers?')
            self._ended.wait(PERIOD_S)

    # -- the thread that polls -----------------------------------------------------------------

    def _poll(self) -> None:
        due_ns = self._clock.steady_ns()
        while not self._ended.is_set():
            try:
                with self._wire:
                    self._exchange()
            except DriverError as error:
                self._lose(error)
                self._ended.wait(AGAIN_S if self._bus is None else PERIOD_S)
                due_ns = self._clock.steady_ns()
            due_ns = max(due_ns + round(PERIOD_S * 1e9), self._clock.steady_ns())
            self._ended.wait(max(0.0, (due_ns - self._clock.steady_ns()) * 1e-9))

    def _exchange(self) -> None:
        if self._bus is None:
            self._connect()
            log.warning('%s: the gripper answers again', self._com_port)
            return
        with self._new:
            wanted, self._wanted = self._wanted, None
        if wanted is not None and wanted != self._sent:
            self._write(wanted)
        self._take(self._bus.read())

    def _connect(self) -> None:
        """Open the port and read; a command from before is forgotten."""
        self._bus = SerialBus(self._com_port, self._baudrate, self._slave)
        inputs = self._bus.read()
        with self._new:
            self._wanted = None
            self._sent = Outputs(inputs.activated, inputs.going, inputs.requested)
        self._take(inputs)

    def _trouble(self) -> str:
        return self._problem

    def _lose(self, error: DriverError) -> None:
        """Store the error for readers, and open the port again."""
        if not self._problem:
            log.warning('%s', error)
        with self._new:
            self._problem, self._wanted = str(error), None
        with self._wire:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._bus is not None:
            self._bus.close()
        self._bus = None

    def _require_bus(self) -> SerialBus:
        if self._bus is None:
            raise DriverError(self._problem or f'{self._com_port} is being opened')
        return self._bus

    def _write(self, outputs: Outputs) -> None:
        self._require_bus().write(outputs)
        self._sent = outputs

    def _take(self, inputs: Inputs) -> None:
        state = self._read_as(inputs)
        with self._new:
            self._state, self._problem = state, ''
            self._read_ns, self._count = self._clock.steady_ns(), self._count + 1
            self._new.notify_all()

    def _read_as(self, inputs: Inputs) -> GripperState:
        # gOBJ is still that of the motion before until gPR shows the new request.
        is_new = self._sent.go and inputs.requested != self._sent.position
        is_moving = is_new or (inputs.going and inputs.object_status == ObjectStatus.MOVING)
        position = _fraction(inputs.position)
        active = inputs.status == ACTIVE
        return GripperState(
            self._clock.now_ns(), position=position, width_m=ROBOTIQ_2F85.width_m(position),
            requested_position=_fraction(self._sent.position), is_moving=active and is_moving,
            object_status=ObjectStatus.MOVING if is_new else ObjectStatus(inputs.object_status),
            fault=inputs.fault or (0 if active else NOT_ACTIVATED), current_a=inputs.current_a)


def _counts(position: float) -> int:
    return round(OPEN + (CLOSED - OPEN) * position)


def _fraction(counts: int) -> float:
    return min(max((counts - OPEN) / (CLOSED - OPEN), 0.0), 1.0)
