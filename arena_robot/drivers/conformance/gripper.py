"""Checks of a gripper: first what moves nothing, then commands, then small motions."""

from arena_robot.core.action import GripperCommand
from arena_robot.core.conformance import Check
from arena_robot.core.errors import DriverError, SafetyError
from arena_robot.core.observation import GripperState, ObjectStatus
from arena_robot.drivers.base import Gripper
from arena_robot.drivers.conformance import any_part
from arena_robot.drivers.conformance.rig import GripperRig, hold, needed, refused


def state_is_in_range(rig: GripperRig) -> str:
    """Position is 0 open to 1 closed, and the width fits it."""
    with rig.opened() as gripper:
        state = gripper.state(rig.max_age_s)
    hold('a state', 0.0 <= state.position <= 1.0, f'position {state.position}',
         'scale the position: 0 is open, 1 is closed')
    width = rig.model.width_m(state.position)
    hold('a state', abs(state.width_m - width) <= 1e-3,
         f'width_m {state.width_m:.4f} at position {state.position:.3f}',
         f'return {rig.model.stroke_m} * (1 - position) m, as a {rig.model.title} has it')
    return f'position {state.position:.2f}'


def opening_moves_nothing(rig: GripperRig) -> str:
    """The fingers stay where they are while the gripper is opened, closed and opened again."""
    positions = []
    for _ in range(2):
        with rig.opened() as gripper:
            positions.append(gripper.state(rig.max_age_s).position)
            rig.advance(0.2)
            positions.append(gripper.state(rig.max_age_s).position)
    moved = abs(positions[2] - positions[1])
    hold('open, close, open', moved < 0.05, f'fingers that moved by {moved:.2f} of their stroke',
         'connect and read only; activate() is called when motion is wanted')
    return f'{moved:.3f} of the stroke'


def command_is_clipped_and_returned(rig: GripperRig) -> str:
    """A command is clipped to 0..1 and returned as it was sent; with a fault after activation."""
    with rig.opened() as gripper:
        if gripper.state(rig.max_age_s).fault:      # as after power-up
            gripper.activate()
        sent = gripper.command(GripperCommand(1.7, 55, speed=-1.0, force=0.5))
        gripper.stop()
    wanted = GripperCommand(1.0, 55, 0.0, 0.5)
    hold('a command with position 1.7, speed -1, force 0.5, stamp 55', sent == wanted, sent,
         f'clip each to 0..1 and return {wanted}')
    return 'clipped'


def nan_is_refused(rig: GripperRig) -> str:
    """A command that is not finite is refused."""
    with rig.opened() as gripper:
        refused('a command with position NaN',
                lambda: gripper.command(GripperCommand(float('nan'), 0)), SafetyError, 'finite')
    return 'SafetyError'


def closes_and_opens(rig: GripperRig) -> str:
    """The fingers go where they are told, and say whether they move."""
    with rig.opened() as gripper:
        for goal in (1.0, 0.0, 0.4):
            gripper.command(GripperCommand(goal, 0, speed=0.3))
            _moving(rig, gripper, goal)
            rig.advance(1.7)
            state = gripper.state(rig.max_age_s)
            hold(f'position {goal}', abs(state.position - goal) <= 0.03,
                 f'position {state.position:.2f} after 1.8 s', 'go to the position, 1 is closed')
            hold(f'position {goal}', state.object_status is ObjectStatus.AT_REQUESTED
                 and not state.is_moving, _words(state),
                 'report AT_REQUESTED and not is_moving at the goal; is something in the way?')
    return '1, 0, 0.4'


def stop_ends_a_motion(rig: GripperRig) -> str:
    """Stop keeps the fingers where they are."""
    with rig.opened() as gripper:
        gripper.command(GripperCommand(0.0, 0))
        rig.advance(1.5)
        gripper.command(GripperCommand(1.0, 0, speed=0.2))
        rig.advance(0.7)
        gripper.stop()
        stopped_at = gripper.state(rig.max_age_s).position
        rig.advance(0.5)
        later = gripper.state(rig.max_age_s).position
    hold('stop() while the fingers close', 0.1 < stopped_at < 0.9,
         f'position {stopped_at:.2f} after 0.7 s', 'scale speed: 0 is the slowest, 1 the fastest')
    hold('stop() while the fingers close', abs(later - stopped_at) <= 0.05,
         f'position {stopped_at:.2f}, then {later:.2f}', 'stop the fingers where they are')
    return f'at {stopped_at:.2f}'


def fault_wants_activation(rig: GripperRig) -> str:
    """After a fault the gripper refuses commands until activate()."""
    trip = needed(rig.trip, 'bring a fault about')
    try:
        with rig.opened() as gripper:
            trip()
            hold('a fault', bool(gripper.state(rig.max_age_s).fault), 'fault 0',
                 'report gFLT as fault')
            refused('a command then', lambda: gripper.command(GripperCommand(1.0, 0)),
                    DriverError, 'activate')
            gripper.activate()
            fault = gripper.state(rig.max_age_s).fault
            hold('activate()', not fault, f'fault {fault}',
                 'clear the fault')
            gripper.command(GripperCommand(1.0, 0))
            gripper.stop()
    finally:
        rig.mend()
    return 'activated'


STILL: tuple[Check[GripperRig], ...] = (
    *any_part.CHECKS, state_is_in_range, opening_moves_nothing)
COMMANDS: tuple[Check[GripperRig], ...] = (nan_is_refused, command_is_clipped_and_returned)
MOTIONS: tuple[Check[GripperRig], ...] = (
    stop_ends_a_motion, closes_and_opens, fault_wants_activation)


def _moving(rig: GripperRig, gripper: Gripper, goal: float) -> None:
    for _ in range(5):
        rig.advance(0.1 if rig.harmless else 0.05)
        if gripper.state(rig.max_age_s).is_moving:
            return
    hold(f'position {goal}', False, 'is_moving was never reported',
         'report is_moving while the fingers move')


def _words(state: GripperState) -> str:
    return f'{state.object_status.name}, is_moving {state.is_moving}'
