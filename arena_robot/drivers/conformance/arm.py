"""Checks of an arm: first what moves nothing, then commands, then small motions."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from arena_robot.core.action import ArmCommand
from arena_robot.core.conformance import Check, CheckFailed
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.core.observation import Floats, RobotMode
from arena_robot.drivers.base import Arm
from arena_robot.drivers.conformance import any_part
from arena_robot.drivers.conformance.rig import ArmRig, hold, needed, refused
from arena_robot.safety.limits import motion_s

PERIOD_S = 1 / 15    # the rate of the control loop
STEP_RAD = 0.1       # of a joint in the motions of the checks
_REST = 0.05         # rad/s
_SAME = 2e-3         # rad
_PER_JOINT = ('q', 'dq', 'tau', 'tau_ext', 'q_desired')


def state_has_its_shapes(rig: ArmRig) -> str:
    """A state has a number for each joint and a 6-number pose, all finite, in radians."""
    with rig.opened() as arm:
        state = arm.state(rig.max_age_s)
    sizes = {**dict.fromkeys(_PER_JOINT, rig.robot.joints), 'pose': 6}
    for name, size in sizes.items():
        values = np.asarray(getattr(state, name))
        hold('a state', values.shape == (size,), f'{name} of shape {values.shape}',
             f'return {name} with shape ({size},)')
        hold('a state', bool(np.all(np.isfinite(values))), f'{name} {values}',
             f'return finite numbers for {name}')
    hold('a state', bool(np.all(np.abs(state.q) < 2 * np.pi)), f'q {np.round(state.q, 2)}',
         'return joint angles in radians')
    return ', '.join(sizes)


def states_do_not_share_memory(rig: ArmRig) -> str:
    """Writing into a state changes no other."""
    with rig.opened() as arm:
        state = arm.state(rig.max_age_s)
        try:
            state.q[:] = 99.0
        except ValueError:
            return 'states cannot be written to'
        hold('99 written into q of a state', bool(np.all(arm.state(rig.max_age_s).q < 10.0)),
             'the next state has it too', 'copy the arrays of every state')
    return 'each has its own'


def opening_moves_nothing(rig: ArmRig) -> str:
    """The arm stays where it is while it is opened, closed and opened again."""
    positions = []
    for _ in range(2):
        with rig.opened() as arm:
            positions.append(arm.state(rig.max_age_s).q)
            rig.advance(0.2)
            positions.append(arm.state(rig.max_age_s).q)
    moved = float(np.max(np.abs(positions[2] - positions[1])))
    hold('open, close, open', moved < 0.02, f'a joint that moved by {moved:.3f} rad',
         'connect and read only; hold where the arm is')
    return f'at most {moved:.4f} rad'


def stop_always_works(rig: ArmRig) -> str:
    """Stop is accepted before open and at rest, and leaves the arm at rest."""
    rig.part.stop()
    with rig.opened() as arm:
        arm.stop()
        rig.advance(0.2)
        speed = float(np.max(np.abs(arm.state(rig.max_age_s).dq)))
    hold('stop()', speed < 0.2, f'a joint at {speed:.2f} rad/s after 0.2 s',
         'come to rest and hold')
    return 'accepted'


def command_returns_what_is_tracked(rig: ArmRig) -> str:
    """A command answers with the target that is tracked, under its own stamp."""
    with rig.opened() as arm:
        asked = ArmCommand(arm.state(rig.max_age_s).q_desired.copy(), rig.clock.now_ns())
        _tracked(rig, arm, asked)
    return 'the target where the arm stood'


def far_target_is_clipped(rig: ArmRig) -> str:
    """A target out of reach is replaced by one within the joints' ranges."""
    with rig.opened() as arm:
        sent = _tracked(rig, arm, ArmCommand(np.full(rig.robot.joints, 50.0), 1234))
        arm.stop()
    hold('a target of 50 rad', bool(np.all(np.abs(sent.q) < 5.0)), f'{sent.q} is tracked',
         'clip targets to the joint limits and return what is tracked')
    return 'clipped'


def bad_targets_are_refused(rig: ArmRig) -> str:
    """Targets that are not a finite number for each joint are refused by command and move_to."""
    count = rig.robot.joints
    with rig.opened() as arm:
        for q in (np.zeros(count - 1), np.full(count, np.nan), np.full(count, np.inf)):
            refused(f'command({q})', partial(arm.command, ArmCommand(q, 0)), SafetyError,
                    str(count))
            refused(f'move_to({q})', partial(arm.move_to, q), SafetyError, str(count))
    return 'SafetyError'


def moves_and_says_how_long_it_takes(rig: ArmRig) -> str:
    """A motion ends at its goal after the time that was said."""
    with _from_here(rig) as (arm, start):
        goal = _beside(rig, start, 2 * STEP_RAD)
        promised_s, again = arm.move_to(goal), arm.move_to(goal, 0.8)
        usual_s = motion_s(start, goal, None, rig.robot)
        hold('move_to of 0.2 rad', abs(promised_s - usual_s) < 1e-3, f'{promised_s} s',
             'return clamp(max(1, max|dq| * 8 / v_limit), 0, 4) s')
        hold('move_to of 0.2 rad in 0.8 s', again == 0.8, f'{again} s', 'return the duration')
        rig.advance(0.8 + 0.4 + rig.latency_s)
        state = arm.state(rig.max_age_s)
        _near(rig, 'move_to of 0.2 rad', state.q, goal, 0.005)
        hold('the mode after a motion', state.mode is RobotMode.IDLE, state.mode.name,
             'report IDLE once a motion has ended')
    return '0.8 s'


def stop_ends_a_motion(rig: ArmRig) -> str:
    """Stop brings a moving arm to rest on its way, and it stays there."""
    with _from_here(rig) as (arm, start):
        arm.move_to(_beside(rig, start, 2 * STEP_RAD), 1.6)
        rig.advance(0.6)
        arm.stop()
        rig.advance(0.3 + rig.latency_s)
        first = arm.state(rig.max_age_s)
        speed = float(np.max(np.abs(first.dq)))
        hold('stop() in the middle of a motion', speed < _REST,
             f'a joint at {speed:.2f} rad/s after 0.3 s', 'brake at once')
        rig.advance(1.2)
        _near(rig, 'stop() in the middle of a motion', arm.state(rig.max_age_s).q, first.q, 0.01)
    return 'at rest within 0.3 s'


def tracks_a_stream(rig: ArmRig) -> str:
    """The arm follows targets that come at 15 Hz."""
    with _from_here(rig) as (arm, start):
        goal = _beside(rig, start, STEP_RAD)
        for tick in range(30):
            part = min(1.0, (tick + 1) / 15)
            arm.command(ArmCommand(start + part * (goal - start), rig.clock.now_ns()))
            rig.advance(PERIOD_S)
        state = arm.state(rig.max_age_s)
        hold('targets at 15 Hz', state.mode is RobotMode.MOVE, state.mode.name,
             'report MOVE while targets are tracked')
        _near(rig, 'targets at 15 Hz', state.q, goal, 0.01)
    return f'{STEP_RAD} rad'


def holds_when_commands_end(rig: ArmRig) -> str:
    """The arm comes to rest and holds when no further command comes."""
    with _from_here(rig) as (arm, start):
        goal = _beside(rig, start, STEP_RAD)
        for tick in range(8):
            arm.command(ArmCommand(start + tick / 8 * (goal - start), rig.clock.now_ns()))
            rig.advance(PERIOD_S)
        rig.advance(1.5)
        first = arm.state(rig.max_age_s)
        rig.advance(0.5)
        state = arm.state(rig.max_age_s)
        speed = float(np.max(np.abs(state.dq)))
        hold('no command for 2 s', speed < _REST, f'a joint at {speed:.2f} rad/s',
             "hold when no command comes within the driver's command timeout")
        _near(rig, 'no command for 2 s', state.q, first.q, 0.01)
    return 'at rest'


def tripped_arm_wants_recovery(rig: ArmRig) -> str:
    """After a reflex or user stop the arm refuses commands until recover()."""
    trip = needed(rig.trip, 'trip the arm; press its user stop and look at arm_state')
    try:
        with rig.opened() as arm:
            trip()
            state = arm.state(rig.max_age_s)
            hold('a reflex or user stop', state.recovery_required and bool(state.errors),
                 f'mode {state.mode.name}, errors {state.errors}', "report the robot's mode and "
                 'its errors')
            refused('a command then', lambda: arm.command(ArmCommand(state.q, 0)), DriverError,
                    'recover')
            refused('move_to then', lambda: arm.move_to(state.q), DriverError, 'recover')
            arm.recover()
            state = arm.state(rig.max_age_s)
            hold('recover()', not state.recovery_required, state.mode.name,
                 'clear the error and hold')
            arm.command(ArmCommand(state.q, 0))
            arm.stop()
    finally:
        rig.mend()
    return 'recovered'


STILL: tuple[Check[ArmRig], ...] = (
    *any_part.CHECKS, state_has_its_shapes, states_do_not_share_memory, opening_moves_nothing,
    stop_always_works)
COMMANDS: tuple[Check[ArmRig], ...] = (
    command_returns_what_is_tracked, bad_targets_are_refused, far_target_is_clipped)
MOTIONS: tuple[Check[ArmRig], ...] = (
    stop_ends_a_motion, moves_and_says_how_long_it_takes, holds_when_commands_end,
    tracks_a_stream, tripped_arm_wants_recovery)


@contextmanager
def _from_here(rig: ArmRig) -> Iterator[tuple[Arm, Floats]]:
    """Open the arm, hand over where it stands, and move it back there afterwards."""
    with rig.opened() as arm:
        start = arm.state(rig.max_age_s).q.copy()
        yield arm, start
        rig.advance(arm.move_to(start) + 0.2)
        arm.stop()


def _beside(rig: ArmRig, start: Floats, by: float) -> Floats:
    """
    Return a target that is ``by`` away in the last joint, and less in each one before.

    A motion of one joint goes towards its middle.
    """
    goal: Floats = start.copy()
    count = rig.robot.joints
    for joint in rig.joints:
        way = by if len(rig.joints) > 1 or start[joint] < 0.0 else -by
        goal[joint] += way * rig.robot.limits.scale[joint] * (joint + count) / (2 * count - 1)
    return goal


def _near(rig: ArmRig, sent: str, q: Floats, goal: Floats, most: float) -> None:
    apart = float(np.max(np.abs(q - goal)))
    hold(sent, apart <= most, f'a joint {apart:.3f} rad from where it should be, accepted are '
         f'{most} rad', 'reach and hold the target; check order, signs and units of the joints')


def _tracked(rig: ArmRig, arm: Arm, asked: ArmCommand) -> ArmCommand:
    sent = arm.command(asked)
    tracked = arm.state(rig.max_age_s).q_desired
    end_ns = rig.clock.now_ns() + round(rig.latency_s * 1e9)
    while np.max(np.abs(tracked - sent.q)) >= _SAME and rig.clock.now_ns() < end_ns:
        tracked = arm.wait_state(2.0).q_desired
    if sent.stamp_ns != asked.stamp_ns:
        raise CheckFailed(f'a command stamped {asked.stamp_ns}', f'stamp {sent.stamp_ns}',
                          'return the stamp of the command')
    apart = float(np.max(np.abs(tracked - sent.q)))
    hold('a command', apart < _SAME, f'q_desired is {apart:.3f} rad from what it returned',
         'return the target that is really tracked, and report it as q_desired')
    return sent
