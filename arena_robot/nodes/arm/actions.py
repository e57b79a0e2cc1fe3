"""Action servers of the arm: go_home, and with control_msgs follow_joint_trajectory."""

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.action import ActionServer, CancelResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup

from arena_msgs.action import MoveToJoints
from arena_robot.core.clock import LOOK_S, Clock
from arena_robot.core.errors import ArenaError
from arena_robot.core.observation import ArmState, Floats
from arena_robot.nodes.arm.commands import ArmCommands
from arena_robot.nodes.arm.trajectory import (
    SETTLE_S,
    FollowRequest,
    GoalCode,
    GoalEnd,
    GoalRefused,
    TrajectoryGoal,
    trajectory_goal,
)
from arena_robot.nodes.lib import convert
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import ArmParams

Interrupted = Callable[[ArmState, int], str]
Tell = Callable[[TrajectoryGoal, float, ArmState], None]


@dataclass(frozen=True)
class Follower:
    """
    Plays trajectories through ``commands``, in the time of ``clock``.

    ``goal_tolerance`` (rad) is the default at a goal, ``max_late_s`` how long ago a trajectory may
    have begun. ``wait`` lets time pass between two looks.
    """

    commands: ArmCommands
    clock: Clock
    goal_tolerance: float
    max_late_s: float
    wait: Callable[[float], None] = time.sleep

    def follow(self, request: FollowRequest, begin_ns: int | None, interrupted: Interrupted,
               tell: Tell) -> GoalEnd:
        """
        Return how the goal ended; then nothing is played any more, and after a failure it stops.

        ``begin_ns`` None begins once the path is checked. A stop or another command during the
        check refuses the goal. ``interrupted`` says from the state and the takeover number why it
        must end, ``tell`` gets the goal, the time since its begin and the state at every look.
        """
        before = self.commands.takeovers
        try:
            goal = self._accepted(request)
            begin_ns = self._begin_ns(begin_ns)
            takeover = self.commands.run(goal.path, begin_ns, goal.settle_s, before)
            begin_ns += self.clock.steady_ns() - self.clock.now_ns()    # steady from here on
        except GoalRefused as error:
            return GoalEnd(error.goal_code, str(error))
        except ArenaError as error:
            return GoalEnd(GoalCode.INVALID_GOAL, str(error))
        end: GoalEnd | None = None
        try:
            while end is None:
                end = self._look(goal, begin_ns, takeover, interrupted, tell)
                if end is None:
                    self.wait(LOOK_S)
        except ArenaError as error:
            end = GoalEnd(GoalCode.INVALID_GOAL, str(error))
        finally:
            reached = end is not None and end.code is GoalCode.SUCCESSFUL
            if self.commands.drop(takeover) and not reached:
                self.commands.guard.stop()
        return end

    def _accepted(self, request: FollowRequest) -> TrajectoryGoal:
        state = self.commands.guard.state()
        goal = trajectory_goal(request, self.commands.names, state.q_desired,
                               self.goal_tolerance)
        self.commands.guard.safety.check_path(*goal.path.sampled(), state)
        return goal

    def _begin_ns(self, wanted_ns: int | None) -> int:
        """Return when to begin; judged after the check, which can take half a second."""
        now_ns = self.clock.now_ns()
        late_s = 0.0 if wanted_ns is None else (now_ns - wanted_ns) * 1e-9
        if late_s > self.max_late_s:
            raise GoalRefused(GoalCode.OLD_HEADER_TIMESTAMP,
                              f'the trajectory should have begun {late_s:.3f} s ago')
        return now_ns if wanted_ns is None else wanted_ns

    def _look(self, goal: TrajectoryGoal, begin_ns: int, takeover: int, interrupted: Interrupted,
              tell: Tell) -> GoalEnd | None:
        playing = self.commands.playing
        state = self.commands.guard.state(0.5)
        elapsed_s = (self.clock.steady_ns() - begin_ns) * 1e-9
        tell(goal, elapsed_s, state)
        why = interrupted(state, takeover)
        if why:
            return GoalEnd(GoalCode.INVALID_GOAL, why)
        end = goal.judge(elapsed_s, state.q, state.dq)
        if end is None and not playing:
            return GoalEnd(GoalCode.INVALID_GOAL, self.commands.refusal or 'no longer played')
        return end


class ArmActions:
    """The action servers of an arm; each goal ends when it arrived, was cancelled or replaced."""

    def __init__(self, node: PartNode[ArmParams], commands: ArmCommands) -> None:
        self._node, self._commands, self._guard = node, commands, commands.guard
        group = ReentrantCallbackGroup()
        self._serve(MoveToJoints, '~/go_home', self._go_home, group)
        try:
            control = importlib.import_module('control_msgs.action')
        except ImportError:
            return
        self._control: Any = control.FollowJointTrajectory
        self._serve(self._control, '~/follow_joint_trajectory', self._follow, group)

    def _serve(self, kind: type, name: str, execute: Callable[[ServerGoalHandle], Any],
               group: ReentrantCallbackGroup) -> None:
        self._node.keep(ActionServer(
            self._node, kind, name, execute_callback=execute, callback_group=group,
            cancel_callback=lambda goal: CancelResponse.ACCEPT))

    # -- go_home -----------------------------------------------------------------------------

    def _go_home(self, handle: ServerGoalHandle) -> MoveToJoints.Result:
        request = handle.request
        result = MoveToJoints.Result(joint_names=self._commands.names)
        try:
            if not self._node.active:
                raise ArenaError('the arm node is not active')
            goal = convert.in_order(request.q or self._node.params.home,
                                    request.joint_names, self._commands.names)
            self._commands.drop()
            takeover = self._commands.takeovers
            duration_s = self._guard.move_to(goal, float(request.duration_s) or None)
            problem = self._watch(handle, goal, duration_s, takeover)
            state = self._guard.state()
            result.q = convert.doubles(state.q)
            result.error = float(np.max(np.abs(goal - state.q)))
        except ArenaError as error:
            problem = str(error)
        result.success, result.message = problem == '', problem or 'arrived'
        _end(handle, result.success)
        return result

    def _watch(self, handle: ServerGoalHandle, goal: Floats, duration_s: float,
               takeover: int) -> str:
        """Wait for the end of a motion; return the error, or an empty string."""
        clock = self._node.timeline.part
        begin_ns = clock.steady_ns()
        tolerance = self._node.params.goal_tolerance
        while True:
            state = self._guard.state(0.5)
            elapsed_s = (clock.steady_ns() - begin_ns) * 1e-9
            handle.publish_feedback(MoveToJoints.Feedback(
                joint_names=self._commands.names, q=convert.doubles(state.q),
                fraction=min(elapsed_s / duration_s, 1.0), duration_s=duration_s))
            problem = self._interrupted(handle, state, takeover)
            if problem:
                return problem
            error = float(np.max(np.abs(goal - state.q)))
            if elapsed_s >= duration_s and error < tolerance:
                return ''
            if elapsed_s > duration_s + SETTLE_S:
                return f'{error:.3f} rad from the goal after {elapsed_s:.1f} s'
            time.sleep(LOOK_S)

    def _interrupted(self, handle: ServerGoalHandle, state: ArmState, takeover: int) -> str:
        if self._commands.takeovers != takeover:
            return 'replaced by another command or a stop'
        if handle.is_cancel_requested:
            self._commands.drop(takeover)
            self._guard.stop()
            return 'cancelled: the arm holds'
        if state.recovery_required:
            return f"the arm is in {state.mode.name} ({', '.join(state.errors)})"
        if not self._node.active or not self._node.context.ok():
            return 'the arm node was deactivated'
        return ''

    # -- follow_joint_trajectory -------------------------------------------------------------

    def _follow(self, handle: ServerGoalHandle) -> Any:
        result, request = self._control.Result(), handle.request
        params, clock = self._node.params, self._node.timeline.part
        follower = Follower(self._commands, clock, params.goal_tolerance, params.max_command_age)
        if self._node.active:
            stamp = request.trajectory.header.stamp
            begin_ns = self._commands.part_stamp(stamp) if convert.stamp_of(stamp) else None
            end = follower.follow(
                request, begin_ns,
                lambda state, takeover: self._interrupted(handle, state, takeover),
                lambda goal, elapsed_s, state: handle.publish_feedback(
                    self._feedback(goal, elapsed_s, state)))
        else:
            end = GoalEnd(GoalCode.INVALID_GOAL, 'the arm node is not active')
        result.error_code, result.error_string = int(end.code), end.text
        _end(handle, end.code is GoalCode.SUCCESSFUL)
        return result

    def _feedback(self, goal: TrajectoryGoal, elapsed_s: float, state: ArmState) -> Any:
        """Return FollowJointTrajectory's feedback: desired, actual, and desired minus actual."""
        out = self._control.Feedback(joint_names=self._commands.names)
        out.header.stamp = convert.time_of(self._node.timeline.to_ros(state.stamp_ns))
        wanted, speed = goal.path.at(elapsed_s), goal.path.velocity_at(elapsed_s)
        for point, q, dq in ((out.desired, wanted, speed), (out.actual, state.q, state.dq),
                             (out.error, wanted - state.q, speed - state.dq)):
            point.positions, point.velocities = convert.doubles(q), convert.doubles(dq)
            point.time_from_start = _duration(max(elapsed_s, 0.0))
        return out


def _duration(seconds: float) -> Duration:
    return Duration(sec=int(seconds), nanosec=int((seconds % 1.0) * 1e9))


def _end(handle: ServerGoalHandle, success: bool) -> None:
    if handle.is_cancel_requested:
        handle.canceled()
    elif success:
        handle.succeed()
    else:
        handle.abort()
