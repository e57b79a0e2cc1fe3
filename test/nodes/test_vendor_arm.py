"""An arm behind other packages' controllers: the driver's contract, and what can go wrong."""

import re
import time
import uuid

import numpy as np
import pytest
from fake_lab import MAKERS, Lab, embodiment
from jtc_model import Jtc, channel_to, hardest, stopped
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from station_programs import ROOT, speed
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory
from waiting import until

from arena_robot.core.action import ArmCommand
from arena_robot.core.config import read_yaml
from arena_robot.core.errors import DriverError, NotConnected, SafetyError, StaleData
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.conformance.arm import MOTIONS
from arena_robot.drivers.conformance.pytest_suite import ArmConformance
from arena_robot.drivers.conformance.rig import ArmRig
from arena_robot.drivers.guarded import guarded
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.part_params import CRISP, JTC, RosControlArmParams
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.lib.timeline import RosClock
from arena_robot.nodes.vendor import controllers
from arena_robot.nodes.vendor.arm import RosControlArm
from arena_robot.nodes.vendor.controllers import CommandChannel, Joints, jtc_problem
from arena_robot.robots.arms import FR3, PANDA
from arena_robot.safety.limits import robot_of
from arena_robot.safety.same_robot import require_pose
from arena_robot.safety.urdf import urdf


@pytest.fixture(scope='module', params=[CRISP, JTC])
def lab(request):
    with Spin() as spin, Lab(spin, f'lab_{uuid.uuid4().hex[:6]}', request.param, images='',
                             gripper='', task='do_not_move') as made:
        node = Listening('arm_node', namespace=made.namespace, context=spin.context)
        spin.add(node, threads=1)
        made.client, made.start = node, made.sim.save()
        yield made


def arm_of(lab, **params):
    params = {'controller': lab.controller, 'open_timeout': 3.0,
              'broadcaster': 'franka_robot_state_broadcaster', **params}
    node = lab.client
    return RosControlArm(node, FR3, '', RosClock(node.get_clock(), node.context),
                         RosControlArmParams(**params))


def hears_nothing(lab):
    """Return whether no target reached the controllers for a tenth of a second."""
    received = lab.received
    time.sleep(0.1)
    return lab.received == received


@pytest.fixture
def arm(lab):
    with arm_of(lab) as made:
        until(lambda: hears_nothing(lab), 'the last target of the test before')
        lab.target = None
        lab.jtc.clear()
        lab.sim.restore(lab.start)
        lab.filtered = lab.sim.arm.state().q
        yield made
    lab.frozen = lab.silent = lab.deaf = lab.degrees = False
    lab.clock_off_ns = 0


class TestRosControlArm(ArmConformance):
    # CRISP's filters and the spring below it take their time.
    checks = tuple(check for check in ArmConformance.checks if check not in MOTIONS)

    @pytest.fixture
    def rig(self, lab):
        node = lab.client
        yield ArmRig(arm_of(lab), RosClock(node.get_clock(), node.context), harmless=True,
                     max_age_s=1.0,
                     silence=lambda: setattr(lab, 'silent', True), latency_s=0.3,
                     mend=lambda: setattr(lab, 'silent', False))
        lab.silent = False


@pytest.mark.alone
def test_it_moves_rests_and_reads_joints_in_any_order(arm, lab):
    start = arm.wait_state(2.0)
    assert np.allclose(start.q, lab.sim.arm.state().q, atol=0.01)
    goal = start.q + np.array([0.1, -0.05, 0.1, 0.05, -0.1, 0.1, 0.15])
    arm.move_to(goal, 0.8)
    until(lambda: np.max(np.abs(arm.wait_state(2.0).q - goal)) < 0.01, 'the goal')
    until(lambda: arm.state().mode is RobotMode.IDLE, 'the end of the motion')
    arm.move_to(start.q, 1.6)
    until(lambda: speed(arm.wait_state(2.0)) > 0.05, 'a motion')
    arm.stop()
    begin_s = time.monotonic()
    until(lambda: speed(arm.wait_state(2.0)) < 0.05, 'rest')
    assert time.monotonic() - begin_s < 1.0
    rest = arm.wait_state(2.0).q
    assert np.max(np.abs(rest - start.q)) > 0.01
    arm.command(ArmCommand(rest + 0.02, 0))
    until(lambda: arm.wait_state(2.0).mode is RobotMode.MOVE, 'a stream')
    assert np.any(lab.sim.arm.state().tau_ext) == np.any(arm.franka.tau_ext)


def test_after_stop_no_newer_command_reaches_the_controller(arm, lab):
    node = lab.client
    clock = RosClock(node.get_clock(), node.context)
    guard = guarded(arm, FR3, clock)
    start = arm.wait_state(2.0).q
    guard.move_to(start - 0.4 * np.sign(start[0] or 1.0) * np.eye(7)[0], 1.6)
    until(lambda: speed(arm.wait_state(2.0)) > 0.2, 'a motion')
    guard.halt()
    until(lambda: speed(arm.wait_state(2.0)) < 0.02, 'rest')
    at = arm.wait_state(2.0).q
    for _ in range(15):
        with pytest.raises(SafetyError, match='STOP was pressed'):
            guard.command(ArmCommand(start, clock.now_ns()))
        time.sleep(0.02)
    assert np.max(np.abs(arm.wait_state(2.0).q - at)) < 0.02
    guard.resume()
    guard.command(ArmCommand(at, clock.now_ns()))


@pytest.mark.alone
@pytest.mark.parametrize('from_desired', [False, True])
def test_a_stopped_arm_rests_soon_after_where_it_was_and_stays_there(arm, lab, from_desired):
    """How soon is measured without this machine's load, in a model below."""
    lab.jtc.from_desired = from_desired
    start = arm.wait_state(2.0).q
    arm.move_to(start - 0.6 * np.sign(start[0] or 1.0) * np.eye(7)[0], 1.6)
    until(lambda: speed(arm.wait_state(2.0)) > 0.5, 'a motion')
    arm.stop()
    before = arm.wait_state(2.0).q
    until(lambda: speed(arm.wait_state(2.0)) < 0.02, 'rest')
    time.sleep(0.4)
    after = arm.wait_state(2.0)
    assert speed(after) < 0.02
    assert np.max(np.abs(after.q - before)) < 0.15


def test_a_frozen_stamp_and_silence_are_different_words(arm, lab):
    lab.frozen = True
    with pytest.raises(StaleData, match=r'its stamp has stood still for'):
        until(lambda: until_words(arm, 'its stamp has stood still'), 'stale')
    arm.stop()
    lab.frozen, lab.silent = False, True
    with pytest.raises(StaleData, match=r'nothing has arrived on .*/joint_states for'):
        until(lambda: until_words(arm, 'nothing has arrived'), 'stale')
    arm.stop()


def until_words(arm, words):
    """Raise the error of a state once it has the words."""
    try:
        arm.state(0.1)
    except StaleData as error:
        if words in str(error):
            raise
    return False


def test_a_clock_that_is_off_by_more_than_50_ms_is_named(arm, lab):
    lab.clock_off_ns = 120_000_000
    errors = until(lambda: arm.state(1.0).errors, 'the clocks')
    assert 'ms ahead of this machine' in errors[0]
    lab.clock_off_ns = -80_000_000
    errors = until(lambda: [e for e in arm.state(1.0).errors if 'behind' in e], 'the clocks')
    assert 'chrony' in errors[0]
    with pytest.raises(DriverError, match=r'synchronise'):
        arm.command(ArmCommand(arm.state(1.0).q, 0))


def test_degrees_are_refused_in_words(arm, lab):
    lab.degrees = True
    with pytest.raises(DriverError, match=r'these are degrees, ROS uses radians'):
        until(lambda: not arm.state(5.0), 'degrees')


def test_a_second_publisher_ends_the_commands(arm, lab):
    topic = arm._channel.topic
    kind = JointState if lab.controller == CRISP else JointTrajectory
    other = Node('crisp_py', namespace=lab.namespace, context=lab.spin.context)
    try:
        arm.command(ArmCommand(arm.state(1.0).q, 0))
        other.create_publisher(kind, topic, 1)
        errors = until(lambda: arm.state(1.0).errors, 'the second')
        assert f'/{lab.namespace}/crisp_py: two senders of one command' in errors[0]
        assert arm.state(1.0).mode is RobotMode.OTHER
        with pytest.raises(DriverError, match=r'crisp_py'):
            arm.command(ArmCommand(arm.state(1.0).q, 0))
        with pytest.raises(NotConnected, match=r'is also published by'):
            second(lab)
    finally:
        other.destroy_node()
    until(lambda: not arm.state(1.0).errors, 'it is gone')


def second(lab):
    node = Node('another_arm_node', namespace=lab.namespace, context=lab.spin.context)
    try:
        RosControlArm(node, FR3, '', RosClock(node.get_clock(), node.context), RosControlArmParams(
            controller=lab.controller), 0.5)._channel.open(1.0)
    finally:
        node.destroy_node()


def test_a_controller_that_ignores_us_is_named(arm, lab):
    lab.deaf = True
    start = arm.state(1.0).q
    words = until(lambda: ignored(arm, start), 'it is ignored', 6.0)
    assert 'list_controllers' in words
    lab.deaf = False
    arm.recover()
    arm.command(ArmCommand(start, 0))


def ignored(arm, start):
    """Command as a policy does, and return the words of the refusal."""
    try:
        arm.command(ArmCommand(start + 0.1, 0))
    except DriverError as error:
        return str(error)
    time.sleep(1 / 15)
    return ''


def test_what_does_not_fit_is_said_at_the_start(lab):
    with pytest.raises(NotConnected, match=r'no controller subscribes to .*/nobody'):
        arm_of(lab, command_topic='nobody', open_timeout=0.5).open()
    with pytest.raises(NotConnected, match=r'nothing arrives on .*/nothing; is the joint_st'):
        arm_of(lab, joint_states='nothing', open_timeout=0.3).open()
    panda = arm_of(lab)
    panda._readings._names[:] = [f'panda_joint{i}' for i in range(1, 8)]
    with pytest.raises(NotConnected, match=r'has no joint panda_joint1, it has fr3_joint4'):
        panda.open()
    with pytest.raises(NotConnected, match=r'nothing arrives on .*/no_urdf.*robot_state_pub'):
        arm_of(lab, robot_description='no_urdf', open_timeout=0.5).open()
    longer = urdf('fr3').replace('xyz="0.0825 ', 'xyz="0.1 ', 1)
    other = qos.publisher(lab.client, String, 'longer', qos.LATCHED)
    other.publish(String(data=longer))
    with pytest.raises(NotConnected, match=r'not of a Franka Research 3 .robot_type fr3.: with'):
        arm_of(lab, robot_description='longer').open()
    lab.client.destroy_publisher(other)
    lab._with_forward()
    lab.spin.add(lab.nodes[-1], threads=1)
    with pytest.raises(NotConnected, match=r'without interpolation.*joint_trajectory_controller'):
        arm_of(lab, command_topic='forward_position_controller/commands').open()


@pytest.mark.parametrize('from_desired', [False, True])
@pytest.mark.parametrize('robot', [PANDA, FR3])
@pytest.mark.parametrize('speed', [0.2, 0.7, 1.0])
def test_a_modelled_arm_is_at_rest_in_150_ms(robot, speed, from_desired):
    took_s, on_rad = stopped(robot, 0, speed, from_desired)
    assert took_s < 0.150
    assert on_rad < 0.6 * speed * 0.15


@pytest.mark.parametrize('from_desired', [False, True])
def test_no_command_of_500_random_streams_is_harder_than_the_maker_allows(from_desired):
    peaks = [hardest((FR3, PANDA)[seed % 2], seed, from_desired, 0.7) for seed in range(500)]
    assert np.all(np.max(peaks, axis=0) <= 1.0)
    assert np.median(peaks, axis=0)[1] > 0.5    # the limits are made use of


@pytest.mark.parametrize(('from_desired', 'least'), [(False, 100.0), (True, 10.0)])
def test_the_model_shows_how_hard_a_single_point_at_rest_is(from_desired, least):
    """Of a point without a beginning in the past, what JTC does is its own interpolation."""
    def send(channel, q, at, now_ns, ahead_ns):
        CommandChannel.send(channel, q, at, now_ns, ahead_ns)
        message = channel._publisher.sent[-1]
        del message.points[:-1]
        message.header.stamp.sec = message.header.stamp.nanosec = 0
        message.points[0].time_from_start.sec = 0
        message.points[0].time_from_start.nanosec = 150_000_000
        message.points[0].accelerations = []
    assert hardest(FR3, 0, from_desired, 0.7, send)[1] > least


def test_a_course_goes_on_where_it_was_and_begins_anew_at_an_arm_that_was_moved():
    q, still = np.array(FR3.reset_joints), np.zeros(7)
    channel, sent = channel_to(Jtc(FR3.joint_names(), 1e-3), FR3)
    at = Joints(0, q, still, still)
    channel.send(q + 0.1, at, 10 ** 9)
    first = channel._course
    channel.send(q, Joints(0, q + 0.08, still, still), 5 * 10 ** 9)
    assert channel._course is first
    channel.send(q, Joints(0, q + 0.3, still, still), 9 * 10 ** 9, ahead_ns=30_000_000)
    assert channel._course is not first
    np.testing.assert_allclose(sent[-1].points[0].positions, q + 0.3)
    assert sent[-1].header.stamp.sec == 8           # it begins 0.1 s ago, by JTC's clock
    assert sent[-1].header.stamp.nanosec == 930_000_000
    channel.forget()
    channel.send(q, at, 9 * 10 ** 9 + 1000)
    np.testing.assert_allclose(sent[-1].points[0].positions, q)


@pytest.mark.parametrize(('changes', 'words'), [
    ({}, ''),
    ({'update_rate': 0}, ''),
    ({'interpolation_method': 'none'}, 'interpolation_method is none.*effort.*CRISP'),
    ({'update_rate': 50}, 'update_rate is 50 Hz.*effort interfaces'),
    ({'allow_trajectory_replacement': True}, 'which is a jump: set it to false'),
    ({'joints': ['left_fr3_joint1']}, 'its joints are left_fr3_joint1.*arm_prefix')])
def test_a_controller_that_cannot_follow_a_curve_is_named(changes, words):
    values = {'command_interfaces': ['position'], 'interpolation_method': 'splines',
              'joints': FR3.joint_names()[::-1], 'update_rate': 1000, **changes}
    problem = jtc_problem(values, FR3.joint_names())
    assert re.search(words, problem) if words else problem == ''


def test_the_parameters_of_a_controller_in_cpp_are_read_one_by_one(monkeypatch):
    """It answers nothing at all where it has not declared one of the names."""
    declared = {'command_interfaces': ['effort'], 'interpolate_from_desired_state': True}

    def told(node, other, names, timeout_s):
        return [Parameter(name, value=declared[name]).get_parameter_value()
                for name in names] if set(names) <= set(declared) else []
    monkeypatch.setattr(controllers, 'parameters_of', told)
    values = controllers.jtc_values(None, 'jtc')
    assert {name: value for name, value in values.items() if value is not None} == declared
    assert jtc_problem(values, FR3.joint_names()) == ''


@pytest.mark.parametrize('lab', [JTC], indirect=True)
def test_an_arm_behind_such_a_controller_is_not_opened(lab):
    lab.jtc_node.set_parameters([Parameter('interpolation_method', value='none')])
    try:
        with pytest.raises(NotConnected, match=r'joint_trajectory_controller: interpolation_meth'):
            arm_of(lab).open()
    finally:
        lab.jtc_node.set_parameters([Parameter('interpolation_method', value='splines')])


@pytest.mark.parametrize('station', MAKERS)
def test_the_arm_of_another_maker_moves_and_stops_by_its_station_file(station, tmp_path):
    """The walk of docs/hardware.md: the driver's description gives the embodiment's file."""
    jtc, joints = MAKERS[station][:2]
    values = read_yaml(ROOT / 'config' / 'stations' / f'{station}.yaml')['/**/arm_node'][
        'ros__parameters']
    path, text = embodiment(station, tmp_path)
    robot = robot_of(str(path))
    assert robot.joint_names() == [joint.split()[0] for joint in joints]
    with Spin() as spin, Lab(
            spin, f'lab_{uuid.uuid4().hex[:6]}', JTC, images='', gripper='', robot=str(path),
            task='do_not_move', description=text, jtc=jtc) as lab:
        node = Listening('arm_node', namespace=lab.namespace, context=spin.context)
        spin.add(node, threads=1)
        clock = RosClock(node.get_clock(), node.context)
        with RosControlArm(node, robot, '', clock, RosControlArmParams(
                **values['ros_control'])) as arm:
            start = arm.wait_state(2.0).q
            np.testing.assert_allclose(start, lab.sim.arm.state().q, atol=0.01)
            require_pose(arm.wait_state(2.0), robot)
            guard = guarded(arm, robot, clock)
            guard.move_to(goal := start + 0.1, 0.8)
            until(lambda: np.max(np.abs(arm.wait_state(2.0).q - goal)) < 0.01, 'the goal')
            guard.move_to(start, 1.6)
            until(lambda: speed(arm.wait_state(2.0)) > 0.05, 'a motion')
            guard.halt()
            until(lambda: speed(arm.wait_state(2.0)) < 0.02, 'rest')
            at = arm.wait_state(2.0).q
            assert np.max(np.abs(at - start)) > 0.01
            with pytest.raises(SafetyError, match='STOP was pressed'):
                guard.command(ArmCommand(start, clock.now_ns()))
            time.sleep(0.3)
            assert np.max(np.abs(arm.wait_state(2.0).q - at)) < 0.02
        assert lab.jtc.refused == []
