"""The drivers behind DROID's server, on an emulated NUC: contract, bytes, and what goes wrong."""

import contextlib
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from waiting import until

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import (
    DriverError,
    NotConnected,
    ReadTimeout,
    SafetyError,
    StaleData,
)
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.pytest_suite import ArmConformance, GripperConformance
from arena_robot.drivers.conformance.rig import ArmRig, GripperRig
from arena_robot.drivers.droid_nuc import arm as arm_module
from arena_robot.drivers.droid_nuc import client, server_thread, targets
from arena_robot.drivers.droid_nuc.arm import DroidNucArm
from arena_robot.drivers.droid_nuc.client import ZerorpcClient
from arena_robot.drivers.droid_nuc.gripper import DroidNucGripper
from arena_robot.drivers.emulators.droid_nuc import DroidNucEmulator
from arena_robot.drivers.guarded import guarded
from arena_robot.robots.arms import PANDA

BUSY_S, STEP_S = 30.0, 0.02     # how long a busy machine may take to see a change; a step


@pytest.fixture(scope='module')
def nuc():
    with DroidNucEmulator(port=0, launch_s=0.0, gripper_read_s=0.0) as nuc:
        yield nuc


@pytest.fixture(autouse=True)
def mended(nuc, monkeypatch):
    monkeypatch.setattr(server_thread, 'AGAIN_S', 0.05)
    yield
    nuc.server.silent = False
    nuc.faults.refused = nuc.faults.gripper_dead = False
    nuc.launch_controller()
    nuc.launch_robot()


def arm_of(nuc, **options):
    return DroidNucArm('127.0.0.1', port=nuc.server.port, clock=nuc.station.clock, **options)


def gripper_of(nuc, **options):
    return DroidNucGripper('127.0.0.1', port=nuc.server.port, clock=nuc.station.clock, **options)


@pytest.fixture
def arm(nuc):
    with arm_of(nuc) as arm:
        yield arm


@pytest.fixture
def gripper(nuc):
    with gripper_of(nuc) as gripper:
        yield gripper


@pytest.fixture
def fall_silent(nuc, monkeypatch):
    """Make the server silent, and the drivers less patient until it answers again."""
    @contextlib.contextmanager
    def silence():
        with monkeypatch.context() as patch:
            patch.setattr(client, 'CALL_S', 0.2)
            nuc.server.silent = True
            yield
        nuc.server.silent = False
    return silence


def in_step(nuc, part):
    """Return a sleep that steps the simulation and lets the driver poll after each step."""
    world = nuc.station.world

    def sleep(seconds):
        world.stop()
        for _ in range(round(seconds / STEP_S)):
            world.step(STEP_S)
            calls, end_s = nuc.server.calls, time.monotonic() + 1.0
            part._server.wake()
            while nuc.server.calls == calls and not nuc.server.silent \
                    and time.monotonic() < end_s:
                time.sleep(0.0002)
        world.start()
    return sleep


def rig_of(nuc, kind, part, trip):
    def silence():
        nuc.server.silent = True
        until(lambda: part._server.problem)     # no answer is on its way any more

    def mend():
        nuc.server.silent = nuc.faults.gripper_dead = False
    return kind(part, nuc.station.clock, silence=silence, trip=trip, mend=mend, max_age_s=1.0,
                rate_hz=2.0, latency_s=0.1, harmless=True, sleep=in_step(nuc, part))


class TestDroidNucArm(ArmConformance):
    @pytest.fixture
    def rig(self, nuc):
        def trip():
            nuc.stall()
            until(lambda: part.wait_state(BUSY_S).recovery_required)
            nuc.faults.stalled_until_s = 0.0        # polymetis recovers by itself
        part = arm_of(nuc)
        return rig_of(nuc, ArmRig, part, trip)


class TestDroidNucGripper(GripperConformance):
    @pytest.fixture
    def rig(self, nuc):
        def trip():
            not_followed(nuc, part)
            rig.advance(2.2)
            until(lambda: part.wait_state(BUSY_S).fault)
        part = gripper_of(nuc, relaunch=True)
        rig = rig_of(nuc, GripperRig, part, trip)
        return rig


def not_followed(nuc, gripper):
    """Command fingers that do not move, so that nothing they may hold explains it."""
    until(lambda: abs(gripper.wait_state(BUSY_S).position - gripper.wait_state(BUSY_S).position)
          < 2e-4 and not nuc.station.gripper.state(BUSY_S).is_moving)
    nuc.faults.gripper_dead = True
    sent = 1.0 if gripper.wait_state(BUSY_S).position < targets.OPEN else 0.0
    gripper.command(GripperCommand(sent, 0))
    return sent


def test_a_server_without_controller_is_launched_only_where_that_is_set(nuc):
    nuc._launched = False
    with pytest.raises(NotConnected, match=r"AttributeError: 'FrankaRobot' .*, or set relaunch"):
        arm_of(nuc).open()
    assert not nuc._launched
    with arm_of(nuc, relaunch=True) as arm:
        assert arm.wait_state(BUSY_S).mode is RobotMode.IDLE


def follow(arm):
    """Begin a long motion of joint 7 and return its goal once the arm is on its way."""
    start = arm.wait_state(BUSY_S).q
    goal = start + np.eye(7)[6] * (1.0 if start[6] < 0.0 else -1.0)
    arm.move_to(goal, 4.0)
    until(lambda: abs(arm.wait_state(BUSY_S).q[6] - start[6]) > 0.03, 'a motion')
    return goal


def at_rest(nuc):
    until(lambda: np.max(np.abs(nuc.station.arm.state(1e9).dq)) < 0.02, 'rest')
    return nuc.station.arm.state(1e9).q


def test_after_stop_no_newer_command_reaches_the_server(nuc, arm):
    guard, clock = guarded(arm, PANDA, nuc.station.clock), nuc.station.clock
    follow(arm)
    guard.halt()
    held = at_rest(nuc)
    for _ in range(15):
        with pytest.raises(SafetyError, match='STOP was pressed'):
            guard.command(ArmCommand(held + 0.1, clock.now_ns()))
        time.sleep(0.02)
    assert np.max(np.abs(at_rest(nuc) - held)) < 0.02
    guard.resume()
    guard.command(ArmCommand(held, clock.now_ns()))


def test_silence_is_told_and_what_was_commanded_is_not_carried_out_later(nuc, arm, fall_silent):
    goal = follow(arm)
    with fall_silent():
        until(lambda: 'did not give an answer to' in arm._server.problem)
        with pytest.raises(StaleData, match=r'old, accepted are 0.0 s; .*it is silent or busy'):
            arm.state(0.0)
        with pytest.raises(ReadTimeout, match=r'silent or busy'):
            arm.wait_state(0.01)
        with pytest.raises(DriverError, match=r'silent or busy'):
            arm.command(ArmCommand(goal, 0))
        with pytest.raises(DriverError, match=r'stop did not reach the server: press the user'):
            arm.stop()
        before = at_rest(nuc)
        assert abs(before[6] - goal[6]) > 0.02
    until(lambda: not arm._server.problem)
    arm.wait_state(BUSY_S)
    assert np.max(np.abs(at_rest(nuc) - before)) < 0.02
    arm.command(ArmCommand(before, 0))


def test_a_closed_connection_is_told_and_opened_again(nuc, arm, caplog):
    follow(arm)
    nuc.server.drop_clients()
    until(lambda: 'answers again' in caplog.text)
    assert 'closed the connection' in caplog.text or 'is lost' in caplog.text
    held = at_rest(nuc)
    assert np.max(np.abs(arm.wait_state(BUSY_S).q_desired - held)) < 0.05


def test_a_server_that_ended_is_told_until_it_is_back(nuc, arm):
    nuc.server.stop()
    until(lambda: 'Connection refused' in arm._server.problem)
    with pytest.raises(StaleData, match=r'no connection to 127.0.0.1'):
        arm.state(0.0)
    nuc.server.start()
    until(lambda: not arm._server.problem)
    assert not arm.wait_state(BUSY_S).errors


def test_a_stamp_that_stands_still_is_a_reflex_and_recovery_holds_the_measured_pose(nuc, arm):
    goal = follow(arm)
    nuc.stall()
    until(lambda: arm.wait_state(BUSY_S).recovery_required)
    assert 'stamp stands still' in arm.state(BUSY_S).errors[0]
    for call in (lambda q: arm.command(ArmCommand(q, 0)), arm.move_to):
        with pytest.raises(DriverError, match=r'recover it first'):
            call(goal)
    arm.stop()
    held = at_rest(nuc)
    nuc.faults.stalled_until_s = 0.0        # polymetis recovered by itself
    until(lambda: arm._runs())
    assert arm.state(BUSY_S).recovery_required      # until it is asked for
    arm.recover()
    assert np.max(np.abs(arm.wait_state(BUSY_S).q_desired - held)) < 0.02
    assert np.max(np.abs(at_rest(nuc) - held)) < 0.02
    assert not arm.state(BUSY_S).recovery_required


def test_a_controller_that_ended_is_relaunched_only_where_that_is_set(nuc, monkeypatch):
    monkeypatch.setattr(arm_module, 'RECOVERY_S', 0.5)
    with arm_of(nuc) as arm:
        nuc.kill_controller()
        until(lambda: arm.wait_state(BUSY_S).recovery_required)
        with pytest.raises(DriverError, match=r'stamp stands still.*or set relaunch'):
            arm.recover()
        assert not nuc._controller
    with arm_of(nuc, relaunch=True) as arm:
        until(lambda: arm.wait_state(BUSY_S).recovery_required)
        before = nuc.launches
        until(lambda: recovered(arm))
        assert nuc.launches > before


def recovered(arm):     # a busy machine may take more than one attempt
    with contextlib.suppress(DriverError):
        arm.recover()
    return not arm.wait_state(BUSY_S).recovery_required


def test_a_refused_target_is_reported_in_the_servers_words(nuc, arm):
    nuc.faults.refused = True
    arm.command(ArmCommand(arm.wait_state(BUSY_S).q, 0))
    until(lambda: arm.wait_state(BUSY_S).errors)
    state = arm.state(BUSY_S)
    assert state.mode is RobotMode.OTHER
    assert state.errors == ('update_joints failed on the server: RuntimeError: Desired joint '
                            'positions are out of the limits',)
    nuc.faults.refused = False
    arm.command(ArmCommand(state.q, 0))
    until(lambda: not arm.wait_state(BUSY_S).errors)


def test_a_second_program_that_commands_the_arm_is_told(nuc, arm, monkeypatch):
    monkeypatch.setattr(arm_module, 'FAR_S', 0.3)
    arm.command(ArmCommand(start := arm.wait_state(BUSY_S).q, 0))
    until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.IDLE)      # it holds now
    until(lambda: arm._targets.due(arm._clock.steady_ns()) is None)
    (other := ZerorpcClient('127.0.0.1', nuc.server.port)).connect()

    def away():
        other.call('update_joints', (start + 0.4 * np.eye(7)[6]).tolist(), False, False, None)
        return arm.wait_state(BUSY_S).errors
    until(away, 'the report of another program')
    assert 'does another program command the same server' in arm.state(BUSY_S).errors[0]
    other.call('update_joints', start.tolist(), False, False, None)
    other.close()
    at_rest(nuc)


def test_a_gripper_that_does_not_follow_is_a_fault_and_wants_a_relaunch(nuc, gripper, monkeypatch):
    monkeypatch.setattr(targets, 'UNRESPONSIVE_NS', 700_000_000)
    sent = not_followed(nuc, gripper)
    until(lambda: gripper.wait_state(BUSY_S).fault == 9)
    with pytest.raises(DriverError, match=r'gripper fault 9: the fingers do not follow.*activate'):
        gripper.command(GripperCommand(1.0 - sent, 0))
    with pytest.raises(DriverError, match=r'or set relaunch'):
        gripper.activate()
    nuc.faults.gripper_dead = False
    gripper.activate()      # the request is sent again, and now it is followed
    assert gripper.wait_state(BUSY_S).fault == 0
    until(lambda: abs(gripper.wait_state(BUSY_S).position - sent) < 0.05)


def test_a_gripper_command_is_not_carried_out_after_a_silence(nuc, gripper, fall_silent):
    until(lambda: not gripper.wait_state(BUSY_S).is_moving)
    before = gripper.wait_state(BUSY_S).position
    with fall_silent():
        with contextlib.suppress(DriverError):      # where the silence was noticed already
            gripper.command(GripperCommand(1.0 - round(before), 0))
        until(lambda: gripper._server.problem)
        with pytest.raises(StaleData, match=r'silent or busy'):
            gripper.state(0.0)
        with pytest.raises(DriverError, match=r'silent or busy'):
            gripper.command(GripperCommand(1.0, 0))
    until(lambda: not gripper._server.problem)
    assert gripper.wait_state(BUSY_S).requested_position == gripper.state(BUSY_S).position


# -- a NUC as slow as a real one -----------------------------------------------------------------

@pytest.fixture(scope='module')
def slow_nuc():
    with DroidNucEmulator(port=0, launch_s=0.0) as nuc:
        yield nuc


def test_arm_and_gripper_share_one_poll(slow_nuc):
    """A gripper read takes 32 ms: a second poller would leave ten states of the arm a second."""
    counts = slow_nuc.server.counts

    def gripper_reads():
        before = counts['get_gripper_position']
        seen = {(arm.wait_state(BUSY_S), gripper.wait_state(BUSY_S).stamp_ns)[1]
                for _ in range(10)}
        return counts['get_gripper_position'] - before if len(seen) > 5 else None
    with gripper_of(slow_nuc) as gripper:
        with arm_of(slow_nuc) as arm:
            until(lambda: gripper_reads() == 0, 'a poll that serves both')
            gripper.command(GripperCommand(1.0, 0))
            until(lambda: gripper.wait_state(BUSY_S).position > 0.5)
        gripper.command(GripperCommand(0.0, 0))     # the arm's driver has ended
        until(lambda: gripper.wait_state(BUSY_S).position < 0.5)


def test_a_stop_does_not_wait_for_the_poll(slow_nuc, monkeypatch):
    counts, call = slow_nuc.server.counts, ZerorpcClient.call
    hung, go_on = threading.Event(), threading.Event()

    def hanging(self, method, *args, **options):
        if method == 'get_robot_state':
            hung.set()
            go_on.wait(BUSY_S)
        return call(self, method, *args, **options)
    with arm_of(slow_nuc) as arm:
        arm.command(ArmCommand(arm.wait_state(BUSY_S).q, 0))
        until(lambda: counts['update_joints'])
        monkeypatch.setattr(ZerorpcClient, 'call', hanging)
        assert hung.wait(BUSY_S)
        before = counts['update_joints']
        try:
            arm.stop()
            assert counts['update_joints'] == before + 1
        finally:
            go_on.set()


def rest_ms(arm, clock):
    """Move joint 7, stop, and return after how long the arm is at rest."""
    start = arm.wait_state(BUSY_S).q
    for number in range(1, 9):
        arm.command(ArmCommand(start + 0.1 * number * np.eye(7)[6], 0))
        time.sleep(1 / 15)
    until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).dq)) > 0.3, 'a motion')
    pressed_ns = clock.now_ns()
    arm.stop()
    while np.max(np.abs((state := arm.wait_state(BUSY_S)).dq)) > 0.02 \
            or state.stamp_ns < pressed_ns:
        pass
    arm.move_to(start, 1.0)
    until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).q - start)) < 0.02, 'the way back')
    return (state.stamp_ns - pressed_ns) * 1e-6


def test_a_stop_brakes_until_rest(monkeypatch):
    """A hold of the measured pose alone takes about 370 ms: the spring swings back."""
    monkeypatch.setattr(arm_module, 'WHOLE_NS', 0)      # each call takes more of the NUC's time
    with DroidNucEmulator(port=0, launch_s=0.0, lock_step=True) as nuc, arm_of(nuc) as arm:
        rests = sorted(rest_ms(arm, nuc.station.clock) for _ in range(5))
    assert rests[2] < 250.0, rests


def test_states_behind_a_nuc_as_slow_as_droids_are_60_ms_old_at_most(monkeypatch):
    """32 ms a gripper read, 8 ms a state, targets at 15 Hz; in the emulator's own time."""
    shown, show, begin = [], DroidNucArm._show, 0

    def noted(arm, reading, stamp_ns, came_ns, steady_ns):
        shown.append((stamp_ns, came_ns))
        show(arm, reading, stamp_ns, came_ns, steady_ns)
    monkeypatch.setattr(DroidNucArm, '_show', noted)
    with DroidNucEmulator(port=0, launch_s=0.0, arm_read_s=0.008,
                          lock_step=True) as nuc, arm_of(nuc) as arm, gripper_of(nuc) as gripper:
        home, due_ns, counts = arm.wait_state(BUSY_S).q, nuc.station.clock.now_ns(), []
        for step in range(40):
            until(lambda: nuc.station.clock.now_ns() >= due_ns, 'a step')  # noqa: B023
            arm.command(ArmCommand(home + 0.005 * step * np.eye(7)[6], 0))
            due_ns += 10**9 // 15
            counts.append(nuc.server.counts.copy())
            begin = begin if step > 10 else len(shown)  # the gripper's driver has heard of it
        assert gripper.state(0.4).position == pytest.approx(0.0, abs=0.05)
        told = counts[-1] - counts[10]
    assert told['update_joints'] >= 29
    assert told['get_gripper_position'] == 0    # the arm's driver reads it with the whole state
    ages_ms = [1e-6 * (came - stamp) for (stamp, _), (_, came) in pairwise(shown[begin:])]
    assert np.percentile(ages_ms, 99) <= 60.0, ages_ms
