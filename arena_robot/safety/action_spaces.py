"""
DROID's four action spaces as joint targets, by DROID's formulas, and layouts as one of the four.

Velocities are fractions in [-1, 1] of the largest motion of one 15 Hz step: 0.2 rad per joint,
0.075 m, 0.15 rad of rotation. A joint target is the measured position plus such a motion: an
offset of the controller's spring, not a speed set point.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from arena_robot.core.action import ActionSpace, handled
from arena_robot.core.errors import ConfigError, SafetyError
from arena_robot.core.observation import Floats
from arena_robot.robots.action_spaces import MIXED, ActionLayout, Slice, SliceMeaning
from arena_robot.robots.arms import (
    MAX_JOINT_DELTA,
    MAX_LINEAR_DELTA,
    MAX_ROTATION_DELTA,
    PANDA,
    ArmLimits,
    Chain,
)
from arena_robot.safety.kinematics import (
    END,
    add_poses,
    flange_pose,
    frames,
    jacobian,
    joint_step,
    pose_difference,
    pose_of,
)

# Joint target (n,), then the flange motion (6,) asked for and found: empty where nothing had
# to be solved.
Target = tuple[Floats, Floats, Floats]
TargetFunction = Callable[[Floats, Floats, ArmLimits], Target]
_NONE: Floats = np.empty(0)
TURN = {'rad': 1.0, 'deg': math.pi / 180.0}             # units of an angle, in rad
LENGTH = {'m': 1.0, 'cm': 0.01, 'mm': 0.001}            # of a way, in m
OF_JOINTS, OF_FLANGE = ('joint_position',), ('flange_position', 'flange_rotation')


def joint_velocity_target(velocity: Floats, q: Floats,
                          limits: ArmLimits = PANDA.limits) -> Floats:
    """Return q + 0.2 v (n,) rad; v is scaled as a whole when any |v_i| exceeds 1."""
    largest = float(np.max(np.abs(velocity)))
    reach = MAX_JOINT_DELTA * limits.scale
    return q + reach * (velocity / largest if largest > 1.0 else velocity)


def cartesian_motion(velocity: Floats) -> Floats:
    """Return the flange motion (6,) m, rad; linear and angular parts each of norm 1 at most."""
    return np.concatenate([MAX_LINEAR_DELTA * _within_unit(velocity[:3]),
                           MAX_ROTATION_DELTA * _within_unit(velocity[3:])])


def cartesian_position_velocity(target: Floats, pose: Floats) -> Floats:
    """Return the cartesian velocity (6,), not yet normalised, towards a target pose."""
    delta = pose_difference(target, pose)
    out: Floats = delta / np.array([MAX_LINEAR_DELTA] * 3 + [MAX_ROTATION_DELTA] * 3)
    return out


def cartesian_target(velocity: Floats, q: Floats, limits: ArmLimits) -> Target:
    """
    Return the joint target (n,), and the requested and achieved flange motion (6,).

    The joint motion of the IK is treated as a joint velocity, as DROID does.
    """
    jac = jacobian(frames(q, limits.chain), arm=limits.chain)
    asked = cartesian_motion(velocity)
    step = joint_step(asked, q, jac, limits, MAX_JOINT_DELTA)
    share = step / (MAX_JOINT_DELTA * limits.scale)
    return joint_velocity_target(share, q, limits), asked, jac @ step


def _within_unit(v: Floats) -> Floats:
    norm = float(np.linalg.norm(v))
    return v / norm if norm > 1.0 else v


def binarised(position: float) -> float:
    """Return 1 (closed) for ``position > 0.5``, else 0 (open)."""
    return 1.0 if position > 0.5 else 0.0


def target_function(space: ActionSpace) -> TargetFunction:
    """
    Return what turns the arm numbers of an action in ``space`` into a joint target.

    Raises SafetyError for a space that is not in the table: nothing may be sent for it.
    """
    try:
        return TARGETS[space]
    except KeyError:
        name = space.value if isinstance(space, Enum) else space
        raise SafetyError(f"no action space '{name}' is known to "
                          f"safety, only {', '.join(known.value for known in TARGETS)}: "
                          'refused') from None


def _joint_position(values: Floats, q: Floats, limits: ArmLimits) -> Target:
    return np.array(values, dtype=np.float64), _NONE, _NONE


def _joint_velocity(values: Floats, q: Floats, limits: ArmLimits) -> Target:
    return joint_velocity_target(values, q, limits), _NONE, _NONE


def _cartesian_position(values: Floats, q: Floats, limits: ArmLimits) -> Target:
    pose = pose_of(frames(q, limits.chain)[END])
    return cartesian_target(cartesian_position_velocity(values, pose), q, limits)


TARGETS = handled({
    ActionSpace.JOINT_POSITION: _joint_position,
    ActionSpace.JOINT_VELOCITY: _joint_velocity,
    ActionSpace.CARTESIAN_POSITION: _cartesian_position,
    ActionSpace.CARTESIAN_VELOCITY: cartesian_target,
}, 'safety.action_spaces.TARGETS')


@dataclass(frozen=True)
class LayoutDrive:
    """
    How an action in a layout becomes one in ``space``, which is then checked like any other.

    The arm's number k is ``factors[k]`` times the number ``columns[k]`` of the action plus
    ``offsets[k]``, and with ``adds`` it is added to the last target, except for the joints
    ``fingers``. The gripper's, at ``gripper``, is ``opened`` or ``closed``. ``rate_hz`` is the
    layout's, ``chain`` the arm's.
    """

    space: ActionSpace
    columns: tuple[int, ...]
    factors: tuple[float, ...]
    gripper: int
    opened: float
    closed: float
    adds: bool
    rate_hz: float
    chain: Chain
    offsets: tuple[float, ...]
    fingers: tuple[int, ...]

    @property
    def plain(self) -> bool:
        """Whether an action in the layout is the same numbers as one in ``space``."""
        return not self.adds and set(self.factors) == {1.0} and (self.opened, self.closed) == (
            0.0, 1.0) and self.columns == tuple(range(self.gripper)) and not self.fingers

    def action(self, values: Floats, base: Floats) -> Floats:
        """
        Return ``values`` (size,) of the layout as an action (size,) in ``space``.

        ``base`` (n,) rad, or m where a joint slides, is the last target that the arm accepted, or
        the measured joints where there is none.
        """
        arm = values[list(self.columns)] * self.factors + self.offsets
        if self.adds and self.space is ActionSpace.JOINT_POSITION:
            added = np.array(base)
            added[list(self.fingers)] = 0.0
            arm = added + arm
        elif self.adds:
            arm = add_poses(arm, flange_pose(base, self.chain))
        grip = (values[self.gripper] - self.opened) / (self.closed - self.opened)
        return np.append(arm, grip)


# Of another arm's hand the number of its finger's joint, and where that is closed and open.
Hand = tuple[int, float, float]


def layout_drive(layout: ActionLayout, arm: str, limits: ArmLimits,
                 grippers: Mapping[str, tuple[float, float]],
                 hands: Mapping[str, Hand] | None = None) -> LayoutDrive:
    """
    Return how the part ``arm`` is driven in a layout; ``grippers`` are open and closed by part.

    A change of the state becomes a share of DROID's largest step, all others an absolute target.
    ``hands`` are those grippers whose finger is a joint of the arm. Raises ConfigError with what
    of the layout cannot be driven.
    """
    hands, (parts, held, grips) = hands or {}, _sorted(layout, grippers, hands or {})
    space, meaning = _space_of(parts, held, grips, arm), parts[0][0].meaning
    made = {hands[part.name][0]: _of_finger(part, at, grippers[part.name], hands[part.name])
            for part, at in held}
    fingers = tuple(sorted(made))
    free = iter([i for i in range(limits.joints if space.row.of_joints else 6) if i not in made])
    for part, at in parts:
        which = [i for _, i in zip(range(part.size), free, strict=False)]
        made |= {i: (at + k, float(factor), 0.0) for k, (i, factor) in enumerate(zip(
            which, _factors(part, layout.rate, limits, which), strict=False))}
    columns, factors, offsets = zip(*(made[i] for i in sorted(made)), strict=True)
    (grip, place), (opened, closed) = grips[0], grippers[grips[0][0].name]
    return LayoutDrive(
        space, columns, factors, place, opened / grip.one, closed / grip.one,
        meaning in (SliceMeaning.DELTA_TARGET, SliceMeaning.VELOCITY), layout.rate,
        limits.chain, offsets, fingers)


# A slice, and the number of its first column.
Placed = list[tuple[Slice, int]]


def _sorted(layout: ActionLayout, grippers: Collection[str],
            hands: Collection[str]) -> tuple[Placed, Placed, Placed]:
    """Return the slices of arms, by name, of other arms' hands, and of the station's gripper."""
    starts = np.cumsum([0, *(part.size for part in layout.slices)])
    slices = [(part, int(at)) for part, at in zip(layout.slices, starts, strict=False)]
    return (sorted((each for each in slices if each[0].name not in grippers),
                   key=lambda each: each[0].name),
            [each for each in slices if each[0].name in hands],
            [each for each in slices if each[0].name in grippers and each[0].name not in hands])


def _space_of(parts: Placed, held: Placed, grips: Placed, arm: str) -> ActionSpace:
    """Return the space of DROID's that a layout becomes; ConfigError where it becomes none."""
    if others := sorted({part.name.partition('.')[0] for part, _ in parts} - {arm}):
        raise ConfigError(f"it moves {', '.join(others)} too, and a station drives one arm: {arm}")
    if [part.meaning for part, _ in grips] != [SliceMeaning.ABSOLUTE]:
        raise ConfigError(f'it needs one gripper, with the meaning absolute; has {len(grips)}')
    names = tuple(part.name.partition('.')[2] for part, _ in parts)
    names = OF_JOINTS if set(names) == set(OF_JOINTS) else names
    if names not in (OF_JOINTS, OF_FLANGE) or len({part.meaning for part, _ in parts}) > 1:
        raise ConfigError(f"it needs {arm}.joint_position, or flange_position and flange_rotation "
                          f"with one meaning; has {', '.join(names) or 'none'}")
    ahead = parts[0][0].meaning is SliceMeaning.DELTA_STATE
    if held and (ahead or names == OF_FLANGE
                 or {part.meaning for part, _ in held} != {SliceMeaning.ABSOLUTE}):
        raise ConfigError(f'{held[0][0].name} is a joint of {arm}: it has to be absolute, beside '
                          'joint_position with another meaning than delta_state')
    return {OF_JOINTS: (ActionSpace.JOINT_POSITION, ActionSpace.JOINT_VELOCITY),
            OF_FLANGE: (ActionSpace.CARTESIAN_POSITION, ActionSpace.CARTESIAN_VELOCITY),
            }[names][ahead]


def _of_finger(part: Slice, at: int, ends: tuple[float, float],
               hand: Hand) -> tuple[int, float, float]:
    """Return column, factor and offset of a finger's joint, from the number of its hand."""
    (opened, closed), (_, closed_at, open_at) = ends, hand
    factor = (closed_at - open_at) * part.one / (closed - opened)
    return at, factor, open_at - factor * opened / part.one


def _factors(part: Slice, rate_hz: float, limits: ArmLimits, joints: list[int]) -> Floats:
    """
    Return what each number of a slice is times: rad, m, or shares of the largest step.

    ``joints`` are the numbers of those that it moves.
    """
    what = part.name.partition('.')[2]
    its = {limits.chain.units[i] for i in joints} if what in OF_JOINTS else set[str]()
    known = {**(TURN if 'rad' in its else {}), **(LENGTH if 'm' in its else {})} if its else (
        LENGTH if what == OF_FLANGE[0] else TURN)
    if len(its) > 1:
        known = {MIXED: 1.0}
    per_s = part.meaning is SliceMeaning.VELOCITY
    units = {f'({unit})/s' if ' ' in unit else f'{unit}/s': one
             for unit, one in known.items()} if per_s else known
    if part.unit not in units:
        raise ConfigError(f"the unit of {part.name} is '{part.unit}', known are "
                          f"{', '.join(units)}")
    if what in OF_FLANGE and part.frame != 'base':
        raise ConfigError(f"the frame of {part.name} is '{part.frame}', known is base")
    one: Floats = np.full(part.size, part.one * units[part.unit])
    if per_s:
        return one / rate_hz
    if part.meaning is not SliceMeaning.DELTA_STATE:
        return one
    if what in OF_JOINTS:    # one of two units means a share: a sliding joint goes 0.075 m for 0.2
        reach = MAX_JOINT_DELTA * (1.0 if part.unit == MIXED else limits.scale[joints])
        return np.asarray(one / reach)
    return one / (MAX_LINEAR_DELTA if what == OF_FLANGE[0] else MAX_ROTATION_DELTA)
