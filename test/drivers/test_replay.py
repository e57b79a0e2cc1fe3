"""Recordings: reading folders, shifting time, saying what is wrong; the contracts on them."""


import cv2
import numpy as np
import pytest
from lab_drivers import QuickClock

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.errors import DataError, DriverError, SafetyError, StaleData
from arena_robot.drivers.conformance.pytest_suite import (
    ArmConformance,
    CameraConformance,
    GripperConformance,
)
from arena_robot.drivers.conformance.rig import ArmRig, CameraRig, GripperRig
from arena_robot.drivers.conformance.suite import ARM, GRIPPER
from arena_robot.drivers.replay import (
    Player,
    Recorded,
    ReplayArm,
    ReplayCamera,
    ReplayGripper,
    Track,
    read_recorded,
)
from arena_robot.drivers.sim.room_model import camera_info

BEGIN = 1_700_000_000_000_000_000
MS = 1_000_000


def arrays():
    stamps = BEGIN + np.arange(20) * 10 * MS
    q = np.linspace(0, 1, 20)[:, None] * np.ones(7)
    return {'arm/stamp_ns': stamps, 'arm/q': q, 'gripper/stamp_ns': stamps[::2],
            'gripper/position': np.linspace(0, 1, 10)}


@pytest.fixture
def episode(tmp_path):
    np.savez(tmp_path / 'steps.npz', **arrays())
    for name in ('left_left', 'left_right'):
        (tmp_path / name).mkdir()
        for k in range(3):
            picture = np.full((9, 16, 3), 40 * (k + 1), np.uint8)
            cv2.imwrite(str(tmp_path / name / f'{BEGIN + k * 60 * MS}.png'), picture)
    return tmp_path


def test_plays_on_a_clock_of_its_own(episode):
    clock = ManualClock(5)
    player = Player(read_recorded(episode), clock)
    with ReplayArm(player) as arm, ReplayGripper(player) as gripper:
        assert arm.state().stamp_ns == 5
        clock.advance_ns(104 * MS)
        assert arm.state().stamp_ns == 5 + 100 * MS
        np.testing.assert_allclose(arm.state().q, 10 / 19)
        assert gripper.state().position == pytest.approx(5 / 9)


def test_pictures_come_from_files_named_by_stamp(episode):
    clock = ManualClock()
    with ReplayCamera(Player(read_recorded(episode), clock), 'left', {}) as camera:
        for k in range(3):
            frame = camera.frame()
            assert frame.sequence == k
            assert np.all(frame.left.pixels == 40 * (k + 1))
            assert frame.left.stamp_ns == frame.right.stamp_ns == k * 60 * MS
            clock.advance_ns(60 * MS)


def test_pictures_come_from_derived_videos(tmp_path):
    stamps = BEGIN + np.arange(5) * 66 * MS
    np.savez(tmp_path / 'steps.npz', **arrays(), **{'frames/wrist_left/stamp_ns': stamps})
    video = cv2.VideoWriter(str(tmp_path / 'wrist.mp4'), cv2.VideoWriter.fourcc(*'mp4v'), 15,
                            (64, 48))
    for k in range(5):
        video.write(np.full((48, 64, 3), 50 * k, np.uint8))
    video.release()
    track = read_recorded(tmp_path).views['wrist_left']
    for k in (0, 3, 1, 1, 4):
        assert track.picture(k).mean() == pytest.approx(50 * k, abs=6)
    with pytest.raises(DataError, match='ends at frame 5'):
        track.picture(7)


def test_a_missing_right_eye_is_empty(episode):
    for path in (episode / 'left_right').iterdir():
        path.unlink()
    with ReplayCamera(Player(read_recorded(episode), ManualClock()), 'left', {}) as camera:
        assert camera.frame().right.pixels.shape == (0, 0, 3)


def test_ends_and_begins_again(episode):
    clock = ManualClock()
    player = Player(read_recorded(episode), clock)
    with ReplayArm(player) as arm:
        clock.advance_ns(10_000 * MS)
        with pytest.raises(StaleData, match='ended'):
            arm.state()
        player.rewind()
        assert arm.state().stamp_ns == 10_000 * MS


def test_keeps_commands_and_tells_what_is_really_tracked(episode):
    with ReplayArm(Player(read_recorded(episode), ManualClock())) as arm:
        sent = arm.command(ArmCommand(np.ones(7), 3))
        assert arm.commands[0].q[0] == 1.0
        np.testing.assert_array_equal(sent.q, np.zeros(7))
        with pytest.raises(DriverError, match='does not move'):
            arm.move_to(np.zeros(7))


def test_an_unknown_view_names_the_known_ones(episode):
    camera = ReplayCamera(Player(read_recorded(episode), ManualClock()), 'wrist', {})
    with pytest.raises(DataError, match="no view 'wrist_left'; it has left_left, left_right"):
        camera.open()


def test_a_broken_picture_is_named(episode):
    path = episode / 'left_left' / f'{BEGIN}.png'
    path.write_bytes(b'nothing')
    with ReplayCamera(Player(read_recorded(episode), ManualClock()), 'left', {}) as camera, \
            pytest.raises(DataError, match=str(BEGIN)):
        camera.frame()


def test_an_arm_of_six_joints_is_played(tmp_path):
    np.savez(tmp_path / 'steps.npz', **{**arrays(), 'arm/q': arrays()['arm/q'][:, :6]})
    (tmp_path / 'left_left').mkdir()
    with ReplayArm(Player(read_recorded(tmp_path), ManualClock())) as arm:
        assert arm.state().q.shape == arm.state().tau_ext.shape == (6,)
        assert arm.command(ArmCommand(np.ones(6), 3)).q.shape == (6,)
        with pytest.raises(SafetyError, match='must have 6 numbers'):
            arm.command(ArmCommand(np.ones(7), 3))


def test_wrong_arrays_are_named(tmp_path):
    with pytest.raises(DataError, match=r'cannot read .*steps\.npz'):
        read_recorded(tmp_path)
    good = arrays()
    np.savez(tmp_path / 'steps.npz', **{k: v for k, v in good.items() if k != 'arm/q'})
    with pytest.raises(DataError, match='lacks arm/q'):
        read_recorded(tmp_path)
    np.savez(tmp_path / 'steps.npz', **{**good, 'arm/dq': good['arm/q'][:, :6]})
    with pytest.raises(DataError, match=r'\(20, 7\).*found \(20, 6\)'):
        read_recorded(tmp_path)
    np.savez(tmp_path / 'steps.npz', **{**good, 'arm/stamp_ns': good['arm/stamp_ns'][::-1]})
    with pytest.raises(DataError, match='ascending'):
        read_recorded(tmp_path)


def short_episode(seconds=2.0):
    arm = np.arange(0, seconds, 0.01)
    frames = np.arange(0, seconds, 1 / 15)
    rng = np.random.default_rng(0)
    q = 0.1 * np.sin(arm)[:, None] * np.ones(7)
    views = {f'{role}_{eye}': Track.of((frames * 1e9).astype(np.int64) + 5, rng.integers(
        0, 255, (len(frames), 54, 96, 3), dtype=np.uint8))
        for role in ('left', 'wrist') for eye in ('left', 'right')}
    stamps = (arm * 1e9).astype(np.int64) + 5
    return Recorded(stamps, q, 0 * q, 0 * q, np.zeros((len(arm), 6)), q + 0.01, stamps,
                    np.linspace(0, 1, len(arm)), views)


@pytest.fixture(params=[QuickClock, SystemClock])
def clock(request):
    return request.param()


@pytest.fixture
def rig(clock, request):
    kind, make = request.param
    player = Player(short_episode(), clock)

    def end():
        player.offset_ns = clock.now_ns() - player.recorded.end_ns

    return kind(make(player), clock, silence=end, harmless=True)


@pytest.mark.parametrize('rig', [(GripperRig, ReplayGripper)], indirect=True, ids=['gripper'])
class TestReplayGripper(GripperConformance):
    checks = (*GRIPPER.still, *GRIPPER.commands)


@pytest.mark.parametrize('rig', [
    (CameraRig, lambda player, role=role: ReplayCamera(player, role, camera_info(role, 96, 54)))
    for role in ('left', 'wrist')], indirect=True, ids=['left', 'wrist'])
class TestReplayCamera(CameraConformance):
    pass


@pytest.mark.parametrize('rig', [(ArmRig, ReplayArm)], indirect=True, ids=['arm'])
class TestReplayArm(ArmConformance):
    checks = (*ARM.still, *ARM.commands)
