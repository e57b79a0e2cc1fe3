"""What waits for a station ends when the session node has ended, or its own terminal is closed."""

import os
import signal
import sys
import threading
import uuid

import pytest
from rclpy.node import Node
from std_msgs.msg import Empty

from arena_msgs.msg import SessionState
from arena_robot.cli.main import main
from arena_robot.cli.station.session import StationWatch
from arena_robot.core.errors import NotConnected
from arena_robot.core.process import Process, wait_until
from arena_robot.nodes.lib import qos
from arena_robot.nodes.remote import desk as remote_desk
from arena_robot.nodes.remote import recorder as remote_recorder
from arena_robot.nodes.remote.recorder import RemoteRecorder

HUP = 1 << (signal.SIGHUP - 1)
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='test_server_process ends servers: make walks')
# As in a terminal: a program started by nohup ignores SIGHUP.
PROGRAM = """
import faulthandler, signal, sys
faulthandler.enable()
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from arena_robot.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def announced(spin):
    """Return a namespace with a publisher of a session's state, and what ends it."""
    name = f'test_{uuid.uuid4().hex[:6]}'
    node = Node('session_node', namespace=name, context=spin.context)
    publisher = qos.publisher(node, SessionState, '~/state', qos.LATCHED)
    publisher.publish(SessionState())
    yield name, lambda: node.destroy_publisher(publisher)
    node.destroy_node()


def test_a_terminal_says_that_the_session_node_has_ended(announced, monkeypatch, capsys):
    namespace, end = announced
    monkeypatch.setattr(remote_desk, 'GONE_S', 0.3)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    state = remote_desk.RemoteDesk.state

    def seen(desk):
        end()
        return state(desk)
    monkeypatch.setattr(remote_desk.RemoteDesk, 'state', seen)
    try:
        assert main(['session', '--watch', '--namespace', namespace, '--wait', '20']) == 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "the session node 'session_node' has ended; start it again" in capsys.readouterr().err


def test_a_desk_waits_for_a_session_node_that_is_restarted(announced):
    namespace, end = announced
    with remote_desk.RemoteDesk(namespace=namespace, patience_s=20.0) as desk:
        end()
        assert wait_until(lambda: desk.state() and desk._presence.gone_s() > 0.0, 10.0)
        assert desk.state().state.value == 'idle'


def test_a_desk_says_that_a_session_node_is_silent_until_it_is_back(announced, spin, monkeypatch):
    monkeypatch.setattr(remote_desk, 'SILENT_S', 0.4)
    namespace, _ = announced
    node = Node('beats', namespace=namespace, context=spin.context)
    alive = qos.publisher(node, Empty, 'session_node/alive')

    def notice_after_a_beat():
        alive.publish(Empty())
        return desk.wait_change(desk.state(), 0.1).notice
    with remote_desk.RemoteDesk(namespace=namespace, patience_s=20.0) as desk:
        assert desk.wait_change(desk.state(), 0.5).notice == '', 'one that never beat is no fault'
        assert wait_until(lambda: alive.get_subscription_count() > 0, 10.0)
        assert wait_until(lambda: notice_after_a_beat() == '' and desk._presence._beat_s, 10.0)
        seen = desk.state()
        assert 'does not answer. The arm stops' in desk.wait_change(seen, 10.0).notice
        assert wait_until(lambda: notice_after_a_beat() == '', 10.0)
    node.destroy_node()


class Gone:
    """A desk without a session node from the moment that somebody asks."""

    def __init__(self):
        self.asked = threading.Event()

    def state(self):
        self.asked.set()
        raise NotConnected('the session node has ended')


def test_a_question_that_nobody_answers_ends_too(monkeypatch):
    monkeypatch.setattr('arena_robot.cli.station.session.LOOK_S', 0.05)
    reading, writing = os.pipe()
    try:
        with pytest.raises(NotConnected, match='has ended'), StationWatch(Gone()):
            os.read(reading, 1)    # as input() does
    finally:
        os.close(reading)
        os.close(writing)


def catches_hup(process):
    with open(f'/proc/{process.pid}/status', encoding='utf-8') as file:
        caught = next(line for line in file if line.startswith('SigCgt'))
    return bool(int(caught.split()[1], 16) & HUP)


@pytest.mark.parametrize(('words', 'code', 'number'), [
    (('session', '--wait', '60'), 130, signal.SIGHUP),
    (('session', '--wait', '60'), 130, signal.SIGTERM),
    (('console', '--wait', '60'), 130, signal.SIGHUP),
    (('server', '--data', 'data', '--port', '0', '--site-port', '-1'), 0, signal.SIGHUP),
    pytest.param(('server', '--data', 'data', '--port', '0', '--site-port', '-1'), 0,
                 signal.SIGTERM, marks=LONG),
    pytest.param(('demo', '--data', 'data', '--no-console'), 130, signal.SIGHUP, marks=LONG)],
    ids=lambda case: case[0] if isinstance(case, tuple) else str(int(case)))
def test_a_closed_terminal_ends_a_program_as_sigterm_does(words, code, number, tmp_path,
                                                          monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join(path for path in sys.path if path))
    process = Process(words[0], [sys.executable, '-c', PROGRAM, *words], tmp_path / 'log')
    process.start()
    try:
        assert wait_until(lambda: process.code is not None or catches_hup(process), 60.0)
        os.kill(process.pid, number)
        if not wait_until(lambda: process.code is not None, 30.0):
            os.kill(process.pid, signal.SIGABRT)
            wait_until(lambda: process.code is not None, 5.0)
            pytest.fail('it goes on: ' + (tmp_path / 'log').read_text())
    finally:
        process.kill()
    log = (tmp_path / 'log').read_text()
    # Two threads of Fast DDS can wait for each other at the end: then Spin ends the process.
    assert process.code == (1 if 'Timeout (0:00:08)!' in log else code), log
    assert 'Traceback' not in log


@pytest.mark.parametrize('derives', [True, False])
def test_a_recording_of_a_recorder_that_derives_nothing_is_ready(spin, tmp_path, monkeypatch,
                                                                 derives):
    monkeypatch.setattr(remote_recorder, 'is_complete', lambda folder: True)
    namespace = f'test_{uuid.uuid4().hex[:6]}'
    node = Node('recorder_node', namespace=namespace, context=spin.context)
    node.declare_parameter('derive', derives)
    spin.add(node, threads=1)
    asking = Node('asking', namespace=namespace, context=spin.context)
    spin.add(asking, threads=1)
    recorder = RemoteRecorder(asking)
    assert wait_until(lambda: recorder._parameters.present(), 20.0)
    assert recorder.ready(tmp_path) is not derives
    assert not RemoteRecorder(asking, 'nobody').ready(tmp_path), 'a recorder that is started later'
