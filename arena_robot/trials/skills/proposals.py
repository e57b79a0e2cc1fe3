"""
Proposals of motions for a reward subtask, from the bodies and joints that its code reads.

Nothing here knows the task or the sign of its goal: along every joint both directions are
proposed, and the reward decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.expert import PERIOD_S, SPEED_M_S, TURN_RAD_S
from arena_robot.drivers.sim.truth import JointMotion, SceneLinks
from arena_robot.trials.skills.motion import PadPose

_UP = np.array([0.0, 0.0, 0.12])
_TIP_M = 0.015          # fingertips below the point between the pads
_FINGER_M = 0.013       # half a closed pair of fingers, and half a link
_BEFORE_M = 0.035
_NEAR_AXIS_M = 0.03
_BEYOND_M, _PRESS_M = 0.015, 0.03   # beyond a joint's end: the arm yields to forces


@dataclass(frozen=True)
class MotionProposal:
    """
    A motion: from a pose reached over everything (None: from where the hand is), along a path.

    ``closed``: the fingers are closed before the way there. ``offset`` (3,) shifts all of it.
    ``widths`` (m) are what the gripper is sent to at every pose of the path; empty: as it is.
    """

    name: str
    path: tuple[PadPose, ...]
    start: PadPose | None = None
    closed: bool = False
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    widths: tuple[float, ...] = ()

    def moved(self, offset: Floats) -> 'MotionProposal':
        """Return the same motion shifted by ``offset`` (3,)."""
        def shifted(pose: PadPose) -> PadPose:
            return PadPose(pose.point + offset, pose.yaw)
        start = None if self.start is None else shifted(self.start)
        x, y, z = (float(a + b) for a, b in zip(self.offset, offset, strict=True))
        return replace(self, path=tuple(map(shifted, self.path)), start=start, offset=(x, y, z))


def held_proposals(links: SceneLinks, body: str, pose: PadPose,
                   targets: list[Floats]) -> Iterator[MotionProposal]:
    """Return motions of a held body: along its joints, or a carried one to places and up."""
    if links.is_free(body):
        for number, target in enumerate(targets):
            yield _carry(f'carry to {number}', pose, target)
        yield MotionProposal('lift', tuple(_line(pose, pose.point + _UP)))
        for number, (x, y) in enumerate(((0.15, 0), (-0.15, 0), (0, 0.15), (0, -0.15))):
            yield _carry(f'carry along {number}', pose, pose.point + np.array([x, y, 0.0]))
        return
    for joint in links.joints_of(body):
        motion = links.motion(joint)
        turning = motion.hinge and abs(motion.axis[2]) > 0.7
        for sign in (1, -1):
            path = _along(motion, pose, sign, turning)
            if path:
                yield MotionProposal(f'{joint} {sign:+d}', tuple(path))


def pushed_proposals(links: SceneLinks, bodies: list[str], joints: list[str], yaw: float,
                     targets: list[Floats]) -> Iterator[MotionProposal]:
    """Return strokes of closed fingers: links along joints, free bodies towards places."""
    for joint in joints:
        motion = links.motion(joint)
        for sign in (1, -1):
            for body in _pushable(links, joint, bodies):
                stroke = _stroke(links, motion, body, sign, yaw)
                if stroke is not None:
                    yield stroke
    for body in bodies:
        if links.is_free(body):
            low, high = links.corners([body])
            for number, target in enumerate(targets):
                yield _shove(f'{body} to {number}', (low + high) / 2, target, yaw)


def _pushable(links: SceneLinks, joint: str, bodies: list[str]) -> list[str]:
    """Return bodies that a joint moves: those that the code reads first, then those held."""
    below = links.tree(links.body_of(joint))
    named = [body for body in bodies if body in below]
    return named or [body for body in below if links.grip(body) is not None][:1] or below[:1]


def _stroke(links: SceneLinks, motion: JointMotion, body: str, sign: int,
            yaw: float) -> MotionProposal | None:
    grip = links.grip(body)
    low, high = links.corners(links.rigid(body))
    point = (low + high) / 2 if grip is None else grip.point
    way = _direction(motion, point) * sign
    if way[2] < -0.7:       # pressed from above
        back = np.array([point[0], point[1], high[2] + _TIP_M]) - point
        before = back - _BEFORE_M * way
    else:
        back = -_FINGER_M * way
        before = back - _BEFORE_M * way
    path = _along(motion, PadPose(point, yaw), sign, turning=False,
                  beyond_m=_PRESS_M if way[2] < -0.7 else 2 * _BEYOND_M)
    if not path or np.linalg.norm(way) < 0.5:
        return None
    start = PadPose(point + before, yaw)
    arc = [PadPose(pose.point + back, yaw) for pose in path]
    return MotionProposal(f'push {motion.name} {sign:+d}',
                    (*_line(start, arc[0].point), *arc), start, closed=True)


def _shove(name: str, point: Floats, target: Floats, yaw: float) -> MotionProposal:
    way = target - point
    way[2] = 0.0
    way /= max(float(np.linalg.norm(way)), 1e-6)
    start = PadPose(point - (_BEFORE_M + 0.03) * way, yaw)
    end = np.array([target[0], target[1], point[2]]) - (_FINGER_M + 0.02) * way
    return MotionProposal(f'push {name}', tuple(_line(start, end)), start, closed=True)


def _carry(name: str, pose: PadPose, target: Floats) -> MotionProposal:
    up = PadPose(pose.point + _UP, pose.yaw)
    above = PadPose(np.array([target[0], target[1], up.point[2]]), pose.yaw)
    down = np.array([target[0], target[1], pose.point[2] + 0.004])
    way = (*_line(pose, up.point), *_line(up, above.point), *_line(above, down))
    return MotionProposal(name, way)


def _line(start: PadPose, end: Floats) -> list[PadPose]:
    count = max(2, int(np.ceil(np.linalg.norm(end - start.point) / (SPEED_M_S * PERIOD_S))))
    return [PadPose(start.point + (step / count) * (end - start.point), start.yaw)
            for step in range(1, count + 1)]


def _along(motion: JointMotion, pose: PadPose, sign: int, turning: bool,
           beyond_m: float = _BEYOND_M) -> list[PadPose]:
    """Return the path of a point that a joint moves, from its state to a little over its end."""
    span = motion.high - motion.low
    end = motion.high if sign > 0 else motion.low
    if sign * (end - motion.position) <= 0.02 * span:
        return []
    scale = max(_arm_m(motion, pose.point), _NEAR_AXIS_M) if motion.hinge else 1.0
    travel = end - motion.position + sign * beyond_m / scale
    metres = abs(travel) * scale
    seconds = max(metres / (0.5 * SPEED_M_S), abs(travel) / TURN_RAD_S if turning else 0.0, 0.4)
    count = int(np.ceil(seconds / PERIOD_S))
    poses = []
    for step in range(1, count + 1):
        part = travel * step / count
        if motion.hinge:
            arm_vector = pose.point - motion.anchor
            point = motion.anchor + _turned(arm_vector, motion.axis, part)
            turn = part * float(np.sign(motion.axis[2])) if turning else 0.0
            poses.append(PadPose(point, pose.yaw + turn))
        else:
            poses.append(PadPose(pose.point + part * motion.axis, pose.yaw))
    return poses


def _direction(motion: JointMotion, point: Floats) -> Floats:
    """Return the direction (3,) in which the joint moves a point; zero on its axis."""
    if not motion.hinge:
        return motion.axis
    way = np.cross(motion.axis, point - motion.anchor)
    size = float(np.linalg.norm(way))
    out: Floats = way / size if size > 0.005 else np.zeros(3)
    return out


def _arm_m(motion: JointMotion, point: Floats) -> float:
    return float(np.linalg.norm(np.cross(motion.axis, point - motion.anchor)))


def _turned(vector: Floats, axis: Floats, angle: float) -> Floats:
    """Return a vector turned about a unit axis by ``angle`` (rad)."""
    out: Floats = (vector * np.cos(angle) + np.cross(axis, vector) * np.sin(angle)
                   + axis * float(np.dot(axis, vector)) * (1.0 - np.cos(angle)))
    return out
