"""
Arm and Gripper interfaces over the topics of arm_node and gripper_node.

They implement drivers/base.py with the stamps of the messages, so a stale topic is a StaleData
error and not an old reading. Methods can be called from any thread except the executor's.
"""

import logging
import threading

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from arena_msgs.action import MoveToJoints
from arena_msgs.msg import ArmState as ArmStateMessage
from arena_msgs.msg import GripperState as GripperStateMessage
from arena_msgs.msg import GripperTarget
from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import DriverError, ReadTimeout, StaleData
from arena_robot.core.observation import DOF, ArmState, Floats, GripperState, RobotMode
from arena_robot.drivers.guarded import PEAK
from arena_robot.nodes import convert
from arena_robot.nodes.action_client import ThreadedActionClient
from arena_robot.nodes.calls import send_goal
from arena_robot.nodes.remote.camera import RemoteCamera
from arena_robot.nodes.remote.part import Newest, RemotePart
from arena_robot.safety.filter import finite
from arena_robot.safety.robots import PANDA, move_duration_s

log = logging.getLogger(__name__)
CLOSE_S = 0.5
__all__ = ['RemoteArm', 'RemoteCamera', 'RemoteGripper']


class RemoteArm(RemotePart):
    """Client of an arm_node; see :class:`arena_robot.drivers.base.Arm`."""

    def __init__(self, node: Node, name: str = 'arm_node', timeout_s: float = 5.0) -> None:
        super().__init__(node, name, timeout_s)
        self._newest: Newest[ArmStateMessage] = Newest(
            f'state of {name}', self._clock, lambda m: convert.stamp_of(m.header.stamp))
        self._failure = ''
        self._stamp_ns = 0
        self.frame = ''     # of the poses, as the node's messages say; '' before the first

    def open(self) -> None:
        """Connect to the node and wait for the first state."""
        self._subscribe(ArmStateMessage, 'arm_state', self._on_state)
        self._target = self._publisher(JointState, 'target_joint')
        self._offers('hold', 'stop', 'resume', 'error_recovery')
        self._home = ThreadedActionClient(self._node, MoveToJoints, f'{self._name}/go_home',
                                          callback_group=self._group)
        self._made.append(self._home.destroy)
        self._first(self._newest)
        self._matched(self._target)
        super().open()

    def close(self) -> None:
        """Stop the arm if it can be reached, and disconnect."""
        if self._open:
            try:
                self._call('hold', CLOSE_S)
            except DriverError as error:
                log.warning('the arm did not accept hold: %s', error)
        super().close()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state."""
        self._require_open(self._name)
        try:
            return convert.arm_state(self._newest.get(max_age_s))
        except StaleData as error:
            raise StaleData(self._with_failure(error)) from error

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state."""
        self._require_open(self._name)
        try:
            return convert.arm_state(self._newest.wait(timeout_s))
        except ReadTimeout as error:
            raise ReadTimeout(self._with_failure(error)) from error

    def _with_failure(self, error: Exception) -> str:
        return f'{self._failure} ({error})' if self._failure else str(error)

    def command(self, command: ArmCommand) -> ArmCommand:
        """Send a target; the node limits it again, and publishes the result in arm_state."""
        self._require_open(self._name)
        q = finite(command.q, DOF, 'arm target')
        self._ready()
        self._target.publish(convert.joint_state(command.stamp_ns, '', (), q))
        return ArmCommand(q, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a motion as soon as the node has accepted it."""
        self._require_open(self._name)
        goal_q = finite(q, DOF, 'goal')
        state = self._ready()
        shortest_s = float(np.max(PEAK * np.abs(goal_q - state.q) / PANDA.limits.dq_max))
        wanted_s = move_duration_s(state.q, goal_q) if duration_s is None else duration_s
        goal = MoveToJoints.Goal(q=convert.doubles(goal_q), duration_s=float(duration_s or 0.0))
        what = f'{self._name}/go_home'
        known = threading.Event()  # by its first feedback or its early end
        handle = send_goal(self._home, goal, self._timeout_s, what,
                           feedback=lambda _: known.set(), find_s=self._timeout_s)
        end = handle.get_result_async()
        end.add_done_callback(lambda _: known.set())
        if not known.wait(self._timeout_s):
            raise DriverError(f'{what} does not report that the arm moves')
        if end.done() and not end.result().result.success:
            raise DriverError(f'{what}: {end.result().result.message}')
        return max(wanted_s, shortest_s)

    def stop(self) -> None:
        """Come to rest and hold; newer commands are accepted. Nothing while not open."""
        if self._open:
            self._call('hold')
            self._settled(self._newest)

    def halt(self) -> None:
        """Stop, and refuse every command until :meth:`resume`."""
        self._call('stop')

    def resume(self) -> None:
        """Accept commands again after a halt."""
        self._call('resume')

    def recover(self) -> None:
        """Clear a reflex or user stop."""
        self._call('error_recovery')
        self._settled(self._newest)

    def _on_state(self, message: ArmStateMessage) -> None:
        """Take a state; the last one again, with errors, says why no newer one comes."""
        stamp_ns = convert.stamp_of(message.header.stamp)
        if stamp_ns == self._stamp_ns and message.errors:
            self._failure = f"{self._name}: {'; '.join(message.errors)}"
            return
        self._stamp_ns, self._failure = stamp_ns, ''
        self.frame = message.header.frame_id
        self._newest.put(message)

    def _ready(self) -> ArmState:
        """Return the state; DriverError while the arm must be recovered or is not followed."""
        state = self.state(1.0)
        if state.mode is RobotMode.OTHER and state.errors:
            raise DriverError('; '.join(state.errors))
        if state.recovery_required:
            raise DriverError(f"the arm is in {state.mode.name} ({', '.join(state.errors)}); "
                              'recover it first')
        return state


class RemoteGripper(RemotePart):
    """Client of a gripper_node; see :class:`arena_robot.drivers.base.Gripper`."""

    def __init__(self, node: Node, name: str = 'gripper_node', timeout_s: float = 5.0) -> None:
        super().__init__(node, name, timeout_s)
        self._newest: Newest[GripperStateMessage] = Newest(
            f'state of {name}', self._clock, lambda m: convert.stamp_of(m.header.stamp))

    def open(self) -> None:
        """Connect to the node and wait for the first state."""
        self._subscribe(GripperStateMessage, 'gripper_state', self._newest.put)
        self._target = self._publisher(GripperTarget, 'target')
        self._offers('stop', 'reactivate_gripper')
        self._first(self._newest)
        self._matched(self._target)
        super().open()

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state."""
        self._require_open(self._name)
        return convert.gripper_state(self._newest.get(max_age_s))

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next new state."""
        self._require_open(self._name)
        return convert.gripper_state(self._newest.wait(timeout_s))

    def command(self, command: GripperCommand) -> GripperCommand:
        """Send a position, speed and force, each clipped to 0..1; stamp 0 is the current time."""
        self._require_open(self._name)
        asked = finite([command.position, command.speed, command.force], 3, 'gripper command')
        sent = np.clip(asked, 0.0, 1.0)
        fault = self._newest.get(1.0).fault
        if fault:
            raise DriverError(f'gripper fault {fault}; activate() it again')
        position, speed, force = sent.tolist()
        self._target.publish(GripperTarget(
            header=convert.header(command.stamp_ns or self._clock.now_ns(), ''),
            position=position, speed=speed, force=force))
        return GripperCommand(position, command.stamp_ns, speed, force)

    def stop(self) -> None:
        """Stop the fingers. Nothing while not open."""
        if self._open:
            self._call('stop')
            self._settled(self._newest)

    def activate(self) -> None:
        """Activate the gripper again."""
        self._call('reactivate_gripper')
        self._settled(self._newest)
