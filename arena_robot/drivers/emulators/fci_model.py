"""The URDF that a control box gives to its clients: kinematics, inertias and limits of an arm."""

from arena_robot.robots.arms import DOF, Robot
from arena_robot.safety.urdf import joint_origins

# Of each joint: what the FR3's own description says about speed near the ends of its range.
VELOCITY_OFFSET = (0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35)
DECELERATION = (6.0, 2.585, 3.5, 4.0, 17.0, 5.5, 17.0)


def box_urdf(robot: Robot) -> str:
    """Return the text, with ``link0`` to ``link8`` and ``joint1`` to ``joint8``."""
    lines = [f'<?xml version="1.0"?><robot name="{robot.name}"><link name="link0"/>']
    limits, links = robot.limits, robot.links
    for i, ((x, y, z), roll) in enumerate(joint_origins(robot)):
        xx, yy, zz, xy, xz, yz = links[i].inertia
        centre = ' '.join(map(repr, links[i].com))
        lines.append(
            f'<link name="link{i + 1}"><inertial><origin xyz="{centre}" rpy="0 0 0"/>'
            f'<mass value="{links[i].mass!r}"/><inertia ixx="{xx!r}" ixy="{xy!r}" ixz="{xz!r}" '
            f'iyy="{yy!r}" iyz="{yz!r}" izz="{zz!r}"/></inertial></link>'
            f'<joint name="joint{i + 1}" type="revolute"><origin rpy="{roll!r} 0 0" '
            f'xyz="{x!r} {y!r} {z!r}"/><parent link="link{i}"/><child link="link{i + 1}"/>'
            f'<axis xyz="0 0 1"/><limit effort="{robot.joint_torque[i]!r}" '
            f'velocity="{robot.joint_velocity[i]!r}" lower="{limits.hardware_lower[i]!r}" '
            f'upper="{limits.hardware_upper[i]!r}"/><position_based_velocity_limits '
            f'velocity_offset="{VELOCITY_OFFSET[i]}" deceleration_limit="{DECELERATION[i]}"/>'
            '</joint>')
    lines.append(
        f'<link name="link{DOF + 1}"/><joint name="joint{DOF + 1}" type="fixed">'
        f'<origin rpy="0 0 0" xyz="0 0 {robot.flange_m!r}"/><parent link="link{DOF}"/>'
        f'<child link="link{DOF + 1}"/></joint></robot>')
    return '\n'.join(lines)
