"""
Lifecycle node of a gripper with two fingers.

Its action is GripperCommand as in Humble and CRISP, or Jazzy's ParallelGripperCommand.
control_msgs has both; where it is not installed, arena_msgs has the first, with the same fields.
"""

import importlib
import math
import posixpath
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TransformStamped
from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from tf2_msgs.msg import TFMessage

from arena_msgs.action import GripperCommand as GripperCommandAction
from arena_msgs.msg import ArmLimits, GripperTarget, PolicyAction
from arena_msgs.msg import GripperState as GripperStateMessage
from arena_robot.core.action import GripperCommand
from arena_robot.core.errors import ArenaError, ConfigError, DriverError, NotConnected, SafetyError
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.base import Gripper, Part
from arena_robot.nodes import backends
from arena_robot.nodes.lib import convert, diagnostics, qos
from arena_robot.nodes.lib.part_node import CommandStamps, PartNode
from arena_robot.nodes.lib.part_params import PARALLEL, SINGLE, ArmParams, GripperParams
from arena_robot.nodes.lib.spin import run_node
from arena_robot.robots.arms import prefixed
from arena_robot.robots.grippers import GripperModel
from arena_robot.safety.action_spaces import binarised
from arena_robot.safety.filter import clipped, finite
from arena_robot.safety.watchdog import CommandWatchdog

GRIPPED = (ObjectStatus.GRIPPED_CLOSING, ObjectStatus.GRIPPED_OPENING)


def action_type(name: str) -> Any:
    """Return the type of the action; ConfigError where control_msgs is needed and missing."""
    try:
        return getattr(importlib.import_module('control_msgs.action'), name)
    except (ImportError, AttributeError) as error:
        if name == SINGLE:
            return GripperCommandAction
        raise ConfigError(f'gripper_action: {name} needs a control_msgs that has it, found '
                          f'{error}; install control_msgs, or use {SINGLE}') from error


class GripperAction:
    """Requests and answers of one of the two actions; ``joint`` is the finger joint's name."""

    def __init__(self, name: str, joint: str) -> None:
        self.type = action_type(name)
        self._parallel, self._joint = name == PARALLEL, joint

    def asked(self, goal: Any) -> tuple[float, float]:
        """Return position (rad) and effort (N, 0: as set) of a goal; SafetyError without one."""
        if not self._parallel:
            return float(goal.command.position), float(goal.command.max_effort)
        command: JointState = goal.command
        names = list(command.name) or [self._joint]
        if names != [self._joint] or len(command.position) != 1:
            raise SafetyError(f'the goal must have one position, of {self._joint}; found '
                              f'{len(command.position)} of {", ".join(names)}')
        return float(command.position[0]), float(command.effort[0]) if command.effort else 0.0

    def feedback(self, position: float, effort: float, stalled: bool, reached: bool) -> Any:
        """Return the feedback of a running goal."""
        if self._parallel:
            return self.type.Feedback(state=self._state(position, effort))
        return self._ended(self.type.Feedback, position, effort, stalled, reached)

    def result(self, position: float, effort: float, stalled: bool, reached: bool) -> Any:
        """Return the result of a goal."""
        return self._ended(self.type.Result, position, effort, stalled, reached)

    def _ended(self, kind: Any, position: float, effort: float, stalled: bool,
               reached: bool) -> Any:
        fields = ({'state': self._state(position, effort)} if self._parallel
                  else {'position': position, 'effort': effort})
        return kind(**fields, stalled=stalled, reached_goal=reached)

    def _state(self, position: float, effort: float) -> JointState:
        return JointState(name=[self._joint], position=[position], effort=[effort])


class GripperNode(PartNode[GripperParams]):
    """Publishes the gripper's state; accepts positions, policy actions and goals."""

    def __init__(self, name: str = 'gripper_node', **options: Any) -> None:
        super().__init__(name, GripperParams(), **options)

    def extra_params(self) -> None:
        """Declare the backend's own parameters."""
        prefix, self.model = self.params.arm_prefix, self.params.model
        self.joint = prefixed(self.model.joint, prefix)
        self.frame = prefixed(self.model.base_link, prefix)
        self.action = GripperAction(self.params.gripper_action, self.joint)
        self.backend = self.params.chosen_backend
        if not self.has_own_part:
            self._make = backends.choose(self, 'gripper', self.backend)

    def build_part(self) -> Part:
        """Return the driver of the parameter ``backend``."""
        return self._make()

    def on_open(self) -> None:
        """Offer topics, services and the action."""
        self.gripper = cast(Gripper, self.part)
        self.watchdog = CommandWatchdog(self.timeline.part, math.inf, self.params.max_command_age)
        self.rate = diagnostics.Rate(lambda: self.params.publish_rate)
        self.refusal = ''
        self._commanded_ns: int | None = None
        self._goals, self._force = 0, 0.0
        others = backends.of_other_nodes('gripper', self.backend)
        self._joints = None if others else self.keep(
            qos.publisher(self, JointState, 'joint_states'))
        self._finger = None if others else FingerTransform(self, self.model)
        self._state = self.keep(qos.publisher(self, GripperStateMessage, '~/gripper_state',
                                              qos.STATE))
        self._stamps = CommandStamps(self)
        for kind, topic, handle in (
                (GripperTarget, '~/target', self._on_target),
                (Float64, '~/command', lambda m: self._on_numbers(m.data)),
                (Float64MultiArray, '~/commands', lambda m: self._on_numbers(*_numbers(m))),
                (PolicyAction, self.params.policy_action_topic, self._on_action)):
            self.keep(qos.subscription(self, kind, topic, self._handler(topic, handle),
                                       qos.COMMAND))
        self._arm_joints = len(ArmParams().home)    # arm_node's default, until it says its own
        limits = posixpath.join(posixpath.dirname(self.params.policy_action_topic), 'limits')
        self.keep(qos.subscription(self, ArmLimits, limits, self._on_arm_limits, qos.LATCHED))
        self.trigger('stop', self._stop)
        self.trigger('reactivate_gripper', self._reactivate)
        self.keep(ActionServer(self, self.action.type, '~/gripper_cmd', self._execute,
                               callback_group=ReentrantCallbackGroup(),
                               cancel_callback=lambda goal: CancelResponse.ACCEPT))

    def on_params(self) -> None:
        """Take up a changed age of commands too."""
        super().on_params()
        if self._opened:
            self.watchdog.max_age_s = self.params.max_command_age

    def on_start(self) -> None:
        """Begin the publishing schedule now."""
        self._due_ns, self._published_ns = self.timeline.part.steady_ns(), 0

    def on_hold(self) -> None:
        """Stop the fingers."""
        self.gripper.stop()

    def stream_once(self) -> None:
        """Publish one reading when it is due."""
        clock = self.timeline.part
        clock.sleep_until_steady_ns(self._due_ns)
        self._due_ns = max(self._due_ns + round(1e9 / self.params.publish_rate),
                           clock.steady_ns())
        state = self.gripper.state(0.3)
        if state.stamp_ns == self._published_ns:
            return
        self._published_ns = state.stamp_ns
        self.rate.tick()
        stamp_ns = self.timeline.to_ros(state.stamp_ns)
        if self._joints:
            self._joints.publish(convert.joint_state(stamp_ns, self.frame, [self.joint],
                                                     np.array([self.angle(state.position)])))
        if self._finger:
            self._finger.publish(self.angle(state.position), stamp_ns)
        message = convert.gripper_state_message(state, stamp_ns, self.frame)
        message.command_age_s = self._command_age_s()
        self._state.publish(message)

    def report(self) -> Sequence[DiagnosticStatus]:
        """Return the status of stream and device."""
        try:
            state = self.gripper.state(10.0)
        except NotConnected:
            return ()
        values = {'position': f'{state.position:.3f}', 'object_status': state.object_status.name,
                  'fault': state.fault, 'current (A)': f'{state.current_a:.2f}',
                  'backend': self.backend, 'last refusal': self.refusal}
        out = self.stream_status('gripper', self.backend, self.rate, values)
        if state.fault:
            out.level, out.message = diagnostics.ERROR, (
                f'fault {state.fault}: call ~/reactivate_gripper')
        return (out,)

    def send(self, position: float, speed: float | None = None,
             force: float | None = None) -> None:
        """Go to ``position`` 0..1; SafetyError when it is not a number."""
        now = self.params
        clock = self.timeline.part
        sent = clipped(GripperCommand(
            position, clock.now_ns(), now.speed if speed is None else speed,
            now.force if force is None else force))
        self._goals += 1
        self.gripper.command(sent)
        self._commanded_ns, self._force = clock.steady_ns(), sent.force

    def angle(self, position: float) -> float:
        """Return the finger joint (rad) of a position 0..1."""
        return float(position) * self.model.closed_rad

    # -- inside ------------------------------------------------------------------------------

    def _handler(self, topic: str, handle: Callable[[Any], None]) -> Callable[[Any], None]:
        def receive(message: Any) -> None:
            if not self.active:
                return
            try:
                handle(message)
            except (SafetyError, DriverError) as error:
                self.refusal = f'{topic}: {error}'
                self.get_logger().warning(f'refused {self.refusal}', throttle_duration_sec=1.0)
        return receive

    def _on_target(self, message: GripperTarget) -> None:
        self.watchdog.accept(self._stamps.of(message.header.stamp))
        self.send(message.position, message.speed, message.force)

    def _on_numbers(self, *numbers: float) -> None:
        self.watchdog.accept(self._stamps.of(None))
        self.send(*numbers)

    def _on_arm_limits(self, message: ArmLimits) -> None:
        self._arm_joints = len(message.joint_names)

    def _on_action(self, message: PolicyAction) -> None:
        action = convert.action(message)
        values = finite(action.values, action.space.size(self._arm_joints),
                        f'{message.action_space} action')
        self.watchdog.accept(self._stamps.of(message.header.stamp))
        self.send(binarised(float(values[-1])))

    def _command_age_s(self) -> float:
        if self._commanded_ns is None:
            return float('nan')
        return (self.timeline.part.steady_ns() - self._commanded_ns) * 1e-9

    def _effort(self, state: GripperState) -> float:
        """Return the commanded force (N) while the gripper holds an object."""
        gripped = state.object_status in GRIPPED
        return self._force * self.model.effort_n if gripped else 0.0

    def _stop(self) -> str:
        self._goals += 1
        self.gripper.stop()
        return 'stopped'

    def _reactivate(self) -> str:
        self.gripper.activate()
        return 'activated'

    def _execute(self, handle: ServerGoalHandle) -> Any:
        stalled = reached = False
        position = force = 0.0
        try:
            wanted, effort = self.action.asked(handle.request)
            self.send(wanted / self.model.closed_rad, None,
                      effort / self.model.effort_n if effort > 0.0 else None)
            stalled, reached = self._follow(handle, wanted, self._goals)
            state = self.gripper.state(1.0)
            position, force = self.angle(state.position), self._effort(state)
        except ArenaError as error:
            self.get_logger().warning(f'gripper_cmd: {error}')
        if handle.is_cancel_requested:
            self._stop()
            handle.canceled()
        elif reached or (stalled and self.params.allow_stalling):
            handle.succeed()
        else:
            handle.abort()
        return self.action.result(position, force, stalled, reached)

    def _follow(self, handle: ServerGoalHandle, wanted: float,
                goal_number: int) -> tuple[bool, bool]:
        """Wait for the end of a goal; return whether it stalled and whether it was reached."""
        v, clock = self.params, self.timeline.part
        begin_ns = moved_ns = clock.steady_ns()
        last = float('nan')
        while (clock.steady_ns() - begin_ns) * 1e-9 < v.goal_timeout and self.active:
            state = self.gripper.state(1.0)
            at = self.angle(state.position)
            if not abs(at - last) < 1e-3:
                last, moved_ns = at, clock.steady_ns()
            reached = abs(at - wanted) <= v.goal_tolerance
            still_s = (clock.steady_ns() - moved_ns) * 1e-9
            stalled = state.object_status in GRIPPED and still_s >= v.stall_timeout
            handle.publish_feedback(
                self.action.feedback(at, self._effort(state), stalled, reached))
            if reached or stalled or handle.is_cancel_requested or self._goals != goal_number:
                return stalled, reached
            time.sleep(0.01)
        return False, False


def _numbers(message: Float64MultiArray) -> list[float]:
    """Return position, and speed and force where given."""
    numbers = list(message.data)
    if not 1 <= len(numbers) <= 3:
        raise SafetyError('~/commands takes position, speed and force, 1 to 3 numbers from 0 to '
                          f'1; found {len(numbers)}')
    return numbers


def main(args: Sequence[str] | None = None) -> int:
    """Run one gripper_node until it is interrupted."""
    return run_node(lambda spin: GripperNode(context=spin.context), args or sys.argv, threads=4)


class FingerTransform:
    """Publishes the finger's pose in the gripper's base link on ``tf``."""

    def __init__(self, node: PartNode[GripperParams], model: GripperModel) -> None:
        self._model, self._prefix = model, node.params.arm_prefix
        self._tf: Publisher | None = None
        if node.params.publish_tf:
            self._tf = node.keep(qos.publisher(node, TFMessage, 'tf', qos.STREAM))

    def publish(self, angle_rad: float, stamp_ns: int) -> None:
        """Publish the pose for the finger joint's position, while somebody listens."""
        if self._tf and self._tf.get_subscription_count():
            self._tf.publish(TFMessage(transforms=[
                finger_transform(self._model, self._prefix, angle_rad, stamp_ns)]))


def finger_transform(model: GripperModel, prefix: str, angle_rad: float,
                     stamp_ns: int) -> TransformStamped:
    """Return the finger's pose in the gripper's base link: turned about the negative y axis."""
    return convert.transform(
        stamp_ns, prefixed(model.base_link, prefix), prefixed(model.finger_link, prefix),
        model.joint_at, (0.0, -math.sin(angle_rad / 2), 0.0, math.cos(angle_rad / 2)))


if __name__ == '__main__':
    sys.exit(main())
