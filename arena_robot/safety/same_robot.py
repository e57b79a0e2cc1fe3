"""
Whether the arm that answers is the robot that ``robot_type`` says.

Limits, workspace box and inverse kinematics are computed with the geometry of ``robot_type``. So
another maker's arm with seven joints, or a wrong ``robot_type``, is refused before it moves: by
the names of the joints, their chain in a URDF, or the pose that the arm's own driver reports.
"""

from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ArmState, Floats
from arena_robot.robots.arms import DOF, RESET_JOINTS, Robot
from arena_robot.safety.kinematics import (
    flange_pose,
    frames,
    pose_difference,
    pose_of,
    rotation_of,
)

# A calibrated URDF differs from the maker's by less than a millimetre, another arm by much.
FAR_M, FAR_RAD = 0.01, 0.03
_PLACES = (np.zeros(DOF), np.array(RESET_JOINTS), np.linspace(-0.9, 0.9, DOF))


def require_pose(state: ArmState, robot: Robot) -> None:
    """Raise ConfigError unless an arm reports the flange's pose that ``robot`` has at its q."""
    if state.q.shape != (DOF,):
        raise ConfigError(f'the driver reports {state.q.size} joints, robot_type {robot.name} (a '
                          f'{robot.title}) has {DOF}')
    if words := _apart(state.pose, flange_pose(state.q)):
        raise ConfigError(
            f"the driver's flange is {words} from where that of a {robot.title} (robot_type "
            f'{robot.name}) is with its joints at {np.round(state.q, 3).tolist()} rad: it is at '
            f'{np.round(state.pose, 3).tolist()}, expected '
            f'{np.round(flange_pose(state.q), 3).tolist()}. Another arm is not used: limits and '
            'workspace would be wrong')


def require_description(text: str, robot: Robot, prefix: str = '') -> None:
    """
    Raise ConfigError unless a URDF has the joints of ``robot``, in the same chain.

    Link 7 in the link before joint 1 is compared at several places of the joints.
    """
    names = robot.joint_names(prefix)
    joints = _joints(text)
    missing = [name for name in names if name not in joints]
    if missing:
        moving = [name for name, joint in joints.items() if joint.kind != 'fixed']
        raise ConfigError(
            f"robot_description has no joint {missing[0]}, which a {robot.title} (robot_type "
            f"{robot.name}) has; its moving joints are {', '.join(moving) or 'none'}. Correct "
            'robot_type or arm_prefix')
    for q in _PLACES:
        flange = _last_link(joints, dict(zip(names, q, strict=True)), names)
        expected = pose_of(frames(q)[DOF - 1])
        if words := _apart(pose_of(flange), expected):
            raise ConfigError(
                f'robot_description is not of a {robot.title} (robot_type {robot.name}): with its '
                f'joints at {np.round(q, 3).tolist()} rad the link behind {names[-1]} is {words} '
                f'from where it should be, at {np.round(pose_of(flange), 3).tolist()} instead of '
                f'{np.round(expected, 3).tolist()}. Another arm is not used')


@dataclass(frozen=True)
class _Joint:
    kind: str
    parent: str
    child: str
    origin: Floats    # (4, 4)
    axis: Floats      # (3,)


def _joints(text: str) -> dict[str, _Joint]:
    try:
        root = ElementTree.fromstring(text)
        return {joint.get('name', ''): _Joint(
            joint.get('type', ''), _link(joint, 'parent'), _link(joint, 'child'),
            _transform(*(_numbers(joint.find('origin'), key) for key in ('xyz', 'rpy'))),
            _numbers(joint.find('axis'), 'xyz', '1 0 0')) for joint in root.iter('joint')
            if joint.find('parent') is not None}
    except (ElementTree.ParseError, ValueError) as error:
        raise ConfigError(f'robot_description is no URDF: {error}') from error


def _link(joint: ElementTree.Element, end: str) -> str:
    element = joint.find(end)
    return '' if element is None else element.get('link', '')


def _numbers(element: ElementTree.Element | None, key: str, default: str = '0 0 0') -> Floats:
    words = (default if element is None else element.get(key, default)).split()
    return np.array([float(word) for word in words])


def _transform(xyz: Floats, rpy: Floats) -> Floats:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation_of(rpy), xyz
    return out


def _last_link(joints: dict[str, _Joint], q: dict[str, float], names: list[str]) -> Floats:
    """Return the (4, 4) pose of the link behind the last joint in the link before the first."""
    above = {joint.child: (name, joint) for name, joint in joints.items()}
    base, link, out = joints[names[0]].parent, joints[names[-1]].child, np.eye(4)
    for _ in joints:
        if link == base:
            break
        if link not in above:
            raise ConfigError(f'robot_description: {names[-1]} does not hang on {names[0]}')
        name, joint = above[link]
        axis = joint.axis / np.linalg.norm(joint.axis)
        out = joint.origin @ _turn(axis, q.get(name, 0.0)) @ out
        link = joint.parent
    return out


def _turn(axis: Floats, angle: float) -> Floats:
    """Return the (4, 4) rotation about ``axis``, by Rodrigues' formula."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    out = np.eye(4)
    out[:3, :3] += np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    return out


def _apart(pose: Floats, expected: Floats) -> str:
    """Return how far two poses are apart in words; '' when they are the same."""
    delta = pose_difference(pose, expected)
    metres, turn = float(np.linalg.norm(delta[:3])), float(np.linalg.norm(delta[3:]))
    if metres <= FAR_M and turn <= FAR_RAD:
        return ''
    return f'{1e3 * metres:.0f} mm and {np.degrees(turn):.0f} degrees'
