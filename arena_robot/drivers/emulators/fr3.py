"""An emulated Franka: its control box with the FCI, versions 10 and 5, over the simulated arm."""

import queue
import socket
import threading
import time
from collections.abc import Callable

from typing_extensions import Self

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.emulators.fci_box import IDLE_TICKS, FciBox
from arena_robot.drivers.emulators.fci_client import FciClient
from arena_robot.drivers.emulators.fci_motion import TICK_S
from arena_robot.drivers.franka.wire import ROBOT_PORT, FciError, MoveStatus

CATCH_UP_S = 1.0    # states that come late by more than this are not sent in a burst
ORDER_S = 5.0       # the box's thread takes a tick; a machine under load some seconds
PATIENCE_S = 0.5    # longer than a loaded machine keeps a client's thread waiting


class Fr3Emulator(FciBox):
    """
    The box in a thread, paced at 1 kHz, for libfranka and franka-rs.

    With ``lock_step`` it waits up to half a second for the command that answers a motion's
    state, so that a busy machine loses none. ``robot`` is fr3 (version 10) or panda (version 5).
    """

    def __init__(self, host: str = '127.0.0.1', port: int = ROBOT_PORT, *, robot: str = 'fr3',
                 version: int | None = None, task: str = 'do_not_move',
                 lock_step: bool = False) -> None:
        super().__init__(robot, version, task, PATIENCE_S if lock_step else 0.0)
        self.host, self.port = host, port
        self.late_ticks = 0
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen; port 0 takes a free one. Raises ConfigError when that cannot be."""
        try:
            listener = socket.create_server((self.host, self.port))
        except (OSError, OverflowError) as error:
            raise ConfigError(f'cannot listen on {self.host}:{self.port}: {error}; choose another '
                              'address or port') from error
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._over.clear()
        self._thread = threading.Thread(target=self._run, args=(listener,), name='fr3 emulator',
                                        daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the connection; can be called twice."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(10.0)
            self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.station.close()

    def reflex(self, *errors: FciError) -> None:
        """Stop by reflex, as in a collision."""
        self._order(lambda: self._abort(MoveStatus.REFLEX_ABORTED, RobotMode.REFLEX,
                                        errors or (FciError.cartesian_reflex,)))

    def press_user_stop(self) -> None:
        """Press the user stop."""
        self._order(lambda: self._abort(MoveStatus.EMERGENCY_ABORTED, RobotMode.USER_STOPPED))

    def guide(self) -> None:
        """Have a person guide the arm with the button at its wrist."""
        self._order(lambda: self._abort(MoveStatus.EMERGENCY_ABORTED, RobotMode.GUIDING))

    def lock_joints(self) -> None:
        """Close the brakes, as Desk's button does."""
        self._order(lambda: self._abort(MoveStatus.ABORTED, RobotMode.OTHER))

    def program(self, shown: RobotMode = RobotMode.USER_STOPPED) -> None:
        """
        Choose programming mode in Desk, which ends a motion and refuses others.

        An FR3 then shows the mode of the user stop (libfranka's issues 128 and 133), although its
        replies name a safety function; ``shown`` is another mode that it may show.
        """
        def begin() -> None:
            self.programming = True
            self._abort(MoveStatus.PREEMPTED_FOR_SAFETY, shown)
        self._order(begin)

    def release(self) -> None:
        """Release the user stop, let go of the arm, open the brakes, choose execution mode."""
        def end() -> None:
            self.programming = False
            self._enter(RobotMode.IDLE)
        self._order(end)

    def drop_client(self) -> None:
        """Close the connection."""
        self._order(lambda: self._part('the box closed the connection'))

    def _order(self, act: Callable[[], None]) -> None:
        """Have the box's thread do this, and wait until it is done."""
        done = threading.Event()

        def do() -> None:
            act()
            done.set()
        self._orders.put(do)
        done.wait(ORDER_S)

    # -- the box's thread ----------------------------------------------------------------------

    def _run(self, listener: socket.socket) -> None:
        due = time.monotonic()
        with listener:
            while not self._over.is_set():
                due += TICK_S
                wait_s = due - time.monotonic()
                if wait_s > 0.0:
                    time.sleep(wait_s)
                elif wait_s < -TICK_S:
                    self.late_ticks += 1
                    due = due if self._catches_up(-wait_s) else time.monotonic()
                while not self._orders.empty():
                    self._orders.get()()
                self._hear()
                if self.ticks % IDLE_TICKS == 0:
                    self._let_in(listener)
                self._tick()
            self._part('the box was switched off')

    def _catches_up(self, late_s: float) -> bool:
        """Whether states follow without a pause: only where the box waits for their commands."""
        waits = self._motion is not None and self._motion.answered and self._patience_s
        return bool(waits) and late_s < CATCH_UP_S

    def _hear(self) -> None:
        if self._client is None:
            return
        for command, call, payload in self._client.requests():
            if command in self.faults.closes_on:
                self._part('the box closed the connection')
                return
            self._answer(command, call, payload)
        if self._client.gone:
            self._part('the client left')

    def _let_in(self, listener: socket.socket) -> None:
        """Accept a client; one that did not get beyond its first message is replaced."""
        try:
            line, _ = listener.accept()
        except BlockingIOError:
            return
        if self._client is not None and self._client.connected:
            line.close()
            self._log('a second client was refused')
            return
        if self._client is not None:
            self._part('the client left')
        self._client = FciClient(line, self.host, self._dialect, self.faults)
        self._log('a client came')
