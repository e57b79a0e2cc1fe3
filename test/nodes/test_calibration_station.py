"""Pictures for a calibration come from a running station, at rest, at the pose of their time."""

from types import SimpleNamespace

import numpy as np
import pytest

from arena_msgs.srv import SetCollisionBehavior
from arena_robot.core.errors import DriverError
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.remote import calibration
from arena_robot.nodes.remote.calibration import CalibrationStation, StationCamera
from arena_robot.robots.arms import RESET_JOINTS
from arena_robot.safety.kinematics import flange_pose


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
