"""Preflight names every endpoint of another node that a session needs and does not find."""

import re
import threading
import uuid

import pytest
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image
from station_programs import ROOT
from std_msgs.msg import String
from waiting import until

from arena_msgs.msg import ArmState, GripperTarget, PolicyAction
from arena_robot.core.errors import NotConnected
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.endpoints import problems
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.remote.robot import RemoteArm, RemoteCamera
from arena_robot.nodes.session.connections import (
    Connections,
    arm_endpoints,
    camera_endpoints,
    gripper_endpoints,
)
from arena_robot.nodes.session.params import SessionParams


@pytest.fixture
def lab(spin):
    """Return a function that makes nodes of a lab in one namespace."""
    namespace, made = f'lab_{uuid.uuid4().hex[:6]}', []

    def make(name):
        made.append(Node(name, namespace=namespace, context=spin.context))
        return made[-1]
    yield make
    for node in made:
        node.destroy_node()


def test_readme_names_all_that_a_session_needs_of_arm_and_gripper():
    said = (ROOT / 'README.md').read_text(encoding='utf-8')
    said = said.partition('`session_node` needs of the arm node:')[2]
    arm, _, gripper = said.partition('of each camera')[0].partition('of the gripper')
    for part, needed in ((arm, arm_endpoints('')), (gripper, gripper_endpoints(''))):
        assert set(re.findall(r'`(\w+)`', part)) == {
            endpoint.name.strip('/') for endpoint in needed}


def test_a_recorder_that_listens_is_no_arm(lab):
    session, recorder = lab('session'), lab('recorder')
    qos.subscription(recorder, PolicyAction, 'arm_node/arm_action', lambda _: None)
    said = problems(session, 'arm_node', arm_endpoints('arm_node'))
    assert len(said) == 1
    assert 'there is no node' in said[0]
    assert 'start it' in said[0]
    lab('arm_node')
    said = until(lambda: [w for w in problems(session, 'arm_node', arm_endpoints('arm_node'))
                               if 'no node' not in w], 'the node')
    assert len(said) == 8
    assert any('does not subscribe to arm_node/arm_action (arena_msgs/msg/PolicyAction)' in w
               for w in said)
    assert any('offer the action arm_node/go_home' in w for w in said)
    for name in ('hold', 'session_stop', 'session_resume', 'error_recovery'):
        assert any(f'offer the service arm_node/{name} (std_srvs/srv/Trigger)' in w for w in said)


def test_a_wrong_type_a_second_publisher_and_a_qos_that_does_not_fit_are_said(lab):
    session, arm, other = lab('session'), lab('arm_node'), lab('someone')
    qos.publisher(arm, String, 'arm_node/arm_state')
    said = until(lambda: [w for w in problems(session, 'arm_node', arm_endpoints('arm_node'))
                               if 'with the type std_msgs/msg/String' in w], 'the type')
    assert 'wanted is arena_msgs/msg/ArmState' in said[0]
    gripper = lab('gripper_node')
    wanted = gripper_endpoints('gripper_node')[1]
    qos.subscription(gripper, GripperTarget, 'gripper_node/target', lambda _: None, qos.LATCHED)
    until(lambda: any('QoS of gripper_node/target does not fit' in w
                           for w in problems(session, 'gripper_node', [wanted])), 'the QoS')
    second = lab('second_arm')
    qos.publisher(second, ArmState, 'second_arm/arm_state')
    qos.publisher(other, ArmState, 'second_arm/arm_state')
    until(lambda: any(
        'also published by' in w and 'someone' in w and 'arena episode replay' in w
        for w in problems(session, 'second_arm', arm_endpoints('second_arm'))), 'the second')


def test_a_right_eye_that_is_off_is_named(lab):
    session, zed = lab('session'), lab('zed')
    for kind, topic in ((Image, 'image'), (CameraInfo, 'camera_info')):
        qos.publisher(zed, kind, f'zed/left/color/rect/{topic}')
    wanted = camera_endpoints('zed', 'zed5', ('left', 'right'))
    said = until(lambda: w if len(w := problems(session, 'zed', wanted)) == 2 else None,
                      'the left eye')
    assert 'zed/right/color/rect/image' in said[0]
    assert 'video.publish_left_right' in said[0]
    assert problems(session, 'zed', camera_endpoints('zed', 'zed5', ('left',))) == []


def test_an_encoding_that_cannot_be_used_is_said_once(lab, spin, caplog):
    session, grey = Listening('viewer', context=spin.context, namespace=lab('zed').get_namespace()
                              ), lab('grey')
    spin.add(session, threads=1)
    camera = RemoteCamera(session, 'zed', timeout_s=1.0, eyes=('left',))
    image = qos.publisher(grey, Image, 'zed/left/color/rect/image')
    over = threading.Event()

    def send():
        while not over.wait(0.02):
            image.publish(Image(height=1, width=1, step=1, encoding='mono8', data=b'\0'))
    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(NotConnected, match=r"left eye: its images are 'mono8', usable are rgb8"):
        camera.open()
    over.set()
    sender.join()
    assert sum('mono8' in record.message for record in caplog.records) == 1


def test_an_arm_that_was_never_found_is_said_to_be_missing(lab):
    arm = RemoteArm(lab('session'), 'arm_node', timeout_s=0.2)
    with pytest.raises(NotConnected, match=r'there is no node .*/arm_node; start it'):
        arm.open()
    with pytest.raises(NotConnected, match=r'there is no node .*/arm_node; start it'):
        arm.state()


def test_a_part_that_cannot_be_configured_says_why_in_the_check(lab):
    session, arm = lab('session'), lab('arm_node')
    connections = Connections(session, SessionParams(cameras=(), roles=()), {})

    def tell(task, level, words):
        connections._reports.take(diagnostics.report(0, diagnostics.status(
            arm, task, '', level, words, {})))
    tell(diagnostics.LIFECYCLE, diagnostics.STALE,
         'not active (unconfigured): nothing arrives on /joint_states')
    until(lambda: 'nothing arrives on /joint_states' in connections.checks()[0].detail,
               'the reason')
    assert 'arm_node is not active (unconfigured): nothing' in connections.checks()[0].detail
    tell('robot mode', diagnostics.OK, 'IDLE')
    assert 'does not publish arm_node/arm_state' in connections.checks()[0].detail
