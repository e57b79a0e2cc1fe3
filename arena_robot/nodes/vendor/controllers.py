"""Joint states and targets of another package's controllers, and what is wrong with them."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, NotConnected, ReadTimeout, StaleData
from arena_robot.core.observation import Floats
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.endpoints import Way, ends, owner, strangers, type_name
from arena_robot.nodes.lib.part_params import COMMAND_TOPICS, CRISP
from arena_robot.nodes.remote.part import Newest
from arena_robot.robots.arms import Robot

FORWARD = 'std_msgs/msg/Float64MultiArray'
KINDS: dict[str, type] = {CRISP: JointState}
LISTENERS = ('recorder', 'rosbag2', 'ros2cli')
GRAPH_LOOK_S = 0.1    # the ROS graph is too slow to ask at every target
SHORTEST_S = 0.15     # of a trajectory; the next target comes after 67 ms, before it has ended
PEAK = 1.5            # of a cubic that begins and ends at rest, over its mean speed
STOP_S = 0.04         # least time of a stop: four periods of a controller at 100 Hz
CLOCKS_S = 0.05       # clocks of two synchronised machines differ by less
SILENT_S = 0.1        # ten periods of a joint_state_broadcaster at 100 Hz
SEEN, ENOUGH = 50, 10    # lags of messages that are kept, and that tell of a clock
OUTSIDE_RAD = 0.1     # a joint at its stop may read slightly beyond it


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
        if self._publisher is not None and time.monotonic() - self._looked_s > GRAPH_LOOK_S:
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


@dataclass(frozen=True)
class Joints:
    """One reading: positions rad, velocities rad/s, efforts N m, in the order of the names."""

    stamp_ns: int
    q: Floats
    dq: Floats
    tau: Floats


class JointReadings:
    """
    The joints ``names`` in the messages of a JointState topic, in whatever order they come.

    Messages about other joints only, such as a gripper's, are ignored. ``low`` and ``high`` are
    the ends of the joints' ranges: what is outside is no reading of this robot in radians.
    """

    def __init__(self, topic: str, names: list[str], low: Floats, high: Floats,
                 clock: Clock) -> None:
        self._topic, self._names, self._clock = topic, names, clock
        self._low, self._high = low - OUTSIDE_RAD, high + OUTSIDE_RAD
        self._newest: Newest[Joints] = Newest(topic, clock, lambda j: j.stamp_ns)
        self._last: Joints | None = None
        self._came_s = self._changed_s = 0.0
        self._wrong = ''
        self._lags: deque[float] = deque(maxlen=SEEN)

    def put(self, message: Any) -> None:
        """Take a JointState message."""
        if not any(name in self._names for name in message.name):
            if self._last is None:
                self._wrong = self._other_names(message)
            return
        try:
            read = self._read(message)
        except DriverError as error:
            self._wrong = str(error)
            return
        self._wrong = ''
        now_s = time.monotonic()
        self._came_s = now_s
        if self._last is not None and read.stamp_ns == self._last.stamp_ns:
            return
        self._lags.append((self._clock.now_ns() - read.stamp_ns) * 1e-9)
        self._last, self._changed_s = read, now_s
        self._newest.put(read)

    @property
    def last(self) -> Joints | None:
        """Return the newest reading, however old."""
        return self._last

    def get(self, max_age_s: float) -> Joints:
        """Return the newest reading; StaleData, with the reason, when it is too old."""
        try:
            joints = self._newest.get(max_age_s)
        except StaleData as error:
            words = str(error).partition(';')[0]
            raise StaleData(f'{words}: {self.problem()}') from error
        if self._wrong:
            raise DriverError(self._wrong)
        return joints

    def wait(self, timeout_s: float) -> Joints:
        """Return the next reading; ReadTimeout, with the reason, when none comes."""
        try:
            return self._newest.wait(timeout_s)
        except ReadTimeout as error:
            words = str(error).partition(';')[0]
            raise ReadTimeout(f'{words}: {self.problem()}') from error

    def problem(self) -> str:
        """Return, as a sentence, why there are no usable readings; or ''."""
        if self._wrong:
            return self._wrong
        now_s = time.monotonic()
        if self._last is None:
            return (f'nothing arrives on {self._topic}; is the joint_state_broadcaster active, in '
                    'the same ROS domain and namespace?')
        if now_s - self._came_s > SILENT_S:
            return (f'nothing has arrived on {self._topic} for {now_s - self._came_s:.1f} s: '
                    'did the controller manager or the robot stop?')
        if now_s - self._changed_s > CLOCKS_S:
            return (f'{self._topic} still arrives, but its stamp has stood still for '
                    f'{now_s - self._changed_s:.1f} s: the robot is no longer read; restart its '
                    'driver')
        return self.clocks()

    def clocks(self) -> str:
        """Return, as a sentence, how far the sender's clock is off; or '' within 50 ms."""
        if len(self._lags) < ENOUGH:
            return ''
        off_s = min(self._lags)
        if abs(off_s) <= CLOCKS_S:
            return ''
        way = 'behind' if off_s > 0.0 else 'ahead of'
        return (f"the stamps of {self._topic} are {abs(off_s) * 1e3:.0f} ms {way} this machine's "
                'clock; synchronise the machines (chrony)')

    def _read(self, message: Any) -> Joints:
        where = {name: i for i, name in enumerate(message.name)}
        missing = [name for name in self._names if name not in where]
        if missing:
            raise DriverError(f'{self._topic} has no joint {missing[0]}, it has '
                              f"{', '.join(message.name)}")
        order = [where[name] for name in self._names]
        q = _picked(message.position, order)
        if q is None or not np.all(np.isfinite(q)):
            raise DriverError(f'{self._topic} has no number for a position of the arm')
        self._in_radians(q)
        stamp_ns = convert.stamp_of(message.header.stamp)
        if not stamp_ns:
            raise DriverError(f'{self._topic} has no stamps, so the age of a reading is not known')
        dq, tau = _picked(message.velocity, order), _picked(message.effort, order)
        return Joints(stamp_ns, q, self._velocity(q, stamp_ns) if dq is None else dq,
                      np.zeros(len(order)) if tau is None else tau)

    def _velocity(self, q: Floats, stamp_ns: int) -> Floats:
        """Return the velocity by difference, for a topic without velocities."""
        last = self._last
        if last is None or stamp_ns <= last.stamp_ns:
            return np.zeros(len(q)) if last is None else last.dq
        return (q - last.q) / ((stamp_ns - last.stamp_ns) * 1e-9)

    def _in_radians(self, q: Floats) -> None:
        bad = np.flatnonzero((q < self._low) | (q > self._high))
        if bad.size:
            i = int(bad[0])
            degrees = np.all((np.radians(q) >= self._low) & (np.radians(q) <= self._high))
            advice = ('these are degrees, ROS uses radians (REP 103)' if degrees else
                      'is robot_type right?')
            raise DriverError(
                f'{self._topic}: {self._names[i]} is at {q[i]:.2f}, its range is '
                f'{self._low[i] + OUTSIDE_RAD:.2f} to {self._high[i] - OUTSIDE_RAD:.2f} rad: '
                f'{advice}')

    def _other_names(self, message: Any) -> str:
        return (f"{self._topic} has no joint {self._names[0]}, it has {', '.join(message.name)}; "
                'set robot_type and arm_prefix, or the topic (ros_control.joint_states)')


def _picked(values: Any, order: list[int]) -> Floats | None:
    """Return the numbers at ``order``; None where a message leaves them out."""
    numbers = np.asarray(values, dtype=np.float64)
    return numbers[order] if len(numbers) > max(order) else None
