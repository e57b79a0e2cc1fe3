"""The arm behind DROID's server on the NUC (zerorpc, port 4242)."""

import contextlib
import logging
from dataclasses import replace

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import Clock, SystemClock
from arena_robot.core.errors import DriverError
from arena_robot.core.observation import ArmState, Floats, RobotMode
from arena_robot.drivers.droid_nuc.client import (
    JUMPED_NS,
    NucTime,
    Reading,
    RemoteError,
    ZerorpcClient,
    joints_of,
    reading_of,
)
from arena_robot.drivers.droid_nuc.server_thread import GripperReport, ServerThread
from arena_robot.drivers.droid_nuc.targets import NucTargets
from arena_robot.drivers.part import Polled, fixed
from arena_robot.robots.arms import DOF
from arena_robot.safety.filter import finite
from arena_robot.safety.kinematics import flange_pose
from arena_robot.safety.limits import motion_s, robot_of

log = logging.getLogger(__name__)

PORT = 4242
RATE_HZ = 100.0     # of polls; the NUC answers one call at a time
WHOLE_NS = 100_000_000    # between whole states: each reads the gripper too, in 32 ms
STALLED_S = 0.25    # polymetis stamps every millisecond
RECOVERY_S = 5.0    # it tries three times, a second apart
# Braking: the target lies so far behind the motion, where the readings took no longer than this.
# At the emulated arm 0.2 s rests soonest and 0.15 s is safe against delays of single calls; later
# readings only give the pose to hold, as the arm would swing.
LEAD_S, FRESH_NS = 0.15, 25_000_000
BRAKED_NS = 100_000_000      # then the whole state is read, so that none is older than 0.2 s
FAR_RAD, FAR_S = 0.2, 1.0    # so far from the target for so long: another program commands the arm
UNKNOWN = fixed(np.zeros(DOF))
STALLED = ("the robot's stamp stands still: a reflex, the user stop, or its controller has ended; "
           'the server does not say which')
RELAUNCH_HINT = ("release the user stop and look at Franka's Desk; then start the controller on "
                 'the NUC again, or set relaunch')


class DroidNucArm(Polled[ArmState]):
    """
    A Franka behind DROID's server; see :class:`arena_robot.drivers.base.Arm`.

    The server has no method that stops or recovers. To stop, the driver sends targets behind the
    motion until the arm rests, then the measured pose. A robot that does not run shows only by a
    stamp that stands still; its states have the mode REFLEX, the pose that the robot gave last,
    and the time of the server's answer. Between two whole states, 0.1 s apart, only the joints are
    read, which takes the server less time; their stamp is the middle of that of q. External
    torques are not known (zero). ``relaunch`` allows
    launch_controller, which runs sudo on the NUC and opens and closes the gripper's fingers.
    """

    def __init__(self, robot_ip: str = '172.16.0.2', robot_type: str = 'panda', port: int = PORT,
                 relaunch: bool = False, command_timeout: float = 0.5,
                 clock: Clock | None = None) -> None:
        super().__init__('arm', clock or SystemClock())
        self._robot = robot_of(robot_type)
        limits = self._robot.limits
        self._lower, self._upper = np.array(limits.hardware_lower), np.array(limits.hardware_upper)
        self._relaunch = relaunch
        self._server = ServerThread('droid_nuc arm', (robot_ip, port), self._clock, RATE_HZ,
                                    self._poll, self._lose)
        self._report = GripperReport((robot_ip, port))
        self._targets = NucTargets(command_timeout)     # guarded by _new, as what follows
        self._time = NucTime()
        self._reading: Reading | None = None
        self._changed_ns = self._near_ns = self._whole_ns = 0
        self._stalled = self._unchanged = False
        self._refusal = ''

    def open(self) -> None:
        """Connect and read the first state; nothing moves, unless a relaunch is needed and set."""
        if self._open:
            return
        with self._new:
            self._forget()
            self._state, self._stalled = None, False
            self._targets.forget()
        self._report.open()
        try:
            self._server.open(self._relaunch)
        except DriverError:
            self._report.close()
            raise
        super().open()

    def close(self) -> None:
        """Hold if the server answers, and disconnect."""
        if self._open:
            with contextlib.suppress(DriverError):
                self.stop()
        super().close()
        self._server.close()
        self._report.close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state."""
        return self._newest(max_age_s, 'no answer came since')

    def command(self, command: ArmCommand) -> ArmCommand:
        """Track ``command.q`` clipped to the joint limits."""
        q = self._checked(command.q)
        with self._new:
            self._require_running()
            self._targets.track(q, self._clock.steady_ns())
        self._server.wake()
        return ArmCommand(q, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a min-jerk motion, whose targets are sent one by one so that it can be stopped."""
        goal = self._checked(q)
        with self._new:
            start = self._require_running()
            time_s = motion_s(start, goal, duration_s, self._robot)
            self._targets.move(start, goal, time_s, self._clock.steady_ns())
        self._server.wake()
        return time_s

    def stop(self) -> None:
        """
        Brake and hold; returns when the server has the first target, DriverError if it has not.

        It goes over a connection of its own, ahead of what the polling thread waits for, which
        then brakes until the arm rests.
        """
        with self._new:
            if not self._open or self._stalled:
                self._targets.forget()
                return
            self._targets.hold()
            if not self._targets.braking:
                return
            here = self._reading
        self._server.wake()
        try:
            if here is None:
                raise DriverError(self._server.problem or 'no answer came yet')
            self._server.urgent('update_joints', *_target(here.q))
        except DriverError as error:
            raise DriverError(f'stop did not reach the server: press the user stop; {error}'
                              ) from error

    def recover(self) -> None:
        """Wait until the robot's stamp moves again, relaunch if that is set; hold where it is."""
        self._require_open('the arm')
        with self._new:
            self._targets.forget()
            runs = self._new.wait_for(self._runs, RECOVERY_S)
        if not runs:
            if not self._relaunch:
                raise DriverError(f'{self._server.problem or STALLED}; {RELAUNCH_HINT}')
            self._server.launch()
            with self._new:
                if not self._new.wait_for(self._runs, RECOVERY_S):
                    raise DriverError('the controller was launched again, and still '
                                      f'{self._server.problem or STALLED}')
        with self._new:
            self._stalled, before = False, self._count
            self._targets.begin_held()
            if not self._new.wait_for(lambda: self._count != before and not self._stalled
                                      and not self._targets.braking, RECOVERY_S):
                raise DriverError(f'the arm stopped again: {self._server.problem or STALLED}')

    # -- the server's thread -------------------------------------------------------------------

    def _poll(self, client: ZerorpcClient) -> None:
        with self._new:
            halted = self._stalled or self._reading is None
            target = None if halted else self._targets.due(self._clock.steady_ns())
        if target is not None:
            self._send(client, target)
        elif not halted and self._targets.braking:
            self._brake(client)
        before = self._reading
        if before is not None and not (self._stalled or self._unchanged) and (
                self._clock.steady_ns() < self._whole_ns):
            self._poll_joints(client, before)
            return
        sent_ns = self._clock.now_ns()
        reading = reading_of(client.call('get_robot_state'))
        steady_ns, came_ns = self._clock.steady_ns(), self._clock.now_ns()
        self._whole_ns = steady_ns + WHOLE_NS
        self._report.send(reading.gripper, came_ns - sent_ns)
        with self._new:
            self._take(reading, sent_ns, came_ns, steady_ns)

    def _poll_joints(self, client: ZerorpcClient, before: Reading) -> None:
        """Read the joints only: the rest of the state is that of the whole one before."""
        dq = joints_of(client.call('get_joint_velocities'), 'get_joint_velocities')
        sent_ns = self._clock.now_ns()
        q = joints_of(client.call('get_joint_positions'), 'get_joint_positions')
        came_ns = self._clock.now_ns()
        with self._new:
            self._reading = replace(before, q=q, dq=dq, pose=fixed(flange_pose(q)))
            self._show(self._reading, (sent_ns + came_ns) // 2, came_ns, self._clock.steady_ns())

    def _brake(self, client: ZerorpcClient) -> None:
        """Send targets behind the motion, for a while or until rest or a newer command."""
        until_ns = self._clock.steady_ns() + BRAKED_NS
        while True:
            begin_ns = self._clock.steady_ns()
            q, dq = (joints_of(client.call(method), method)
                     for method in ('get_joint_positions', 'get_joint_velocities'))
            with self._new:
                now_ns = self._clock.steady_ns()
                if not self._targets.braking:
                    return
                last = now_ns >= until_ns
                lead_s = 0.0 if last or now_ns - begin_ns > FRESH_NS else LEAD_S
                target = self._targets.brake(q, dq, lead_s, now_ns)
            self._send(client, np.clip(target, self._lower, self._upper))
            if last:
                return

    def _send(self, client: ZerorpcClient, target: Floats) -> None:
        try:
            client.call('update_joints', *_target(target))
            self._refusal = ''
        except RemoteError as error:
            if not self._refusal:
                log.warning('%s', error)
            self._refusal = str(error)
        finally:
            with self._new:
                self._new.notify_all()

    def _take(self, reading: Reading, sent_ns: int, came_ns: int, steady_ns: int) -> None:
        before, self._reading = self._reading, reading
        self._unchanged = before is not None and before.nuc_ns == reading.nuc_ns
        if not self._unchanged:
            self._changed_ns = steady_ns
            stamp_ns = self._time.stamp_ns(reading.nuc_ns, sent_ns, came_ns)
        elif steady_ns - self._changed_ns > STALLED_S * 1e9:
            if not self._stalled:
                log.error('%s', STALLED)
            self._stalled, stamp_ns = True, came_ns
            self._targets.forget()
        else:
            return
        self._show(reading, stamp_ns, came_ns, steady_ns)

    def _show(self, reading: Reading, stamp_ns: int, came_ns: int, steady_ns: int) -> None:
        """Make the newest state of a reading; the caller has the lock."""
        if self._state and 0 <= self._state.stamp_ns - stamp_ns < JUMPED_NS:
            return      # mapped by a shorter way than the one before: the next is newer
        mode, errors = self._mode(reading, steady_ns)
        target = self._targets.target
        self._state = ArmState(
            stamp_ns, reading.q, reading.dq, reading.tau, UNKNOWN, reading.pose,
            fixed(reading.q if target is None else target), mode, errors,
            1.0 if reading.command_succeeded else 0.0)
        self._read_ns, self._count = steady_ns - max(0, came_ns - stamp_ns), self._count + 1
        self._new.notify_all()

    def _mode(self, reading: Reading, steady_ns: int) -> tuple[RobotMode, tuple[str, ...]]:
        if self._stalled:
            return RobotMode.REFLEX, (STALLED,)
        if self._refusal:
            return RobotMode.OTHER, (self._refusal,)
        target = self._targets.target
        way = 0.0 if target is None else float(np.max(np.abs(reading.q - target)))
        if way < FAR_RAD or not self._near_ns:
            self._near_ns = steady_ns
        if steady_ns - self._near_ns > FAR_S * 1e9:
            return RobotMode.OTHER, (
                f'the arm is {way:.2f} rad away from its target: does another program command the '
                'same server, does something hold the arm, or is a person guiding it?',)
        return (RobotMode.MOVE if self._targets.moving else RobotMode.IDLE), ()

    def _trouble(self) -> str:
        return self._server.problem

    def _lose(self, _: DriverError) -> None:
        """Forget what was commanded; the measured pose is held when the server answers again."""
        with self._new:
            self._targets.hold()
            self._forget()
            self._new.notify_all()

    def _forget(self) -> None:
        self._reading, self._time, self._near_ns, self._refusal = None, NucTime(), 0, ''

    def _runs(self) -> bool:
        """Return whether the robot's stamp moves."""
        moved_ns = self._clock.steady_ns() - self._changed_ns
        return self._reading is not None and moved_ns < STALLED_S * 1e9

    def _require_running(self) -> Floats:
        """Return the measured joints, or raise why commands are refused."""
        if self._stalled:
            raise DriverError(f'{STALLED}; recover it first')
        if self._server.problem or self._reading is None:
            raise DriverError(self._server.problem or 'no answer came yet')
        return self._reading.q

    def _checked(self, q: Floats) -> Floats:
        self._require_open('the arm')
        return np.clip(finite(q, DOF, 'arm target'), self._lower, self._upper)


def _target(q: Floats) -> tuple[object, ...]:
    """Return the arguments of update_joints: no velocities, not blocking, without noise."""
    return q.tolist(), False, False, None
