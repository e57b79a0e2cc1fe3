"""A gripper behind ros2_control's topic or action: it moves, and what is wrong is said."""

import time
import uuid

import pytest
from fake_lab import Lab
from sensor_msgs.msg import JointState

from arena_robot.core.action import GripperCommand
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.part_params import PARALLEL, SINGLE, TOPIC, RosControlGripperParams
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.lib.timeline import RosClock
from arena_robot.nodes.vendor.franka import imported
from arena_robot.nodes.vendor.gripper import RosControlGripper
from arena_robot.robots.grippers import ROBOTIQ_2F85

KINDS = [TOPIC, *(pytest.param(kind, marks=pytest.mark.skipif(
    imported('control_msgs.action', kind) is None,
    reason='control_msgs is not installed: source a workspace that has it'))
    for kind in (PARALLEL, SINGLE))]
NAMES = {TOPIC: 'gripper_position_controller/commands'}


@pytest.fixture(scope='module', params=KINDS)
def lab(request):
    with Spin() as spin, Lab(spin, f'lab_{uuid.uuid4().hex[:6]}', images='',
                             gripper=request.param, task='do_not_move') as made:
        made.client = Listening('gripper_node', namespace=made.namespace, context=spin.context)
        spin.add(made.client, threads=2)
        made.kind = request.param
        yield made


def gripper_of(lab, **params):
    node = lab.client
    params = {'command': lab.kind, 'open_timeout': 3.0,
              'name': NAMES.get(lab.kind, 'robotiq_gripper_controller/gripper_cmd'), **params}
    return RosControlGripper(node, ROBOTIQ_2F85.joint, ROBOTIQ_2F85,
                             RosClock(node.get_clock(), node.context),
                             RosControlGripperParams(**params))


def reached(gripper, position, timeout_s=10.0):
    end_s = time.monotonic() + timeout_s
    while abs((state := gripper.wait_state(2.0)).position - position) > 0.05:
        assert time.monotonic() < end_s, state
    return state


def test_it_closes_opens_and_reports(lab):
    with gripper_of(lab) as gripper:
        for _ in range(3):    # as a loop at 15 Hz repeats it
            gripper.command(GripperCommand(0.8, 0))
        closed = reached(gripper, 0.8)
        assert closed.width_m == pytest.approx(0.085 * (1 - closed.position))
        assert closed.requested_position == 0.8
        gripper.command(GripperCommand(0.0, 0))
        gripper.stop()
        gripper.command(GripperCommand(0.0, 0))
        reached(gripper, 0.0)
        gripper.activate()


def test_a_goal_is_sent_again_to_a_vendor_that_was_away(lab):
    with gripper_of(lab) as gripper:
        gripper.command(GripperCommand(0.8, 0))
        reached(gripper, 0.8)
        lab.silent = True
        lab._grip(0.0)    # what was restarted opens
        time.sleep(0.7)
        lab.silent = False
        reached(gripper, 0.0)
        gripper.command(GripperCommand(0.8, 0))
        reached(gripper, 0.8)
        gripper.command(GripperCommand(0.0, 0))
        reached(gripper, 0.0)


def test_what_is_not_there_is_named(lab):
    with pytest.raises(NotConnected, match=r'has no joint|no joint'):
        gripper_of(lab, joint_states='nothing', open_timeout=0.2).open()
    if imported('control_msgs.action', SINGLE) is None:
        with pytest.raises(NotConnected, match='control_msgs is not installed here'):
            gripper_of(lab, command=SINGLE).open()


def test_degrees_or_millimetres_are_refused(lab):
    gripper = gripper_of(lab)
    with gripper:
        gripper._on_joints(JointState(name=['robotiq_85_left_knuckle_joint'], position=[45.0]))
        try:
            said = gripper._wrong
            gripper.state(5.0)
        except DriverError as error:
            said = str(error)
    assert 'degrees, millimetres' in said
