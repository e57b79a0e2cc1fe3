"""Where the cameras were goes from tf_static into episode.json and the DROID export."""

import h5py
import numpy as np
import pytest

from arena_robot.recording.bag.base import Message, Topic, read_definition, share_folders
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.derive import derive
from arena_robot.recording.episode.sample import LATCHED, SampleEpisode, SampleMaker, role_of
from arena_robot.recording.episode.views import TF
from arena_robot.recording.formats.droid import export_droid
from arena_robot.recording.formats.exporting import sources
from arena_robot.records.episode_file import read_episode
from arena_robot.safety.camera_frames import (
    CameraMount,
    camera_frames,
    matrix_of,
    pose_of_matrix,
)

POSES = {'left': ('panda_link0', (0.4, -0.6, 0.5, -2.0, 0.1, 0.3)),
         'wrist': ('panda_link8', (0.07, 0.02, 0.05, 0.1, -0.2, 1.5))}
TOPIC = '/lab/tf_static'


class Maker(SampleMaker):
    """The sample with views that have optical frames, and with two cameras' transforms."""

    def topics(self):
        definition = read_definition(TF, self.folders)
        self.codec.teach(TF, definition)
        return {TOPIC: Topic(TOPIC, TF, definition, self.codec.type_hash(TF), (LATCHED,)),
                **super().topics()}

    def messages(self):
        for count, (role, (parent, pose)) in enumerate(POSES.items(), 1):
            frames = camera_frames(role, CameraMount(parent, pose), optical(role), 0.12)
            stamp = self.sample.start_ns
            yield Message(TOPIC, stamp, stamp, count, self.codec.encode(
                TF, {'transforms': [transform(one) for one in frames]}))
        yield from super().messages()

    def _infos(self):
        for name, stamp, fields in super()._infos():
            views = [{**one, 'frame_id': optical(role_of(one['view']))[one['eye']]}
                     for one in fields['views']]
            yield name, stamp, {**fields, 'views': views}


def optical(role):
    return {eye: f'{role}_{eye}_camera_frame_optical' for eye in ('left', 'right')}


def transform(frame):
    from scipy.spatial.transform import Rotation
    pose = matrix_of(frame.pose)
    x, y, z, w = Rotation.from_matrix(pose[:3, :3]).as_quat()
    return {'header': {'frame_id': frame.parent}, 'child_frame_id': frame.child, 'transform': {
        'translation': dict(zip('xyz', pose[:3, 3], strict=True)),
        'rotation': {'x': x, 'y': y, 'z': z, 'w': w}}}


@pytest.fixture(scope='module')
def episode(tmp_path_factory):
    folder = tmp_path_factory.mktemp('mounts') / 'session' / 'A'
    maker = Maker(SampleEpisode(steps=6, width=64, height=36, cameras=(
        'cam_l', 'cam_r', 'cam_w')), share_folders())
    with BagWriter(folder, {'session_id': 'x', 'slot': 'A'}) as bag:
        for topic in maker.topics().values():
            bag.add_topic(topic)
        for message in maker.messages():
            bag.write(message)
    return folder


def test_the_numbers_say_where_each_camera_was(episode):
    derive(episode, videos=False)
    views = read_episode(episode).views
    for role, (parent, pose) in POSES.items():
        assert views[f'{role}_left'].extrinsics_frame == parent
        np.testing.assert_allclose(views[f'{role}_left'].extrinsics, pose, atol=2e-6)
    right = matrix_of(POSES['left'][1]) @ matrix_of((0.12, 0, 0, 0, 0, 0))
    np.testing.assert_allclose(views['left_right'].extrinsics, pose_of_matrix(right), atol=2e-6)
    assert (views['right_left'].extrinsics, views['right_left'].extrinsics_frame) == ((), '')


def test_the_droid_export_has_poses_in_the_base(episode, tmp_path):
    folder = export_droid(sources(episode)[0], tmp_path)
    with h5py.File(folder / 'trajectory.h5') as file:
        group = file['observation/camera_extrinsics']
        flange = file['observation/robot_state/cartesian_position'][:]
        np.testing.assert_allclose(group['left_left'][:], [POSES['left'][1]] * 6, atol=1e-6)
        for pose, hand in zip(group['wrist_left'][:], flange, strict=True):
            np.testing.assert_allclose(matrix_of(pose), matrix_of(hand) @ matrix_of(
                POSES['wrist'][1]), atol=1e-6)
        np.testing.assert_allclose(group['wrist_left_gripper_offset'][:], [POSES['wrist'][1]] * 6,
                                   atol=1e-6)
        assert 'right_left' not in group
