"""Joint targets for another package's controller, over its topic."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from arena_robot.core.errors import NotConnected
from arena_robot.core.observation import Floats
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.endpoints import Way, ends, owner, strangers, type_name
from arena_robot.nodes.vendor.params import COMMAND_TOPICS, CRISP
from arena_robot.robots.arms import Robot

FORWARD = 'std_msgs/msg/Float64MultiArray'
KINDS: dict[str, type] = {CRISP: JointState}
LISTENERS = ('recorder', 'rosbag2', 'ros2cli')
LOOK_S = 0.1
SHORTEST_S = 0.15
PEAK = 1.5    # of a cubic that begins and ends at rest, over its mean speed
STOP_S = 0.04    # least time of a stop: four periods of a controller at 100 Hz


class CommandChannel:
    """
    The topic of a CRISP controller or a joint_trajectory_controller.

    A topic has one publisher: CRISP ignores all while it has two, and a trajectory controller
    follows each in turn. ``robot`` bounds the speed of a trajectory, and how it brakes.
    """

    def __init__(self, node: Node, controller: str, topic: str, names: Sequence[str],
                 robot: Robot) -> None:
        self._node, self._names, self._robot = node, list(names), robot
        self._dq_max = np.array(robot.joint_velocity)
        self.controller = controller
        self.topic = topic or COMMAND_TOPICS[controller]
        self._kind = KINDS.get(controller, JointTrajectory)
        self._publisher: Publisher | None = None
        self._looked_s, self._problem = 0.0, ''

    def open(self, timeout_s: float) -> None:
        """Find the controller and make the publisher. Raises NotConnected with what is wrong."""
        others = self._others()
        if others:
            raise NotConnected(self._contested(others))
        end_s = time.monotonic() + timeout_s
        while not self._hearers():
            if time.monotonic() > end_s:
                raise NotConnected(self._unheard())
            time.sleep(0.01)
        wrong = [info for info in self._hearers() if info.topic_type != type_name(self._kind)]
        if wrong:
            raise NotConnected(_wrong_type(self._node, self.topic, wrong[0], self.controller))
        others = self._others()
        if others:
            raise NotConnected(self._contested(others))
        self._publisher = qos.publisher(self._node, self._kind, self.topic, qos.COMMAND_SENT)
        self._looked_s, self._problem = time.monotonic(), ''

    def close(self) -> None:
        """Destroy the publisher; may be called twice."""
        made, self._publisher = self._publisher, None
        if made is not None:
            self._node.destroy_publisher(made)

    def problem(self) -> str:
        """Return, as a sentence, why targets do not reach the controller alone; or ''."""
        if self._publisher is not None and time.monotonic() - self._looked_s > LOOK_S:
            self._looked_s = time.monotonic()
            others = self._others()
            self._problem = self._contested(others) if others else (
                '' if self._hearers() else self._unheard())
        return self._problem

    def send(self, q: Floats, at: Floats, stamp_ns: int) -> None:
        """Publish the target ``q`` (7,) rad of an arm that is ``at`` (7,) rad."""
        publisher = self._publisher
        if publisher is None:
            return
        publisher.publish(convert.joint_state(stamp_ns, '', self._names, q)
                          if self.controller == CRISP else self._point(q, self._time_s(q, at)))

    def stop(self, q: Floats, dq: Floats, stamp_ns: int) -> Floats:
        """Have an arm at ``q`` (7,) rad that moves at ``dq`` (7,) rad/s stop; return where."""
        if self.controller == CRISP:
            self.send(q, q, stamp_ns)
            return q
        ahead, time_s = braking(q, dq, self._robot)
        if self._publisher is not None:
            self._publisher.publish(self._point(ahead, time_s))
        return ahead

    def _time_s(self, q: Floats, at: Floats) -> float:
        """Return a time in which no joint is too fast between two places, at rest in both."""
        return max(SHORTEST_S, float(np.max(PEAK * np.abs(q - at) / self._dq_max)))

    def _point(self, q: Floats, time_s: float) -> JointTrajectory:
        """Return a trajectory of one point, at rest."""
        seconds, nanoseconds = divmod(round(time_s * 1e9), 1_000_000_000)
        point = JointTrajectoryPoint(
            positions=convert.doubles(q), velocities=convert.doubles(np.zeros(len(q))),
            time_from_start=Duration(sec=seconds, nanosec=nanoseconds))
        return JointTrajectory(joint_names=self._names, points=[point])

    def _others(self) -> list[str]:
        return strangers(self._node, self.topic, self._node.get_fully_qualified_name())

    def _hearers(self) -> list[Any]:
        return [info for info in ends(self._node, self.topic, Way.SUBSCRIBES)
                if not any(word in info.node_name for word in LISTENERS)]

    def _contested(self, others: Sequence[str]) -> str:
        return (f"{self._node.resolve_topic_name(self.topic)} is also published by "
                f"{', '.join(others)}: two senders of one command; end the other one")

    def _unheard(self) -> str:
        name = self._node.resolve_topic_name(self.topic)
        return (f'no controller subscribes to {name}; activate it (`ros2 control '
                'list_controllers`), or correct ros_control.command_topic')


def braking(q: Floats, dq: Floats, robot: Robot) -> tuple[Floats, float]:
    """
    Return the point (7,) rad where a moving arm can rest, and in how many seconds.

    A joint_trajectory_controller begins at the measured position and speed, and so brakes evenly
    to a point ahead: sent back to ``q``, it would go on, turn and return, which takes twice as
    long.
    """
    time_s = max(STOP_S, float(np.max(np.abs(dq) / np.array(robot.joint_acceleration))))
    return q + 0.5 * time_s * dq, time_s


def _wrong_type(node: Node, topic: str, info: Any, controller: str) -> str:
    name = node.resolve_topic_name(topic)
    if info.topic_type == FORWARD:
        return (f'{owner(info)} takes {name} as {FORWARD}, as forward_position_controller and '
                'joint_group_position_controller do: it passes each number on without '
                'interpolation, so targets at 15 Hz are steps that a Franka answers with '
                'joint_motion_generator_velocity_discontinuity. Activate '
                'joint_trajectory_controller or an impedance controller of CRISP instead')
    return (f'{owner(info)} takes {name} as {info.topic_type}, which is not what a controller of '
            f'the kind {controller} takes; correct ros_control.controller or '
            'ros_control.command_topic')
