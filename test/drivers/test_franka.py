"""The drivers of a directly wired Franka: the real libraries against the emulated control box."""

import contextlib
import os
import signal
import socket
import time

import numpy as np
import pytest
from bad_input import in_time, told
from franka_rig import (
    ARMS,
    BUSY_S,
    HOST,
    LONG,
    again,
    follow,
    needs,
    rest_after,
    until,
)
from hypothesis import given
from hypothesis import strategies as st

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.any_part import opens_and_closes_twice
from arena_robot.drivers.conformance.arm import (
    command_returns_what_is_tracked,
    moves_and_says_how_long_it_takes,
    tracks_a_stream,
    tripped_arm_wants_recovery,
)
from arena_robot.drivers.conformance.pytest_suite import ArmConformance
from arena_robot.drivers.conformance.rig import ArmRig
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka import arm as arm_module
from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm
from arena_robot.drivers.franka.client import late_share
from arena_robot.drivers.franka.wire import ROBOT_PORT, FciCommand, FciError
from arena_robot.safety.reflexes import CollisionThresholds

OTHER_HOST = '127.17.44.8'
LIBRARIES = [pytest.param('franka_rs', marks=needs('franka_rs')),
             pytest.param('libfranka', marks=[needs('libfranka'), LONG])]


@pytest.fixture(scope='module')
def box():
    with Fr3Emulator(HOST, lock_step=True) as box:
        yield box


@pytest.fixture(autouse=True)
def mended(box):
    yield
    box.faults.mend()
    box.release()


def rig_of(box, arm):
    def sleep(seconds):
        end, end_s = box.ticks + round(seconds * 1000), time.monotonic() + BUSY_S
        while box.ticks < end and time.monotonic() < end_s:
            time.sleep(0.002)

    def trip():
        box.reflex()
        until(lambda: arm.wait_state(BUSY_S).recovery_required)

    return ArmRig(arm, SystemClock(), silence=lambda: setattr(box.faults, 'silent', True),
                  trip=trip, mend=box.faults.mend, max_age_s=1.0, rate_hz=2.0, latency_s=0.4,
                  harmless=True, sleep=sleep)


@needs('franka_rs')
class TestFrankaRsArm(ArmConformance):
    checks = ArmConformance.checks if 'ARENA_TEST_WALKS' in os.environ else (
        opens_and_closes_twice, command_returns_what_is_tracked, moves_and_says_how_long_it_takes,
        tracks_a_stream, tripped_arm_wants_recovery)

    @pytest.fixture
    def rig(self, box):
        return rig_of(box, FrankaRsArm(HOST))


@pytest.fixture(scope='module', params=LIBRARIES)
def library(request):
    return request.param


@pytest.fixture
def arm(box, library):
    with ARMS[library](HOST) as arm:
        arm.recover()
        yield arm


@LONG
def test_thresholds_are_set_at_open_later_and_at_a_new_connection(box, arm):
    assert set(box.settings[FciCommand.SET_COLLISION_BEHAVIOR]) == {40.0, 30.0}
    arm.set_collision_behavior(CollisionThresholds((21.0,) * 7, (22.0,) * 7))
    expected = (21.0,) * 7 + (22.0,) * 7
    assert box.settings[FciCommand.SET_COLLISION_BEHAVIOR][14:28] == expected
    box.settings.clear()
    box.drop_client()
    again(arm)
    assert box.settings[FciCommand.SET_COLLISION_BEHAVIOR][14:28] == expected


def test_a_reflex_has_the_vendors_name_and_recovery_holds_the_measured_pose(box, arm):
    goal, begin = follow(arm), box.ticks
    box.reflex(FciError.joint_velocity_violation)
    until(lambda: arm.wait_state(BUSY_S).recovery_required)
    assert arm.state(BUSY_S).errors == ('joint_velocity_violation',)
    with pytest.raises(DriverError, match=r'REFLEX \(joint_velocity_violation\); recover it'):
        arm.command(ArmCommand(goal, 0))
    assert rest_after(box, begin, 'reflex') <= 150
    held = arm.wait_state(BUSY_S).q
    arm.recover()
    assert np.max(np.abs(arm.wait_state(BUSY_S).q_desired - held)) < 0.01
    sent = arm.command(ArmCommand(held, 0))
    until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.MOVE)
    assert np.array_equal(sent.q, held)
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - held)) < 0.02


@LONG
@pytest.mark.parametrize(('press', 'mode', 'words'), [
    ('press_user_stop', RobotMode.USER_STOPPED, 'the user stop is pressed'),
    ('guide', RobotMode.GUIDING, 'guided by hand'),
    ('lock_joints', RobotMode.OTHER, 'open the brakes'),
    ('program', RobotMode.USER_STOPPED, 'choose execution mode'),
])
def test_a_robot_that_is_not_ready_says_so_until_it_is(box, arm, press, mode, words):
    goal, begin = follow(arm), box.ticks
    with in_time():
        getattr(box, press)()
        until(lambda: arm.wait_state(BUSY_S).mode is mode)
    assert rest_after(box, begin, mode.name.lower()) <= 150
    assert words in arm.state(BUSY_S).errors[0]
    with pytest.raises(DriverError, match=words):
        arm.move_to(goal)
    with pytest.raises(DriverError, match=words):
        arm.recover()
    box.release()
    arm.recover()
    arm.command(ArmCommand(arm.wait_state(BUSY_S).q, 0))


@LONG
@pytest.mark.parametrize(('break_it', 'in_log', 'words'), [
    (lambda box, arm: box.drop_client(), 'closed the connection',
     'clos|Net Exc|interrupt|UDP|no state'),
    (lambda box, arm: os.kill(arm._control.pid, signal.SIGKILL), 'client left', 'ended with -9'),
    (lambda box, arm: os.kill(arm._control.pid, signal.SIGSTOP), 'client left',
     'no state of the robot for 0.5 s'),
    (lambda box, arm: setattr(box.faults, 'unplugged', True), 'communication_constraints',
     'no state of the robot for 0.5 s|UDP receive'),
])
def test_a_lost_connection_ends_at_rest_and_is_told_and_made_again(box, arm, break_it, in_log,
                                                                   words):
    goal, begin = follow(arm), box.ticks
    before = arm._control.starts
    with in_time():
        break_it(box, arm)
        until(lambda: arm._trouble(), 'the trouble')
    with pytest.raises(DriverError, match=words):
        arm.command(ArmCommand(goal, 0))
    if arm.LIBRARY == 'franka_rs' or in_log != 'communication_constraints':
        assert rest_after(box, begin, in_log) <= 150
    until(lambda: not box._moving, 'rest')    # libfranka's last target is where it goes
    box.faults.mend()
    again(arm)
    assert arm._control.starts > before
    held = arm.wait_state(BUSY_S).q
    assert abs(held[6] - goal[6]) > 0.02
    arm.command(ArmCommand(held, 0))


@LONG
def test_a_stop_that_hangs_ends_the_process(box, arm):
    follow(arm)
    begin = box.ticks
    box.faults.unanswered = {FciCommand.STOP_MOVE}
    os.kill(arm._control.pid, signal.SIGSTOP)
    arm.stop()
    assert 'did not stop the motion in time' in arm._trouble()
    assert rest_after(box, begin, 'client left') <= 150


@LONG
@pytest.mark.parametrize(('options', 'words'), [
    ({'robot_ip': '127.17.44.9'},
     'no connection to the robot at 127.17.44.9: .*refused.*check robot_ip; activate FCI'),
    ({'robot_type': 'panda'}, 'speaks version 10 of the FCI, a panda version 5: correct robot_type'
                              '|drives fr3 only.*use franka_rs'),
])
def test_a_wrong_address_or_robot_is_an_error_at_open(box, library, options, words):
    arm = ARMS[library](**{'robot_ip': HOST, **options})
    with told(NotConnected, words):
        arm.open()
    assert arm._control is None


@LONG
def test_a_system_that_the_library_does_not_know_is_an_error_at_open(library):
    with Fr3Emulator(OTHER_HOST, version=9, lock_step=True), \
            told(NotConnected, '(?i)incompatible library version .*or update the robot'):
        ARMS[library](OTHER_HOST).open()


@LONG
def test_an_address_that_accepts_and_is_silent_is_an_error_at_open(library):
    with socket.create_server((OTHER_HOST, ROBOT_PORT)), \
            told(NotConnected, 'silent; check robot_ip, cable and power'):
        ARMS[library](OTHER_HOST).open()


@LONG
def test_a_box_that_is_slow_to_be_connected_is_told_in_time(library, monkeypatch, caplog):
    monkeypatch.setattr(arm_module, 'TOLD_S', 0.8)
    with Fr3Emulator(OTHER_HOST, lock_step=True) as mute:
        mute.faults.unanswered = {FciCommand.GET_ROBOT_MODEL}
        with told(NotConnected, 'does not answer what the library asks when it connects'):
            ARMS[library](OTHER_HOST).open()
    assert f'{OTHER_HOST} does not answer yet; check robot_ip, cable and power' in caplog.text


@LONG
def test_a_lost_robot_is_not_recovered_by_its_last_state(box, arm):
    box.faults.silent = True
    until(lambda: arm._trouble(), 'the trouble')
    with told(DriverError, 'the arm cannot be recovered: .*(no state of the robot|UDP receive)'):
        arm.recover()


@LONG
@pytest.mark.parametrize(('press', 'words'), [
    ('press_user_stop', 'the user stop is pressed: release it'),
    ('guide', 'guided by hand: let go'),
    ('lock_joints', 'open the brakes and activate FCI in .* in execution mode'),
    ('program', "where it is released, choose execution mode in Franka's Desk"),
])
def test_a_robot_that_is_not_ready_at_the_start_says_so(box, library, press, words):
    getattr(box, press)()
    with ARMS[library](HOST) as arm, told(DriverError, words):
        arm.command(ArmCommand(arm.wait_state(BUSY_S).q, 0))


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(FrankaRsArm, 'MODULE', 'no_such_franka')
    with pytest.raises(NotConnected, match=r'pip install franka-rs==0.4.0'):
        FrankaRsArm().open()


@needs('libfranka')
@LONG
class TestLibfrankaArm(ArmConformance):
    @pytest.fixture
    def rig(self, box):
        return rig_of(box, LibfrankaArm(HOST))


@needs('libfranka')
@LONG
class TestLibfrankaTorques(ArmConformance):
    @pytest.fixture
    def rig(self, box):
        return rig_of(box, LibfrankaArm(HOST, torques=True))


@needs('franka_rs')
def test_torques_start_only_where_the_robots_states_come_in_time():
    """Some come 30 ms late; what is at an address that is not 127. could be a robot."""
    with Fr3Emulator(port=0, lock_step=True) as box:
        where = f'localhost:{box.port}'
        box.faults.states_late = 150
        with pytest.raises(NotConnected, match=r'or read more than 0\.5 ms late.*realtime: true'):
            FrankaRsArm(where).open()
        assert all('moves' not in words for _, words in box.events)


@given(st.integers(0, 2**32 - 1), st.integers(0, 400))
def test_the_share_of_late_states_is_what_could_not_be_answered(seed, count):
    """Late ones are lost or 1 ms behind; jitter below half a millisecond is in time."""
    rng = np.random.default_rng(seed)
    late = rng.choice(1000, count, replace=False)
    read_s = {ms: 7.0 + 1e-3 * (ms + rng.uniform(0.0, 0.4)) for ms in range(1000)}
    for i, ms in enumerate(late):
        if i % 2 and 0 < ms < 999:
            del read_s[ms]
        else:
            read_s[ms] += 1e-3
    assert late_share(read_s) == pytest.approx(len(late) / 1000)


@LONG
@needs('franka_rs')
def test_a_panda_is_driven_by_version_5():
    with Fr3Emulator(port=0, robot='panda', lock_step=True) as panda:
        where = f'127.0.0.1:{panda.port}'
        with contextlib.closing(FrankaRsArm(where, 'panda')) as arm:
            arm.open()
            start = arm.wait_state(BUSY_S).q
            goal = start + 0.05 * np.eye(7)[6]
            arm.move_to(goal, 0.5)
            until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) < 0.005)
            until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.IDLE)
            arm.command(ArmCommand(start, 0))
            until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.MOVE)
            arm.stop()
        with pytest.raises(NotConnected, match='version 5 of the FCI, a fr3 version 10'):
            FrankaRsArm(where, 'fr3').open()
