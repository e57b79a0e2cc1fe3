"""The gripper behind DROID's server on the NUC (zerorpc, port 4242)."""

import contextlib
import logging

from arena_robot.core.action import GripperCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import DriverError
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.droid_nuc.arm import PORT
from arena_robot.drivers.droid_nuc.client import JUMPED_NS, ZerorpcClient, position_of
from arena_robot.drivers.droid_nuc.server_thread import ReportedGripper, ServerThread
from arena_robot.drivers.droid_nuc.targets import FingerMotion
from arena_robot.drivers.part import Polled
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.filter import clipped

log = logging.getLogger(__name__)

RATE_HZ = 50.0            # the NUC reads the gripper in 32 ms: faster gives nothing new
JUDGED_S = 5.0            # fingers that obey have moved by then
AGAIN_NS = 250_000_000    # the same target is repeated after this, as a lost one would be
UNRESPONSIVE = 9          # Robotiq's number for a gripper that does not communicate
UNRESPONSIVE_WORDS = ('gripper fault 9: the fingers do not follow the commands; the server does '
                      'not say why')


class DroidNucGripper(Polled[GripperState]):
    """
    A 2F-85 behind DROID's server; see :class:`arena_robot.drivers.base.Gripper`.

    The server gives a position and nothing else: motion, objects and a gripper that does not
    follow are concluded from positions. While a driver of the arm behind the same server runs on
    this machine, the positions are those that it reads. The server sets speed and force itself;
    those of a command have no effect.
    ``relaunch`` allows activate() to launch the controller, which opens and closes the fingers,
    runs sudo on the NUC and ends what the arm does.
    """

    def __init__(self, robot_ip: str = '172.16.0.2', port: int = PORT, relaunch: bool = False,
                 clock: Clock | None = None) -> None:
        super().__init__('gripper', clock or SystemClock())
        self._relaunch = relaunch
        self._server = ServerThread('droid_nuc gripper', (robot_ip, port), self._clock, RATE_HZ,
                                    self._poll, self._lose)
        self._reported = ReportedGripper((robot_ip, port))
        self._motion = FingerMotion()       # guarded by _new, as what follows
        self._due_ns = 0
        self._unsent: float | None = None

    def open(self) -> None:
        """Connect and read the first state; nothing moves."""
        if self._open:
            return
        with self._new:
            self._forget()
            self._state = None
        self._reported.open()
        try:
            self._server.open()
        except DriverError:
            self._reported.close()
            raise
        super().open()

    def close(self) -> None:
        """Stop the fingers if the server answers, and disconnect."""
        if self._open:
            with contextlib.suppress(DriverError):
                self.stop()
        super().close()
        self._server.close()
        self._reported.close()

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state."""
        return self._newest(max_age_s, 'no answer came since')

    def command(self, command: GripperCommand) -> GripperCommand:
        """Go to a position; speed and force are the server's own."""
        self._require_open('the gripper')
        sent = clipped(command)
        with self._new:
            if self._server.problem:
                raise DriverError(self._server.problem)
            if self._motion.unresponsive:
                raise DriverError(f'{UNRESPONSIVE_WORDS}; activate() it')
            if sent.position != self._motion.requested:
                self._motion.go(sent.position, self._clock.steady_ns())
                self._unsent = sent.position
        self._server.wake()
        return sent

    def stop(self) -> None:
        """Command the measured position; DriverError if the server was not told."""
        with self._new:
            if not self._open or self._motion.requested is None:
                return
            here, self._unsent = self._motion.position, None
            self._motion.go(here, self._clock.steady_ns())
        try:
            self._server.urgent('update_gripper', here, False, False)
        except DriverError as error:
            raise DriverError(f'stop did not reach the server; {error}') from error

    def activate(self) -> None:
        """
        Send the request again that was not followed; first launch the controller, if that is set.

        The server activates the gripper at a launch only.
        """
        self._require_open('the gripper')
        with self._new:
            if not self._motion.unresponsive and not self._server.problem:
                return
        if self._relaunch:
            self._server.launch()
        with self._new:
            if self._motion.requested is not None and not self._server.problem:
                self._motion.go(self._motion.requested, self._clock.steady_ns())
                self._unsent = self._motion.requested
                self._server.wake()
                self._new.wait_for(lambda: self._motion.follows or self._motion.unresponsive,
                                   JUDGED_S)
            if self._server.problem or not self._motion.follows:
                raise DriverError(f'{self._server.problem or UNRESPONSIVE_WORDS}; look at the '
                                  'gripper, then start the controller on the NUC again (it '
                                  'activates the gripper), or set relaunch')

    # -- the server's thread -------------------------------------------------------------------

    def _poll(self, client: ZerorpcClient) -> None:
        read = self._read(client)
        with self._new:
            if read is not None:
                self._take(*read)
            target, self._unsent = self._due(), None
        if target is not None:
            client.call('update_gripper', target, False, False)
            with self._new:
                if self._motion.requested != target:    # a stop may have come before it
                    self._unsent = self._motion.requested

    def _read(self, client: ZerorpcClient) -> tuple[float, int, int] | None:
        """Return (position, its stamp, steady time), None if the arm told nothing new."""
        steady_ns = self._clock.steady_ns()
        reported = self._reported.newest(steady_ns)
        if reported is None and not self._reported.silent(steady_ns):
            return None
        if reported is None:
            sent_ns = self._clock.now_ns()
            position = position_of(client.call('get_gripper_position'))
            return position, (sent_ns + self._clock.now_ns()) // 2, steady_ns
        position, trip_ns = reported
        return position, self._clock.now_ns() - trip_ns // 2, steady_ns - trip_ns

    def _due(self) -> float | None:
        """Return the position to send now, None when there is none."""
        now_ns = self._clock.steady_ns()
        again = self._motion.travelling and now_ns >= self._due_ns
        target = self._motion.requested if again else self._unsent
        if target is not None:
            self._due_ns = now_ns + AGAIN_NS
        return target

    def _take(self, position: float, stamp_ns: int, asked_ns: int) -> None:
        self._motion.see(position, self._clock.steady_ns())
        status = self._motion.status
        requested = self._motion.requested
        if self._state and 0 <= self._state.stamp_ns - stamp_ns < JUMPED_NS:
            return
        self._state = GripperState(
            stamp_ns, position, ROBOTIQ_2F85.width_m(position),
            position if requested is None else requested, status is ObjectStatus.MOVING, status,
            UNRESPONSIVE if self._motion.unresponsive else 0)
        self._read_ns, self._count = asked_ns, self._count + 1
        self._new.notify_all()

    def _trouble(self) -> str:
        return self._server.problem

    def _lose(self, _: DriverError) -> None:
        """Forget what was commanded: it is not carried out later."""
        with self._new:
            self._forget()
            self._new.notify_all()

    def _forget(self) -> None:
        self._motion, self._unsent = FingerMotion(), None
