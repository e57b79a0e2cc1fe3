"""`arena doctor --station`: checks of what the parts of a station file need."""

import json
import socket
import sys
import threading
from dataclasses import replace

import pytest

from arena_robot.cli import doctor_checks, doctor_station
from arena_robot.cli import doctor_station as checks
from arena_robot.cli.doctor_checks import Wrong
from arena_robot.cli.doctor_station import usb_bandwidth
from arena_robot.cli.main import main
from arena_robot.core.errors import DriverError
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.emulators.robotiq import RobotiqEmulator
from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder
from arena_robot.drivers.franka.probe import look_at
from arena_robot.drivers.franka.wire import COMMANDS, DIALECTS

pytest.importorskip('franka', reason='franka-rs is not installed')
SERIAL = '20000001'


def said(look, *words):
    with pytest.raises(Wrong) as caught:
        look()
    for word in words:
        assert word in f'{caught.value.found} | {caught.value.advice}', caught.value
    assert caught.value.advice


def by_name(path):
    return {finding.name: finding for finding in checks.station_checks(path)}


@pytest.fixture(scope='module')
def box():
    with Fr3Emulator(port=0, lock_step=True) as made:
        yield made


def test_a_robot_is_looked_at_without_moving_it(box):
    where = f'127.0.0.1:{box.port}'
    look = look_at(where, 0.1)
    assert look.version == 10
    assert look.states >= 1
    said(lambda: checks.franka_robot(where, 'panda', 0.05), 'FCI version 10',
         'robot_type is panda, which has version 5')
    box.faults.silent = True
    said(lambda: checks.franka_robot(where, 'fr3', 0.05), 'sends no states', 'firewall')
    box.faults.silent = False
    assert all('moves' not in words for _, words in box.events)


def test_a_machine_that_is_too_late_for_torques_is_told_before(box, monkeypatch):
    monkeypatch.setattr(checks, 'LONGEST_GAP_MS', 1000.0)    # that is another message
    box.faults.states_late = 150
    said(lambda: checks.franka_robot(f'localhost:{box.port}', 'fr3', 0.3, torques=True),
         'lost or over 0.5 ms late: no torques at 1 kHz', 'realtime: true')
    box.faults.mend()
    where = f'127.0.0.1:{box.port}'     # an emulator's time waits for this program
    assert 'late' not in checks.franka_robot(where, 'fr3', 0.05, torques=True)


@pytest.mark.parametrize(('version', 'system'), [
    (9, 'version 9 (a system before 5.9.0 of an FR3)'), (11, 'speaks version 11 of the FCI')])
def test_a_robot_with_another_system_is_told_to_be_updated(version, system, monkeypatch):
    monkeypatch.setitem(DIALECTS, 11, replace(DIALECTS[10], version=11))
    monkeypatch.setitem(COMMANDS, 11, COMMANDS[10])
    with Fr3Emulator(port=0, version=version, lock_step=True) as robot:
        monkeypatch.delitem(DIALECTS, 11)
        said(lambda: checks.franka_robot(f'127.0.0.1:{robot.port}', 'fr3', 0.05), system,
             'update the robot to system 5.9.0')


@pytest.mark.parametrize(('press', 'words'), [
    ('program', 'choose execution mode in Franka'), ('press_user_stop', 'user stop is pressed'),
    ('guide', 'let go of its buttons'), ('lock_joints', 'open the brakes'),
    ('reflex', 'see that nothing touches the arm'),
])
def test_a_robot_that_cannot_move_now_says_why(box, press, words):
    getattr(box, press)()
    said(lambda: checks.franka_robot(f'127.0.0.1:{box.port}', 'fr3', 0.05), 'the robot is in',
         'FCI version 10 (system 5.9.0 or newer of an FR3)', words)
    box.release()


def test_another_version_of_the_library_is_told(monkeypatch):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: name)
    monkeypatch.setattr('importlib.metadata.version', lambda name: '0.3.9')
    said(lambda: checks.franka_library('franka_rs'), 'franka-rs==0.3.9 is installed',
         'franka-rs==0.4.0 is what', 'pip install franka-rs==0.4.0')
    said(lambda: checks.franka_library('libfranka', 'panda'), 'drives fr3 only',
         'backend: franka_rs')
    monkeypatch.setattr('importlib.metadata.version', lambda name: '0.21.3')
    assert checks.franka_library('libfranka', 'fr3') == 'pylibfranka==0.21.3'
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    said(lambda: checks.franka_library('libfranka'), 'not installed', 'pip install pylibfranka')


def test_what_is_no_robot_says_so():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]

        def greet():
            line, _ = taken.accept()
            with line:
                line.sendall(b'HTTP/1.1 400 Bad Request\r\n')
                line.recv(64)
        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(DriverError, match=r"no Franka control box: b'HTTP"):
            look_at(f'127.0.0.1:{port}')
        thread.join(10.0)
    said(lambda: checks.franka_robot(f'127.0.0.1:{port}', 'fr3'), 'refuses', 'activate FCI')
    said(lambda: checks.reachable('127.0.0.1', port, 'start it'), 'refused', 'start it')


def test_a_kernel_is_needed_only_where_it_is_asked_for(tmp_path):
    assert 'need not be' in checks.kernel(False, tmp_path)
    said(lambda: checks.kernel(True, tmp_path), 'PREEMPT_RT', 'realtime to false')
    (tmp_path / 'kernel').mkdir()
    (tmp_path / 'kernel' / 'realtime').write_text('1\n')
    assert checks.kernel(True, tmp_path) == 'real-time'


def test_a_machine_that_wakes_late_is_told():
    assert 'latest' in checks.punctuality(0.02, most_ms=1e6)
    said(lambda: checks.punctuality(0.02, most_ms=-1.0), 'later than', 'governor')


def test_serial_ports(tmp_path, monkeypatch):
    said(lambda: checks.serial_port(str(tmp_path / 'ttyUSB0')), 'no port', 'plug the adapter in')
    port = tmp_path / 'ttyUSB0'
    port.write_text('')
    assert checks.serial_port(str(port), tmp_path) == str(port)
    device = tmp_path / 'bus/usb-serial/devices/ttyUSB0'
    device.mkdir(parents=True)
    (device / 'latency_timer').write_text('16\n')
    said(lambda: checks.serial_port(str(port), tmp_path), 'collects for 16 ms', 'udev rule')
    (device / 'latency_timer').write_text('1\n')
    assert 'timer 1 ms' in checks.serial_port(str(port), tmp_path)
    monkeypatch.setattr(checks.os, 'access', lambda *_: False)
    said(lambda: checks.serial_port(str(port)), 'no permission', 'dialout')


def test_cameras(tmp_path, monkeypatch):
    said(lambda: checks.usb_speed('uvc', '7', tmp_path), 'no USB camera with serial number 7')
    usb = tmp_path / 'devices/usb1/1-2'
    (usb / '1-2:1.0').mkdir(parents=True)
    for name, text in (('idVendor', '046d'), ('serial', '7'), ('speed', '480')):
        (usb / name).write_text(f'{text}\n')
    node = tmp_path / 'class/video4linux/video0'
    node.mkdir(parents=True)
    (node / 'device').symlink_to(usb / '1-2:1.0')
    said(lambda: checks.usb_speed('uvc', '7', tmp_path), '480 Mbit/s', 'USB 3')
    (usb / 'speed').write_text('5000\n')
    assert '5000 Mbit/s' in checks.usb_speed('uvc', '7', tmp_path)
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    said(lambda: checks.zed_camera('20000001'), 'no pyzed', 'get_python_api.py')


def test_cameras_that_share_a_usb_controller(tmp_path):
    video = tmp_path / 'class/video4linux'
    usb = tmp_path / 'devices/pci0/usb2'
    for i in range(3):
        device = usb / f'2-{i}'
        (device / f'2-{i}:1.0').mkdir(parents=True)
        (device / 'idVendor').write_text('046d\n')
        (device / 'serial').write_text(f'{i}\n')
        (video / f'video{i}').mkdir(parents=True)
        (video / f'video{i}' / 'device').symlink_to(device / f'2-{i}:1.0')
    (usb / 'speed').write_text('5000\n')
    cameras = {f'{role}_camera': {'backend': 'zed', 'serial_number': str(i), 'driver': {'fps': 15}}
               for i, role in enumerate(('left', 'right', 'wrist'))}
    assert usb_bandwidth(cameras, tmp_path).endswith('1327 of 3200 Mbit/s at usb2')
    cameras['left_camera'] = {'backend': 'uvc', 'serial_number': '0',
                              'driver.pixel_format': 'mjpeg'}
    assert ': 973 of 3200' in usb_bandwidth(cameras, tmp_path)
    for parameters in cameras.values():
        parameters |= {'driver': {'fps': 60}}
    cameras['left_camera'] = {**cameras['right_camera'], 'serial_number': '0'}
    said(lambda: usb_bandwidth(cameras, tmp_path), 'left_camera, right_camera, wrist_camera: 5308',
         'another USB controller')
    assert usb_bandwidth({'left_camera': {'backend': 'zed', 'serial_number': '9'}}, tmp_path) == (
        'none of the cameras is plugged in')


def test_a_station_file_has_the_checks_of_its_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, 'punctuality', lambda: 'in time')
    path = tmp_path / 'lab.yaml'
    path.write_text("""
/**/arm_node:
  ros__parameters: {backend: libfranka, robot_type: fr3, robot_ip: '127.0.0.1:9',
                    driver: {realtime: true}}
/**/gripper_node:
  ros__parameters: {backend: droid_nuc, driver: {robot_ip: 127.0.0.1, port: 9}}
/**/left_camera:
  ros__parameters: {role: left, backend: uvc, serial_number: '99'}
/**/right_camera:
  ros__parameters: {role: right, backend: sim}
""")
    findings = by_name(path)
    assert set(findings) == {
        'arm_node: library', 'arm_node: robot', 'arm_node: kernel', 'arm_node: punctuality',
        'gripper_node: NUC', 'left_camera: USB'}
    assert not findings['arm_node: robot'].ok
    assert not findings['gripper_node: NUC'].ok
    assert findings['arm_node: kernel'].ok == (checks._text(checks.SYS / 'kernel/realtime') == '1')


@pytest.fixture
def lab(box, tmp_path, monkeypatch):
    """Return what writes a station file of the emulated devices, with some words exchanged."""
    make_folder(tmp_path / 'zed', {SERIAL: EmulatedZed()})
    monkeypatch.syspath_prepend(str(tmp_path / 'zed'))
    # How evenly a busy machine runs is not what is tested here.
    monkeypatch.setattr(doctor_station, 'LONGEST_GAP_MS', 1e6)
    monkeypatch.setattr(doctor_station, 'MOST_LOST', 1.0)
    monkeypatch.setattr(doctor_checks, 'all_checks', lambda *_: [])
    with RobotiqEmulator() as fingers:
        text = f"""
/**/arm_node:
  ros__parameters: {{backend: franka_rs, robot_type: fr3, robot_ip: '127.0.0.1:{box.port}'}}
/**/gripper_node:
  ros__parameters: {{backend: robotiq, driver.com_port: {fingers.path}}}
/**/left_camera:
  ros__parameters: {{role: left, backend: zed, serial_number: '{SERIAL}'}}
"""

        def write(before='', after=''):
            assert before in text
            path = tmp_path / 'lab.yaml'
            path.write_text(text.replace(before, after) if before else text)
            return str(path)
        yield write
    box.release()
    for name in [name for name in sys.modules if name.split('.')[0] == 'pyzed']:
        del sys.modules[name]


def doctor(capsys, path):
    """Return the exit code and the findings by name."""
    code = main(['doctor', '--station', path, '--json'])
    return code, {finding['name']: finding for finding in json.loads(capsys.readouterr().out)}


def test_a_station_whose_devices_answer_is_green(lab, box, capsys):
    code, findings = doctor(capsys, lab())
    assert [finding for finding in findings.values() if not finding['ok']] == []
    assert code == 0
    assert set(findings) == {
        'arm_node: library', 'arm_node: robot', 'arm_node: kernel', 'arm_node: punctuality',
        'gripper_node: serial port', 'left_camera: SDK', 'left_camera: USB'}
    assert findings['arm_node: library']['found'] == 'franka-rs==0.4.0'
    assert 'FCI version 10 (system 5.9.0 or newer' in findings['arm_node: robot']['found']
    assert SERIAL in findings['left_camera: SDK']['found']
    assert all('moves' not in words for _, words in box.events)


@pytest.mark.parametrize(('before', 'after', 'name', 'words'), [
    ('robot_type: fr3', 'robot_type: panda', 'arm_node: robot', 'correct robot_type'),
    ('driver.com_port: /', 'driver.com_port: /nowhere/', 'gripper_node: serial port',
     'plug the adapter in'),
    (SERIAL, '20000009', 'left_camera: SDK', 'correct serial_number'),
])
def test_one_that_does_not_fit_is_told_and_the_others_stay_green(lab, capsys, before, after, name,
                                                                 words):
    code, findings = doctor(capsys, lab(before, after))
    assert code == 1
    assert [title for title in findings if not findings[title]['ok']] == [name]
    assert words in findings[name]['advice']


def test_a_robot_in_programming_mode_is_told_and_printed(lab, box, capsys):
    box.program()
    assert main(['doctor', '--station', lab()]) == 1
    printed = capsys.readouterr().out
    assert 'FAIL arm_node: robot' in printed
    assert 'USER_STOPPED' in printed
    assert 'choose execution mode' in printed
    assert '1 check failed' in printed
