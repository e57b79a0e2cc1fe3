"""The Robotiq 2F-85 over Modbus RTU on a serial port (USB to RS-485)."""

import logging
import threading

import numpy as np

from arena_robot.core.action import GripperCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import DriverError, NotConnected, SafetyError, StaleData
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.polled import Polled
from arena_robot.drivers.robotiq.bus import SerialBus
from arena_robot.drivers.robotiq.frames import (
    ACTIVE,
    CLOSED,
    FAULTS,
    NOT_ACTIVATED,
    OPEN,
    Inputs,
    Outputs,
)
from arena_robot.robots.grippers import ROBOTIQ_2F85

log = logging.getLogger(__name__)

PERIOD_S = 0.020
FRESH_S, ACTIVATION_S, AGAIN_S = 1.0, 10.0, 0.5


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
        asked = np.array([command.position, command.speed, command.force], dtype=float)
        if not np.all(np.isfinite(asked)):
            raise SafetyError(f'a gripper command must be finite, got {command}')
        position, speed, force = np.clip(asked, 0.0, 1.0).tolist()
        if self._problem:
            raise DriverError(self._problem)
        fault = self.state(FRESH_S).fault
        if fault:
            raise DriverError(f'gripper fault {fault}: {FAULTS.get(fault, "unknown")}; '
                              'activate() it (the fingers open and close fully)')
        with self._new:
            self._wanted = Outputs(go=True, position=_counts(position), speed=round(255 * speed),
                                   force=round(255 * force))
        return GripperCommand(position, command.stamp_ns, speed, force)

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
            found = self._require_bus().read()
            if found.status == ACTIVE and not found.fault:
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
        found = self._bus.read()
        with self._new:
            self._wanted = None
            self._sent = Outputs(found.activated, found.going, found.requested)
        self._take(found)

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

    def _take(self, found: Inputs) -> None:
        state = self._read_as(found)
        with self._new:
            self._state, self._problem = state, ''
            self._read_ns, self._count = self._clock.steady_ns(), self._count + 1
            self._new.notify_all()

    def _read_as(self, found: Inputs) -> GripperState:
        # gOBJ is still that of the motion before until gPR shows the new request.
        is_new = self._sent.go and found.requested != self._sent.position
        is_moving = is_new or (found.going and found.found == ObjectStatus.MOVING)
        position = _fraction(found.position)
        active = found.status == ACTIVE
        return GripperState(
            self._clock.now_ns(), position=position, width_m=ROBOTIQ_2F85.width_m(position),
            requested_position=_fraction(self._sent.position), is_moving=active and is_moving,
            object_status=ObjectStatus.MOVING if is_new else ObjectStatus(found.found),
            fault=found.fault or (0 if active else NOT_ACTIVATED), current_a=found.current_a)


def _counts(position: float) -> int:
    return round(OPEN + (CLOSED - OPEN) * position)


def _fraction(counts: int) -> float:
    return min(max((counts - OPEN) / (CLOSED - OPEN), 0.0), 1.0)
