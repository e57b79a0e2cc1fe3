"""What a running station offers: endpoints, documented names, transforms, calibration pictures."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from rclpy.node import NodeNameNonExistentError
from std_msgs.msg import String
from test_station_docs import TEXT
from test_transforms import links_of
from tf2_msgs.msg import TFMessage
from waiting import until

from arena_msgs.srv import SetCollisionBehavior
from arena_robot.core.errors import DriverError
from arena_robot.nodes.arm.transforms import STATIC
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.remote import calibration
from arena_robot.nodes.remote.calibration import CalibrationStation, StationCamera
from arena_robot.nodes.session.connections import Connections
from arena_robot.nodes.session.params import SessionParams
from arena_robot.robots.arms import RESET_JOINTS
from arena_robot.safety.kinematics import flange_pose

NODES = ('arm_node', 'gripper_node', 'left_camera', 'sim_station')
TYPE = re.compile(r'[a-z0-9_]+_msgs/\w+$|(std_srvs|arena_msgs)/srv/\w+$')
STANDARD = re.compile(r'parameter|/rosout|transition|/(get|change)_(available_)?state|'
                      r'get_type_description|/_action/')
EYES_OF_CAMERAS = {f'{role}_{eye}_camera_frame_optical' for role in ('left', 'right', 'wrist')
                   for eye in ('left', 'right')}


def test_a_real_station_has_all_that_a_session_needs(client, station_process):
    connections = Connections(client, SessionParams(), {})
    until(lambda: all(c.ok for c in connections.checks()), 'all checks', 30.0)
    assert [c.name for c in connections.checks()] == ['arm node', 'gripper node', *(
        f'{role} camera node' for role in ('left', 'right', 'wrist'))]


def documented():
    """Return types by name of all topics and services in the tables."""
    types = {}
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) >= 2 and TYPE.match(cells[1]):
            types |= dict.fromkeys(re.findall(r'`([^`]+)`', cells[0]), cells[1])
    return types


def offered(client, namespace):
    """Return types by name of all topics and services of the station's nodes."""
    types = {}
    for node in NODES:
        for ask in (client.get_publisher_names_and_types_by_node,
                    client.get_subscriber_names_and_types_by_node,
                    client.get_service_names_and_types_by_node):
            try:
                types |= {name.removeprefix(f'/{namespace}/'): kinds[0].replace('/msg/', '/')
                          for name, kinds in ask(node, f'/{namespace}')}
            except NodeNameNonExistentError:
                return {}
    return {name: kind for name, kind in types.items() if not STANDARD.search(name)}


def test_names_in_the_page_are_those_of_a_running_station(client, arm_session,
                                                          station_namespace):
    said = documented()
    said.pop('/clock')
    until(lambda: offered(client, station_namespace) == said,
          lambda: (offered(client, station_namespace), said))


def test_a_late_subscriber_gets_description_and_a_connected_tree(client, arm):
    texts, parents = [], {}

    def keep(message):
        parents.update({frame.child_frame_id: frame.header.frame_id
                        for frame in message.transforms})
    qos.subscription(client, String, 'robot_description', texts.append, qos.LATCHED)
    qos.subscription(client, TFMessage, 'tf_static', keep, STATIC)
    qos.subscription(client, TFMessage, 'tf', keep, qos.STREAM)
    until(lambda: texts and links_of(texts[-1].data) == set(parents) | set(parents.values())
          and set(parents) >= EYES_OF_CAMERAS and 'robotiq_85_base_link' in parents,
          lambda: (texts and links_of(texts[-1].data), parents))
    assert parents['wrist_camera_link'] == 'panda_link8'
    assert parents['left_camera_link'] == 'panda_link0'
    for link in list(parents):
        way = [link]
        while way[-1] in parents:
            assert len(way) < 20, way
            way.append(parents[way[-1]])
        assert way[-1] == 'panda_link0'


def test_a_picture_is_taken_at_rest_at_a_listed_pose(station_namespace, arm):
    goal = np.array(RESET_JOINTS) + 0.1 * np.eye(7)[6]
    with CalibrationStation(StationCamera(station_namespace, 'wrist_camera', 'zed5')) as station:
        assert station.intrinsics()[0, 0] > 100.0
        station.go(goal)
        pose, picture = station.take()
        np.testing.assert_allclose(pose, flange_pose(arm.wait_state(5.0).q), atol=0.005)
        assert picture.shape == (288, 512, 3)
        arm.move_to(np.array(RESET_JOINTS))
        with pytest.raises(DriverError, match='the arm moves'):
            many(station.take)


def test_the_first_camera_info_may_come_after_the_first_picture(monkeypatch):
    station = CalibrationStation(StationCamera('', 'wrist_camera', 'zed5'))
    answers = iter([{}, {}, {'left': SimpleNamespace(k=np.diag([500.0, 500.0, 1.0]))}])
    station.camera = SimpleNamespace(info=lambda: next(answers))
    assert station.intrinsics()[0, 0] == 500.0
    monkeypatch.setattr(calibration, 'REST_S', 0.05)
    station.camera = SimpleNamespace(info=dict)
    with pytest.raises(DriverError, match='no camera_info'):
        station.intrinsics()


def many(take):
    for _ in range(20):
        take()


def test_the_service_sets_thresholds_or_says_why_not(client, arm):
    calls = ServiceClients(client, 'arm_node', {'set_collision_behavior': SetCollisionBehavior})
    request = SetCollisionBehavior.Request(lower_torque_thresholds_nominal=[40.0] * 7,
                                           upper_torque_thresholds_nominal=[40.0] * 7)
    answer = calls.call('set_collision_behavior', request, 10.0)
    assert (answer.success, answer.error) == (True, '')
    request.upper_torque_thresholds_nominal = [400.0] * 7
    answer = calls.call('set_collision_behavior', request, 10.0)
    assert not answer.success
    assert 'at most 100' in answer.error
    calls.close()
