"""Lifecycle node of an arm; every command goes through the safety layer."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.publisher import Publisher
from sensor_msgs.msg import JointState

from arena_msgs.msg import ArmLimits as ArmLimitsMessage
from arena_msgs.msg import ArmState as ArmStateMessage
from arena_msgs.srv import SetCollisionBehavior
from arena_robot.core.errors import ArenaError, DriverError, NotConnected
from arena_robot.core.observation import ArmState, Floats, RobotMode
from arena_robot.drivers.base import Arm, Part
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.nodes import backends
from arena_robot.nodes.arm.actions import ArmActions
from arena_robot.nodes.arm.commands import ArmCommands
from arena_robot.nodes.arm.transforms import ArmTransforms
from arena_robot.nodes.lib import convert, diagnostics, qos
from arena_robot.nodes.lib.parameters import Current, declare
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import (
    ArmParams,
    LimitParams,
    ee_frame_of,
    reset_joints_within,
)
from arena_robot.nodes.lib.spin import run_node
from arena_robot.robots.arms import ArmLimits, Robot
from arena_robot.safety.filter import Safety
from arena_robot.safety.kinematics import frames, jacobian
from arena_robot.safety.limits import robot_of
from arena_robot.safety.reflexes import CollisionThresholds
from arena_robot.safety.same_robot import require_pose
from arena_robot.safety.watchdog import CommandWatchdog, StopOwner

OPENED_S = 5.0    # how old the reading may be that an arm was opened with
LAB_STOP = '~/stop was called; ~/resume releases it'
SESSION_STOP = 'STOP was pressed in a session; its next step releases it, or ~/session_resume'


class ArmNode(PartNode[ArmParams]):
    """Publishes the arm's state; accepts targets, actions, motions and stops."""

    def __init__(self, name: str = 'arm_node', **options: Any) -> None:
        super().__init__(name, ArmParams(), **options)

    def extra_params(self) -> None:
        """Declare the limits, whose defaults depend on the robot, and the backend's own."""
        v = self.params
        self.robot = robot = robot_of(v.robot_type)
        self._limits = Current(self, declare(self, LimitParams.of(robot.limits), 'limits.'),
                               'limits.', check=self._limits_of, then=self.on_params)
        self._limits_of(self._limits.values)
        self.joint_names = robot.joint_names(v.arm_prefix)
        self.link0 = robot.base_frame(v.arm_prefix)
        self.flange_frame = robot.flange_frame(v.arm_prefix)
        self.base_frame = v.base_frame or self.link0
        self.ee_frame = ee_frame_of(v)
        self.backend = v.chosen_backend
        if not self.has_own_part:
            self._make = backends.choose(self, 'arm', self.backend)

    @property
    def limits(self) -> ArmLimits:
        """The limits as they are now."""
        return self._limits.values.limits(self.params.robot_type)

    def on_params(self) -> None:
        """Take up tighter limits too, from the next command on."""
        super().on_params()
        if self._opened:
            self._limit()

    def build_part(self) -> Part:
        """Return the driver of the parameter ``backend``."""
        return self._make()

    def on_open(self) -> None:
        """Wrap the arm in GuardedArm; create topics, services and actions."""
        v, clock = self.params, self.timeline.part
        require_pose(cast(Arm, self.part).state(OPENED_S), self.robot)
        self.guard = GuardedArm(
            cast(Arm, self.part),
            Safety(self.limits, clock, max_state_age_s=v.max_state_age),
            CommandWatchdog(clock, v.command_timeout, v.max_command_age), self.robot)
        self.rate = diagnostics.Rate(lambda: self.params.joint_state_rate)
        # Where other nodes drive the arm, they publish its joints and its description too.
        others = backends.of_other_nodes('arm', self.backend)
        self._joints = None if others else self._publisher(JointState, 'joint_states')
        self._newest: ArmState | None = None
        self._measured = self._publisher(JointState, '~/measured_joint_states')
        self._desired = self._publisher(JointState, '~/desired_joint_states')
        self._torques = self._publisher(JointState, '~/external_joint_torques')
        self._pose = self._publisher(PoseStamped, '~/current_pose')
        self._wrench = self._publisher(WrenchStamped, '~/external_wrench_in_base_frame')
        self._state = self._publisher(ArmStateMessage, '~/arm_state', qos.STATE)
        self._transforms = None if others else ArmTransforms(self)
        self._told = self._publisher(ArmLimitsMessage, '~/limits', qos.LATCHED)
        self._limit()
        self.commands = ArmCommands(self, self.guard, self.joint_names, self.base_frame)
        self.actions = ArmActions(self, self.commands)
        stop_group = MutuallyExclusiveCallbackGroup()    # a stop does not wait for a recovery
        for name, reason, owner in (
                ('', LAB_STOP, StopOwner.LAB), ('session_', SESSION_STOP, StopOwner.SESSION)):
            self.trigger(f'{name}stop', partial(self._stop, reason, owner), stop_group)
            self.trigger(f'{name}resume', partial(self._resume, owner), stop_group)
        self.trigger('hold', self._hold, stop_group)
        self.trigger('error_recovery', self._recover)
        self.keep(self.create_service(SetCollisionBehavior, '~/set_collision_behavior',
                                      self._set_collision_behavior,
                                      callback_group=self.safe_group))

    def on_start(self) -> None:
        """Begin the publishing schedule now."""
        self._due_ns = self.timeline.part.steady_ns()
        self._state_due_ns = self._published_ns = 0

    def on_hold(self) -> None:
        """Stop and hold."""
        self.commands.drop()
        self.guard.stop()

    def stream_once(self) -> None:
        """Publish one reading when it is due; check the timeout of commands."""
        clock = self.timeline.part
        clock.sleep_until_steady_ns(self._due_ns)
        period_ns = round(1e9 / self.params.joint_state_rate)
        self._due_ns = max(self._due_ns + period_ns, clock.steady_ns())
        self.commands.play()
        if self.guard.watch():    # no warning: it would tell of each policy how slow it is
            self.get_logger().debug('no command for '
                                    f'{self.params.command_timeout:g} s: the arm holds')
        try:
            state = self.guard.state(0.2)
        except DriverError as error:
            self._publish_failure(error)
            raise
        if state.stamp_ns == self._published_ns:
            return
        self._published_ns, self._newest = state.stamp_ns, state
        self.rate.tick()
        self._publish(state, self.timeline.to_ros(state.stamp_ns))

    def report(self) -> Sequence[DiagnosticStatus]:
        """Return the stream's status and the robot's."""
        commands, watchdog = self.commands, self.guard.watchdog
        try:
            state = self.guard.state(10.0)
        except NotConnected:
            return ()
        level, text = diagnostics.OK, state.mode.name
        if watchdog.halted:
            level, text = diagnostics.WARN, f'halted: {watchdog.halted}'
        if state.mode is RobotMode.OTHER and state.errors:
            level, text = diagnostics.ERROR, '; '.join(state.errors)
        if state.recovery_required:
            level, text = diagnostics.ERROR, f'{state.mode.name}: call ~/error_recovery'
        values = {
            'robot mode': state.mode.name, 'current_errors': ', '.join(state.errors),
            'control_command_success_rate': f'{state.control_success_rate:.3f}',
            'command age (s)': f'{self._command_age_s():.3f}', 'backend': self.backend,
            'clamped commands': self.guard.clamp_count, 'refused commands': commands.refused,
            'last refusal': commands.refusal,
            'last clamp': '; '.join(c.detail for c in commands.clamps),
            'joint limit margin (rad)': f'{self._margin(state.q):.3f}'}
        ip = self.params.robot_ip if self.backend != 'sim' else 'sim'
        return (self.stream_status('joint states', ip, self.rate, {}),
                diagnostics.status(self, 'robot mode', ip, level, text, values))

    # -- inside ------------------------------------------------------------------------------

    def _limits_of(self, values: LimitParams) -> None:
        """Raise ConfigError for limits that are none, or that exclude the reset pose."""
        reset_joints_within(self.params.home, values.limits(self.params.robot_type))

    def _limit(self) -> None:
        """Give the guard the limits of position, speed and age, and publish them."""
        v, clock = self.params, self.timeline.part
        self.guard.limit(Safety(self.limits, clock, max_state_age_s=v.max_state_age))
        self.guard.watchdog.timeout_s = v.command_timeout
        self.guard.watchdog.max_age_s = v.max_command_age
        self._told.publish(
            convert.limits_message(self.limits, self.robot.name, self.joint_names,
                                   self.timeline.to_ros(clock.now_ns()), self.base_frame))

    def _publisher(self, kind: type, topic: str, profile: Any = qos.STREAM) -> Publisher:
        out: Publisher = self.keep(qos.publisher(self, kind, topic, profile))
        return out

    def _publish(self, state: ArmState, stamp_ns: int) -> None:
        if self._joints:
            self._joints.publish(convert.joint_state(stamp_ns, self.base_frame, self.joint_names,
                                                     state.q, state.dq, state.tau))
        if stamp_ns >= self._state_due_ns:
            period_ns = round(1e9 / self.params.arm_state_rate)
            late = stamp_ns - self._state_due_ns > period_ns
            self._state_due_ns = (stamp_ns if late else self._state_due_ns) + period_ns
            self._state.publish(self._arm_state(state, stamp_ns))
            self._publish_broadcast(state, stamp_ns)
            if self._transforms:
                self._transforms.publish(state.q, stamp_ns)

    def _publish_failure(self, error: DriverError) -> None:
        """Publish the last state again, with its old stamp and with what failed since."""
        if self._newest:
            state = replace(self._newest, mode=RobotMode.OTHER, errors=(str(error),))
            self._state.publish(self._arm_state(state, self.timeline.to_ros(state.stamp_ns)))

    def _publish_broadcast(self, state: ArmState, stamp_ns: int) -> None:
        """Publish the topics of Franka's state broadcaster that have subscribers."""
        base, names = self.base_frame, self.joint_names
        if self._measured.get_subscription_count():
            self._measured.publish(
                convert.joint_state(stamp_ns, base, names, state.q, state.dq, state.tau))
        if self._desired.get_subscription_count():
            self._desired.publish(convert.joint_state(stamp_ns, base, names, state.q_desired))
        if self._torques.get_subscription_count():
            self._torques.publish(convert.joint_state(stamp_ns, base, names, np.empty(0), None,
                                                      state.tau_ext))
        if self._pose.get_subscription_count():
            self._pose.publish(convert.pose_stamped(stamp_ns, base, state.pose))
        if self._wrench.get_subscription_count():
            force = external_wrench(state, self.robot)
            self._wrench.publish(convert.wrench(stamp_ns, base, force))

    def _arm_state(self, state: ArmState, stamp_ns: int) -> ArmStateMessage:
        out = convert.arm_state_message(state, stamp_ns, self.base_frame, self.joint_names)
        age_s = self._command_age_s()
        out.command_id = self.commands.command_id
        out.command_age_s = age_s
        out.clamp_count = self.guard.clamp_count
        moving = self.guard.watchdog.streaming or state.mode is RobotMode.MOVE
        out.is_holding = bool(self.guard.watchdog.halted) or not moving
        return out

    def _command_age_s(self) -> float:
        accepted_ns = self.commands.accepted_ns
        if accepted_ns is None:
            return float('nan')
        return (self.timeline.part.steady_ns() - accepted_ns) * 1e-9

    def _margin(self, q: Floats) -> float:
        return float(np.min(np.minimum(q - self.limits.q_min, self.limits.q_max - q)))

    def _stop(self, reason: str, owner: StopOwner) -> str:
        self.guard.halt(reason, owner)
        self.commands.drop()
        return f'stopped, and the arm holds: {reason}'

    def _hold(self) -> str:
        self.commands.drop()
        self.guard.stop()
        return 'the arm holds; newer commands are accepted'

    def _resume(self, owner: StopOwner) -> str:
        self.guard.resume(owner)
        still = self.guard.watchdog.halted
        return f'the arm still holds: {still}' if still else 'commands are accepted again'

    def _recover(self) -> str:
        begin_ns = self.timeline.part.steady_ns()
        self.commands.drop()
        self.guard.recover()
        took_s = (self.timeline.part.steady_ns() - begin_ns) * 1e-9
        return f'recovered in {took_s:.2f} s; the arm holds'

    def _set_collision_behavior(
            self, request: SetCollisionBehavior.Request, response: SetCollisionBehavior.Response
    ) -> SetCollisionBehavior.Response:
        try:
            self.guard.set_collision_behavior(CollisionThresholds(
                *(tuple(float(v) for v in getattr(request, f'{end}_{kind}_thresholds_nominal'))
                  for kind in ('torque', 'force') for end in ('lower', 'upper'))))
            response.success = True
        except ArenaError as error:
            response.error = str(error)
            self.get_logger().warning(f'set_collision_behavior: {error}')
        return response


def external_wrench(state: ArmState, robot: Robot) -> Floats:
    """Return the wrench (6,) N, N m at the flange, in base axes, that explains ``tau_ext``."""
    chain = robot.limits.chain
    J = jacobian(frames(state.q, chain), arm=chain)
    out: Floats = np.linalg.lstsq(J.T, state.tau_ext, rcond=None)[0]
    return out


def main(args: Sequence[str] | None = None) -> int:
    """Run one arm_node until it is interrupted."""
    return run_node(lambda spin: ArmNode(context=spin.context), args or sys.argv, threads=4)


if __name__ == '__main__':
    sys.exit(main())
