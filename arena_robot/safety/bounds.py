"""
Limit one joint target to every bound, in a fixed order, and report each change.

Step, joint, velocity and torque limits each shorten the lead e = target − measured, and a later
limit never violates an earlier one. The workspace is last and may only move the target towards the
anchor, a position that is known to be allowed. So the result is within all limits. An arm slightly
outside its joint limits is first moved back to them, a flange or elbow outside its box into it.
"""

from dataclasses import dataclass

import numpy as np

from arena_robot.core.action import Clamp, ClampReason
from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import Floats
from arena_robot.robots.arms import KQ, KX, ArmLimits
from arena_robot.safety.kinematics import ELBOW, FLANGE, frames, jacobian

_BISECTIONS = 20        # halvings of a step: to a millionth of it
_SLIDES = (1.0, 0.75, 0.5, 0.25)    # shares of a step that are tried along the wall
POINTS = (FLANGE, ELBOW)
_STEPS = 6              # Newton steps back to the wall, at most
_DAMPING = 1e-4         # m²; stretched arms have no exact solution
_INSET_M = 1e-5         # so that rounding leaves no target outside


@dataclass(frozen=True)
class Bounded:
    """A joint target (7,) rad within the limits, and the changes that were made."""

    q: Floats
    clamps: tuple[Clamp, ...]


def bound_target(wanted: Floats, q: Floats, dq: Floats, q_held: Floats, max_delta: float,
                 limits: ArmLimits) -> Bounded:
    """
    Return the target for ``wanted`` (7,) rad at measured joints ``q``, moving at ``dq`` rad/s.

    ``q_held`` is the target tracked now; it is kept when the arm itself is outside the box. Raises
    SafetyError when neither it nor the measured position is inside the workspace.
    """
    _reachable(q, max_delta, limits)
    clamps: list[Clamp] = []
    target = wanted
    for reason, rule in _RULES:
        kept, detail = rule(target, q, dq, max_delta, limits)
        if detail:
            clamps.append(_clamp(reason, target, kept, detail))
        target = kept
    excess = outside(target, limits)
    if excess > 0.0:
        kept = _into_workspace(target, q, dq, q_held, max_delta, limits)
        clamps.append(_clamp(ClampReason.WORKSPACE, target, kept,
                             f'flange or elbow would leave the workspace by {excess:.3f} m'))
        target = kept
    return Bounded(target, tuple(clamps))


def _step(target: Floats, q: Floats, dq: Floats, max_delta: float,
          limits: ArmLimits) -> tuple[Floats, str]:
    lead = target - q
    i = int(np.argmax(np.abs(lead)))
    size = abs(float(lead[i]))
    if size <= max_delta * (1.0 + 1e-9):
        return target, ''
    return q + lead * (max_delta / size), (
        f'joint {i + 1} would step by {size:.3f} rad, allowed are {max_delta:g}')


def _velocity(target: Floats, q: Floats, dq: Floats, max_delta: float,
              limits: ArmLimits) -> tuple[Floats, str]:
    lead = target - q
    speed = np.minimum(np.abs(dq), limits.dq_max)
    room = np.minimum((limits.dq_max - speed) / limits.velocity_margin, 1.0)
    ahead = (np.sign(lead) * np.sign(dq) > 0.0) & (room < 1.0)
    if not ahead.any():
        return target, ''
    i = int(np.argmax(np.where(ahead, 1.0 - room, -1.0)))
    return np.where(ahead, q + room * lead, target), (
        f'joint {i + 1} moves at {abs(dq[i]):.2f} rad/s, its limit is {limits.dq_max[i]:.2f}')


def spring_torque(lead: Floats, q: Floats) -> Floats:
    """Return the torque (7,) N m of DROID's spring, (Kq + Jᵀ Kx J) e, for a lead (7,) rad."""
    J = jacobian(frames(q))
    out: Floats = KQ * lead + J.T @ (KX * (J @ lead))
    return out


def _torque(target: Floats, q: Floats, dq: Floats, max_delta: float,
            limits: ArmLimits) -> tuple[Floats, str]:
    lead = target - q
    load = np.abs(spring_torque(lead, q)) / limits.tau_max
    i = int(np.argmax(load))
    if load[i] <= 1.0:
        return target, ''
    return q + lead / load[i], (
        f'joint {i + 1} would be pulled with {load[i] * limits.tau_max[i]:.1f} N m, '
        f'allowed are {limits.tau_max[i]:g}')


def _joints(target: Floats, q: Floats, dq: Floats, max_delta: float,
            limits: ArmLimits) -> tuple[Floats, str]:
    kept = np.clip(target, limits.q_min, limits.q_max)
    if np.array_equal(kept, target):
        return target, ''
    i = int(np.argmax(np.abs(kept - target)))
    return kept, (f'joint {i + 1} would go to {target[i]:.3f} rad, allowed are '
                  f'{limits.q_min[i]:.3f} to {limits.q_max[i]:.3f}')


_RULES = (
    (ClampReason.STEP_LIMIT, _step),
    (ClampReason.JOINT_LIMIT, _joints),
    (ClampReason.VELOCITY_LIMIT, _velocity),
    (ClampReason.TORQUE_LIMIT, _torque),
    (ClampReason.JOINT_LIMIT, _joints),
)


def _reachable(q: Floats, max_delta: float, limits: ArmLimits) -> None:
    """Raise SafetyError when no target within the joint limits is within one step of ``q``."""
    excess = np.maximum(limits.q_min - q, q - limits.q_max)
    i = int(np.argmax(excess))
    if excess[i] > max_delta:
        raise SafetyError(f'joint {i + 1} is at {q[i]:.3f} rad, outside its limits '
                          f'{limits.q_min[i]:.3f} to {limits.q_max[i]:.3f}: move it back by hand')


def _into_workspace(target: Floats, q: Floats, dq: Floats, q_held: Floats, max_delta: float,
                    limits: ArmLimits) -> Floats:
    """Slide along the wall if that is within the other limits too, else return to the anchor."""
    anchor = _anchor(q, dq, q_held, max_delta, limits)
    lead = target - anchor
    for part in _SLIDES:
        slid = slide_in(anchor + part * lead, limits)
        if outside(slid, limits) == 0.0 and _obeys(slid, q, dq, max_delta, limits):
            return slid
    good, bad = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (good + bad)
        if outside(anchor + middle * lead, limits) == 0.0:
            good = middle
        else:
            bad = middle
    return anchor + good * lead


def _anchor(q: Floats, dq: Floats, q_held: Floats, max_delta: float, limits: ArmLimits) -> Floats:
    for place in (np.clip(q, limits.q_min, limits.q_max), q_held):
        if (np.all(np.isfinite(place)) and outside(place, limits) == 0.0
                and _obeys(place, q, dq, max_delta, limits)):
            return place
    raise SafetyError(f'the arm is outside the workspace by {outside(q, limits):.3f} m and the '
                      'command does not bring it back: move it by hand or to its reset pose')


def _obeys(target: Floats, q: Floats, dq: Floats, max_delta: float, limits: ArmLimits) -> bool:
    return all(not rule(target, q, dq, max_delta, limits)[1] for _, rule in _RULES)


def _clamp(reason: ClampReason, asked: Floats, sent: Floats, detail: str) -> Clamp:
    return Clamp(reason, tuple(map(float, asked)), tuple(map(float, sent)), detail)


def outside(q: Floats, limits: ArmLimits) -> float:
    """Return how far (m) flange or elbow lies outside its box at ``q``; 0 inside."""
    points = frames(q)[POINTS, :3, 3]
    low, high = limits.box
    return float(max(np.max(low - points), np.max(points - high), 0.0))


def slide_in(q: Floats, limits: ArmLimits) -> Floats:
    """
    Return joints near ``q`` that bring flange and elbow to their box's wall, or as near as found.

    Only the coordinates that are outside are moved, so a motion along the wall continues.
    """
    low, high = limits.box[0] + _INSET_M, limits.box[1] - _INSET_M
    for _ in range(_STEPS):
        chain = frames(q)
        points = chain[POINTS, :3, 3]
        error = np.clip(points, low, high) - points
        bad = np.abs(error) > 0.0
        if not bad.any():
            break
        rows = np.concatenate([jacobian(chain, link)[:3][bad[i]]
                               for i, link in enumerate(POINTS)])
        gram = rows @ rows.T + _DAMPING * np.eye(len(rows))
        q = q + rows.T @ np.linalg.solve(gram, error[bad])
    return q
