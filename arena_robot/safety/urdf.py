"""URDF of an arm, its gripper and cameras, from the table of robots."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import FRANKA_CHAIN, Link, Robot, prefixed
from arena_robot.robots.arms import matrix_of as matrix
from arena_robot.robots.cameras import OPTICAL_RPY
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel
from arena_robot.safety.kinematics import pose_of, rotation_of, rpy_of
from arena_robot.safety.limits import robot_of

Point = tuple[float, float, float]
# Of links 1 to 7 the capsule of least volume around Franka's collision meshes of FER and FR3, to
# the millimetre: radius (m), and the middles (m) of its round ends in the link's frame.
CAPSULES: tuple[tuple[float, Point, Point], ...] = (
    (0.078, (0.0, 0.0, -0.142), (0.0, -0.052, 0.0)),
    (0.078, (0.0, 0.0, 0.053), (0.0, -0.143, 0.0)),
    (0.071, (0.0, 0.004, -0.085), (0.083, 0.042, 0.0)),
    (0.071, (0.004, -0.005, 0.044), (-0.081, 0.084, 0.002)),
    (0.070, (0.0, 0.011, -0.239), (0.0, 0.065, 0.0)),
    (0.077, (0.084, 0.007, -0.003), (0.021, 0.013, 0.009)),
    (0.051, (-0.005, -0.005, 0.073), (0.034, 0.032, 0.081)))
# The box around link 0: its middle and size (m).
BASE_BOX = (-0.041, 0.0, 0.07), (0.228, 0.192, 0.142)
# The palm, and the finger in its own frame, as capsules.
HAND = (0.04, (0.0, 0.0, 0.04), (0.0, 0.0, 0.06)), (0.01, (0.0, 0.0, 0.015), (0.0, 0.0, 0.045))
THIN_M = 0.03    # radius of the links of an arm whose shapes are not known
CAMERA_BOX = (0.03, 0.12, 0.03)  # m: x forward, y left, z up
# The same as a matrix.
_OPTICAL_IN_BODY = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])


@dataclass(frozen=True)
class FixedFrame:
    """A frame that does not move in its parent; ``pose`` is x y z (m) roll pitch yaw (rad)."""

    parent: str
    child: str
    pose: tuple[float, ...]


def urdf(robot_type: str, prefix: str = '', gripper: GripperModel | None = ROBOTIQ_2F85,
         frames: Sequence[FixedFrame] = (), meshes: bool = False) -> str:
    """
    Return the URDF of an arm: its links and joints, and a gripper at the flange.

    Moving links have their masses and inertias, where these are known; link 0 has none, as KDL
    wants of a root. Shapes, seen and for collision, are capsules; with ``meshes`` those of the
    package franka_description.
    ``frames`` are further fixed frames, such as those of cameras; those that do not hang on the
    arm are left out. Limits of position and speed are the maker's; the forward kinematics is
    :func:`arena_robot.safety.kinematics.frames`. Raises ConfigError for an unknown robot.
    """
    robot = robot_of(robot_type)
    name = robot.arm_name(prefix)
    lines = ['<?xml version="1.0"?>', f'<robot name="{name}">',
             *_links(robot, robot.frames(prefix), meshes),
             *_joints(robot, robot.frames(prefix), prefix),
             *(_gripper(gripper, robot.flange_frame(prefix), prefix) if gripper else ())]
    for frame in connected(link_names(robot_type, prefix, gripper), frames):
        lines += _frame(frame)
    return '\n'.join([*lines, '</robot>']) + '\n'


def link_names(robot_type: str, prefix: str = '',
               gripper: GripperModel | None = ROBOTIQ_2F85) -> set[str]:
    """Return the links of the arm and, where there is one, of the gripper."""
    own = (gripper.base_link, gripper.finger_link) if gripper else ()
    return {*robot_of(robot_type).frames(prefix), *(prefixed(link, prefix) for link in own)}


def connected(links: set[str], frames: Sequence[FixedFrame]) -> list[FixedFrame]:
    """Return those frames that hang on ``links``, directly or on one another, parents first."""
    there, out, rest = set(links), list[FixedFrame](), list(frames)
    while hanging := [frame for frame in rest
                      if frame.parent in there and frame.child not in there]:
        frame = hanging[0]
        there.add(frame.child)
        out.append(frame)
        rest = [later for later in rest if later.child != frame.child]
    return out


def joint_origins(robot: Robot) -> list[tuple[Point, Point]]:
    """Return the place (m), and roll pitch yaw (rad), of each joint in the link before it."""
    return [origin_of(place) for place in robot.limits.chain.places]


def origin_of(pose: tuple[float, ...]) -> tuple[Point, Point]:
    """Return x y z (m), and roll pitch yaw (rad), of the 12 numbers of a pose."""
    x, y, z = (pose[i] for i in (3, 7, 11))
    roll, pitch, yaw = (angle or 0.0 for angle in rpy_of(matrix(pose)[:3, :3]).tolist())
    return (x, y, z), (roll, pitch, yaw)


def _joints(robot: Robot, frames: Sequence[str], prefix: str) -> Iterator[str]:
    limits, chain = robot.limits, robot.limits.chain
    for i, (joint, ((x, y, z), (roll, *turn))) in enumerate(
            zip(robot.joint_names(prefix), joint_origins(robot), strict=True)):
        kind = 'prismatic' if chain.slides[i] else 'revolute'
        axis = ' '.join(f'{number or 0.0:.17g}' for number in chain.axes[i])
        pitch, yaw = (angle or 0 for angle in turn)
        parent = frames[chain.parents[i] + 1]
        yield (f'<joint name="{joint}" type="{kind}"><parent link="{parent}"/>'
               f'<child link="{frames[i + 1]}"/>'
               f'<origin xyz="{x!r} {y!r} {z!r}" rpy="{roll!r} {pitch!r} {yaw!r}"/>'
               f'<axis xyz="{axis}"/>'
               f'<limit lower="{limits.hardware_lower[i]!r}" upper="{limits.hardware_upper[i]!r}"'
               f' velocity="{robot.joint_velocity[i]!r}" effort="{robot.joint_torque[i]!r}"/>'
               '</joint>')
    yield _fixed(robot.flange_joint(prefix), frames[-2], frames[-1], *origin_of(chain.end))


def _gripper(gripper: GripperModel, flange: str, prefix: str) -> Iterator[str]:
    base, finger, joint, base_joint = (prefixed(part, prefix) for part in (
        gripper.base_link, gripper.finger_link, gripper.joint, gripper.base_joint))
    for link, inertia, capsule in zip((base, finger), gripper.links, HAND, strict=True):
        shape = _capsule(*capsule)
        yield _link(link, shape, shape, inertia)
    yield _fixed(base_joint, flange, base, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    x, y, z = gripper.joint_at
    yield (f'<joint name="{joint}" type="revolute"><parent link="{base}"/>'
           f'<child link="{finger}"/><origin xyz="{x!r} {y!r} {z!r}" rpy="0 0 0"/>'
           f'<axis xyz="0 -1 0"/><limit lower="0.0" upper="{gripper.closed_rad}" velocity="2.0" '
           'effort="50.0"/></joint>')


def _frame(frame: FixedFrame) -> Iterator[str]:
    size = _text(CAMERA_BOX)
    yield (f'<link name="{frame.child}"><visual><geometry><box size="{size}"/></geometry></visual>'
           '</link>' if frame.child.endswith('_camera_link') else f'<link name="{frame.child}"/>')
    yield (f'<joint name="{frame.child}_joint" type="fixed"><parent link="{frame.parent}"/>'
           f'<child link="{frame.child}"/>{_origin(frame.pose[:3], frame.pose[3:])}</joint>')


def _fixed(joint: str, parent: str, child: str, place: Point, turn: Point) -> str:
    (x, y), rpy = (number or 0 for number in place[:2]), (angle or 0 for angle in turn)
    return (f'<joint name="{joint}" type="fixed"><parent link="{parent}"/><child link="{child}"/>'
            f'<origin xyz="{x!r} {y!r} {place[2]!r}" rpy="{" ".join(map(repr, rpy))}"/></joint>')


def _links(robot: Robot, frames: Sequence[str], meshes: bool) -> Iterator[str]:
    base = [f'{_origin(BASE_BOX[0])}<geometry><box size="{_text(BASE_BOX[1])}"/></geometry>']
    shapes = [base, *(_capsule(*capsule) for capsule in CAPSULES)] \
        if robot.limits.chain == FRANKA_CHAIN else _drawn(robot)
    inertias = robot.links or (None,) * robot.joints
    for i, (shape, link) in enumerate(zip(shapes, (None, *inertias), strict=True)):
        seen, solid = ([f'<geometry><mesh filename="package://{robot.mesh_folder}/{kind}/link{i}.'
                        f'{extension}"/></geometry>']
                       for kind, extension in (('visual', 'dae'), ('collision', 'stl'))
                       ) if meshes else (shape, shape)
        yield _link(frames[i], seen, solid, link)
    yield f'<link name="{frames[-1]}"/>'


def _drawn(robot: Robot) -> list[list[str]]:
    """Return a capsule from each joint to the next ones, or to the flange: of base and links."""
    chain, out = robot.limits.chain, [list[str]() for _ in range(robot.joints + 1)]
    for joint, pose in zip((*chain.parents, robot.joints - 1), (*chain.places, chain.end),
                           strict=True):
        x, y, z = matrix(pose)[:3, 3]
        if np.linalg.norm((x, y, z)) > THIN_M:
            out[joint + 1] += _capsule(THIN_M, (0.0, 0.0, 0.0), (float(x), float(y), float(z)))
    return out


def _link(name: str, seen: Sequence[str], solid: Sequence[str], inertia: Link | None) -> str:
    return ''.join([f'<link name="{name}">', inertial(inertia) if inertia else '',
                    *(f'<visual>{shape}</visual>' for shape in seen),
                    *(f'<collision>{shape}</collision>' for shape in solid), '</link>'])


def inertial(link: Link) -> str:
    """Return a link's mass and its inertia about its centre of mass, as URDF."""
    xx, yy, zz, xy, xz, yz = link.inertia
    return (f'<inertial>{_origin(link.com)}<mass value="{link.mass!r}"/><inertia ixx="{xx!r}" '
            f'ixy="{xy!r}" ixz="{xz!r}" iyy="{yy!r}" iyz="{yz!r}" izz="{zz!r}"/></inertial>')


def _capsule(radius: float, start: Point, end: Point) -> list[str]:
    """Return a capsule as URDF has it: a cylinder and two spheres."""
    middle, way = np.add(start, end) / 2, np.subtract(end, start)
    length = float(np.linalg.norm(way))
    turn = (0.0, math.acos(way[2] / length), math.atan2(way[1], way[0]))
    return [f'{_origin(middle, turn)}<geometry><cylinder radius="{radius!r}" '
            f'length="{length!r}"/></geometry>',
            *(f'{_origin(point)}<geometry><sphere radius="{radius!r}"/></geometry>'
              for point in (start, end))]


def _origin(place: Sequence[float] | Floats, turn: Sequence[float] = (0.0, 0.0, 0.0)) -> str:
    return f'<origin xyz="{_text(place)}" rpy="{_text(turn)}"/>'


def _text(numbers: Sequence[float] | Floats) -> str:
    return ' '.join(repr(float(number)) for number in numbers)


@dataclass(frozen=True)
class CameraMount:
    """
    Where a camera is: the pose of its left eye's optical frame in the frame ``parent``.

    ``pose`` is x y z (m) roll pitch yaw (rad, fixed axes).
    """

    parent: str
    pose: tuple[float, ...]


def camera_frames(name: str, mount: CameraMount | None, optical: Mapping[str, str],
                  baseline_m: float) -> list[FixedFrame]:
    """
    Return the frames of a camera called ``name``, the first one in its mount where that is known.

    ``<name>_camera_link`` is in the middle between the eyes; each eye has a body frame and the
    optical frame that ``optical`` names by eye.
    """
    link = f'{name}_camera_link'
    half_m = baseline_m / 2 if len(optical) > 1 else 0.0
    out = []
    if mount is not None:
        out.append(FixedFrame(mount.parent, link, link_pose(mount.pose, half_m)))
    for eye, frame in optical.items():
        side_m = half_m if eye == 'left' else -half_m
        body = frame.removesuffix('_optical') if frame.endswith('_frame_optical') \
            else frame.replace('_optical_frame', '_frame')
        out += [FixedFrame(link, body, (0.0, side_m, 0.0, 0.0, 0.0, 0.0)),
                FixedFrame(body, frame, (0.0, 0.0, 0.0, *OPTICAL_RPY))]
    return out


def link_pose(left_eye: Sequence[float], half_m: float) -> tuple[float, ...]:
    """Return the pose of the camera's link from that of its left eye's optical frame."""
    out = matrix_of(left_eye)
    out[:3, :3] = out[:3, :3] @ _OPTICAL_IN_BODY.T
    out[:3, 3] -= half_m * out[:3, 1]
    return pose_of_matrix(out)


def matrix_of(pose: Sequence[float]) -> Floats:
    """Return the (4, 4) of x y z (m) roll pitch yaw (rad)."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = rotation_of(np.asarray(pose[3:], np.float64)), pose[:3]
    return out


def pose_of_matrix(transform: Floats) -> tuple[float, ...]:
    """Return x y z (m) roll pitch yaw (rad) of a (4, 4) transform."""
    return tuple(map(float, pose_of(transform)))
