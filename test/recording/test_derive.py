"""Derived files follow from the bag alone, and show what was recorded when and where it was."""

import av
import h5py
import numpy as np
import pytest
from sample_episodes import (
    TICK_NS,
    VIEWS,
    MountedMaker,
    SampleEpisode,
    SampleMaker,
    picture,
)

from arena_robot.core.errors import DataError
from arena_robot.core.observation import ROLES
from arena_robot.recording.bag.base import Topic, share_folders
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode import frames
from arena_robot.recording.episode.derive import derive, step_arrays, video_name
from arena_robot.recording.episode.tracks import load_tracks, nearest
from arena_robot.recording.episode.views import view_of
from arena_robot.recording.formats.droid import export_droid
from arena_robot.recording.formats.exporting import sources
from arena_robot.records.episode_file import ClampReport, InferenceReport, Spread, read_episode
from arena_robot.safety.urdf import matrix_of, pose_of_matrix

POSES = {'left': ('panda_link0', (0.4, -0.6, 0.5, -2.0, 0.1, 0.3)),
         'wrist': ('panda_link8', (0.07, 0.02, 0.05, 0.1, -0.2, 1.5))}


@pytest.fixture(scope='module')
def derived(pristine, tmp_path_factory):
    import shutil
    folder = tmp_path_factory.mktemp('derived') / 'A'
    shutil.copytree(pristine, folder)
    calls = []
    summary = derive(folder, progress=lambda *c: calls.append(c))
    assert calls[-1][:2] == (180, 180)
    return folder, summary


def test_the_summary_says_how_it_ran_and_ended(derived, maker):
    folder, summary = derived
    assert read_episode(folder) == summary
    sample = maker.sample
    assert summary.prompt == sample.prompt
    assert (summary.slot, summary.steps, summary.end_reason) == ('A', 30, 'stopped')
    assert (summary.robot_type, summary.backend) == ('panda', 'sample')
    assert summary.control.mean_hz == pytest.approx(15.0, abs=0.01)
    assert summary.control.missed_ticks == 0
    assert summary.clamps == ClampReport(3, {'step_limit': 3})
    assert summary.inference == InferenceReport(4, Spread(0.05, 0.05, 0.05), 0.1)
    assert summary.skew_s.max == pytest.approx(0.02)
    arm = summary.topics['/arm_node/arm_state']
    assert (arm.count, arm.lost) == (400, 0)
    assert arm.rate_hz == pytest.approx(200.0, rel=0.01)
    assert arm.max_latency_s == pytest.approx(0.002)
    assert summary.views['wrist_left'].file == 'wrist.mp4'


def test_the_arrays_hold_every_step_and_what_it_saw(derived, maker):
    folder, _ = derived
    with np.load(folder / 'steps.npz') as arrays:
        a = dict(arrays)
    assert a['index'].tolist() == list(range(30))
    assert np.diff(a['stamp_ns']).tolist() == [TICK_NS] * 29
    assert a['requested'].shape == (30, 8)
    assert a['action_space'] == 'joint_position'
    assert a['views'].tolist() == sorted(VIEWS)
    assert (a['frame_index'] == np.arange(30)[:, None]).all()
    assert a['joint_position'].tolist() == [maker.q(int(t)) for t in a['arm_stamp_ns']]
    assert (a['stamp_ns'] - a['arm_stamp_ns']).max() < 5_000_000
    assert a['gripper_position'].tolist() == [maker.gripper(k) for k in range(30)]
    assert a['arm/q'].shape == (400, 7)
    assert a['frames/wrist_left/stamp_ns'].shape == (30,)


@pytest.mark.parametrize('view', ['left_left', 'wrist_right'])
def test_videos_play_in_browsers_and_show_the_pictures(derived, view):
    folder, summary = derived
    path = folder / video_name(view)
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ('h264', 'yuv420p')
        times = [float(p.pts * p.time_base) for p in file.demux(stream) if p.pts is not None]
    assert path.read_bytes().find(b'moov') < path.read_bytes().find(b'mdat')
    shown = list(frames.read_video(path))
    assert len(shown) == summary.views[view].video_frames == 30
    for k in (0, 17, 29):
        made = picture(k, view, 320, 180).astype(int)
        assert np.abs(shown[k].astype(int) - made).mean() < 4.0
        wrong = picture((k + 8) % 30, view, 320, 180).astype(int)
        assert np.abs(shown[k].astype(int) - wrong).mean() > 4.0
    gaps = np.diff(times)
    assert gaps[0] == pytest.approx(2 / 30 - 0.02, abs=1e-4)
    assert gaps[5] == pytest.approx(1 / 15, abs=1e-4)


def test_a_video_of_huge_pictures_is_refused_before_one_is_decoded(derived, monkeypatch):
    path = next(derived[0].glob('*.mp4'))
    monkeypatch.setattr(frames, 'MOST_PIXELS', 320 * 180 - 1)
    with pytest.raises(DataError, match='pictures of 320 by 180; up to 57599 pixels'):
        next(frames.read_video(path))


def test_deriving_again_gives_the_same(derived):
    folder, summary = derived
    before = (folder / 'steps.npz').read_bytes()
    assert derive(folder, videos=False).topics == summary.topics
    with np.load(folder / 'steps.npz') as arrays:
        assert (arrays['frame_index'] == np.arange(30)[:, None]).all()
    assert len(before) > 1000
    assert not list(folder.glob('.*'))


def test_the_simulators_progress_is_in_the_arrays(derived, message_folders, tmp_path):
    with np.load(derived[0] / 'steps.npz') as arrays:
        assert not [name for name in arrays.files if name.startswith('progress/')]
    sample = SampleEpisode(steps=8, width=32, height=18, potential=True)
    SampleMaker(sample, message_folders).write(tmp_path / 'A')
    derive(tmp_path / 'A', videos=False)
    with np.load(tmp_path / 'A' / 'steps.npz') as arrays:
        stamps, values = arrays['progress/stamp_ns'], arrays['progress/value']
        assert abs(stamps[0] - arrays['stamp_ns'][0]) < TICK_NS
    assert len(stamps) == len(values) > 4
    assert (np.diff(stamps) > 0).all()
    assert values.min() >= 0.0
    assert values.max() <= 1.0
    assert values.argmax() > 0


def test_without_an_arm_the_rows_say_so(pristine):
    with BagReader(pristine) as bag:
        bag.topics.pop('/arm_node/arm_state')
        tracks = load_tracks(bag, Codec())
    arrays = step_arrays(tracks, {})
    assert np.isnan(arrays['joint_position']).all()
    assert (arrays['frame_index'] == -1).all()


@pytest.mark.parametrize(('topic', 'view'), [
    ('/left/zed_node/left/color/rect/image/compressed', ('left', 'left')),
    ('/wrist/zed_node/right/color/rect/image', ('wrist', 'right')),
    ('/station_1/wrist_camera/right/image_raw/compressed', ('wrist', 'right')),
    ('/cam_left/image_raw', ('left', 'left')),
    ('/zed/rgb/image', None),
    ('/zed_a/zed_node/left/color/rect/image', None),
    ('/leftover/image', None),
])
def test_views_are_found_in_topic_names(topic, view):
    assert view_of(topic) == view


def test_views_are_those_of_the_metadata_whatever_the_cameras_are_called(tmp_path):
    cameras = ('zed_right', 'zed_c', 'left_hand')  # of the roles left, right, wrist
    SampleMaker(SampleEpisode(steps=4, width=64, height=48, cameras=cameras)).write(tmp_path)
    summary = derive(tmp_path)
    assert set(summary.views) == set(VIEWS)
    for name, report in summary.views.items():
        role, eye = name.split('_')
        camera = cameras[ROLES.index(role)]
        assert report.topic == f'/{camera}/zed_node/{eye}/color/rect/image/compressed'
        assert (report.role, report.eye) == (role, eye)
        frame = next(iter(frames.read_video(tmp_path / report.file)))
        errors = {candidate: np.abs(frame.astype(int) - picture(0, candidate, 64, 48)).mean()
                  for candidate in VIEWS}
        assert min(errors, key=errors.get) == name


def test_the_latched_info_of_the_rollout_before_is_not_this_ones(message_folders, tmp_path):
    maker = SampleMaker(SampleEpisode(steps=5, width=64, height=36), message_folders)
    with BagWriter(tmp_path / 'B', {'session_id': 's-2', 'slot': 'B'}) as bag:
        for topic in maker.topics().values():
            bag.add_topic(topic)
        for message in maker.messages():
            bag.write(message)
    summary = derive(tmp_path / 'B', videos=False)
    assert (summary.session_id, summary.slot, summary.end_reason, summary.steps) == (
        's-2', 'B', '', 5)
    assert summary.views, 'its views are those of the station'


def test_nearest_looks_to_both_sides():
    stamps = np.array([10, 20, 30])
    assert nearest(stamps, np.array([0, 14, 16, 29, 99])).tolist() == [0, 0, 1, 2, 2]
    assert nearest(np.array([5]), np.array([1, 9])).tolist() == [0, 0]


@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8', 'bgra8', 'rgba8'])
def test_raw_pictures_of_every_usual_kind(encoding):
    codec = Codec()
    topic = Topic('/left/image', 'sensor_msgs/msg/Image')
    rgb = picture(3, 'left_left', 32, 18)
    order = {'rgb8': [0, 1, 2], 'bgr8': [2, 1, 0]}.get(encoding)
    plain = rgb[..., order] if order else np.dstack(
        [rgb[..., [2, 1, 0]] if encoding == 'bgra8' else rgb, np.full((18, 32), 255, np.uint8)])
    step = plain.shape[1] * plain.shape[2] + 5
    rows = np.zeros((18, step), np.uint8)
    rows[:, :step - 5] = plain.reshape(18, -1)
    data = codec.encode(topic.type, {'height': 18, 'width': 32, 'encoding': encoding,
                                     'step': step, 'data': rows.ravel()})
    assert (frames.pixels_of(topic, codec.decode(topic, data)) == rgb).all()


def test_pictures_that_are_none_are_named():
    codec = Codec()
    raw, jpeg = (Topic('/x', f'sensor_msgs/msg/{n}') for n in ('Image', 'CompressedImage'))
    odd = codec.decode(raw, codec.encode(raw.type, {'encoding': 'bayer_rggb8'}))
    with pytest.raises(DataError, match='bayer_rggb8; known'):
        frames.pixels_of(raw, odd)
    junk = codec.decode(jpeg, codec.encode(jpeg.type, {'data': [1, 2, 3]}))
    with pytest.raises(DataError, match='3 bytes are not a picture'):
        frames.pixels_of(jpeg, junk)


def test_the_replay_drivers_play_what_was_derived(derived, maker):
    from arena_robot.drivers.replay import read_recorded
    folder, _ = derived
    recorded = read_recorded(folder)
    assert recorded.q.shape == (400, 7)
    assert recorded.q[120].tolist() == maker.q(int(recorded.arm_stamps[120]))
    assert set(recorded.views) == set(VIEWS)
    track = recorded.views['wrist_left']
    assert len(track.stamps) == 30
    made = picture(21, 'wrist_left', 320, 180).astype(int)
    assert np.abs(track.picture(21).astype(int) - made).mean() < 4.0


@pytest.fixture(scope='module')
def mounted(tmp_path_factory):
    folder = tmp_path_factory.mktemp('mounts') / 'session' / 'A'
    maker = MountedMaker(SampleEpisode(steps=6, width=64, height=36, cameras=(
        'cam_l', 'cam_r', 'cam_w')), share_folders(), POSES)
    maker.write(folder)
    return folder


def test_the_numbers_say_where_each_camera_was(mounted):
    derive(mounted, videos=False)
    views = read_episode(mounted).views
    for role, (parent, pose) in POSES.items():
        assert views[f'{role}_left'].extrinsics_frame == parent
        np.testing.assert_allclose(views[f'{role}_left'].extrinsics, pose, atol=2e-6)
    right = matrix_of(POSES['left'][1]) @ matrix_of((0.12, 0, 0, 0, 0, 0))
    np.testing.assert_allclose(views['left_right'].extrinsics, pose_of_matrix(right), atol=2e-6)
    assert (views['right_left'].extrinsics, views['right_left'].extrinsics_frame) == ((), '')


def test_the_droid_export_has_poses_in_the_base(mounted, tmp_path):
    folder = export_droid(sources(mounted)[0], tmp_path)
    with h5py.File(folder / 'trajectory.h5') as file:
        group = file['observation/camera_extrinsics']
        flange = file['observation/robot_state/cartesian_position'][:]
        np.testing.assert_allclose(group['camera_left_left'][:], [POSES['left'][1]] * 6, atol=1e-6)
        for pose, hand in zip(group['camera_wrist_left'][:], flange, strict=True):
            np.testing.assert_allclose(matrix_of(pose), matrix_of(hand) @ matrix_of(
                POSES['wrist'][1]), atol=1e-6)
        np.testing.assert_allclose(group['camera_wrist_left_gripper_offset'][:],
                                   [POSES['wrist'][1]] * 6, atol=1e-6)
        assert 'camera_right_left' not in group
