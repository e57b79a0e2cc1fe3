"""
Limit one joint target to every bound, in a fixed order, and report each change.

Step, joint, velocity and torque limits each shorten the lead e = target − measured, and a later
limit never violates an earlier one. The workspace is last and may only move the target towards the
anchor, a position that is known to be allowed. So the result is within all limits. An arm slightly
outside its joint limits is first moved back to them, a flange or elbow outside its box into it.
Where the shapes of an arm's links are known, a step ends before two of them come too near.
"""

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.action import Clamp, ClampReason
from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import Floats
from arena_robot.core.tuning import draw_without_window
from arena_robot.robots.arms import PANDA, ArmLimits, matrix_of
from arena_robot.safety.kinematics import END, frames, jacobian

_BISECTIONS = 20        # halvings of a step: to a millionth of it
_SLIDES = (1.0, 0.75, 0.5, 0.25)    # shares of a step that are tried along the wall
_STEPS = 6              # Newton steps back to the wall, at most
_DAMPING = 1e-4         # m²; stretched arms have no exact solution
_INSET_M = 1e-5         # so that rounding leaves no target outside
_ROUNDING = 1e-9        # rad or m: less is no motion
_FINEST, _ROOM_M = 1.0 / 128, 1e-3   # a share of a step, and a distance, that are not worth it


@dataclass(frozen=True)
class Bounded:
    """A joint target (n,) within the limits, and the changes that were made."""

    q: Floats
    clamps: tuple[Clamp, ...]


class Links:
    """
    How near the links of an arm are to each other: MuJoCo's distance between convex shapes.

    ``pairs`` are the p pairs of shapes that are compared: neither those of neighbouring links,
    such as the fingers of a hand, nor of links that touch at the reset pose. Without a pair MuJoCo
    is not needed.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self.limits, self._body = limits, limits.chain.body()
        links = [shape.link for shape in self._body.shapes]
        self._links = np.array(links, int)
        self._before = [-1, *(joint + 1 for joint in limits.chain.parents)]    # of each link
        self.pairs = [(i, j) for i, a in enumerate(links) for j, b in enumerate(links)
                      if b > a and not self._neighbours(a, b)
                      and (a, b) not in self._body.touching]
        if self.pairs:
            self._load()

    def _load(self) -> None:
        draw_without_window()
        import mujoco
        spec, turn = mujoco.MjSpec(), np.zeros(4)
        for k, shape in enumerate(self._body.shapes):
            geom, pose = spec.worldbody.add_geom(), matrix_of(shape.pose)
            mujoco.mju_mat2Quat(turn, pose[:3, :3].ravel())
            geom.type = getattr(mujoco.mjtGeom, f'mjGEOM_{shape.kind.upper()}')
            geom.size[:len(shape.size)], geom.pos, geom.quat = shape.size, pose[:3, 3], turn
            if shape.points:
                spec.add_mesh(name=f'hull{k}', uservert=np.ravel(shape.points),
                              inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL)
                geom.meshname = f'hull{k}'
        self._model, self._lock = spec.compile(), threading.Lock()
        self._data, self._distance = mujoco.MjData(self._model), mujoco.mj_geomDistance
        mujoco.mj_kinematics(self._model, self._data)
        self._local = np.tile(np.eye(4), (len(self._links), 1, 1))
        self._local[:, :3, 3] = self._data.geom_xpos
        self._local[:, :3, :3] = self._data.geom_xmat.reshape(-1, 3, 3)
        self._radius = self._model.geom_rbound
        self._reach = self._reaches()
        self._first, self._second = np.array(self.pairs).T

    def _neighbours(self, a: int, b: int) -> bool:
        return self._before[b] == a or self._before[a] == self._before[b] > 0

    def _way(self, link: int) -> list[int]:
        """Return the links from ``link`` to the base, both with it."""
        out = [link]
        while out[-1]:
            out.append(self._before[out[-1]])
        return out

    def _reaches(self) -> Floats:
        """Return (p, n): how far, at most, a joint moves a shape of a pair to the other, by 1."""
        chain = self.limits.chain
        slid = np.maximum(np.abs(self.limits.q_min), np.abs(self.limits.q_max)) * chain.sliding
        out = np.zeros((len(self.pairs), len(slid)))
        for row, (i, j) in zip(out, self.pairs, strict=True):
            ways = {k: self._way(int(self._links[k])) for k in (i, j)}
            for k, other in ((i, j), (j, i)):
                reach = np.linalg.norm(self._local[k, :3, 3]) + self._radius[k]
                for joint in (link - 1 for link in ways[k] if link not in ways[other]):
                    row[joint] = 1.0 if chain.slides[joint] else reach
                    reach += np.linalg.norm(chain.parts[0][joint, :3, 3]) + slid[joint]
        return out

    def gaps(self, q: Floats, most: float | Floats,
             which: NDArray[np.intp] | None = None) -> Floats:
        """Return the distances (m) at joints ``q`` of pairs, or of ``which``; ``most`` if more."""
        if not self.pairs:
            return np.zeros(0)
        poses = np.concatenate([np.eye(4)[None], frames(q, self.limits.chain)[:END]])
        placed = poses[self._links] @ self._local
        first, second = ((self._first, self._second) if which is None
                         else (self._first[which], self._second[which]))
        between = placed[first, :3, 3] - placed[second, :3, 3]
        out: Floats = np.array(np.broadcast_to(most, len(first)))
        near = (np.sqrt(np.sum(between ** 2, axis=1))
                < out + self._radius[first] + self._radius[second])
        with self._lock:
            self._data.geom_xpos[:] = placed[:, :3, 3]
            self._data.geom_xmat[:] = placed[:, :3, :3].reshape(-1, 9)
            for k in np.flatnonzero(near):
                out[k] = self._distance(self._model, self._data, first[k], second[k], out[k], None)
        return out

    def share(self, start: Floats, target: Floats, part_of: float = 1.0) -> tuple[float, str]:
        """
        Return the share of the way from ``start`` to ``target`` (n,) that is allowed, and why.

        There no pair is nearer than ``part_of`` the ``self_distance``, and one that begins nearer
        is no nearer. A distance changes by no more than the joints move shapes: places on the way
        are compared until nothing can touch between two of them.
        """
        margin, way = part_of * self.limits.self_distance, target - start
        moved = self._reach @ np.abs(way) if self.pairs and margin else np.zeros(0)
        before = self.gaps(start, margin + moved) if moved.size else moved
        near = np.flatnonzero(before < margin + moved)
        if not near.size:
            return 1.0, ''
        moved, before = moved[near], before[near]
        floor, good, why, ahead = np.minimum(margin, before), 0.0, '', [1.0]
        while ahead:
            part = ahead[-1]
            gaps = self.gaps(start + part * way, margin + moved, near)
            bad = gaps < floor
            if np.any(bad):
                room, why = (before - floor)[bad], self._told(gaps, floor, near)
                if np.min(room) < _ROOM_M or part - good < _FINEST:
                    break
                cut = np.min((room - 0.5 * _ROOM_M) / (before - gaps)[bad])
                ahead = [good + float(np.clip(cut, 0.1, 0.9)) * (part - good)]
            elif part - good < _FINEST or np.all(before + gaps >= (part - good) * moved):
                good, before = ahead.pop(), gaps
            else:
                ahead.append(0.5 * (good + part))
        return good, why

    def _told(self, gaps: Floats, floor: Floats, which: NDArray[np.intp]) -> str:
        k = int(np.argmin(gaps - floor))
        a, b = (self._links[i] for i in self.pairs[which[k]])
        return (f'links {a} and {b} would come to {gaps[k]:.3f} m from each other, allowed are '
                f'{floor[k]:.3f}')


def bound_target(wanted: Floats, q: Floats, dq: Floats, q_held: Floats, max_delta: float,
                 limits: ArmLimits, links: Links | None = None) -> Bounded:
    """
    Return the target for ``wanted`` (n,) at measured joints ``q``, moving at ``dq`` a second.

    ``q_held`` is the target tracked now; it is kept when the arm itself is outside the box. Raises
    SafetyError when neither it nor the measured position is inside the workspace. The ``links``
    are kept apart.
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
    if links is not None:
        kept, why = _apart(target, q, dq, q_held, max_delta, links)
        if why:
            clamps.append(_clamp(ClampReason.SELF_COLLISION, target, kept, why))
        target = kept
    return Bounded(target, tuple(clamps))


def _step(target: Floats, q: Floats, dq: Floats, max_delta: float,
          limits: ArmLimits) -> tuple[Floats, str]:
    lead = target - q
    scaled = np.abs(lead) / limits.scale
    i = int(np.argmax(scaled))
    size, scale = float(scaled[i]), float(limits.scale[i])
    if size <= max_delta * (1.0 + 1e-9):
        return target, ''
    return q + lead * (max_delta / size), (
        f'joint {i + 1} would step by {scale * size:.3f} {limits.chain.units[i]}, allowed are '
        f'{scale * max_delta:g}')


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
        f'joint {i + 1} moves at {abs(dq[i]):.2f} {limits.chain.units[i]}/s, its limit is '
        f'{limits.dq_max[i]:.2f}')


def spring_torque(lead: Floats, q: Floats, limits: ArmLimits = PANDA.limits) -> Floats:
    """Return the torque (n,) N m of the spring, (Kq + Jᵀ Kx J) e, for a lead (n,) e."""
    J = jacobian(frames(q, limits.chain), arm=limits.chain)
    out: Floats = (np.array(limits.stiffness) * lead
                   + J.T @ (np.array(limits.flange_stiffness) * (J @ lead)))
    return out


def _torque(target: Floats, q: Floats, dq: Floats, max_delta: float,
            limits: ArmLimits) -> tuple[Floats, str]:
    lead = target - q
    load = np.abs(spring_torque(lead, q, limits)) / limits.tau_max
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
    return kept, (f'joint {i + 1} would go to {target[i]:.3f} {limits.chain.units[i]}, allowed '
                  f'are {limits.q_min[i]:.3f} to {limits.q_max[i]:.3f}')


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
    if excess[i] > max_delta * limits.scale[i]:
        low, high = limits.q_min[i], limits.q_max[i]
        raise SafetyError(f'joint {i + 1} is at {q[i]:.3f} {limits.chain.units[i]}, outside its '
                          f'limits {low:.3f} to {high:.3f}: move it back by hand')


def _into_workspace(target: Floats, q: Floats, dq: Floats, q_held: Floats, max_delta: float,
                    limits: ArmLimits) -> Floats:
    """Slide along the wall if that is within the other limits too, else return to the anchor."""
    anchor = _anchors(q, dq, q_held, max_delta, limits)[0]
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


def _apart(target: Floats, q: Floats, dq: Floats, q_held: Floats, max_delta: float,
           links: Links) -> tuple[Floats, str]:
    """Return the target, or a place before it on the way from the anchor with the most room."""
    limits = links.limits
    start = np.clip(q, limits.q_min, limits.q_max)
    share, why = links.share(start, target)
    if not why:
        return target, ''
    anchors = _anchors(q, dq, q_held, max_delta, limits)
    anchor = anchors[0] if np.array_equal(start, q_held) else max(
        anchors, key=lambda place: np.min(links.gaps(place, limits.self_distance)))
    if not np.array_equal(anchor, start):
        share, why = links.share(anchor, target)
    while why and share > 0.0 and outside(anchor + share * (target - anchor), limits) > 0.0:
        share = 0.5 * share if share > 1e-3 else 0.0
    return anchor + share * (target - anchor) if why else target, why


def _anchors(q: Floats, dq: Floats, q_held: Floats, max_delta: float,
             limits: ArmLimits) -> list[Floats]:
    """Return the places within all limits that a target may be moved to. Raises SafetyError."""
    here = np.clip(q, limits.q_min, limits.q_max)
    places = [place for place in (here, q_held)
              if np.all(np.isfinite(place)) and outside(place, limits) == 0.0
              and ((place is here and np.max(np.abs(q - here)) < _ROUNDING)
                   or _obeys(place, q, dq, max_delta, limits))]
    if not places:
        raise SafetyError(f'the arm is outside the workspace by {outside(q, limits):.3f} m and '
                          'the command does not bring it back: move it by hand or to its reset '
                          'pose')
    return places


def _obeys(target: Floats, q: Floats, dq: Floats, max_delta: float, limits: ArmLimits) -> bool:
    return all(not rule(target, q, dq, max_delta, limits)[1] for _, rule in _RULES)


def _clamp(reason: ClampReason, asked: Floats, sent: Floats, detail: str) -> Clamp:
    return Clamp(reason, tuple(map(float, asked)), tuple(map(float, sent)), detail)


def points_of(limits: ArmLimits) -> tuple[int, ...]:
    """Return the frames that have a workspace: flange, elbow and all links of other arms."""
    return END, limits.chain.elbow, *limits.chain.others


def outside(q: Floats, limits: ArmLimits) -> float:
    """Return how far (m) flange or elbow lies outside its box at ``q``; 0 inside."""
    points = frames(q, limits.chain)[points_of(limits), :3, 3]
    low, high = limits.box
    return float(max(np.max(low - points), np.max(points - high), 0.0))


def slide_in(q: Floats, limits: ArmLimits) -> Floats:
    """
    Return joints near ``q`` that bring flange and elbow to their box's wall, or as near as found.

    Only the coordinates that are outside are moved, so a motion along the wall continues.
    """
    low, high = limits.box[0] + _INSET_M, limits.box[1] - _INSET_M
    for _ in range(_STEPS):
        poses = frames(q, limits.chain)
        points = poses[points_of(limits), :3, 3]
        error = np.clip(points, low, high) - points
        bad = np.abs(error) > 0.0
        if not bad.any():
            break
        rows = np.concatenate([jacobian(poses, link, limits.chain)[:3][bad[i]]
                               for i, link in enumerate(points_of(limits))])
        gram = rows @ rows.T + _DAMPING * np.eye(len(rows))
        q = q + rows.T @ np.linalg.solve(gram, error[bad])
    return q
