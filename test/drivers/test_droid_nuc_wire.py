"""The way to DROID's server without a robot: bytes, answers, targets, and who else may answer."""

import contextlib
import socket
import threading

import numpy as np
import pytest
from bad_input import told

from arena_robot.core.errors import NotConnected
from arena_robot.drivers.droid_nuc import client
from arena_robot.drivers.droid_nuc.arm import DroidNucArm
from arena_robot.drivers.droid_nuc.client import (
    EventError,
    NotDroid,
    NucTime,
    RemoteError,
    ServerLost,
    ZerorpcClient,
    position_of,
    reading_of,
    unpacked,
)
from arena_robot.drivers.droid_nuc.targets import FingerMotion, NucTargets
from arena_robot.drivers.emulators.droid_nuc import ZerorpcServer

BUSY_S = 30.0     # how long a busy machine may take


# -- bytes: captured from zerorpc 0.6.3 with pyzmq 27.3.0 ----------------------------------------

REPLY = bytes.fromhex(
    '9383aa6d6573736167655f6964c420653663663132383735643538343132626163'
    '3632663465643465306339346562a17603ab726573706f6e73655f746fc42061616161616161616161616161'
    '61616161616161616161616161616161616161a24f4b91928ab263617274657369616e5f706f736974696f6e'
    '96cb3fd999999999999acb0000000000000000cb3fd999999999999acb4008cccccccccccdcb000000000000'
    '0000cb0000000000000000b0677269707065725f706f736974696f6ecb0000000000000000af6a6f696e745f'
    '706f736974696f6e7397cb0000000000000000cbbfe41b089a027525cb0000000000000000cbc0041b3d07c8'
    '4b5ecb0000000000000000cb3ffe28f5c28f5c29cb0000000000000000b06a6f696e745f76656c6f63697469'
    '657397cb0000000000000000cb0000000000000000cb0000000000000000cb0000000000000000cb00000000'
    '00000000cb0000000000000000cb0000000000000000b66a6f696e745f746f72717565735f636f6d70757465'
    '6497cb0000000000000000cb0000000000000000cb0000000000000000cb0000000000000000cb0000000000'
    '000000cb0000000000000000cb0000000000000000bb707265765f6a6f696e745f746f72717565735f636f6d'
    '707574656497cb0000000000000000cb0000000000000000cb0000000000000000cb0000000000000000cb00'
    '00000000000000cb0000000000000000cb0000000000000000d923707265765f6a6f696e745f746f72717565'
    '735f636f6d70757465645f736166656e656497cb0000000000000000cb0000000000000000cb000000000000'
    '0000cb0000000000000000cb0000000000000000cb0000000000000000cb0000000000000000b66d6f746f72'
    '5f746f72717565735f6d6561737572656497cb0000000000000000cb0000000000000000cb00000000000000'
    '00cb0000000000000000cb0000000000000000cb0000000000000000cb0000000000000000ba707265765f63'
    '6f6e74726f6c6c65725f6c6174656e63795f6d73cb3fd3333333333333b7707265765f636f6d6d616e645f73'
    '75636365737366756cc382b7726f626f745f74696d657374616d705f7365636f6e6473ce6b0362f0b5726f62'
    '6f745f74696d657374616d705f6e616e6f73ce15a8576f')


def test_what_a_zerorpc_server_sends_is_read():
    answer = unpacked(REPLY)
    assert (answer.name, answer.answers) == ('OK', b'a' * 32)
    assert reading_of(answer.args[0]).q.tolist() == [0.0, -0.6283, 0.0, -2.5133, 0.0, 1.885, 0.0]


@pytest.mark.parametrize('blob', [b'', b'\xc1', b'\x93', b'\x00' * 9, b'\xc0',
                                  b'\x93\x01\xa2OK\x90', b'\x93\x80\xa2OK\x90'])
def test_what_is_no_event_is_said(blob):
    with pytest.raises(EventError, match=r'not an event of zerorpc'):
        unpacked(blob)


def good_answer():
    return [{'joint_positions': [0.0] * 7, 'joint_velocities': [0.0] * 7,
             'motor_torques_measured': [0.0] * 7, 'cartesian_position': [0.0] * 6,
             'gripper_position': 0.0, 'prev_command_successful': True},
            {'robot_timestamp_seconds': 5, 'robot_timestamp_nanos': 7}]


@pytest.mark.parametrize(('change', 'said'), [
    (lambda a: a.pop(), 'not enough values'),
    (lambda a: a[0].pop('joint_positions'), 'joint_positions'),
    (lambda a: a[0].update(joint_positions=[0.0] * 6), 'must be 7 finite numbers'),
    (lambda a: a[0].update(joint_velocities=[float('nan')] * 7), 'must be 7 finite numbers'),
    (lambda a: a[0].update(cartesian_position=['x'] * 6), 'could not convert'),
    (lambda a: a[1].update(robot_timestamp_nanos=None), 'TypeError'),
])
def test_an_answer_that_is_not_droids_is_said(change, said):
    answer = good_answer()
    assert reading_of(answer).nuc_ns == 5_000_000_007
    change(answer)
    with pytest.raises(NotDroid, match=rf"as DROID's server does: .*{said}"):
        reading_of(answer)
    for wrong in (None, 'open', float('nan'), True):
        with pytest.raises(NotDroid):
            position_of(wrong)
    assert position_of(1.004) == 1.0


def test_the_nucs_clock_is_mapped_by_the_shortest_way():
    nuc, offset_ns = NucTime(), 3_600 * 10**9
    for way_ns in (9_000_000, 2_000_000, 30_000_000):
        stamp_ns = nuc.stamp_ns(10**9 - offset_ns, 10**9 - 1_000_000, 10**9 + way_ns)
        assert stamp_ns <= 10**9 + way_ns
    assert 0 <= stamp_ns - 10**9 <= 2_000_000
    again = nuc.stamp_ns(10**9, 10**9 - 1_000_000, 10**9 + 1_000_000)   # its clock was set
    assert abs(again - 10**9) <= 1_000_000


def test_an_arm_is_stopped_after_its_commands_and_then_held():
    targets, here = NucTargets(0.5), np.zeros(7)
    assert targets.due(0) is None
    targets.hold()                     # nothing was commanded: nothing is sent
    assert targets.due(1) is None
    assert not targets.braking
    targets.track(here + 1.0, 10)
    assert targets.due(10)[0] == 1.0
    assert targets.due(20) is None
    assert targets.due(10 + 70_000_000)[0] == 1.0    # the server may have dropped it
    assert targets.due(10**9) is None                # no command for 0.5 s: the arm is stopped
    assert targets.braking
    assert targets.brake(here + 0.5, here + 1.0, 0.1, 10**9)[0] == pytest.approx(0.4)
    assert targets.brake(here + 0.5, here + 0.01, 0.1, 1_100_000_000)[0] == 0.5
    assert not targets.braking
    targets.move(here, here + 1.0, 1.0, 2 * 10**9)
    assert targets.due(2_500_000_000)[0] == 0.5
    assert targets.due(2_510_000_000) is None         # thirty times a second
    targets.hold()
    assert targets.brake(here + 0.6, here + 1.0, 0.0, 2_600_000_000)[0] == 0.6
    assert targets.braking
    assert targets.brake(here + 0.7, here + 1.0, 0.1, 3_100_000_000)[0] == 0.7   # it never rests
    assert targets.due(3_200_000_000)[0] == 0.7
    assert targets.due(5 * 10**9) is None            # held long enough: the server keeps it


def fingers_after(*seen, goal):
    fingers = FingerMotion()
    fingers.see(seen[0], 0)
    fingers.go(goal, 0)
    for number, position in enumerate(seen):
        fingers.see(position, number * 100_000_000)
    return fingers


@pytest.mark.parametrize(('places', 'goal', 'status', 'unresponsive'), [
    ([0.0, 0.3, 0.6, 0.9, 1.0, 1.0, 1.0], 1.0, 'AT_REQUESTED', False),
    ([0.0, 0.3, 0.6] + [0.61] * 20, 1.0, 'GRIPPED_CLOSING', False),
    ([0.6] * 30, 1.0, 'GRIPPED_CLOSING', False),     # it holds an object already
    ([0.0, 0.3, 0.6], 1.0, 'MOVING', False),
    ([0.0] * 30, 1.0, 'GRIPPED_CLOSING', True),
    ([0.7] * 30, 0.0, 'GRIPPED_OPENING', True),
])
def test_motion_and_objects_are_concluded_from_positions(places, goal, status, unresponsive):
    fingers = fingers_after(*places, goal=goal)
    assert (fingers.status.name, fingers.unresponsive) == (status, unresponsive)


# -- what answers at the address -------------------------------------------

def test_a_wrong_address_is_an_error_at_open():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
    with told(NotConnected, r'no connection to 127.0.0.1:.*Connection refused'):
        DroidNucArm('127.0.0.1', port=port).open()
    with pytest.raises(NotConnected, match=r'no connection to no.such.host.invalid:4242'):
        DroidNucArm('no.such.host.invalid').open()


def test_a_peer_that_accepts_and_is_silent_is_an_error_at_open(monkeypatch):
    monkeypatch.setattr(client, 'CONNECT_S', 0.2)
    with socket.create_server(('127.0.0.1', 0)) as listener, \
            pytest.raises(NotConnected, match=r'did not give the ZeroMQ handshake'):
        DroidNucArm('127.0.0.1', port=listener.getsockname()[1]).open()


@pytest.mark.parametrize('greeting', [
    b'SSH-2.0-OpenSSH_9.6\r\n',
    b'HTTP/1.1 400 Bad Request\r\n',
    b'\xff' + bytes(8) + b'\x7f\x03\x00PLAIN' + bytes(47),     # ZeroMQ with a password
])
def test_another_program_on_the_port_is_an_error_at_open(greeting):
    def greet():
        for _ in range(2):      # the first connection only looks whether somebody listens
            line, _ = listener.accept()
            with line, contextlib.suppress(OSError):
                line.sendall(greeting)
                line.recv(64)
    with socket.create_server(('127.0.0.1', 0)) as listener:
        thread = threading.Thread(target=greet)
        thread.start()
        with told(NotConnected, r'does not speak ZeroMQ 4 without encryption'):
            DroidNucArm('127.0.0.1', port=listener.getsockname()[1]).open()
        thread.join(BUSY_S)


def test_a_call_is_not_delivered_to_a_server_that_starts_later():
    server, heard = ZerorpcServer({}, '127.0.0.1', 0), []
    server.start()
    caller = ZerorpcClient('127.0.0.1', server.port)
    caller.connect()
    server.stop()
    with pytest.raises(ServerLost):
        caller.call('move', timeout_s=0.2)
    again = ZerorpcServer({'move': lambda: heard.append(1)}, '127.0.0.1', server.port)
    again.start()
    try:
        with pytest.raises(ServerLost, match='there is no connection'):
            caller.call('move')
        caller.connect()
        caller.call('_zerorpc_ping')
        assert heard == []
    finally:
        again.stop()
        caller.close()


def test_another_zerorpc_server_is_an_error_at_open():
    server = ZerorpcServer({'get_robot_state': good_answer}, '127.0.0.1', 0)
    server.start()
    try:
        with pytest.raises(NotConnected, match=r"not DROID's server: it lacks .*, update_joints, "
                                               '.*it has get_robot_state'):
            DroidNucArm('127.0.0.1', port=server.port).open()
    finally:
        server.stop()


def test_errors_of_the_server_keep_its_words():
    def fail():
        raise AttributeError("'FrankaRobot' object has no attribute '_robot'")
    server = ZerorpcServer({'fail': fail, 'add': lambda a, b: a + b}, '127.0.0.1', 0, 'here')
    server.start()
    caller = ZerorpcClient('127.0.0.1', server.port)
    try:
        with pytest.raises(ServerLost, match='there is no connection'):
            caller.call('add', 1, 2)
        caller.connect()
        assert caller.call('add', 1, 2) == 3
        assert caller.call('_zerorpc_ping') == ['pong', 'here']
        with pytest.raises(RemoteError, match=r"AttributeError: 'FrankaRobot' object has no attr"):
            caller.call('fail')
        with pytest.raises(RemoteError, match='NameError: get_gripper_state'):
            caller.call('get_gripper_state')
        assert caller.call('add', 'a', 'b') == 'ab'
    finally:
        server.stop()
        caller.close()
