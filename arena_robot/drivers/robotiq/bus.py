"""A serial port on which one gripper answers."""

import contextlib
from pathlib import Path

from arena_robot.core.errors import DriverError
from arena_robot.drivers.robotiq.frames import (
    EXCEPTION,
    EXCEPTION_BYTES,
    READ_BYTES,
    WRITE,
    WRITE_BYTES,
    FrameError,
    Inputs,
    Outputs,
    check_reply,
    read_reply,
    read_request,
    write_request,
)

REPLY_S, WRITTEN_S = 0.050, 0.5
ATTEMPTS = 3


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
            except FrameError as found:
                error = found
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
        known = sorted(str(one) for one in Path('/dev/serial/by-id').glob('*'))
        return ('there is no such port; ' + (f'found {", ".join(known)}' if known else
                                             'is the USB adapter plugged in?'))
    if isinstance(error, PermissionError) or 'Permission' in str(error):
        return 'no permission: sudo usermod -aG dialout $USER, then log in again'
    if 'exclusively lock' in str(error) or 'Errno 11' in str(error):
        return 'another program uses it'
    return str(error)
