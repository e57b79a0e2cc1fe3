"""
The fault table of a directly wired Franka: what is injected, what is read, what the arm did.

The library is the real franka-rs; packets and devices fail at the emulated control box.
"""

import contextlib
import os
import re
import signal
import socket

import numpy as np
import pytest
from franka_rig import BUSY_S, HOST, LONG, again, follow, needs, rest_after, until

from arena_robot.core.action import ArmCommand
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.emulators.fci_motion import measured_q
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka import arm as arm_module
from arena_robot.drivers.franka.arm import FrankaRsArm
from arena_robot.drivers.franka.wire import FciCommand, FciError

pytestmark = [needs('franka_rs'), LONG]
C = FciCommand


@pytest.fixture(scope='module')
def box():
    with Fr3Emulator(HOST, lock_step=True) as made:
        yield made


@pytest.fixture(scope='module')
def shared(box):
    with FrankaRsArm(HOST) as made:
        yield made


@pytest.fixture
def arm(box, shared):
    again(shared)
    yield shared
    box.faults.mend()
    box.release()


def faults(**values):
    """Return what sets these faults of the box."""
    return lambda box, arm: [setattr(box.faults, name, value) for name, value in values.items()]


@pytest.mark.parametrize('inject', [
    pytest.param(faults(states_lost=3), id='three states are lost'),
    pytest.param(faults(states_doubled=30), id='states come twice'),
    pytest.param(faults(states_late=2), id='states come 30 ms late, after newer ones'),
    pytest.param(faults(commands_lost=10), id='ten commands are lost'),
])
def test_what_a_motion_survives(box, arm, inject):
    goal = follow(arm)
    inject(box, arm)
    until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) < 0.005, 'the goal')
    until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.IDLE)
    assert not arm.state(BUSY_S).errors


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(commands_lost=60), 'communication_constraints_violation',
                 id='sixty commands are lost'),
    pytest.param(faults(commands_damaged=1), 'joint_motion_generator', id='a damaged command'),
    pytest.param(lambda box, arm: box.reflex(FciError.joint_reflex), 'joint_reflex',
                 id='a collision at a joint'),
    pytest.param(lambda box, arm: box.reflex(FciError.cartesian_reflex), 'cartesian_reflex',
                 id='a collision at the flange'),
    pytest.param(lambda box, arm: box.reflex(FciError.power_limit_violation,
                                             FciError.joint_velocity_violation),
                 'joint_velocity_violation, power_limit_violation', id='two errors at once'),
])
def test_what_is_a_reflex_until_recovery(box, arm, inject, words):
    goal, begin = follow(arm), box.ticks
    inject(box, arm)
    until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.REFLEX, 'the reflex')
    assert rest_after(box, begin, 'reflex') <= 150
    with pytest.raises(DriverError, match=rf'REFLEX \(.*{words}.*\); recover it first'):
        arm.command(ArmCommand(goal, 0))
    arm.recover()
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) > 0.02


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(states_cut=1), 'incorrect object size', id='a state is cut'),
    pytest.param(faults(silent=True), 'no state of the robot for 0.5 s', id='no states'),
    pytest.param(faults(unplugged=True), 'no state of the robot for 0.5 s', id='a pulled cable'),
    pytest.param(lambda box, arm: box.drop_client(), 'closed|no state of the robot for 0.5 s',
                 id='a closed connection'),     # whichever is noticed first,
    pytest.param(lambda box, arm: os.kill(arm._control.pid, signal.SIGKILL), 'ended with -9',
                 id='the control process is killed'),
    pytest.param(lambda box, arm: os.kill(arm._control.pid, signal.SIGSTOP),
                 'no state of the robot for 0.5 s', id='the control process hangs'),
])
def test_what_ends_the_connection(box, arm, inject, words):
    goal, begin = follow(arm), box.ticks
    inject(box, arm)
    until(arm._trouble, 'the trouble')
    assert re.search(words, arm._trouble())
    with pytest.raises(DriverError, match=words):
        arm.command(ArmCommand(goal, 0))
    assert rest_after(box, begin, 'reflex|preempted') <= 150
    box.faults.mend()
    again(arm)
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) > 0.02


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(refused={C.MOVE}), 'not possible', id='a motion is refused'),
    pytest.param(faults(closes_on={C.MOVE}), 'clos', id='closed at the start of a motion'),
    pytest.param(faults(unanswered={C.MOVE}), 'no state of the robot',
                 id='no answer to the start of a motion'),
])
def test_what_keeps_a_motion_from_starting(box, arm, inject, words):
    start = arm.wait_state(BUSY_S).q
    inject(box, arm)
    arm.command(ArmCommand(start, 0))

    def told():
        return words in ' '.join(arm.state(BUSY_S).errors) + arm._trouble()
    until(told, 'the words')
    assert np.max(np.abs(measured_q(box.station) - start)) < 0.01


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(refused={C.AUTOMATIC_ERROR_RECOVERY}), 'not possible|Reflex',
                 id='recovery is refused'),
    pytest.param(faults(closes_on={C.AUTOMATIC_ERROR_RECOVERY}), 'closed',
                 id='closed at recovery'),
    pytest.param(faults(unanswered={C.AUTOMATIC_ERROR_RECOVERY}), 'no answer within',
                 id='no answer to recovery'),
])
def test_what_keeps_an_arm_in_its_reflex(box, arm, inject, words, monkeypatch):
    monkeypatch.setattr(arm_module, 'RECOVERY_S', 0.5)
    box.reflex()
    until(lambda: arm.wait_state(BUSY_S).recovery_required)
    inject(box, arm)
    with pytest.raises(DriverError, match=words):
        arm.recover()
    if 'no answer' in words:
        arm._control.kill('the test ends it')


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(refused={C.SET_COLLISION_BEHAVIOR}), 'not possible',
                 id='thresholds are refused'),
    pytest.param(faults(closes_on={C.CONNECT}), 'closed', id='closed at once'),
    pytest.param(faults(closes_on={C.GET_ROBOT_MODEL}), 'closed', id='closed before the model'),
    pytest.param(faults(unanswered={C.CONNECT}), 'is silent', id='a silent peer'),
    pytest.param(faults(silent=True), 'UDP receive', id='a firewall takes the states'),
])
def test_what_keeps_a_connection_from_being_made(inject, words, monkeypatch):
    monkeypatch.setattr(arm_module, 'OPEN_S', 4.0)
    with Fr3Emulator(port=0, lock_step=True) as other:
        inject(other, None)
        arm = FrankaRsArm(f'127.0.0.1:{other.port}')
        with pytest.raises(NotConnected, match=words):
            arm.open()
        assert arm._control is None
        assert all('moves' not in said for _, said in other.events)


def test_a_second_program_is_refused_and_the_first_goes_on(box, arm):
    goal = follow(arm)
    with pytest.raises(NotConnected, match=r'closed|reset by peer'):
        FrankaRsArm(HOST).open()
    with contextlib.closing(socket.create_connection((HOST, box.port), BUSY_S)):
        until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) < 0.005, 'the goal')
