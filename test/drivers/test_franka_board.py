"""The memory between a driver and its control process, and signs of life of both."""

import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka import board as board_module
from arena_robot.drivers.franka import child as child_module
from arena_robot.drivers.franka.board import (
    FrankaBoard,
    FrankaCommand,
    FrankaOrder,
    FrankaRequest,
    FrankaState,
)
from arena_robot.drivers.franka.child import FrankaControl
from arena_robot.drivers.franka.client import (
    FrankaLost,
    FrankaReading,
    FrankaRefused,
    droid_goal,
)
from arena_robot.drivers.franka.process import closed_by_peer
from arena_robot.robots.arms import KQ, KQD, KX, KXD, RESET_JOINTS
from arena_robot.safety.kinematics import frames, jacobian

HOME = np.array(RESET_JOINTS)
BEATING = """
import itertools, sys
from pathlib import Path
from arena_robot.drivers.franka.board import FrankaBoard
board = FrankaBoard(Path(sys.argv[1]))
for now_ns in itertools.count(10**15):
    board.beat(now_ns)
"""
CLIENT = """
import socket, sys
line = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print('connected', flush=True)
sys.stdin.read()
"""


@pytest.fixture
def board(tmp_path):
    board = FrankaBoard(tmp_path / 'board')
    yield board
    board.close()


def test_records_come_back_whole(board, tmp_path):
    assert board.state() is None
    assert board.command() is None
    assert board.request() is None
    other = FrankaBoard(tmp_path / 'board')
    state = FrankaState(3, 4, 5, 6, 7, 8, 4, FrankaOrder.TRACK, 10, 0.5, *np.arange(35.0).reshape(
        5, 7), ('cartesian_reflex',), 'tröuble\n"x"' * 200, 'no')
    other.post_state(state)
    state = board.state()
    assert (state.count, state.order, state.version) == (3, FrankaOrder.TRACK, 10)
    assert state.errors == ('cartesian_reflex',)
    assert state.trouble.startswith('tr?uble "x"')
    assert np.array_equal(state.q_d, np.arange(28.0, 35.0))
    other.post_command(FrankaCommand(9, FrankaOrder.MOVE, 1, 2, 1.5, HOME))
    assert np.array_equal(board.command().q, HOME)
    other.post_request(2, FrankaRequest.COLLISION, tuple(float(i) for i in range(26)))
    assert board.request()[2][25] == 25.0
    other.close()


def test_a_reader_never_gets_half_a_record(board):
    over, torn = threading.Event(), []

    def read():
        while not over.is_set():
            command = board.command()
            if command is None:       # it is being written
                continue
            if len(set(command.q)) != 1 or command.q[0] != command.serial:
                torn.append(command)
    thread = threading.Thread(target=read)
    board.post_command(FrankaCommand(0, q=np.zeros(7)))
    thread.start()
    for serial in range(1, 3000):
        board.post_command(FrankaCommand(serial, q=np.full(7, float(serial))))
    over.set()
    thread.join(10.0)
    assert torn == []


class FakeClient:
    """A robot that is where it was sent a millisecond ago."""

    version = 10
    paced = False

    def __init__(self):
        self.did, self.q, self.ms, self.mode = [], HOME.copy(), 0, RobotMode.IDLE
        self.refuses = self.lost = False
        self.followed = 0

    def connect(self):
        self.did.append('connect')

    def read(self):
        if self.lost:
            raise FrankaLost('server closed connection')
        self.ms += 4
        zero = np.zeros(7)
        return FrankaReading(self.ms, self.q.copy(), zero, zero, zero, self.q, self.mode, (), 1.0)

    @property
    def running(self):
        return self.mode is RobotMode.MOVE

    def start(self, order, q):
        self.did.append(f'start {order.name}')
        assert np.array_equal(q, self.q)
        self.mode = RobotMode.MOVE

    def send(self, q):
        if self.refuses:
            raise FrankaRefused('outside the limits')
        self.q = np.array(q)

    def follow(self, _):
        self.followed += 1

    def end(self):
        self.did.append('end')
        self.mode = RobotMode.IDLE

    def recover(self):
        self.did.append('recover')
        if self.refuses:
            raise FrankaRefused('command not possible in the current mode ("User stopped")!')

    def set_collision(self, *values):
        self.did.append(f'collision {values[1][0]}')


@pytest.fixture
def client():
    return FakeClient()


@pytest.fixture
def control(board, client):
    control = FrankaControl(board, client, lambda: True)
    control.cycle()
    return control


def post(board, serial, order, q=HOME, *, until_s=60.0, duration_s=0.0):
    now_ns = time.monotonic_ns()
    board.beat(now_ns)
    board.post_command(FrankaCommand(serial, order, now_ns, now_ns + round(until_s * 1e9),
                                     duration_s, q))


def test_only_the_newest_target_is_tracked_until_commands_end(board, client, control):
    post(board, 1, FrankaOrder.TRACK, HOME + 0.1)
    post(board, 2, FrankaOrder.TRACK, HOME + 0.2)
    control.cycle()
    assert np.array_equal(client.q, HOME + 0.2)
    assert board.state().obeyed == 2
    post(board, 3, FrankaOrder.TRACK, HOME + 0.3, until_s=-1.0)
    control.cycle()
    assert client.did == ['start TRACK', 'end']
    assert board.state().order is FrankaOrder.HOLD


def half_written(board, at):
    """Leave a record as a writer that is held up in the middle of it does."""
    board._words[at // board_module._WORD] += 1


def test_a_command_or_request_that_is_being_written_ends_and_repeats_nothing(board, client,
                                                                            control):
    board.post_request(1, FrankaRequest.RECOVER)
    control.cycle()
    post(board, 7, FrankaOrder.MOVE, HOME + 0.2, duration_s=0.4)
    control.cycle()
    half_written(board, board_module._COMMAND)
    half_written(board, board_module._REQUEST)
    for _ in range(50):
        control.cycle()
    assert board.state().obeyed == 7
    assert board.state().answered == 1
    post(board, 8, FrankaOrder.HOLD)
    control.cycle()
    assert client.did == ['recover', 'start MOVE', 'end']


def test_a_motion_keeps_to_the_robots_time(board, client, control):
    post(board, 1, FrankaOrder.MOVE, HOME + 0.2, duration_s=0.4)
    control.cycle()
    assert np.max(np.abs(client.q - HOME)) < 0.01
    for _ in range(50):
        control.cycle()
    assert 0.05 < client.q[0] - HOME[0] < 0.15
    for _ in range(200):
        control.cycle()
    assert np.allclose(client.q, HOME + 0.2)
    assert client.did == ['start MOVE', 'end']


def test_a_motion_of_a_loop_that_was_held_up_is_not_given_up_before_its_goal(board, client,
                                                                             control):
    post(board, 1, FrankaOrder.MOVE, HOME + 0.2, duration_s=0.4)
    control.cycle()
    client.ms, client.send = client.ms + 2000, lambda q: None
    control.cycle()
    assert client.did == ['start MOVE']
    client.q = HOME + 0.2
    control.cycle()
    assert client.did == ['start MOVE', 'end']


def test_a_motion_ends_when_the_driver_is_gone_and_on_hold(board, client, control):
    post(board, 1, FrankaOrder.TRACK)
    control.cycle()
    board.beat(time.monotonic_ns() - 10**9)
    control.cycle()
    post(board, 2, FrankaOrder.TRACK)
    control.cycle()
    post(board, 3, FrankaOrder.HOLD)
    control.cycle()
    assert client.did == ['start TRACK', 'end', 'start TRACK', 'end']


def test_a_state_that_says_what_ended_a_motion_is_all_that_is_told(board, client, control):
    post(board, 1, FrankaOrder.TRACK)
    control.cycle()
    client.mode = RobotMode.IDLE    # the library ended the motion, and its state is still to come
    control.cycle()
    assert board.state().errors == (child_module.EARLY,)
    client.mode = RobotMode.REFLEX
    control.cycle()
    assert board.state().errors == ()   # but for the robot's own, which this client has not
    client.mode = RobotMode.IDLE
    control.cycle()
    assert board.state().errors == ()


def test_refusals_are_told_and_requests_answered(board, client, control):
    client.refuses = True
    post(board, 1, FrankaOrder.TRACK, HOME + 9.0)
    control.cycle()
    assert board.state().errors == ('outside the limits',)
    board.post_request(1, FrankaRequest.RECOVER)
    control.cycle()
    assert board.state().answered == 1
    assert 'User stopped' in board.state().answer
    board.post_request(2, FrankaRequest.COLLISION, (20.0,) * 26)
    control.cycle()
    assert board.state().answer == ''
    assert client.did[-1] == 'collision 20.0'


def test_what_was_commanded_before_a_start_is_not_carried_out(board, client):
    post(board, 5, FrankaOrder.TRACK, HOME + 0.5)
    left = iter([True, True, False])
    FrankaControl(board, client, lambda: next(left)).run()
    assert client.did == ['connect']
    client.lost = True
    with pytest.raises(FrankaLost, match='server closed'):
        FrankaControl(board, client, lambda: True).run()


def test_a_motion_ends_with_the_loop(board, client):
    left = iter([True, False])
    client.connect = lambda: post(board, 1, FrankaOrder.TRACK)
    FrankaControl(board, client, lambda: next(left)).run()
    assert client.did == ['start TRACK', 'end']


def test_a_loop_that_was_paced_by_the_robot_does_not_rest_afterwards(board, client):
    left = iter(range(600))
    client.connect = lambda: setattr(client, 'paced', True)
    begin_s = time.monotonic()

    def alive():
        client.paced = (number := next(left)) < 500
        return number < 502
    FrankaControl(board, client, alive).run()
    assert time.monotonic() - begin_s < 500 * 0.004


def test_separate_joints_with_droids_goal_give_the_torques_of_droids_law():
    rng = np.random.default_rng(5)
    stiffness, damping = rng.uniform(20.0, 150.0, 7), rng.uniform(2.0, 20.0, 7)
    q, dq, target = HOME + rng.uniform(-0.3, 0.3, 7), rng.uniform(-1.0, 1.0, 7), HOME
    jac = jacobian(frames(q))
    droid = ((np.diag(KQ) + jac.T @ np.diag(KX) @ jac) @ (target - q)
             - (np.diag(KQD) + jac.T @ np.diag(KXD) @ jac) @ dq)
    goal = droid_goal(target, q, dq, stiffness, damping)
    assert np.allclose(stiffness * (goal - q) - damping * dq, droid)


def test_a_tracked_target_is_followed_in_every_cycle(board, client, control):
    post(board, 1, FrankaOrder.TRACK, HOME + 0.1)
    for _ in range(5):
        control.cycle()
    assert client.followed == 5
    post(board, 2, FrankaOrder.MOVE, HOME, duration_s=0.4)
    control.cycle()
    assert client.followed == 5


def test_the_sign_of_life_is_never_read_while_it_is_half_written(tmp_path):
    board = FrankaBoard(tmp_path / 'board')
    board.beat(10**15)
    with subprocess.Popen([sys.executable, '-c', BEATING, str(board.path)]) as other:
        try:
            seen, end_s = set(), time.monotonic() + 60.0
            while len(seen) < 1000 and time.monotonic() < end_s:
                seen |= {board.last_beat_ns for _ in range(10_000)}
        finally:
            other.kill()
            board.close()
    assert len(seen) >= 1000        # it was written meanwhile
    assert min(seen) >= 10**15


def test_a_connection_that_only_the_other_end_has_closed_is_seen():
    with socket.create_server(('127.0.0.1', 0)) as server, subprocess.Popen(
            [sys.executable, '-c', CLIENT, str(server.getsockname()[1])], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        line, _ = server.accept()
        assert client.stdout.readline() == 'connected\n'
        assert not closed_by_peer(client.pid)
        line.close()
        end_s = time.monotonic() + 10.0
        while not closed_by_peer(client.pid):
            assert time.monotonic() < end_s
            time.sleep(0.001)
        client.stdin.close()
        client.wait(10.0)
        assert not closed_by_peer(client.pid)


def test_a_system_without_proc_says_nothing(tmp_path):
    assert not closed_by_peer(1, tmp_path)
