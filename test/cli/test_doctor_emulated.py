"""`arena doctor --station FILE` with an emulator of each device of the station file."""

import json
import sys

import pytest

from arena_robot.cli import doctor_checks, doctor_station
from arena_robot.cli.main import main
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.emulators.robotiq import RobotiqEmulator
from arena_robot.drivers.emulators.zed import EmulatedZed, make_folder

pytest.importorskip('franka', reason='franka-rs is not installed')
SERIAL = '20000001'


@pytest.fixture(scope='module')
def box():
    with Fr3Emulator(port=0, lock_step=True) as made:
        yield made


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
    return code, {one['name']: one for one in json.loads(capsys.readouterr().out)}


def test_a_station_whose_devices_answer_is_green(lab, box, capsys):
    code, found = doctor(capsys, lab())
    assert {name: one['found'] for name, one in found.items() if not one['ok']} == {}
    assert code == 0
    assert set(found) == {
        'arm_node: library', 'arm_node: robot', 'arm_node: kernel', 'arm_node: punctuality',
        'gripper_node: serial port', 'left_camera: SDK', 'left_camera: USB'}
    assert found['arm_node: library']['found'] == 'franka-rs==0.4.0'
    assert 'FCI version 10 (system 5.9.0 or newer' in found['arm_node: robot']['found']
    assert SERIAL in found['left_camera: SDK']['found']
    assert all('moves' not in words for _, words in box.events)


@pytest.mark.parametrize(('before', 'after', 'name', 'words'), [
    ('robot_type: fr3', 'robot_type: panda', 'arm_node: robot', 'correct robot_type'),
    ('driver.com_port: /', 'driver.com_port: /nowhere/', 'gripper_node: serial port',
     'plug the adapter in'),
    (SERIAL, '20000009', 'left_camera: SDK', 'correct serial_number'),
])
def test_one_that_does_not_fit_is_told_and_the_others_stay_green(lab, capsys, before, after, name,
                                                                 words):
    code, found = doctor(capsys, lab(before, after))
    assert code == 1
    assert [one for one in found if not found[one]['ok']] == [name]
    assert words in found[name]['advice']


def test_a_robot_in_programming_mode_is_told_and_printed(lab, box, capsys):
    box.program()
    assert main(['doctor', '--station', lab()]) == 1
    said = capsys.readouterr().out
    assert 'FAIL arm_node: robot' in said
    assert 'USER_STOPPED' in said
    assert 'choose execution mode' in said
    assert '1 check failed' in said
