"""
The fault table of a directly wired Franka: what is injected, what is read, what the arm did.

Both libraries are real; packets and devices fail at the emulated control box. Behind pylibfranka
the robot interpolates between targets, so it needs no command within a millisecond. That library
waits for ever for a box that has closed the connection: its process is then ended.
"""

import contextlib
import os
import re
import signal
import socket
import threading
import time

import numpy as np
import pytest
from bad_input import in_time, told
from franka_rig import ARMS, BUSY_S, HOST, LONG, again, follow, needs, rest_after, until

from arena_robot.core.action import ArmCommand
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka import arm as arm_module
from arena_robot.drivers.franka.wire import ROBOT_PORT, FciCommand, FciError

OTHER_HOST = '127.17.44.7'      # libfranka's port cannot be changed
REST_MS = 150
pytestmark = LONG
C = FciCommand


def faults(**values):
    """Return what sets these faults of the box."""
    return lambda box, arm: [setattr(box.faults, name, value) for name, value in values.items()]


def survives(box, arm, inject):
    """See that a motion goes on to its goal."""
    goal = follow(arm)
    inject(box, arm)
    end_s = time.monotonic() + BUSY_S
    while (off := np.max(np.abs((state := arm.wait_state(BUSY_S)).q - goal))) >= 0.005:
        assert time.monotonic() < end_s, (
            f'{off:.4f} rad from the goal: {state.mode.name} {state.errors}, {arm._seen}')
    until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.IDLE)
    assert not arm.state(BUSY_S).errors


def needs_recovery(box, arm, inject, words):
    """See that the arm comes to rest, refuses commands in these words, and can be recovered."""
    goal, begin = follow(arm), box.ticks
    with in_time():
        inject(box, arm)
        until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.REFLEX, 'the reflex')
    assert rest_after(box, begin, 'reflex') <= REST_MS
    with pytest.raises(DriverError, match=rf'REFLEX \(.*{words}.*\); recover it first'):
        arm.command(ArmCommand(goal, 0))
    arm.recover()
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) > 0.02


def loses_connection(box, arm, inject, words):
    """See that the arm comes to rest, is connected again, and the motion is forgotten."""
    goal, begin = follow(arm), box.ticks
    with in_time():
        inject(box, arm)
        until(arm._trouble, 'the trouble')
    assert re.search(words, arm._trouble())
    with pytest.raises(DriverError, match=words):
        arm.command(ArmCommand(goal, 0))
    assert rest_after(box, begin, 'reflex|preempted') <= REST_MS
    box.faults.mend()
    again(arm)
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) > 0.02


def does_not_start(box, arm, inject, words):
    """See that a motion does not begin, and that this is told."""
    start = arm.wait_state(BUSY_S).q
    inject(box, arm)
    with in_time():
        arm.command(ArmCommand(start, 0))
        until(lambda: words in ' '.join(arm.state(BUSY_S).errors) + arm._trouble(), 'the words')
    world = box.station.world
    assert np.max(np.abs(world.data.qpos[world.arm.impedance.qpos] - start)) < 0.01


def stays_in_reflex(box, arm, inject, words, monkeypatch):
    """See that a recovery fails in these words, and that it is told in time."""
    monkeypatch.setattr(arm_module, 'RECOVERY_S', 1.6)
    box.reflex()
    until(lambda: arm.wait_state(BUSY_S).recovery_required)
    inject(box, arm)
    if 'no answer' in words:
        said = []

        def recover():
            try:
                arm.recover()
            except DriverError as error:
                said.append(str(error))
        recovery = threading.Thread(target=recover)
        with in_time():
            recovery.start()
            until(lambda: 'has not answered the recovery yet' in arm._silence(), 'the words')
        recovery.join(BUSY_S)
        arm._control.kill('the test ends it')
        assert re.search(words, said[0])
        return
    with told(DriverError, words):
        arm.recover()


@pytest.fixture(scope='module', params=[pytest.param(name, marks=needs(name)) for name in ARMS])
def library(request):
    return request.param


@pytest.fixture(scope='module')
def box(library):
    with Fr3Emulator(HOST, lock_step=True) as box:
        yield box


@pytest.fixture(scope='module')
def shared(box, library):
    with ARMS[library](HOST) as arm:
        yield arm


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


def test_sixty_lost_commands_are_a_reflex_but_for_the_robots_own_motion(box, arm, library):
    lost = faults(commands_lost=60)
    if library == 'libfranka':
        survives(box, arm, lost)
    else:
        needs_recovery(box, arm, lost, 'communication_constraints_violation')


@pytest.mark.parametrize(('inject', 'words'), [
    pytest.param(faults(states_cut=1), 'incorrect object size', id='a state is cut'),
    pytest.param(faults(silent=True), 'no state of the robot for 0.5 s', id='no states'),
    pytest.param(lambda box, arm: box.drop_client(), 'closed|no state of the robot for 0.5 s',
                 id='a closed connection'),     # whichever is noticed first
    pytest.param(lambda box, arm: os.kill(arm._control.pid, signal.SIGSTOP),
                 'no state of the robot for 0.5 s', id='the control process hangs'),
])
def test_what_ends_the_connection(box, arm, inject, words):
    loses_connection(box, arm, inject, words)


def test_a_killed_control_process_is_a_reflex_until_recovery(box, arm):
    goal, begin = follow(arm), box.ticks
    os.kill(arm._control.pid, signal.SIGKILL)
    until(arm._trouble, 'the trouble')
    assert 'ended with -9' in arm._trouble()
    assert rest_after(box, begin, 'reflex') <= REST_MS
    until(lambda: not arm._trouble() and arm._seen.count, 'a new connection')
    state = arm.wait_state(BUSY_S)
    assert (state.mode, state.errors) == (
        RobotMode.REFLEX, ('communication_constraints_violation',))
    with pytest.raises(DriverError, match='recover it first'):
        arm.command(ArmCommand(goal, 0))
    arm.recover()
    assert arm.wait_state(BUSY_S).mode is RobotMode.IDLE
    follow(arm)


def test_a_pulled_cable(box, arm, library):
    if library == 'libfranka':
        pytest.skip('its robot goes on to the last target, as test_franka.py reads')
    loses_connection(box, arm, faults(unplugged=True), 'no state of the robot for 0.5 s')


def test_an_fr3_that_falls_idle_in_a_motion_is_connected_again(box, arm, library):
    if library != 'libfranka':
        pytest.skip('with franka-rs the box does not interpolate')
    target = arm.wait_state(BUSY_S).q
    box.faults.falls_idle = 1
    with in_time():
        arm.command(ArmCommand(target, 0))
        until(arm._trouble, 'the trouble')
    assert 'the end of a motion in which it fell idle' in arm._trouble()
    again(arm)
    follow(arm)


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
def test_what_keeps_a_connection_from_being_made(library, inject, words):
    host, port = (OTHER_HOST, ROBOT_PORT) if library == 'libfranka' else ('127.0.0.1', 0)
    with Fr3Emulator(host, port, lock_step=True) as other:
        inject(other, None)
        arm = ARMS[library](host if port else f'{host}:{other.port}')
        with told(NotConnected, words):
            arm.open()
        assert all('moves' not in said for _, said in other.events)


def test_a_second_program_is_refused_and_the_first_goes_on(box, arm, library):
    goal = follow(arm)
    with told(NotConnected, 'was closed at once.*one client at a time'):
        ARMS[library](HOST).open()
    with contextlib.closing(socket.create_connection((HOST, box.port), BUSY_S)):
        until(lambda: np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) < 0.005, 'the goal')
