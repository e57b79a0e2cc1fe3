"""
Whether the arm that answers is the robot that ``robot_type`` says.

Limits, workspace box and inverse kinematics are computed with the geometry of ``robot_type``. So
another maker's arm with as many joints, or a wrong ``robot_type``, is refused before it moves: by
the names of the joints, their chain in a URDF, or the pose that the arm's own driver reports.
"""

from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import ArmState, Floats
from arena_robot.robots.arms import Robot
from arena_robot.safety.kinematics import (
    flange_pose,
    frames,
    joint_motion,
    pose_difference,
    pose_of,
    rotation_of,
)

# A calibrated URDF differs from the maker's by less than a millimetre, another arm by much.
FAR_M, FAR_RAD = 0.01, 0.03


def require_pose(state: ArmState, robot: Robot) -> None:
    """Raise ConfigError unless an arm reports the flange's pose that ``robot`` has at its q."""
    if state.q.shape != (robot.joints,):
        raise ConfigError(f'the driver reports {state.q.size} joints, robot_type {robot.name} (a '
                          f'{robot.title}) has {robot.joints}')
    expected = flange_pose(state.q, robot.limits.chain)
    if words := _apart(state.pose, expected):
        raise ConfigError(
            f"the driver's flange is {words} from where that of a {robot.title} (robot_type "
            f'{robot.name}) is with its joints at {np.round(state.q, 3).tolist()} rad: it is at '
            f'{np.round(state.pose, 3).tolist()}, expected '
            f'{np.round(expected, 3).tolist()}. Another arm is not used: limits and '
            'workspace would be wrong')


def require_description(text: str, robot: Robot, prefix: str = '') -> None:
    """
    Raise ConfigError unless a URDF has the joints of ``robot``, in the same chain.

    The last link in the base frame is compared at several places of the joints; in the link before
    joint 1 where the URDF has no base frame.
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
    count, chain, base = robot.joints, robot.limits.chain, robot.base_frame(prefix)
    if all(joint.parent != base for joint in joints.values()):
        base = joints[names[0]].parent
    for q in (np.zeros(count), np.array(robot.reset_joints), np.linspace(-0.9, 0.9, count)):
        flange = _last_link(joints, dict(zip(names, q, strict=True)), base, names[-1])
        expected = pose_of(frames(q, chain)[count - 1])
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


def _last_link(joints: dict[str, _Joint], q: dict[str, float], base: str, last: str) -> Floats:
    """Return the (4, 4) pose of the link behind the joint ``last`` in the link ``base``."""
    above = {joint.child: (name, joint) for name, joint in joints.items()}
    link, out = joints[last].child, np.eye(4)
    for _ in joints:
        if link == base:
            break
        if link not in above:
            raise ConfigError(f'robot_description: {last} does not hang on {base}')
        name, joint = above[link]
        axis = joint.axis / np.linalg.norm(joint.axis)
        moved = joint_motion(axis, q.get(name, 0.0), joint.kind == 'prismatic')
        out = joint.origin @ moved @ out
        link = joint.parent
    return out


def _apart(pose: Floats, expected: Floats) -> str:
    """Return how far two poses are apart in words; '' when they are the same."""
    delta = pose_difference(pose, expected)
    metres, turn = float(np.linalg.norm(delta[:3])), float(np.linalg.norm(delta[3:]))
    if metres <= FAR_M and turn <= FAR_RAD:
        return ''
    return f'{1e3 * metres:.0f} mm and {np.degrees(turn):.0f} degrees'
