"""
An arm that other people's controllers drive: the backend ``ros_control`` of arm_node.

It reads ``joint_states`` and sends targets to a CRISP controller or a joint_trajectory_controller.
Limits, watchdog and stop are the arm_node's, as for every driver.
"""

import threading
import time
from dataclasses import dataclass
from queue import Empty, Queue

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import Clock
from arena_robot.core.errors import ConfigError, DriverError, NotConnected
from arena_robot.core.observation import ArmState, Floats, RobotMode
from arena_robot.drivers.part import Opened
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.part_params import RosControlArmParams
from arena_robot.nodes.vendor.controllers import CommandChannel, JointReadings, Joints
from arena_robot.nodes.vendor.franka import FrankaReports
from arena_robot.robots.arms import Robot
from arena_robot.safety.filter import finite
from arena_robot.safety.kinematics import flange_pose
from arena_robot.safety.limits import motion_s
from arena_robot.safety.same_robot import require_description

PERIOD_S = 0.01        # of the targets of a motion, as for a controller at 100 Hz
FRESH_S = 0.2          # age of a reading that a motion may begin from
IGNORED_S = 1.5        # an arm that is
FAR_RAD = 0.05         # so far from its target for so long
STIRRED_RAD = 0.004    # and has not moved by more than noise is not driven
TRIPPED = (RobotMode.REFLEX, RobotMode.USER_STOPPED)


@dataclass
class _Stream:
    """Targets since the last stop: where the arm was, and whether it has moved since."""

    begin_s: float
    start: Floats
    followed: bool = False


class RosControlArm(Opened):
    """An arm behind joint_states and a controller's topic; see drivers/base.py."""

    def __init__(self, node: Node, robot: Robot, prefix: str, clock: Clock,
                 params: RosControlArmParams, command_timeout_s: float = 0.5) -> None:
        self._node, self._robot, self._clock, self._params = node, robot, clock, params
        self._prefix = prefix
        self._timeout_s = command_timeout_s
        names, limits = robot.joint_names(prefix), robot.limits
        self._low, self._high = np.array(limits.hardware_lower), np.array(limits.hardware_upper)
        self._readings = JointReadings(node.resolve_topic_name(params.joint_states), names,
                                       self._low, self._high, clock)
        self._channel = CommandChannel(node, params.controller, params.command_topic, names,
                                       robot)
        self.franka = FrankaReports(node, params.broadcaster, params.error_recovery,
                                    robot.joints)
        self._lock = threading.Lock()
        self._target: Floats | None = None
        self._stream: _Stream | None = None
        self._commanded_s = 0.0
        self._motion: threading.Event | None = None
        self._subscription: object = None

    def open(self) -> None:
        """Find state and controller; nothing is sent. Raises NotConnected, closed again."""
        try:
            self._subscription = qos.subscription(
                self._node, JointState, self._params.joint_states, self._readings.put, qos.SENSOR)
            self.franka.open()
            try:
                self._readings.wait(self._params.open_timeout)
            except DriverError as error:
                raise NotConnected(str(error)) from error
            self._channel.open(self._params.open_timeout)
            self._require_robot()
        except NotConnected:
            self._release()
            raise
        self._target, self._stream = None, None
        super().open()

    def close(self) -> None:
        """Stop and disconnect."""
        if self._open:
            self.stop()
        super().close()
        self._release()

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest state."""
        self._require_open('the arm')
        return self._state(self._readings.get(max_age_s))

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next new state."""
        self._require_open('the arm')
        return self._state(self._readings.wait(timeout_s))

    def command(self, command: ArmCommand) -> ArmCommand:
        """Send a target within the joints' ranges; it replaces the last one."""
        self._require_open('the arm')
        q = self._ready(command.q, 'an arm target')
        with self._lock:
            self._end_motion()
            self._send(q)
            self._commanded_s = time.monotonic()
        return ArmCommand(q, command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Start a min-jerk motion; a thread sends its targets at 100 Hz."""
        self._require_open('the arm')
        goal = self._ready(q, 'a goal')
        start = self._readings.get(FRESH_S).q
        time_s = motion_s(start, goal, duration_s, self._robot)
        with self._lock:
            self._end_motion()
            self._stream = None
            self._motion = over = threading.Event()
        threading.Thread(target=self._play, args=(start, goal, time_s, over), daemon=True,
                         name='ros_control motion').start()
        return time_s

    def stop(self) -> None:
        """Brake and hold; without a fresh reading, send the last target once more."""
        with self._lock:
            self._end_motion()
            self._stream, self._commanded_s = None, 0.0
            last = self._readings.last
            if not self._open or last is None:
                return
            age_s = (self._clock.now_ns() - last.stamp_ns) * 1e-9
            if age_s < FRESH_S or self._target is None:
                self._target = self._channel.stop(last, self._clock.now_ns(),
                                                  self._readings.ahead_ns)
            else:
                self._channel.send(self._target, None, self._clock.now_ns())

    def recover(self) -> None:
        """Clear a reflex with franka_ros2's action, where franka_msgs is installed; then hold."""
        self._require_open('the arm')
        self.franka.recover()
        self._channel.forget()
        self.stop()

    # -- inside ------------------------------------------------------------------------------

    def _release(self) -> None:
        self._channel.close()
        self.franka.close()
        made, self._subscription = self._subscription, None
        if made is not None:
            self._node.destroy_subscription(made)  # type: ignore[arg-type]

    def _require_robot(self) -> None:
        """Raise NotConnected unless the controllers' URDF is of this robot."""
        topic = self._params.robot_description
        if not topic:
            return
        descriptions: Queue[str] = Queue()
        made = qos.subscription(self._node, String, topic,
                                lambda message: descriptions.put(message.data), qos.LATCHED)
        try:
            require_description(descriptions.get(timeout=self._params.open_timeout), self._robot,
                                self._prefix)
        except Empty as error:
            raise NotConnected(
                f'nothing arrives on {self._node.resolve_topic_name(topic)}, so it is not known '
                f'whether the arm is a {self._robot.title}; start robot_state_publisher, or '
                'correct ros_control.robot_description') from error
        except ConfigError as error:
            raise NotConnected(str(error)) from error
        finally:
            self._node.destroy_subscription(made)

    def _ready(self, q: Floats, what: str) -> Floats:
        """Return ``q`` clipped to the joints' ranges; DriverError while it cannot be followed."""
        asked = finite(q, len(self._low), what)
        mode = self.franka.mode
        if mode in TRIPPED:
            raise DriverError(f"the arm is in {mode.name} ({', '.join(self.franka.errors)}); "
                              'recover it first')
        if words := self._problem():
            raise DriverError(words)
        return np.clip(asked, self._low, self._high)

    def _send(self, q: Floats) -> None:
        """Publish a target; the lock is held."""
        last = self._readings.last
        at = q if last is None else last.q
        if self._stream is None:
            self._stream = _Stream(time.monotonic(), at.copy())
        self._target = q.copy()
        self._channel.send(q, last, self._clock.now_ns(), self._readings.ahead_ns)

    def _end_motion(self) -> None:
        if self._motion is not None:
            self._motion.set()
            self._motion = None

    def _play(self, start: Floats, goal: Floats, time_s: float, over: threading.Event) -> None:
        begin_s = time.monotonic()
        while not over.is_set():
            s = min((time.monotonic() - begin_s) / time_s, 1.0)
            with self._lock:
                if over.is_set() or self._problem():
                    return
                self._send(start + s ** 3 * (10.0 - 15.0 * s + 6.0 * s * s) * (goal - start))
                if s >= 1.0:
                    self._end_motion()
                    return
            over.wait(PERIOD_S)

    def _state(self, read: Joints) -> ArmState:
        problem = self._problem()
        mode, errors = self.franka.mode, self.franka.errors
        if mode in (None, RobotMode.IDLE, RobotMode.MOVE):
            busy = time.monotonic() - self._commanded_s < self._timeout_s
            mode = RobotMode.MOVE if self._motion is not None or busy else RobotMode.IDLE
            if problem:
                mode, errors = RobotMode.OTHER, (problem, *errors)
        assert mode is not None
        target = self._target
        return ArmState(
            read.stamp_ns, q=read.q.copy(), dq=read.dq.copy(), tau=read.tau.copy(),
            tau_ext=self.franka.tau_ext.copy(),
            pose=flange_pose(read.q, self._robot.limits.chain),
            q_desired=(read.q if target is None else target).copy(), mode=mode, errors=errors,
            control_success_rate=self.franka.success_rate)

    def _problem(self) -> str:
        return self._channel.problem() or self._readings.clocks() or self._ignored()

    def _ignored(self) -> str:
        """Return, as a sentence, that the arm does not follow at all; or ''."""
        stream, last, target = self._stream, self._readings.last, self._target
        if stream is None or stream.followed or last is None or target is None:
            return ''
        if np.max(np.abs(last.q - stream.start)) > STIRRED_RAD:
            stream.followed = True
            return ''
        away = float(np.max(np.abs(target - last.q)))
        if away < FAR_RAD:
            stream.begin_s = time.monotonic()
            return ''
        if time.monotonic() - stream.begin_s < IGNORED_S:
            return ''
        return (f'the arm has not moved for {IGNORED_S:g} s and is {away:.2f} rad from its '
                f'target: {self._channel.controller} ignores {self._channel.topic}; is it active '
                '(`ros2 control list_controllers`), and is the robot enabled?')
