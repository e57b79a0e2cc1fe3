"""The emulated control box, byte for byte, by a client of the test's own."""

import contextlib
import itertools
import socket
import time

import numpy as np
import pytest
from waiting import until

from arena_robot.core.observation import RobotMode
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka.wire import (
    CONNECT,
    CONNECTED,
    DIALECTS,
    HEADER,
    MOVE,
    RECOVERY_UNSAFE,
    FciCommand,
    FciController,
    FciError,
    FciGenerator,
    MoveStatus,
)

BUSY_S = 20.0
DEVIATIONS = bytes(48)


class Client:
    """A client that does one thing at a time; ``version`` is the one it asks for."""

    def __init__(self, emulator, version=None):
        self.dialect = emulator._dialect
        self.line = socket.create_connection(('127.0.0.1', emulator.port), BUSY_S)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(('127.0.0.1', 0))
        self.udp.settimeout(BUSY_S)
        self.calls, self.box, self.message = itertools.count(), None, 0
        asked = self.dialect.version if version is None else version
        self.welcome = CONNECTED.unpack(self.ask(FciCommand.CONNECT, CONNECT.pack(
            asked, self.udp.getsockname()[1])))

    def send(self, command, payload=b''):
        call = next(self.calls)
        self.line.sendall(HEADER.pack(self.dialect.number_of(command), call,
                                      HEADER.size + len(payload)) + payload)
        return call

    def reply(self, call):
        _, answered, size = HEADER.unpack(self.exactly(HEADER.size))
        assert answered == call
        return self.exactly(size - HEADER.size)

    def exactly(self, size):
        received = b''
        while len(received) < size:
            received += self.line.recv(size - len(received))
        return received

    def ask(self, command, payload=b''):
        return self.reply(self.send(command, payload))

    def state(self):
        packet, self.box = self.udp.recvfrom(1 << 16)
        assert len(packet) == self.dialect.state.itemsize
        return np.frombuffer(packet, self.dialect.state)[0]

    def newest(self, wanted):
        end_s = time.monotonic() + BUSY_S
        while time.monotonic() < end_s:
            state = self.state()
            if wanted(state):
                return state
        raise AssertionError('no such state came')

    def move(self, controller, generator, rest=b''):
        call = self.send(FciCommand.MOVE,
                         MOVE.pack(controller, generator - 1) + DEVIATIONS + rest)
        status = self.reply(call)
        return call, status

    def command(self, state, **values):
        out = np.zeros((), self.dialect.command)
        out['message_id'] = state['message_id']
        for name, value in values.items():
            out[name] = value
        self.udp.sendto(out.tobytes(), self.box)

    def close(self):
        self.line.close()
        self.udp.close()


@pytest.fixture(scope='module', params=['fr3', 'panda'])
def box(request):
    with Fr3Emulator(port=0, robot=request.param, lock_step=True) as box:
        yield box


@pytest.fixture
def client(box):
    with contextlib.closing(Client(box)) as client:
        client.newest(lambda state: True)
        if box.mode is not RobotMode.IDLE:
            client.ask(FciCommand.AUTOMATIC_ERROR_RECOVERY)
        client.newest(lambda state: state['robot_mode'] == RobotMode.IDLE)
        yield client
    until(lambda: box._client is None, 'the end of the connection')


def position(client):
    """Begin a motion of joint positions; return its call and the first state that shows it."""
    call, status = client.move(FciController.JOINT_IMPEDANCE, FciGenerator.JOINT_POSITION,
                               bytes(57) if client.dialect.version == 10 else b'')
    assert status == client.dialect.move_status(MoveStatus.MOTION_STARTED)
    return call, client.newest(    # states of a motion before may still be waiting
        lambda state: state['motion_generator_mode'] == FciGenerator.JOINT_POSITION)


def test_sizes_are_those_of_the_vendor():
    assert DIALECTS[10].state.itemsize == 1377
    assert DIALECTS[10].command.itemsize == 371
    assert DIALECTS[5].state.itemsize == 2373
    assert DIALECTS[5].command.itemsize == 370


def test_another_version_is_refused_with_the_boxs_own(box):
    wrong = 15 - box._dialect.version
    with contextlib.closing(Client(box, version=wrong)) as client:
        assert client.welcome == (1, box._dialect.version)
    with contextlib.closing(Client(box)) as client:
        assert client.welcome == (0, box._dialect.version)


def test_programming_mode_ends_a_motion_and_refuses_others(box, client):
    call, _ = position(client)
    box.program()
    status = client.dialect.move_status
    assert client.reply(call) == status(MoveStatus.PREEMPTED_FOR_SAFETY)
    client.newest(lambda state: state['robot_mode'] == RobotMode.USER_STOPPED)
    _, refused = client.move(FciController.JOINT_IMPEDANCE, FciGenerator.JOINT_POSITION, bytes(57))
    assert refused == status(MoveStatus.REJECTED_FOR_SAFETY)
    assert client.ask(FciCommand.AUTOMATIC_ERROR_RECOVERY) == bytes([RECOVERY_UNSAFE])
    box.release()


def test_joint_positions_are_followed_and_finished(box, client):
    call, state = position(client)
    assert state['motion_generator_mode'] == FciGenerator.JOINT_POSITION
    start, ids = np.array(state['q_d']), []
    for step in range(200):
        goal = start + 0.05 * (1 - np.cos(np.pi * step / 199)) / 2
        client.command(state, q_c=goal)
        state = client.state()
        ids.append(int(state['message_id']))
    client.command(state, q_c=goal, motion_finished=1)
    assert client.reply(call) == client.dialect.move_status(MoveStatus.SUCCESS)
    assert np.all(np.diff(ids) == 1)
    at_rest = client.newest(lambda state: np.max(np.abs(state['dq'])) < 0.005)
    assert np.max(np.abs(at_rest['q'] - start - 0.05)) < 0.01
    assert at_rest['robot_mode'] == RobotMode.IDLE
    assert state['control_command_success_rate'] == 1.0


def torques(client):
    """Begin a motion of torques; return its call and the first state that shows it."""
    generator = (FciGenerator.NONE if client.dialect.version == 10
                 else FciGenerator.JOINT_VELOCITY)
    call, _ = client.move(FciController.EXTERNAL, generator, bytes(57))
    return call, client.newest(lambda state: state['controller_mode'] == FciController.EXTERNAL)


def stopped(client, call):
    client.ask(FciCommand.STOP_MOVE)
    assert client.reply(call) == client.dialect.move_status(MoveStatus.PREEMPTED)


def test_a_command_that_comes_after_its_motion_is_not_one_of_the_next(box, client):
    call, state = torques(client)
    client.command(state)
    stopped(client, call)
    client.command(state)           # its q_c is zero
    call, state = position(client)
    held = np.array(state['q_d'])
    for _ in range(5):
        state = client.state()
    client.command(state, q_c=held)
    assert client.state()['robot_mode'] == RobotMode.MOVE
    stopped(client, call)


def test_an_arm_that_is_held_says_where_and_a_motion_begins_there(box, client):
    call, state = torques(client)
    for _ in range(80):
        client.command(state, tau_J_d=[0, 0, 0, 0, 0, 0, 0.5])
        state = client.state()
    stopped(client, call)
    call, state = position(client)      # it comes to rest first
    assert np.max(np.abs(state['dq'])) < 0.01
    held = np.array(state['q_d'])
    client.command(state, q_c=held, motion_finished=1)
    client.reply(call)
    state = client.newest(lambda state: state['robot_mode'] == RobotMode.IDLE)
    assert np.max(np.abs(state['q_d'] - held)) < 1e-4


def test_lost_commands_are_bridged_with_the_speed_before(box, client):
    call, state = position(client)
    for _ in range(60):
        client.command(state, q_c=state['q_d'] + 1e-4)
        state = client.state()
    before, box.faults.commands_lost = np.array(state['q_d']), 5
    for _ in range(5):
        client.command(state, q_c=before)
        state = client.state()
    assert np.max(np.abs(state['q_d'] - before - 5e-4)) < 2e-5
    client.command(state, q_c=state['q_d'], motion_finished=1)
    client.reply(call)


def test_torques_move_the_arm_which_carries_its_own_weight(box, client):
    call, state = torques(client)
    start = np.array(state['q'])
    for _ in range(100):
        client.command(state)
        state = client.state()
    assert np.max(np.abs(state['q'] - start)) < 0.002
    for _ in range(150):
        client.command(state, tau_J_d=[0, 0, 0, 0, 0, 0, 0.5])
        state = client.state()
    assert state['q'][6] > start[6] + 0.01
    stopped(client, call)


@pytest.mark.parametrize(('values', 'error'), [
    ({'q_c': 0.2}, FciError.joint_position_motion_generator_start_pose_invalid),
    ({'q_c': 9.0}, FciError.joint_position_motion_generator_start_pose_invalid),
    (None, FciError.communication_constraints_violation),
])
def test_a_wrong_command_is_a_reflex_until_recovery(box, client, values, error):
    call, state = position(client)
    if values is None:
        box.faults.silent = True       # no patience for the client
        client.command(state, q_c=state['q_d'])
    else:
        client.command(state, q_c=state['q_d'] + values['q_c'])
    assert client.reply(call) == client.dialect.move_status(MoveStatus.REFLEX_ABORTED)
    box.faults.silent = False
    state = client.newest(lambda state: state['robot_mode'] == RobotMode.REFLEX)
    assert list(np.flatnonzero(state['errors'])) == [error]
    assert client.move(0, 1)[1] == client.dialect.move_status(MoveStatus.NOT_POSSIBLE)
    assert client.ask(FciCommand.AUTOMATIC_ERROR_RECOVERY) == b'\0'
    state = client.newest(lambda state: state['robot_mode'] == RobotMode.IDLE)
    assert not state['errors'].any()


def test_a_user_stop_cannot_be_recovered_from(box, client):
    call, _ = position(client)
    box.press_user_stop()
    assert client.reply(call) == client.dialect.move_status(MoveStatus.EMERGENCY_ABORTED)
    assert client.ask(FciCommand.AUTOMATIC_ERROR_RECOVERY) == b'\1'
    box.release()
    client.newest(lambda state: state['robot_mode'] == RobotMode.IDLE)


def test_thresholds_are_kept_and_bad_ones_refused(box, client):
    values = np.arange(52, dtype='<f8') + 1.0
    assert client.ask(FciCommand.SET_COLLISION_BEHAVIOR, values.tobytes()) == b'\0'
    assert box.settings[FciCommand.SET_COLLISION_BEHAVIOR] == tuple(values)
    assert client.ask(FciCommand.SET_COLLISION_BEHAVIOR, values[:7].tobytes()) == b'\2'
    if client.dialect.version == 10:
        assert b'position_based_velocity_limits' in client.ask(FciCommand.GET_ROBOT_MODEL)


def test_a_lost_client_brakes_a_moving_arm_within_150_ms(box, client):
    _, state = position(client)
    start = np.array(state['q_d'])
    for step in range(60):
        client.command(state, q_c=start + 4e-6 * step * step * np.eye(7)[6])
        state = client.state()
    assert abs(state['dq'][6]) > 0.2
    client.close()
    until(lambda: box.events[-1][1] == 'at rest')
    last = list(box.events)[-3:]
    assert [words for _, words in last] == [
        'the client left', 'aborted reflex communication_constraints_violation', 'at rest']
    assert last[2][0] - last[0][0] <= 150


def test_a_second_client_is_refused(box, client):
    with contextlib.closing(socket.create_connection(('127.0.0.1', box.port), BUSY_S)) as line:
        line.settimeout(BUSY_S)
        assert line.recv(1) == b''
    client.state()
