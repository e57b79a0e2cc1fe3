"""URDF of an arm, its gripper and cameras, from the table of robots; shapes are plain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.robots.arms import DOF, Robot
from arena_robot.robots.cameras import OPTICAL_RPY
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel, prefixed
from arena_robot.safety.kinematics import pose_of, rotation_of
from arena_robot.safety.limits import robot_of

# Radius and length (m) of the cylinder that stands for a link, along its z axis, and its centre.
SHAPES = ((0.09, 0.14, 0.07), (0.06, 0.28, -0.19), (0.06, 0.12, 0.0), (0.06, 0.20, -0.12),
          (0.06, 0.12, 0.0), (0.05, 0.26, -0.26), (0.05, 0.08, 0.0), (0.045, 0.06, 0.05),
          (0.03, 0.01, 0.0))
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
         frames: Sequence[FixedFrame] = ()) -> str:
    """
    Return the URDF of an arm: links 0 to 8, seven revolute joints, and a gripper at the flange.

    ``frames`` are further fixed frames, such as those of cameras; those that do not hang on the
    arm are left out. Limits of position and speed are the maker's; the forward kinematics is
    :func:`arena_robot.safety.kinematics.frames`. Raises ConfigError for an unknown robot.
    """
    robot = robot_of(robot_type)
    name = robot.arm_name(prefix)
    lines = ['<?xml version="1.0"?>', f'<robot name="{name}">',
             *(_link(f'{name}_link{i}', *shape) for i, shape in enumerate(SHAPES)),
             *_joints(robot, prefix, name),
             *(_gripper(gripper, name, prefix) if gripper else ())]
    for frame in connected(link_names(robot_type, prefix, gripper), frames):
        lines += _frame(frame)
    return '\n'.join([*lines, '</robot>']) + '\n'


def link_names(robot_type: str, prefix: str = '',
               gripper: GripperModel | None = ROBOTIQ_2F85) -> set[str]:
    """Return the links of the arm and, where there is one, of the gripper."""
    arm = robot_of(robot_type).arm_name(prefix)
    own = (gripper.base_link, gripper.finger_link) if gripper else ()
    return {f'{arm}_link{i}' for i in range(DOF + 2)} | {prefixed(link, prefix) for link in own}


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


def joint_origins(robot: Robot) -> list[tuple[tuple[float, float, float], float]]:
    """Return the place (m) and the roll (rad) of each joint in the link before it."""
    return [((a, -d * sine, d * cosine), alpha) for (a, d, alpha) in robot.dh
            for sine, cosine in [_turn(alpha)]]


def _turn(alpha: float) -> tuple[float, float]:
    """Return sine and cosine of a quarter turn, 1, 0 or -1 exactly."""
    quarter = 0 if alpha == 0.0 else 1 if alpha > 0.0 else -1
    return float(quarter), 0.0 if quarter else 1.0


def _joints(robot: Robot, prefix: str, name: str) -> Iterator[str]:
    limits = robot.limits
    for i, (joint, ((x, y, z), roll)) in enumerate(
            zip(robot.joint_names(prefix), joint_origins(robot), strict=True)):
        yield (f'<joint name="{joint}" type="revolute"><parent link="{name}_link{i}"/>'
               f'<child link="{name}_link{i + 1}"/>'
               f'<origin xyz="{x!r} {y!r} {z!r}" rpy="{roll!r} 0 0"/><axis xyz="0 0 1"/>'
               f'<limit lower="{limits.hardware_lower[i]!r}" upper="{limits.hardware_upper[i]!r}"'
               f' velocity="{robot.joint_velocity[i]!r}" effort="{robot.joint_torque[i]!r}"/>'
               '</joint>')
    yield _fixed(robot.flange_joint(prefix), f'{name}_link{DOF}', f'{name}_link{DOF + 1}',
                 robot.flange_m)


def _gripper(gripper: GripperModel, name: str, prefix: str) -> Iterator[str]:
    base, finger, joint, base_joint = (prefixed(part, prefix) for part in (
        gripper.base_link, gripper.finger_link, gripper.joint, gripper.base_joint))
    yield _link(base, 0.04, 0.1, 0.05)
    yield _link(finger, 0.01, 0.05, 0.03)
    yield _fixed(base_joint, f'{name}_link{DOF + 1}', base, 0.0)
    x, y, z = gripper.joint_at
    yield (f'<joint name="{joint}" type="revolute"><parent link="{base}"/>'
           f'<child link="{finger}"/><origin xyz="{x!r} {y!r} {z!r}" rpy="0 0 0"/>'
           f'<axis xyz="0 -1 0"/><limit lower="0.0" upper="{gripper.closed_rad}" velocity="2.0" '
           'effort="50.0"/></joint>')


def _frame(frame: FixedFrame) -> Iterator[str]:
    size = ' '.join(map(repr, CAMERA_BOX))
    yield (f'<link name="{frame.child}"><visual><geometry><box size="{size}"/></geometry></visual>'
           '</link>' if frame.child.endswith('_camera_link') else f'<link name="{frame.child}"/>')
    place, turn = (' '.join(repr(float(v)) for v in part)
                   for part in (frame.pose[:3], frame.pose[3:]))
    yield (f'<joint name="{frame.child}_joint" type="fixed"><parent link="{frame.parent}"/>'
           f'<child link="{frame.child}"/><origin xyz="{place}" rpy="{turn}"/></joint>')


def _fixed(joint: str, parent: str, child: str, z: float) -> str:
    return (f'<joint name="{joint}" type="fixed"><parent link="{parent}"/>'
            f'<child link="{child}"/><origin xyz="0 0 {z!r}" rpy="0 0 0"/></joint>')


def _link(name: str, radius: float, length: float, z: float) -> str:
    shape = (f'<origin xyz="0 0 {z!r}" rpy="0 0 0"/><geometry><cylinder radius="{radius!r}" '
             f'length="{length!r}"/></geometry>')
    return f'<link name="{name}"><visual>{shape}</visual></link>'


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
