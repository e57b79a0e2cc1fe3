"""Each thing that `arena doctor` checks is broken here, and the verdict must say so."""

import json
import socket
import time

import pytest

from arena_robot.cli import doctor_checks as checks
from arena_robot.cli.main import main


def said(look, *words):
    with pytest.raises(checks.Wrong) as caught:
        look()
    for word in words:
        assert word in f'{caught.value.found} {caught.value.advice}', caught.value
    assert caught.value.advice
    return caught.value


@pytest.mark.parametrize('version', [(3, 9), (3, 14), (2, 7)])
def test_a_python_without_wheels(version):
    said(lambda: checks.python(version), '.'.join(map(str, version)), 'make setup PYTHON=')


@pytest.mark.parametrize('version', [(3, 10), (3, 13)])
def test_a_python_with_wheels(version):
    assert '.'.join(map(str, version)) in checks.python(version)


def test_a_missing_library():
    said(lambda: checks.libraries(['json', 'no_such_library']), 'no_such_library', 'make setup')
    assert checks.libraries(['json', 'csv']) == '2 of 2'


def test_no_compiler(tmp_path):
    said(lambda: checks.compiler(str(tmp_path)), 'apt-get install g++')
    fake = tmp_path / 'c++'
    fake.write_text('#!/bin/sh\n')
    fake.chmod(0o755)
    assert checks.compiler(str(tmp_path)) == str(fake)


def test_no_ros():
    said(lambda: checks.ros(['rclpy_is_not_here']), 'rclpy_is_not_here', 'setup.bash')


def test_a_ros_that_is_broken(tmp_path, monkeypatch):
    (tmp_path / 'half_a_ros.py').write_text("raise ImportError('librcl.so: cannot open')\n")
    monkeypatch.syspath_prepend(tmp_path)
    said(lambda: checks.ros(['half_a_ros']), 'librcl.so')


def test_messages_that_were_not_built(tmp_path, monkeypatch):
    said(lambda: checks.messages('no_such_msgs'), 'colcon build')
    package = tmp_path / 'old_msgs'
    package.mkdir()
    (package / '__init__.py').write_text('')
    (package / 'msg.py').write_text('')
    monkeypatch.syspath_prepend(tmp_path)
    said(lambda: checks.messages('old_msgs'), 'SessionState')


def test_messages_that_were_built():
    pytest.importorskip('arena_msgs', reason='arena_msgs is not built here')
    assert checks.messages()


@pytest.mark.parametrize('environment', [
    {'MUJOCO_GL': 'no_such_backend'},
    {'MUJOCO_EGL_DEVICE_ID': '99'},
])
def test_drawing_that_is_broken(environment):
    said(lambda: checks.egl(environment), 'no picture', 'libegl1')


def test_drawing_that_works():
    pytest.importorskip('mujoco', reason='mujoco is not installed')
    assert checks.egl() == 'renders without a display'


def test_a_port_that_is_taken():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        said(lambda: checks.free_port(port), 'in use', str(port))
    assert checks.free_port(port) == 'free'
    said(lambda: checks.free_port(70_000), '--port')


def test_a_disk_that_is_full_or_locked(tmp_path, monkeypatch):
    assert 'GB free' in checks.disk(tmp_path / 'not' / 'made', 0.0)
    said(lambda: checks.disk(tmp_path, 1e9), 'free some space')
    monkeypatch.setattr(checks.os, 'access', lambda path, mode: False)
    said(lambda: checks.disk(tmp_path, 0.0), 'cannot be written')


def test_a_clock_that_was_never_set():
    said(lambda: checks.clock(lambda: 42.0, lambda: None), '1970-01-01', 'set-ntp')


def test_a_clock_that_is_off():
    said(lambda: checks.clock(server_time=lambda: time.time() - 12.0), '+12.0 s', 'chrony')
    assert 'ms off' in checks.clock(server_time=lambda: time.time() + 0.1)
    assert 'unknown' in checks.clock(server_time=lambda: None)


def test_a_clock_that_jumps():
    stamps = iter([2e9, 2e9, 2e9 + 5.0])
    said(lambda: checks.clock(lambda: next(stamps), lambda: None), 'jumped')


def test_a_time_server_is_understood():
    answer = b'\0' * 40 + (1_000_000_000 + checks.NTP_EPOCH_S).to_bytes(4, 'big') + b'\x80\0\0\0'
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(('127.0.0.1', 0))
        assert checks.ntp_time('127.0.0.1', 0.05) is None

    class Line:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def settimeout(self, seconds):
            pass

        def sendto(self, data, address):
            assert (len(data), address[1]) == (48, 123)

        def recvfrom(self, size):
            return answer, ('time', 123)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks.socket, 'socket', lambda *_: Line())
        assert checks.ntp_time('time') == pytest.approx(1_000_000_000.5, abs=0.01)


def test_a_check_that_breaks_is_a_verdict():
    def broken():
        raise OSError('out of order')
    finding = checks.verdict('lamp', broken)
    assert not finding.ok
    assert 'out of order' in finding.found
    assert finding.advice


def test_the_verb_says_what_is_wrong(tmp_path, capsys):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        code = main(['doctor', '--data', str(tmp_path), '--min-free-gb', '0', '--json',
                     '--ports', str(port)])
    findings = {finding['name']: finding for finding in json.loads(capsys.readouterr().out)}
    assert code == 1
    assert not findings[f'port {port}']['ok']
    assert findings['disk']['ok']
    assert all(finding['found'] and (finding['ok'] or finding['advice'])
               for finding in findings.values())
    assert main(['doctor', '--ports', 'many']) == 2


def test_the_verb_is_green_where_all_is_well(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(checks, 'all_checks', lambda *_: [
        checks.DoctorFinding('lamp', True, 'on')])
    assert main(['doctor', '--data', str(tmp_path)]) == 0
    assert 'every check passed' in capsys.readouterr().out
