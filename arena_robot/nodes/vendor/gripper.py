"""A gripper that ros2_control drives: the backend ``ros_control`` of gripper_node."""

import threading
import time
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from arena_robot.core.action import GripperCommand
from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.part import Opened
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import ServiceClients, ThreadedActionClient, find_action
from arena_robot.nodes.lib.endpoints import strangers
from arena_robot.nodes.lib.part_params import PARALLEL, TOPIC, RosControlGripperParams
from arena_robot.nodes.remote.part import Newest
from arena_robot.nodes.vendor.franka import imported
from arena_robot.robots.grippers import GripperModel
from arena_robot.safety.filter import clipped

SAME, MOVING = 0.005, 0.02    # share of the stroke; share per second
BEYOND = 0.15                 # of the closed position: how far outside its range a joint may be
CALL_S = 5.0                  # an activation opens and closes the fingers
GONE_S = 0.5                  # after such a silence, whoever drives the fingers may be another


class RosControlGripper(Opened):
    """
    A gripper behind joint_states and an action of control_msgs; see drivers/base.py.

    A goal is sent when the command changes, so 15 commands per second do not restart it, and when
    joint_states come back after a silence: their sender may have been restarted. Object status
    comes from the action's result: the vendor's node publishes neither status nor current.
    """

    def __init__(self, node: Node, joint: str, model: GripperModel, clock: Clock,
                 params: RosControlGripperParams) -> None:
        self._node, self._joint, self._model = node, joint, model
        self._clock, self._params = clock, params
        self._newest: Newest[GripperState] = Newest(
            node.resolve_topic_name(params.joint_states), clock, lambda s: s.stamp_ns)
        self._last: GripperState | None = None
        self._arrived_s = 0.0
        self._wrong = f'no joint {joint}'
        self._sent: tuple[float, float, float] | None = None
        self._stalled = False
        self._handle: Any = None
        self._goals = 0
        self._lock = threading.Lock()
        self._made: list[Any] = []
        self._services: ServiceClients | None = None
        self._action: Any = None

    def open(self) -> None:
        """Find state and action; nothing moves. Raises NotConnected, closed again."""
        try:
            self._open_command()
            self._subscription = qos.subscription(
                self._node, JointState, self._params.joint_states, self._on_joints, qos.SENSOR)
            self._made.append(lambda: self._node.destroy_subscription(self._subscription))
            try:
                self._newest.wait(self._params.open_timeout)
            except DriverError as error:
                raise NotConnected(f'{error} ({self._wrong})') from error
        except NotConnected:
            self._release()
            raise
        self._sent = None
        super().open()

    def close(self) -> None:
        """Disconnect; the fingers stay."""
        super().close()
        self._release()

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest state."""
        self._require_open('the gripper')
        if self._wrong:
            raise DriverError(self._wrong)
        return self._newest.get(max_age_s)

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next new state."""
        self._require_open('the gripper')
        return self._newest.wait(timeout_s)

    def command(self, command: GripperCommand) -> GripperCommand:
        """Send a goal if it differs from the last one; speed is the vendor's own."""
        self._require_open('the gripper')
        wanted = clipped(command)
        numbers = (wanted.position, wanted.speed, wanted.force)
        with self._lock:
            sent = self._sent
            if sent is None or max(abs(a - b) for a, b in zip(sent, numbers, strict=True)) > SAME:
                self._sent, self._stalled = numbers, False
                self._send(wanted.position, wanted.force)
        return wanted

    def stop(self) -> None:
        """Cancel the goal: the controller holds the fingers where they are."""
        if not self._open:
            return
        with self._lock:
            self._sent = None
            self._goals += 1
            handle, self._handle = self._handle, None
            if handle is not None:
                handle.cancel_goal_async()
            last = self._last
            if self._action is None and last is not None:
                self._publish(last.position)

    def activate(self) -> None:
        """Activate the gripper with the vendor's service, where there is one."""
        self._require_open('the gripper')
        if self._services is not None:
            name = self._params.reactivate
            self._services.trigger(name.rpartition('/')[2], CALL_S)

    # -- inside ------------------------------------------------------------------------------

    def _open_command(self) -> None:
        v, node = self._params, self._node
        if v.reactivate:
            other, _, name = v.reactivate.rpartition('/')
            self._services = ServiceClients(node, other, {name: Trigger})
            self._made.append(self._services.close)
        if v.command == TOPIC:
            others = strangers(node, v.name, node.get_fully_qualified_name())
            if others:
                raise NotConnected(f"{v.name} is also published by {', '.join(others)}: two "
                                   'senders of one command; end the other one')
            self._publisher = qos.publisher(node, Float64MultiArray, v.name, qos.COMMAND_SENT)
            self._made.append(lambda: node.destroy_publisher(self._publisher))
            return
        kind = imported('control_msgs.action', v.command)
        if kind is None:
            raise NotConnected(f'control_msgs is not installed here, so {v.name} cannot be called '
                               f'as {v.command}: apt install ros-jazzy-control-msgs, or source '
                               'the workspace that has it')
        self._kind = kind
        self._action = ThreadedActionClient(node, kind, v.name,
                                            callback_group=ReentrantCallbackGroup())
        self._made.append(self._action.destroy)
        find_action(self._action, v.open_timeout, f'{v.name} of the type control_msgs/action/'
                    f'{v.command} (ros_control.command)', NotConnected)

    def _release(self) -> None:
        while self._made:
            self._made.pop()()
        self._action = self._services = self._handle = None

    def _send(self, position: float, force: float) -> None:
        if self._action is None:
            self._publish(position)
            return
        self._goals += 1
        goal_number, goal = self._goals, self._kind.Goal()
        joint, effort = position * self._model.closed_rad, force * self._model.effort_n
        if self._params.command == PARALLEL:
            goal.command.name = [self._joint]
            goal.command.position = [joint]
            goal.command.effort = [effort] if effort else []
        else:
            goal.command.position, goal.command.max_effort = joint, effort
        self._action.send_goal_async(goal).add_done_callback(
            lambda future: self._accepted(goal_number, future.result()))

    def _publish(self, position: float) -> None:
        self._publisher.publish(Float64MultiArray(data=convert.doubles(
            [position * self._model.closed_rad])))

    def _accepted(self, goal_number: int, handle: Any) -> None:
        if handle is None or not handle.accepted:
            self._node.get_logger().warning(f'{self._params.name} refused a goal',
                                            throttle_duration_sec=1.0)
            return
        with self._lock:
            if goal_number != self._goals:    # a stop or a newer goal came first
                handle.cancel_goal_async()
                return
            self._handle = handle
        handle.get_result_async().add_done_callback(
            lambda future: self._ended(goal_number, future.result()))

    def _ended(self, goal_number: int, answer: Any) -> None:
        if goal_number == self._goals and answer is not None:
            self._stalled = bool(answer.result.stalled)

    def _on_joints(self, message: JointState) -> None:
        now_s = time.monotonic()
        if now_s - self._arrived_s > GONE_S:
            with self._lock:
                self._sent = None
        self._arrived_s = now_s
        if self._joint not in message.name:
            if self._last is None:
                self._wrong = (f"{self._params.joint_states} has no joint {self._joint}, it has "
                               f"{', '.join(message.name)}; set ros_control.joint or arm_prefix")
            return
        at = float(message.position[list(message.name).index(self._joint)])
        closed_rad = self._model.closed_rad
        if not -BEYOND <= at / closed_rad <= 1.0 + BEYOND:
            self._wrong = (f'{self._joint} is at {at:.2f}, its range is 0 to '
                           f'{closed_rad:g} rad: degrees, millimetres, or another '
                           'gripper_closed_position?')
            return
        stamp_ns = convert.stamp_of(message.header.stamp)
        last = self._last
        if last is not None and stamp_ns == last.stamp_ns:
            return
        position = float(np.clip(at / closed_rad, 0.0, 1.0))
        self._wrong = ''
        self._last = self._state(position, stamp_ns, last)
        self._newest.put(self._last)

    def _state(self, position: float, stamp_ns: int, last: GripperState | None) -> GripperState:
        moving = False
        if last is not None and stamp_ns > last.stamp_ns:
            moving = abs(position - last.position) / ((stamp_ns - last.stamp_ns) * 1e-9) > MOVING
        sent = self._sent
        status = (ObjectStatus.GRIPPED_CLOSING if self._stalled else
                  ObjectStatus.MOVING if moving else ObjectStatus.AT_REQUESTED)
        return GripperState(stamp_ns, position, self._model.width_m(position),
                            position if sent is None else sent[0], moving, status)

