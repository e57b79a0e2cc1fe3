"""`arena station --emulate`: which emulators belong to a station file, and what is refused."""

import os

import pytest

from arena_robot.cli.main import main
from arena_robot.cli.station import station
from arena_robot.cli.station.emulated import emulated
from arena_robot.drivers.emulators import zed
from arena_robot.drivers.uvc import UvcCamera
from arena_robot.nodes.station_file import shipped
from arena_robot.nodes.supervisor import write_parameters


@pytest.fixture(autouse=True)
def pattern(monkeypatch):
    """The cameras' scene is not rendered."""
    monkeypatch.setattr('arena_robot.cli.station.emulated.SCENE', '')


def started(path):
    with emulated(path) as found:
        return [' '.join(one.arguments) for one in found], os.environ.get('PYTHONPATH', '')


def test_the_shipped_files_name_their_emulators(tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', '/before')
    robot = 'fr3 --host 127.0.0.1 --port 1337 --robot fr3'
    gripper = 'robotiq --link /tmp/robotiq --activated'
    with emulated(shipped('config/stations/franka_rs.yaml')) as found:
        assert [' '.join(one.arguments) for one in found] == [robot, gripper]
        assert found[0].command()[-len(robot.split()) - 1:] == ['emulate', *robot.split()]
        folder, before = os.environ['PYTHONPATH'].split(os.pathsep)
        assert set(zed.Cameras(zed.Path(folder)).plugged_in()) == {
            '20000001', '20000002', '10000003'}
        assert before == '/before'
    assert os.environ['PYTHONPATH'] == '/before'
    assert started(shipped('config/stations/droid_nuc.yaml')) == (
        ['droid-nuc --host 127.0.0.1 --port 4242'], '/before')


def test_a_camera_without_sdk_reads_a_file_that_is_written_for_it(tmp_path):
    frames = tmp_path / 'cameras' / 'left.yuyv'
    own = {'resolution': 'VGA', 'device': str(frames), 'focal': 0.4, 'baseline_m': 0.12}
    lab = write_parameters(tmp_path / 'lab.yaml', {'left_camera': {
        'role': 'left', 'backend': 'uvc', 'serial_number': '7', 'driver': own}})
    assert started(lab) == ([], os.environ.get('PYTHONPATH', ''))
    with UvcCamera('7', **own) as camera:
        frame = camera.wait_frame(30.0)
    assert frame.left.pixels.shape == (376, 672, 3)
    assert abs(int(frame.left.pixels.mean()) - int(frame.right.pixels.mean())) < 5
    assert frame.left.pixels.std() > 20


@pytest.mark.parametrize(('node', 'values', 'said'), [
    ('arm_node', {'backend': 'franka_rs', 'robot_ip': '172.16.0.2'}, "'172.16.0.2' could be"),
    ('arm_node', {'backend': 'libfranka'}, "'' could be a real robot"),
    ('gripper_node', {'backend': 'droid_nuc', 'driver.robot_ip': 'nuc'}, "'nuc' could be"),
    ('gripper_node', {'backend': 'robotiq', 'driver.com_port': '/dev/ttyUSB0'},
     'a real gripper'),
    ('left_camera', {'backend': 'uvc', 'role': 'left'}, 'could be a real camera'),
    ('arm_node', {'backend': 'sim'}, 'names no device that can be emulated'),
])
def test_what_could_be_a_real_device_is_refused(node, values, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(station, 'supervise', lambda *_: pytest.fail('something was started'))
    lab = write_parameters(tmp_path / 'lab.yaml', {node: values})
    assert main(['station', '--config', str(lab), '--emulate']) == 2
    assert said in capsys.readouterr().err


def test_emulators_need_a_station_file(capsys):
    assert main(['station', '--sim', '--emulate']) == 2
    assert 'leave it out with --sim or --fake' in capsys.readouterr().err
