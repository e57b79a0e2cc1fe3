"""A late subscriber gets description and transforms: one tree, with the arm's own poses."""

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest

from arena_robot.nodes.arm.transforms import ArmTransforms, link_transforms
from arena_robot.nodes.gripper import FingerTransform, finger_transform
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.convert import pose_values
from arena_robot.nodes.lib.part_params import ArmParams, GripperParams
from arena_robot.robots.arms import FR3
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.kinematics import frames, rotation_of
from arena_robot.safety.urdf import (
    CameraMount,
    FixedFrame,
    camera_frames,
    matrix_of,
    urdf,
)


def matrix(message):
    """Return the (4, 4) of a transform message."""
    class Pose:
        position, orientation = message.transform.translation, message.transform.rotation
    pose = pose_values(Pose)
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation_of(pose[3:]), pose[:3]
    return out


def test_the_transforms_of_the_links_are_the_kinematics():
    q = np.array([0.3, -0.5, 0.2, -2.0, 0.4, 1.9, -0.7])
    chain = np.eye(4)
    for i, message in enumerate(link_transforms(1, FR3.frames(), FR3.limits.chain, q)):
        assert (message.header.frame_id, message.child_frame_id) == tuple(FR3.frames()[i:i + 2])
        chain = chain @ matrix(message)
        np.testing.assert_allclose(chain, frames(q)[i], atol=1e-9)


def links_of(text):
    return {link.get('name') for link in ET.fromstring(text).iter('link')}


def test_an_optical_frame_is_where_its_mount_says():
    pose = (0.4, -0.2, 0.7, -2.0, 0.3, 0.5)
    optical = {eye: f'lab_{eye}_camera_frame_optical' for eye in ('left', 'right')}
    chain = {None: np.eye(4)}
    for frame in camera_frames('lab', CameraMount('panda_link0', pose), optical, 0.12):
        chain[frame.child] = chain.get(frame.parent, np.eye(4)) @ matrix_of(frame.pose)
    left, right = (chain[frame] for frame in optical.values())
    np.testing.assert_allclose(left, matrix_of(pose), atol=1e-12)
    np.testing.assert_allclose(np.linalg.inv(left) @ right, matrix_of((0.12, 0, 0, 0, 0, 0)),
                               atol=1e-12)


def test_frames_that_hang_on_nothing_are_not_in_the_description():
    frames = [FixedFrame('b', 'c', (0,) * 6), FixedFrame('panda_link0', 'b', (0,) * 6),
              FixedFrame('other', 'd', (0,) * 6), FixedFrame('panda_link0', 'c', (1,) * 6)]
    links = links_of(urdf('panda', frames=frames))
    assert {'b', 'c'} <= links
    assert 'd' not in links
    assert not [link for link in links_of(urdf('panda', gripper=None)) if 'robotiq' in link]


def test_the_finger_turns_as_the_description_says():
    root = ET.fromstring(urdf('panda', 'left'))
    joint = next(j for j in root.iter('joint') if 'knuckle' in j.get('name'))
    sent = finger_transform(ROBOTIQ_2F85, 'left', 0.3, 1)
    assert (sent.header.frame_id, sent.child_frame_id) == (
        joint.find('parent').get('link'), joint.find('child').get('link'))
    axis = [float(v) for v in joint.find('axis').get('xyz').split()]
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turn = np.eye(3) + np.sin(0.3) * cross + (1 - np.cos(0.3)) * cross @ cross
    np.testing.assert_allclose(matrix(sent)[:3, :3], turn, atol=1e-9)
    place = [float(v) for v in joint.find('origin').get('xyz').split()]
    np.testing.assert_allclose(matrix(sent)[:3, 3], place)
    assert float(joint.find('limit').get('upper')) == GripperParams().model.closed_rad


@pytest.mark.parametrize('publish', [True, False])
def test_the_transforms_can_be_left_to_a_robot_state_publisher(publish, monkeypatch):
    made = []
    monkeypatch.setattr(qos, 'subscription', lambda *_: None)
    monkeypatch.setattr(qos, 'publisher', lambda node, kind, topic, *_: made.append(topic)
                        or SimpleNamespace(publish=lambda message: None,
                                           get_subscription_count=lambda: 1))
    clock = SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=1))
    for params, kind, more in ((ArmParams(publish_tf=publish), ArmTransforms, ()),
                               (GripperParams(publish_tf=publish), FingerTransform,
                                (ROBOTIQ_2F85,))):
        node = SimpleNamespace(params=params, keep=lambda entity: entity, get_clock=lambda: clock)
        kind(node, *more).publish(np.zeros(7) if kind is ArmTransforms else 0.1, 1)
    assert made == (['robot_description', 'tf', 'tf_static', 'tf'] if publish
                    else ['robot_description'])
