"""A camera calibrated from a recording, and what of it is written into the station file."""

import json

import numpy as np
import pytest
import yaml
from calibration_scene import SIZE, TRUTH, K, scene

from arena_robot.cli.main import main
from arena_robot.cli.station import calibrate
from arena_robot.core.jpeg import to_jpeg
from arena_robot.nodes.lib.part_params import CameraParams
from arena_robot.nodes.station.files import with_parameters
from arena_robot.recording.bag.base import Message, Qos, Topic, read_definition, share_folders
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.robots.arms import ROBOTS
from arena_robot.safety.urdf import matrix_of, pose_of_matrix

MS = 1_000_000
STATION = """\
# our lab
/**/arm_node:
  ros__parameters:
    robot_type: fr3   # since May

/**/wrist_camera:
  ros__parameters:
    role: wrist
    serial_number: '10000003'  # on its case
    extrinsics: [0.0, 0.0,
                 0.0, 0.0, 0.0, 0.0]
    # 512 is enough
    width: 512

/**/left_camera:
  ros__parameters: {role: left}
"""
TYPES = {'/arm_node/arm_state': 'arena_msgs/msg/ArmState',
         '/wrist_camera/left/color/rect/camera_info': 'sensor_msgs/msg/CameraInfo',
         '/wrist_camera/left/color/rect/image/compressed': 'sensor_msgs/msg/CompressedImage'}


@pytest.fixture(scope='module')
def recording(tmp_path_factory):
    """A bag in which the arm stands still at ten poses; between two of them it moves."""
    folder, codec = tmp_path_factory.mktemp('calibration') / 'A', Codec()
    with BagWriter(folder, {}) as bag:
        for name, kind in TYPES.items():
            text = read_definition(kind, share_folders())
            codec.teach(kind, text)
            bag.add_topic(Topic(name, kind, text, codec.type_hash(kind), (Qos(),)))
        names, count = list(TYPES), 0

        def write(name, stamp_ns, fields):
            nonlocal count
            count += 1
            bag.write(Message(name, stamp_ns, stamp_ns, count, codec.encode(TYPES[name], fields)))
        for shot, (flange, picture) in enumerate(scene(True, 10)):
            for moving in (True, False):
                begin_ns = 10**18 + (2 * shot + (not moving)) * 1000 * MS
                for tick in range(0, 400, 20):
                    stamp = begin_ns + tick * MS
                    write(names[0], stamp, {
                        'header': header(stamp), 'q': [0.1 * shot] * 7,
                        'joint_names': ROBOTS['panda'].joint_names(),
                        'dq': [0.3 * moving] * 7, 'tau': [0.0] * 7, 'tau_ext': [0.0] * 7,
                        'q_desired': [0.1 * shot] * 7,
                        'cartesian_position': list(pose_of_matrix(flange))})
                stamp = begin_ns + 200 * MS
                write(names[1], stamp, {'header': header(stamp), 'width': SIZE[0],
                                        'height': SIZE[1], 'k': K.ravel()})
                shown = np.zeros_like(picture) if moving else picture
                write(names[2], stamp, {'header': header(stamp),
                                        'data': np.frombuffer(to_jpeg(shown, 95), np.uint8),
                                        'format': 'bgr8; jpeg compressed bgr8'})
    return folder


def header(stamp_ns):
    return {'stamp': {'sec': stamp_ns // 10**9, 'nanosec': stamp_ns % 10**9}, 'frame_id': 'x'}


@pytest.fixture
def station(tmp_path):
    path = tmp_path / 'lab.yaml'
    path.write_text(STATION)
    return path


def test_a_recording_gives_the_pose_and_the_old_file_is_kept(recording, station, capsys):
    words = ['calibrate', 'camera', '--config', str(station), '--camera', 'wrist_camera',
             '--episode', str(recording)]
    assert main([*words, '--dry-run', '--json']) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result['written'], station.read_text()) == ('', STATION)
    assert main(words) == 0
    assert '10 of 10 pictures' in capsys.readouterr().out
    after = station.read_text()
    for unchanged in ('# our lab', 'robot_type: fr3   # since May', "'10000003'  # on its case",
                      '    # 512 is enough\n    width: 512'):
        assert unchanged in after
    values = yaml.safe_load(after)['/**/wrist_camera']['ros__parameters']
    assert values['extrinsics'] == result['extrinsics']
    mount = CameraParams(extrinsics=tuple(values['extrinsics']),
                         extrinsics_frame=values['extrinsics_frame']).mount
    assert mount.parent == 'fr3_link8'
    apart = np.linalg.inv(matrix_of(TRUTH[True])) @ matrix_of(mount.pose)
    assert 1e3 * np.linalg.norm(apart[:3, 3]) <= 1.0
    assert [file.read_text() for file in station.parent.glob('*.old')] == [STATION]
    assert main(words) == 0
    assert len(list(station.parent.glob('*.old'))) == 2


@pytest.mark.parametrize(('camera', 'text'), [
    ('wrist_camra', "0 sections '/**/wrist_camra:'"),
    ('left_camera', "no line 'ros__parameters:' of its own"),
])
def test_a_file_that_cannot_be_written_is_refused_before_anything_else(
        station, camera, text, capsys):
    assert main(['calibrate', 'camera', '--config', str(station), '--camera', camera,
                 '--episode', 'nowhere']) == 2
    assert text in capsys.readouterr().err
    assert station.read_text() == STATION


def test_nothing_moves_without_the_word(station, tmp_path, capsys, monkeypatch):
    poses = tmp_path / 'poses.yaml'
    poses.write_text('- [0, 0, 0, -2, 0, 2, 0]\n')
    started = []
    monkeypatch.setattr('arena_robot.nodes.remote.calibration.CalibrationStation',
                        lambda which: started.append(which))
    words = ['calibrate', 'camera', '--config', str(station), '--camera', 'wrist_camera',
             '--poses', str(poses)]
    assert main(words) == 2
    assert 'nothing was moved: type MOVE' in capsys.readouterr().err
    poses.write_text('- [0, 0, 0]\n')
    assert main([*words, '--yes']) == 2
    assert 'seven finite joint angles' in capsys.readouterr().err
    assert not started


def test_a_board_is_drawn(tmp_path, capsys):
    assert main(['calibrate', 'camera', '--board-picture', str(tmp_path / 'b.png')]) == 0
    assert '280 mm wide and 200 mm high' in capsys.readouterr().out
    assert (tmp_path / 'b.png').stat().st_size > 1000


def test_a_pose_that_fits_badly_is_named(capsys):
    result = calibrate_camera_result((0.2, 0.2, 0.3, 9.0, 0.2, 0.2))
    args = calibrate.argparse.Namespace(camera='wrist_camera', json=False, dry_run=True,
                                               config='x')
    calibrate.report(args, result, {'extrinsics_frame': 'panda_link8'}, '')
    assert 'pictures 4 fit badly' in capsys.readouterr().out


def calibrate_camera_result(errors):
    from arena_robot.drivers.calibration import Extrinsics
    return Extrinsics((0.0,) * 6, 1.0, errors, 0.5, 0.1)


def test_a_new_parameter_is_added_under_the_node():
    out = with_parameters('/a/x_camera:\n  ros__parameters:\n    role: left\n', 'x_camera',
                          {'extrinsics': [1.0, 2.0]})
    assert yaml.safe_load(out)['/a/x_camera']['ros__parameters'] == {
        'role': 'left', 'extrinsics': [1.0, 2.0]}
