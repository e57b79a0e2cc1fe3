"""Goals and paths: go_home, trajectories, poses, the gripper, and the scene's own services."""

import time

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from station_programs import at_rest_at, speed, states_until
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint
from waiting import until

from arena_msgs.action import GripperCommand, MoveToJoints
from arena_robot.core.action import GripperCommand as Grip
from arena_robot.core.errors import DriverError
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import ThreadedActionClient, result
from arena_robot.robots.arms import RESET_JOINTS
from arena_robot.safety.kinematics import flange_pose

Q = np.array(RESET_JOINTS)
NAMES = [f'panda_joint{i}' for i in range(1, 8)]


def turned(joint, angle):
    q = Q.copy()
    q[joint - 1] += angle
    return q


@pytest.fixture
def home(client):
    action = ThreadedActionClient(client, MoveToJoints, 'arm_node/go_home')
    assert action.wait_for_server(20.0)
    yield action
    action.destroy()


def run_goal(action, goal, feedback=None):
    handle = result(action.send_goal_async(goal, feedback), 20.0, 'goal')
    assert handle.accepted
    return handle


def test_go_home_arrives_and_says_so(arm, home):
    fractions = []
    goal = MoveToJoints.Goal(q=convert.doubles(turned(1, 0.25)), duration_s=1.0)
    handle = run_goal(home, goal, lambda m: fractions.append(m.feedback.fraction))
    outcome = result(handle.get_result_async(), 20.0, 'go_home')
    assert outcome.status == GoalStatus.STATUS_SUCCEEDED
    assert outcome.result.success, outcome.result.message
    assert outcome.result.error < 0.03
    assert fractions == sorted(fractions)
    assert len(fractions) > 3


def test_a_goal_outside_the_limits_is_refused_with_reason(arm, home):
    goal = MoveToJoints.Goal(q=convert.doubles(turned(2, 3.0)))
    outcome = result(run_goal(home, goal).get_result_async(), 20.0, 'go_home')
    assert outcome.status == GoalStatus.STATUS_ABORTED
    assert 'joint 2' in outcome.result.message


def test_cancelling_a_motion_stops_the_arm(arm, home):
    goal = MoveToJoints.Goal(q=convert.doubles(turned(1, 0.6)), duration_s=6.0)
    handle = run_goal(home, goal)
    states_until(arm, lambda state: state.dq[0] > 0.05)
    result(handle.cancel_goal_async(), 20.0, 'cancel')
    outcome = result(handle.get_result_async(), 20.0, 'go_home')
    assert outcome.status == GoalStatus.STATUS_CANCELED
    after = states_until(arm, lambda state: speed(state) < 0.02)
    assert (after[-1].stamp_ns - after[0].stamp_ns) * 1e-9 < 0.5
    assert after[-1].q[0] < 0.5


def test_a_stop_ends_a_motion(arm, home):
    handle = run_goal(home, MoveToJoints.Goal(q=convert.doubles(turned(1, 0.6)), duration_s=6.0))
    states_until(arm, lambda state: state.dq[0] > 0.05)
    arm.halt()
    outcome = result(handle.get_result_async(), 20.0, 'go_home')
    assert not outcome.result.success
    assert 'replaced by another command or a stop' in outcome.result.message


def path(*points):
    message = JointTrajectory(header=convert.header(time.time_ns(), ''), joint_names=NAMES)
    for seconds, q in points:
        point = JointTrajectoryPoint(positions=convert.doubles(q))
        point.time_from_start.sec = int(seconds)
        point.time_from_start.nanosec = int((seconds % 1) * 1e9)
        message.points.append(point)
    return message


def test_a_joint_trajectory_is_followed(client, arm):
    publisher = qos.publisher(client, JointTrajectory, 'arm_node/joint_trajectory', qos.COMMAND)
    until(publisher.get_subscription_count)
    publisher.publish(path((0.6, turned(1, 0.15)), (1.2, turned(1, 0.3))))
    states = states_until(arm, lambda state: abs(state.q[0] - 0.3) < 0.03)
    assert max(state.dq[0] for state in states) < 1.0
    assert max(state.q[0] for state in states) < 0.4
    publisher.publish(path((0.8, turned(1, -0.3))))
    states_until(arm, lambda state: state.dq[0] < -0.2)
    publisher.publish(JointTrajectory(joint_names=NAMES))
    states = states_until(arm, lambda state: speed(state) < 0.02)
    assert states[-1].q[0] > -0.25
    client.destroy_publisher(publisher)


def test_a_target_pose_is_approached(client, arm):
    publisher = qos.publisher(client, PoseStamped, 'arm_node/target_pose', qos.COMMAND)
    until(publisher.get_subscription_count)
    target = flange_pose(Q) + np.array([0.05, 0.05, -0.05, 0, 0, 0])

    def near(state):
        publisher.publish(convert.pose_stamped(time.time_ns(), 'panda_link0', target))
        time.sleep(1 / 15)
        return np.linalg.norm(state.pose[:3] - target[:3]) < 0.02
    states_until(arm, near)
    client.destroy_publisher(publisher)


def test_the_gripper_closes_and_opens(client, gripper):
    gripper.command(Grip(1.0, 0, 1.0, 0.0))
    states_until(gripper, lambda state: state.position > 0.9)
    action = ThreadedActionClient(client, GripperCommand, 'gripper_node/gripper_cmd')
    assert action.wait_for_server(20.0)
    goal = GripperCommand.Goal()
    goal.command.position = 0.0
    outcome = result(run_goal(action, goal).get_result_async(), 20.0, 'gripper_cmd')
    assert outcome.result.reached_goal
    states_until(gripper, lambda state: state.position < 0.05)
    action.destroy()


def call(client, name, kind=Trigger, request=None):
    service = client.create_client(kind, name)
    assert service.wait_for_service(20.0)
    reply = result(service.call_async(request or kind.Request()), 20.0, name)
    client.destroy_client(service)
    return reply


def set_parameter(client, node, name, value):
    kinds = {int: (ParameterType.PARAMETER_INTEGER, 'integer_value'),
             float: (ParameterType.PARAMETER_DOUBLE, 'double_value'),
             str: (ParameterType.PARAMETER_STRING, 'string_value')}
    number, field = kinds[type(value)]
    message = Parameter(name=name, value=ParameterValue(type=number, **{field: value}))
    reply = call(client, f'{node}/set_parameters', SetParameters,
                 SetParameters.Request(parameters=[message]))
    return reply.results[0]


def test_a_start_is_saved_and_restored(client, arm):
    assert not call(client, 'sim_station/restore_start').success
    assert call(client, 'sim_station/save_start').success
    at = arm.wait_state(5.0).q
    arm.move_to(turned(1, 0.3), 1.0)
    states_until(arm, lambda state: at_rest_at(turned(1, 0.3), state))
    assert call(client, 'sim_station/restore_start').success
    states_until(arm, lambda state: at_rest_at(at, state, within=0.01))


def test_another_scene_is_set_up(client, arm):
    assert set_parameter(client, 'sim_station', 'seed', 7).successful
    wrong = set_parameter(client, 'sim_station', 'task', 'cube_in_bowll')
    assert not wrong.successful
    assert "Did you mean 'cube_in_bowl'" in wrong.reason
    reply = call(client, 'sim_station/reset_scene')
    assert reply.success
    assert reply.message


def test_parameters_have_ranges_and_most_are_fixed(client, arm_session):
    assert not set_parameter(client, 'arm_node', 'goal_tolerance', 0.02).successful
    refused = set_parameter(client, 'arm_node', 'command_timeout', 0.9)
    assert not refused.successful
    assert 'command_timeout may only be lowered while running' in refused.reason
    assert not set_parameter(client, 'gripper_node', 'speed', 2.0).successful
    assert set_parameter(client, 'gripper_node', 'speed', 0.5).successful


def test_an_inactive_arm_node_holds_and_refuses(client, arm):
    def change(number):
        request = ChangeState.Request(transition=Transition(id=number))
        return call(client, 'arm_node/change_state', ChangeState, request).success

    assert change(Transition.TRANSITION_DEACTIVATE)
    try:
        with pytest.raises(DriverError, match='not active'):
            arm.move_to(turned(1, 0.2), 1.0)
        assert change(Transition.TRANSITION_CLEANUP)
        assert change(Transition.TRANSITION_CONFIGURE)
    finally:
        assert change(Transition.TRANSITION_ACTIVATE)
    arm.wait_state(5.0)
    arm.move_to(turned(1, 0.1), 1.0)
    states_until(arm, lambda state: at_rest_at(turned(1, 0.1), state))


def test_an_action_client_that_is_gone_takes_nothing_of_what_still_comes(client):
    action = ThreadedActionClient(client, MoveToJoints, 'nobody/go_home')
    for kind in ('goal_response', 'cancel_response', 'result_response', 'feedback', 'status'):
        setattr(action, f'_is_{kind}_ready', kind == 'feedback')
    assert action.take_data() == {}
    action.destroy()
    assert action.take_data() == {}
