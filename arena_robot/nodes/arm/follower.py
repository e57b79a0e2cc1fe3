"""Follow one goal of follow_joint_trajectory: refuse it, play it, watch it, stop the arm."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from arena_robot.core.clock import LOOK_S, Clock
from arena_robot.core.errors import ArenaError
from arena_robot.core.observation import ArmState
from arena_robot.nodes.arm.commands import ArmCommands
from arena_robot.nodes.arm.trajectory import (
    FollowRequest,
    GoalCode,
    GoalEnd,
    GoalRefused,
    TrajectoryGoal,
    trajectory_goal,
)

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
            mine = self.commands.run(goal.path, begin_ns, goal.settle_s, before)
            begin_ns += self.clock.steady_ns() - self.clock.now_ns()    # steady from here on
        except GoalRefused as error:
            return GoalEnd(error.goal_code, str(error))
        except ArenaError as error:
            return GoalEnd(GoalCode.INVALID_GOAL, str(error))
        end: GoalEnd | None = None
        try:
            while end is None:
                end = self._look(goal, begin_ns, mine, interrupted, tell)
                if end is None:
                    self.wait(LOOK_S)
        except ArenaError as error:
            end = GoalEnd(GoalCode.INVALID_GOAL, str(error))
        finally:
            reached = end is not None and end.code is GoalCode.SUCCESSFUL
            if self.commands.drop(mine) and not reached:
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

    def _look(self, goal: TrajectoryGoal, begin_ns: int, mine: int, interrupted: Interrupted,
              tell: Tell) -> GoalEnd | None:
        playing = self.commands.playing
        state = self.commands.guard.state(0.5)
        elapsed_s = (self.clock.steady_ns() - begin_ns) * 1e-9
        tell(goal, elapsed_s, state)
        why = interrupted(state, mine)
        if why:
            return GoalEnd(GoalCode.INVALID_GOAL, why)
        end = goal.judge(elapsed_s, state.q, state.dq)
        if end is None and not playing:
            return GoalEnd(GoalCode.INVALID_GOAL, self.commands.refusal or 'no longer played')
        return end
