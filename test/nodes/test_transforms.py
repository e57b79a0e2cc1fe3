"""A late subscriber gets description and transforms: one tree, with the arm's own poses."""

import time
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from arena_robot.nodes import qos
from arena_robot.nodes.arm.params import ArmParams
from arena_robot.nodes.arm.transforms import ArmTransforms, transform
from arena_robot.nodes.convert import pose_values
from arena_robot.nodes.gripper.params import GripperParams
from arena_robot.nodes.gripper.transforms import KnuckleTransform, knuckle_transform
from arena_robot.safety.kinematics import frames, rotation_of
from arena_robot.safety.robots import FR3
from arena_robot.safety.urdf import joint_origins, urdf


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
    for i, (place, roll) in enumerate(joint_origins(FR3)):
        chain = chain @ matrix(transform(1, 'a', 'b', place, roll, float(q[i])))
        np.testing.assert_allclose(chain, frames(q)[i], atol=1e-9)


def test_a_late_subscriber_gets_description_and_a_connected_tree(client, arm):
    seen = {}
    for kind, topic, profile in ((String, 'robot_description', qos.LATCHED),
                                 (TFMessage, 'tf_static', qos.LATCHED),
                                 (TFMessage, 'tf', qos.STREAM)):
        qos.subscription(client, kind, topic,
                         lambda m, topic=topic: seen.update({key_of(topic, m): m}), profile)
    end_s = time.monotonic() + 10.0
    while len(seen) < 4:
        assert time.monotonic() < end_s, list(seen)
        time.sleep(0.02)
    links = {one.get('name') for one in ET.fromstring(seen['robot_description'].data).iter('link')}
    found = [*seen['tf'].transforms, *seen['finger'].transforms, *seen['tf_static'].transforms]
    parents = {one.child_frame_id: one.header.frame_id for one in found}
    assert set(parents) | set(parents.values()) == links
    assert 'robotiq_85_base_link' in parents
    for link in list(parents):
        way = [link]
        while way[-1] in parents:
            assert len(way) < 20, way
            way.append(parents[way[-1]])
        assert way[-1] == 'panda_link0'


def key_of(topic, message):
    """Return the topic, of tf 'finger' where the gripper's node sent it."""
    finger = topic == 'tf' and 'knuckle' in message.transforms[0].child_frame_id
    return 'finger' if finger else topic


def test_the_finger_turns_as_the_description_says():
    root = ET.fromstring(urdf('panda', 'left'))
    joint = next(j for j in root.iter('joint') if 'knuckle' in j.get('name'))
    sent = knuckle_transform('left_robotiq_85_base_link', 'left_robotiq_85_left_knuckle_link',
                             0.3, 1)
    assert (sent.header.frame_id, sent.child_frame_id) == (
        joint.find('parent').get('link'), joint.find('child').get('link'))
    axis = [float(v) for v in joint.find('axis').get('xyz').split()]
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turn = np.eye(3) + np.sin(0.3) * cross + (1 - np.cos(0.3)) * cross @ cross
    np.testing.assert_allclose(matrix(sent)[:3, :3], turn, atol=1e-9)
    place = [float(v) for v in joint.find('origin').get('xyz').split()]
    np.testing.assert_allclose(matrix(sent)[:3, 3], place)
    assert float(joint.find('limit').get('upper')) == GripperParams().gripper_closed_position


@pytest.mark.parametrize('publish', [True, False])
def test_the_transforms_can_be_left_to_a_robot_state_publisher(publish, monkeypatch):
    made = []
    monkeypatch.setattr(qos, 'publisher', lambda node, kind, topic, *_: made.append(topic)
                        or SimpleNamespace(publish=lambda message: None,
                                           get_subscription_count=lambda: 1))
    clock = SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=1))
    for params, kind, more in ((ArmParams(publish_tf=publish), ArmTransforms, ()),
                               (GripperParams(publish_tf=publish), KnuckleTransform, ('base',))):
        node = SimpleNamespace(params=params, keep=lambda one: one, get_clock=lambda: clock)
        kind(node, *more).publish(np.zeros(7) if kind is ArmTransforms else 0.1, 1)
    assert made == (['robot_description', 'tf', 'tf_static', 'tf'] if publish
                    else ['robot_description'])
