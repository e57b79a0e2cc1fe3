"""Joint states and targets of another package's controllers, and what is wrong with them."""

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rcl_interfaces.msg import ParameterValue
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from arena_robot.core.clock import Clock
from arena_robot.core.errors import DriverError, NotConnected, ReadTimeout, StaleData
from arena_robot.core.observation import Floats
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import parameters_of
from arena_robot.nodes.lib.endpoints import Way, ends, owner, strangers, type_name
from arena_robot.nodes.lib.part_params import COMMAND_TOPICS, CRISP, JTC
from arena_robot.nodes.remote.part import Newest
from arena_robot.robots.arms import Robot
from arena_robot.safety.limits import JointCourse

log = logging.getLogger(__name__)

FORWARD = 'std_msgs/msg/Float64MultiArray'
KINDS: dict[str, type] = {CRISP: JointState}
LISTENERS = ('recorder', 'rosbag2', 'ros2cli')
GRAPH_LOOK_S = 0.1    # the ROS graph is too slow to ask at every target
APART_RAD = 0.05      # an arm this far from where its course rests has been moved by others
ASK_S = 2.0           # until a controller has told its parameters; one that does not is taken
# What JTC has to be: below 100 Hz it computes further ahead than a course's lead.
LOWEST_HZ = 100
TOLD = ('command_interfaces', 'interpolation_method', 'joints', 'update_rate',
        'interpolate_from_desired_state', 'allow_trajectory_replacement')
WAY_OUT = ('use a joint_trajectory_controller over effort interfaces, or an impedance controller '
           'of CRISP')
CLOCKS_S = 0.05       # clocks of two synchronised machines differ by less
SILENT_S = 0.1        # ten periods of a joint_state_broadcaster at 100 Hz
SEEN, ENOUGH = 50, 10    # lags of messages that are kept, and that tell of a clock
OUTSIDE_RAD = 0.1     # a joint at its stop may read slightly beyond it


class CommandChannel:
    """
    The topic of a CRISP controller or a joint_trajectory_controller.

    A topic has one publisher: CRISP ignores all while it has two, and a trajectory controller
    follows each in turn. A trajectory controller begins at the measured state, which over a
    position interface is a jump, unless the points begin in the past: it gets the knots of a
    :class:`JointCourse`, which keeps the limits of ``robot``. ``course`` is None until then.
    """

    def __init__(self, node: Node, controller: str, topic: str, names: Sequence[str],
                 robot: Robot) -> None:
        self._node, self._names, self._robot = node, list(names), robot
        self._course: JointCourse | None = None
        self._ahead_ns = 0
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
        if self.controller == JTC:
            self._require_curves()
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

    def forget(self) -> None:
        """Let the next course begin where the arm is: its controller has begun anew."""
        self._course = None

    def send(self, q: Floats, at: 'Joints | None', now_ns: int, ahead_ns: int = 0) -> None:
        """Publish the target ``q`` (7,) rad; the other clock is ``ahead_ns`` of this one."""
        if self._publisher is None:
            return
        if self.controller == CRISP:
            self._publisher.publish(convert.joint_state(now_ns, '', self._names, q))
            return
        course = self._current(q, at, now_ns, ahead_ns)
        course.steer(q, now_ns)
        self._publisher.publish(self._points(course))

    def stop(self, at: 'Joints', now_ns: int, ahead_ns: int = 0) -> Floats:
        """Have an arm stop as soon as it may; return where it will rest, (7,) rad."""
        if self.controller == CRISP:
            self.send(at.q, at, now_ns)
            return at.q
        course = self._current(at.q, at, now_ns, ahead_ns)
        course.brake(now_ns)
        if self._publisher is not None:
            self._publisher.publish(self._points(course))
        return course.end.q

    def _current(self, q: Floats, at: 'Joints | None', now_ns: int, ahead_ns: int) -> JointCourse:
        """Return the course; a new one for an arm that rests elsewhere, by other hands."""
        course = self._course
        if course is None or (at is not None and now_ns > course.end.stamp_ns
                              and np.max(np.abs(course.end.q - at.q)) > APART_RAD):
            begin = (q, np.zeros(len(q))) if at is None else (at.q, at.dq)
            course = self._course = JointCourse(self._robot, *begin, now_ns)
            self._ahead_ns = ahead_ns    # it stays: what shifts a course's time is a jump
        return course

    def _points(self, course: JointCourse) -> JointTrajectory:
        """Return a course as a trajectory that begins in the past."""
        begin_ns = course.knots[0].stamp_ns
        points = []
        for knot in course.knots:
            seconds, nanoseconds = divmod(knot.stamp_ns - begin_ns, 1_000_000_000)
            points.append(JointTrajectoryPoint(
                positions=convert.doubles(knot.q), velocities=convert.doubles(knot.dq),
                accelerations=convert.doubles(knot.ddq),
                time_from_start=Duration(sec=seconds, nanosec=nanoseconds)))
        return JointTrajectory(header=convert.header(begin_ns + self._ahead_ns, ''),
                               joint_names=self._names, points=points)

    def _require_curves(self) -> None:
        """Raise NotConnected for a controller whose parameters say that it jumps or refuses."""
        info = self._hearers()[0]
        try:
            words = jtc_problem(jtc_values(self._node, owner(info)), self._names)
        except DriverError as error:
            log.warning('the parameters of %s are not known: %s', owner(info), error)
            return
        if words:
            raise NotConnected(f'{owner(info)}: {words}')

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


def jtc_values(node: Node, other: str) -> dict[str, Any]:
    """Return the parameters ``TOLD`` of a joint_trajectory_controller; DriverError if it fails."""
    told = parameters_of(node, other, TOLD, ASK_S)
    if len(told) != len(TOLD):    # a node in C++ answers nothing where one name is not declared
        told = [value for name in TOLD for value in (
            parameters_of(node, other, [name], ASK_S) or [ParameterValue()])]
    return {name: parameter_value_to_python(value)
            for name, value in zip(TOLD, told, strict=True)}


def jtc_problem(values: Mapping[str, Any], names: Sequence[str] = ()) -> str:
    """Return, as a sentence, why a joint_trajectory_controller cannot follow curves; or ''."""
    if values.get('interpolation_method') == 'none':
        return ('interpolation_method is none, so each point is a step: set it to splines, or '
                f'{WAY_OUT}')
    if values.get('allow_trajectory_replacement'):
        return ('allow_trajectory_replacement has a curve that begins in the past begin now, '
                'which is a jump: set it to false')
    if 0 < (rate := values.get('update_rate') or 0) < LOWEST_HZ:
        return (f'update_rate is {rate} Hz, and it follows a curve from {LOWEST_HZ} Hz on: raise '
                f'it, or {WAY_OUT}')
    joints = list(values.get('joints') or ())
    if names and joints and set(joints) != set(names):
        return (f"its joints are {', '.join(joints)}, and it refuses targets of "
                f"{', '.join(names)}: set its parameter joints, or arm_prefix and robot_type")
    return ''


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

    @property
    def ahead_ns(self) -> int:
        """Return how far the sender's clock is ahead of this one, 0 where it may be behind."""
        return round(max(0.0, -min(self._lags, default=0.0)) * 1e9)

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
