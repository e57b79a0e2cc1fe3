"""A late subscriber gets description and transforms: one tree, with the arm's own poses."""

import time
import xml.etree.ElementTree as ET

import numpy as np
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from arena_robot.nodes import qos
from arena_robot.nodes.arm.transforms import transform
from arena_robot.nodes.convert import pose_values
from arena_robot.safety.kinematics import frames, rotation_of
from arena_robot.safety.robots import FR3
from arena_robot.safety.urdf import joint_origins


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
        qos.subscription(client, kind, topic, lambda m, topic=topic: seen.update({topic: m}),
                         profile)
    end_s = time.monotonic() + 10.0
    while len(seen) < 3:
        assert time.monotonic() < end_s, list(seen)
        time.sleep(0.02)
    links = {one.get('name') for one in ET.fromstring(seen['robot_description'].data).iter('link')}
    found = [*seen['tf'].transforms, *seen['tf_static'].transforms]
    parents = {one.child_frame_id: one.header.frame_id for one in found}
    assert set(parents) | set(parents.values()) <= links
    assert 'robotiq_85_base_link' in parents
    for link in list(parents):
        way = [link]
        while way[-1] in parents:
            assert len(way) < 20, way
            way.append(parents[way[-1]])
        assert way[-1] == 'panda_link0'
