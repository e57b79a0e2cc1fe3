"""
The fault table of a directly wired Franka: what is injected, what is read, what the arm did.

The library is the real franka-rs; packets and devices fail at the emulated control box.
"""

import contextlib
import os
import signal
import socket

import numpy as np
import pytest
from bad_input import told
from franka_faults import (
    does_not_start,
    faults,
    is_not_opened,
    loses_connection,
    needs_recovery,
    stays_in_reflex,
    survives,
)
from franka_rig import BUSY_S, HOST, LONG, again, follow, needs, until

from arena_robot.core.errors import NotConnected
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
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


@pytest.mark.parametrize('inject', [
    pytest.param(faults(states_lost=3), id='three states are lost'),
    pytest.param(faults(states_doubled=30), id='states come twice'),
    pytest.param(faults(states_late=2), id='states come 30 ms late, after newer ones'),
    pytest.param(faults(commands_lost=10), id='ten commands are lost'),
])
def test_what_a_motion_survives(box, arm, inject):
    survives(box, arm, inject)


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
    needs_recovery(box, arm, inject, words)


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
    loses_connection(box, arm, inject, words)


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(refused={C.MOVE}), 'not possible', id='a motion is refused'),
    pytest.param(faults(closes_on={C.MOVE}), 'clos', id='closed at the start of a motion'),
    pytest.param(faults(unanswered={C.MOVE}), 'does not answer the start of a motion',
                 id='no answer to the start of a motion'),
    pytest.param(lambda box, arm: box.program(RobotMode.IDLE),
                 'remove safety rules in Watchman',
                 id='a safety function forbids motions'),
])
def test_what_keeps_a_motion_from_starting(box, arm, inject, words):
    does_not_start(box, arm, inject, words)


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(refused={C.AUTOMATIC_ERROR_RECOVERY}), 'not possible|Reflex',
                 id='recovery is refused'),
    pytest.param(faults(closes_on={C.AUTOMATIC_ERROR_RECOVERY}), 'closed',
                 id='closed at recovery'),
    pytest.param(faults(unanswered={C.AUTOMATIC_ERROR_RECOVERY}), 'no answer within',
                 id='no answer to recovery'),
])
def test_what_keeps_an_arm_in_its_reflex(box, arm, inject, words, monkeypatch):
    stays_in_reflex(box, arm, inject, words, monkeypatch)


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(refused={C.SET_COLLISION_BEHAVIOR}), 'not possible',
                 id='thresholds are refused'),
    pytest.param(faults(closes_on={C.CONNECT}), 'closed', id='closed at once'),
    pytest.param(faults(closes_on={C.GET_ROBOT_MODEL}), 'closed', id='closed before the model'),
    pytest.param(faults(unanswered={C.CONNECT}), 'is silent', id='a silent peer'),
    pytest.param(faults(silent=True), 'UDP receive', id='a firewall takes the states'),
    pytest.param(faults(unanswered={C.GET_ROBOT_MODEL}), 'what the library asks when it connects',
                 id='silent before the model'),
    pytest.param(faults(unanswered={C.SET_COLLISION_BEHAVIOR}),
                 'what the library asks when it connects', id='silent at the thresholds'),
    pytest.param(faults(unplugged=True), 'is silent', id='a peer that answers nothing at all'),
])
def test_what_keeps_a_connection_from_being_made(inject, words):
    is_not_opened(FrankaRsArm, inject, words)


def test_a_second_program_is_refused_and_the_first_goes_on(box, arm):
    goal = follow(arm)
    with told(NotConnected, 'was closed at once.*one client at a time'):
        FrankaRsArm(HOST).open()
    with contextlib.closing(socket.create_connection((HOST, box.port), BUSY_S)):
        until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) < 0.005, 'the goal')
