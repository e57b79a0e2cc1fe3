"""
Check of every command between its sender and the robot.

Every command to an arm is checked here: either a policy's action (:meth:`Safety.check`) or a raw
joint target (:meth:`Safety.guard_target`). A command that can be made safe is changed, and each
change is reported as a Clamp. An invalid command (wrong length, NaN) or state (an arm in reflex)
is a SafetyError; a reading that is too old is StaleData, the fault of its driver and not of the
policy. In both cases nothing may be sent. No input yields a target outside the limits.
"""

from collections.abc import Sequence

import numpy as np

from arena_robot.core.action import (
    Action,
    ActionSpace,
    Clamp,
    ClampReason,
    GripperCommand,
    SafeCommand,
)
from arena_robot.core.clock import Clock
from arena_robot.core.errors import SafetyError, StaleData
from arena_robot.core.observation import ArmState, Floats
from arena_robot.robots.arms import ArmLimits
from arena_robot.safety.action_spaces import target_function
from arena_robot.safety.bounds import Bounded, Links, bound_target, outside

REACHED = 0.8    # share of an asked motion; less is reported as a singularity
# Of the distance between links, on a planned way: an arm that stopped at it must find home.
PLANNED = 0.5


def needs_recovery(arm: ArmState) -> str:
    """Return why an arm cannot move, with the vendor's names of errors."""
    errors = f" ({', '.join(arm.errors)})" if arm.errors else ''
    return f'the arm is in {arm.mode.name}{errors}: recover it before it can move'


class Safety:
    """
    Converts requests to targets within ``limits``; has no state of its own.

    ``clock`` must use the same time as the stamps of the states.
    """

    def __init__(self, limits: ArmLimits, clock: Clock, max_state_age_s: float = 0.2) -> None:
        self.limits, self._links = limits, Links(limits)
        self._largest = {space: np.array(space.row.sized(limits.chain.units).largest)
                         for space in ActionSpace}
        self._clock = clock
        self._max_age_s = max_state_age_s

    def check(self, action: Action, arm: ArmState) -> SafeCommand:
        """
        Return the allowed command for ``action`` in the given state, with every clamp.

        The action's last number is the gripper's: it must be finite, and is otherwise not used.

        Raises SafetyError when the action or the state is not acceptable, StaleData when the
        state is too old.
        """
        to_target = target_function(action.space)
        largest = self._largest[action.space]
        values = finite(action.values, len(largest) + 1, f'{action.space.value} action')
        self._check_state(arm)
        clamps: list[Clamp] = []
        wanted = _in_range(values[:-1], largest, action.space, clamps)
        q, asked, reached = to_target(wanted, arm.q, self.limits)
        if asked.size:
            _report_ik(asked, reached, clamps)
        bounded = self._bound(q, arm, self.limits.max_joint_delta)
        return SafeCommand(bounded.q, (*clamps, *bounded.clamps))

    def guard_target(self, q: Floats, arm: ArmState) -> SafeCommand:
        """
        Return the joint target nearest to ``q`` (n,) that may be sent.

        Raises SafetyError and StaleData as :meth:`check` does.
        """
        wanted = finite(q, self.limits.joints, 'joint target')
        self._check_state(arm)
        bounded = self._bound(wanted, arm, self.limits.max_lead)
        return SafeCommand(bounded.q, bounded.clamps)

    def check_goal(self, q: Floats, arm: ArmState) -> Floats:
        """
        Return ``q`` (n,) if it is an allowed goal of a slow motion in joint space.

        A goal is never changed: a goal outside the limits, or a path that leaves the workspace or
        brings links too near each other, is a SafetyError. A path may start outside, so that an
        arm can be moved back, and with links that are near.
        """
        goal = finite(q, self.limits.joints, 'goal')
        if arm.recovery_required:
            raise SafetyError(needs_recovery(arm))
        start = finite(arm.q, self.limits.joints, 'measured joint state')
        low, high = self.limits.q_min, self.limits.q_max
        bad = np.flatnonzero((goal < low) | (goal > high))
        if bad.size:
            i = int(bad[0])
            raise SafetyError(f'goal of joint {i + 1} is {goal[i]:.3f} {self._unit(i)}, allowed '
                              f'are {low[i]:.3f} to {high[i]:.3f}')
        _, why = self._links.share(start, goal, PLANNED)
        if why:
            raise SafetyError(f'on the way to the goal {why}: move the arm away first')
        inside = False
        for part in np.linspace(0.0, 1.0, 25):
            excess = outside(start + part * (goal - start), self.limits)
            if excess > 0.0 and (inside or part == 1.0):
                raise SafetyError(f'the way to the goal leaves the workspace by {excess:.3f} m')
            inside = inside or excess <= 0.0
        return goal

    def check_path(self, times_s: Floats, q: Floats, arm: ArmState) -> None:
        """
        Raise SafetyError unless the samples ``q`` (k, n) of a path may all be followed.

        It must begin at the arm, stay within the limits of position, speed and workspace, and
        keep links apart. As for a goal, it may begin outside of them, but not come back outside.
        """
        if arm.recovery_required:
            raise SafetyError(needs_recovery(arm))
        start = finite(arm.q, self.limits.joints, 'measured joint state')
        away, most = np.abs(q[0] - start), self.limits.max_lead * self.limits.scale
        i = int(np.argmax(away / most))
        if away[i] > most[i]:
            raise SafetyError(f'the path begins {away[i]:.3f} {self._unit(i)} from joint {i + 1}, '
                              f'allowed are {most[i]:g}')
        speed = np.abs(np.diff(q, axis=0)) / np.diff(times_s)[:, None]
        if speed.size and np.any(speed > self.limits.dq_max * (1.0 + 1e-6)):
            i = int(np.argmax(np.max(speed / self.limits.dq_max, axis=0)))
            raise SafetyError(f'joint {i + 1} would move at {speed[:, i].max():.2f} '
                              f'{self._unit(i)}/s, allowed are {self.limits.dq_max[i]:.2f}')
        inside = False
        for k, place in enumerate(q):
            excess = self._excess(place)
            _, why = self._links.share(q[max(k - 1, 0)], place, PLANNED)
            if why:
                raise SafetyError(f'at {times_s[k]:.2f} s {why}')
            if excess and (inside or k == len(q) - 1):
                raise SafetyError(f'at {times_s[k]:.2f} s {excess}')
            inside = inside or not excess

    def _excess(self, q: Floats) -> str:
        """Return how joints at ``q`` lie outside position limits or workspace, or nothing."""
        low, high = self.limits.q_min, self.limits.q_max
        bad = np.flatnonzero((q < low - 1e-6) | (q > high + 1e-6))
        if bad.size:
            i = int(bad[0])
            return (f'joint {i + 1} would be at {q[i]:.3f} {self._unit(i)}, allowed are '
                    f'{low[i]:.3f} to {high[i]:.3f}')
        metres = outside(q, self.limits)
        return f'the path leaves the workspace by {metres:.3f} m' if metres > 0.0 else ''

    def _check_state(self, arm: ArmState) -> None:
        for name in ('q', 'dq'):
            finite(getattr(arm, name), self.limits.joints, f'measured {name}')
        if arm.recovery_required:
            raise SafetyError(needs_recovery(arm))
        age_s = (self._clock.now_ns() - arm.stamp_ns) * 1e-9
        if age_s > self._max_age_s:
            raise StaleData(f'the arm state is {age_s:.3f} s old, allowed are '
                            f'{self._max_age_s:g} s: is its driver still running?')

    def _unit(self, joint: int) -> str:
        return self.limits.chain.units[joint]

    def _bound(self, q: Floats, arm: ArmState, max_delta: float) -> Bounded:
        return bound_target(q, arm.q, arm.dq, arm.q_desired, max_delta, self.limits,
                            self._links)


def finite(values: Floats | Sequence[float], size: int, what: str) -> Floats:
    """Return ``values`` as (size,) float64; SafetyError when it has another shape or NaN."""
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise SafetyError(f'{what} is not numbers: {error}') from error
    if out.shape != (size,):
        raise SafetyError(f'{what} must have {size} numbers, found shape {out.shape}')
    if not np.all(np.isfinite(out)):
        raise SafetyError(f'{what} must be {size} finite numbers, found {out.tolist()}')
    return out


def clipped(command: GripperCommand) -> GripperCommand:
    """Return a command with each number within 0 to 1; SafetyError unless all are finite."""
    asked = finite([command.position, command.speed, command.force], 3, 'gripper command')
    position, speed, force = np.clip(asked, 0.0, 1.0).tolist()
    return GripperCommand(position, command.stamp_ns, speed, force)


def _in_range(arm: Floats, largest: Floats, space: ActionSpace, clamps: list[Clamp]) -> Floats:
    """Return the arm's numbers within the ranges of ``space``."""
    kept: Floats = np.clip(arm, -largest, largest)
    if not np.array_equal(kept, arm):
        i = int(np.argmax(np.abs(arm) - largest))
        clamps.append(clamp(ClampReason.ACTION_RANGE, arm, kept,
                            f'{space.value}[{i}] is {arm[i]:.4g}, allowed is ±{largest[i]:.4g}'))
    return kept


def _report_ik(asked: Floats, reached: Floats, clamps: list[Clamp]) -> None:
    """Report a flange motion that the joints can make only partly."""
    weight = np.array([1.0] * 3 + [0.5] * 3)
    size = float(np.linalg.norm(asked * weight))
    missed = float(np.linalg.norm((asked - reached) * weight))
    if missed > (1.0 - REACHED) * size and missed > 1e-3:
        clamps.append(clamp(ClampReason.SINGULARITY, asked, reached,
                            f'{100.0 * missed / size:.0f} % of the flange motion cannot be made: '
                            'a joint limit or a stretched arm is near'))


def clamp(reason: ClampReason, asked: Floats | Sequence[float], sent: Floats | Sequence[float],
          detail: str) -> Clamp:
    """Return a Clamp of plain floats."""
    return Clamp(reason, tuple(map(float, asked)), tuple(map(float, sent)), detail)
