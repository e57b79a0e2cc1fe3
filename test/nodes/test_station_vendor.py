"""Blind sessions over other packages' nodes: arm, gripper and cameras are fakes of theirs."""

from ros_tools import environment, need_ros_tools
from vendor_rig import VendorRig

from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

TASK = 'put the yellow cube in the bowl'
FRANKA = ('--controller', 'joint_trajectory_controller', '--gripper', 'ParallelGripperCommand')
ROS = ('PYTHONPATH', 'AMENT_PREFIX_PATH', 'LD_LIBRARY_PATH')


def test_a_blind_session_over_crisp_and_zed_wrappers(processes, tmp_path):
    with VendorRig(processes, tmp_path, 'crisp.yaml', max_steps=60) as rig, rig.desk() as desk:
        end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
        assert (end.state, end.verified) == (State.DONE, True)
        assert [slot.end for slot in end.slots] == ['timeout', 'timeout']


def test_a_blind_session_over_franka_ros2_robotiq_and_zed_wrappers(processes, tmp_path):
    need_ros_tools()
    ros = {name: value for name, value in environment().items() if name in ROS}
    with VendorRig(processes, tmp_path, 'franka_ros2_zed.yaml', FRANKA, max_steps=60,
                   environment=ros) as rig, rig.desk() as desk:
        end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
        assert (end.state, end.verified) == (State.DONE, True)
        assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
