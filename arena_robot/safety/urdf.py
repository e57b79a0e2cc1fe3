"""URDF of an arm, its gripper and cameras, from the table of robots; shapes are plain."""

from collections.abc import Iterator, Sequence

from arena_robot.robots.arms import DOF, Robot
from arena_robot.robots.grippers import ROBOTIQ_2F85, GripperModel, prefixed
from arena_robot.safety.camera_frames import FixedFrame
from arena_robot.safety.limits import robot_of

# Radius and length (m) of the cylinder that stands for a link, along its z axis, and its centre.
SHAPES = ((0.09, 0.14, 0.07), (0.06, 0.28, -0.19), (0.06, 0.12, 0.0), (0.06, 0.20, -0.12),
          (0.06, 0.12, 0.0), (0.05, 0.26, -0.26), (0.05, 0.08, 0.0), (0.045, 0.06, 0.05),
          (0.03, 0.01, 0.0))
CAMERA_BOX = (0.03, 0.12, 0.03)  # m: x forward, y left, z up


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
    for one in connected(link_names(robot_type, prefix, gripper), frames):
        lines += _frame(one)
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
    while found := [one for one in rest if one.parent in there and one.child not in there]:
        one = found[0]
        there.add(one.child)
        out.append(one)
        rest = [other for other in rest if other.child != one.child]
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


def _frame(one: FixedFrame) -> Iterator[str]:
    size = ' '.join(map(repr, CAMERA_BOX))
    yield (f'<link name="{one.child}"><visual><geometry><box size="{size}"/></geometry></visual>'
           '</link>' if one.child.endswith('_camera_link') else f'<link name="{one.child}"/>')
    place, turn = (' '.join(repr(float(v)) for v in part) for part in (one.pose[:3], one.pose[3:]))
    yield (f'<joint name="{one.child}_joint" type="fixed"><parent link="{one.parent}"/>'
           f'<child link="{one.child}"/><origin xyz="{place}" rpy="{turn}"/></joint>')


def _fixed(joint: str, parent: str, child: str, z: float) -> str:
    return (f'<joint name="{joint}" type="fixed"><parent link="{parent}"/>'
            f'<child link="{child}"/><origin xyz="0 0 {z!r}" rpy="0 0 0"/></joint>')


def _link(name: str, radius: float, length: float, z: float) -> str:
    shape = (f'<origin xyz="0 0 {z!r}" rpy="0 0 0"/><geometry><cylinder radius="{radius!r}" '
             f'length="{length!r}"/></geometry>')
    return f'<link name="{name}"><visual>{shape}</visual></link>'
