"""Blind sessions over other packages' nodes: arm, gripper and cameras are fakes of theirs."""

import time

from ros_tools import environment, need_ros_tools
from vendor_rig import VendorRig

from arena_msgs.msg import ArmState
from arena_robot.nodes import qos
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

TASK = 'put the yellow cube in the bowl'
FRANKA = ('--controller', 'joint_trajectory_controller', '--gripper', 'ParallelGripperCommand')
ROS = ('PYTHONPATH', 'AMENT_PREFIX_PATH', 'LD_LIBRARY_PATH')


class Killing:
    """Kills all nodes of the lab with SIGKILL while A runs; starts them again once it ended."""

    def __init__(self, rig, desk, observer):
        self.rig, self.desk = rig, desk
        self.killed, self.ended, self.heard_s = False, None, 0.0
        self._arm = qos.subscription(observer, ArmState, f'/{rig.namespace}/arm_node/arm_state',
                                     self._hear, qos.SENSOR)

    def _hear(self, message):
        self.heard_s = time.monotonic()

    def __call__(self, state):
        run = self.desk.running()
        if state.state is State.RUNNING_A and not self.killed and run and run.steps >= 5:
            self.rig.kill('lab')
            self.killed = True
        elif state.state is State.SCORING_A and self.ended is None:
            self.ended = state.slots[0]
            begin_s = time.monotonic()
            self.rig.again('lab')
            self.until(lambda: self.heard_s > begin_s + 1.0)
            self.until(lambda: all((self.desk.frame_age_s(f'{role}_left') or 99.0) < 1.0
                                   for role in ('left', 'right', 'wrist')))

    def until(self, look):
        end_s = time.monotonic() + 60.0
        while not look():
            assert time.monotonic() < end_s, self.rig.said()
            time.sleep(0.1)


def test_a_blind_session_over_crisp_survives_the_death_of_the_vendors_nodes(processes, tmp_path,
                                                                            observer):
    with VendorRig(processes, tmp_path, 'crisp.yaml', max_steps=60) as rig, rig.desk() as desk:
        desk.watch_views()
        killing = Killing(rig, desk, observer)
        end = Scripted(desk, Script('ada', TASK, lambda: 0.5), killing).run()
        assert killing.ended.end == 'driver_error', killing.ended
        assert (end.state, end.verified) == (State.DONE, True)
        assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
        assert [slot.reruns for slot in end.slots] == [1, 0]


def test_a_blind_session_over_franka_ros2_robotiq_and_zed_wrappers(processes, tmp_path):
    need_ros_tools()
    ros = {name: value for name, value in environment().items() if name in ROS}
    with VendorRig(processes, tmp_path, 'franka_ros2_zed.yaml', FRANKA, max_steps=60,
                   environment=ros) as rig, rig.desk() as desk:
        end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
        assert (end.state, end.verified) == (State.DONE, True)
        assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
