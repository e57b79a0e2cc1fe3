"""The arm's MJCF: published kinematics and inertias, primitive shapes that look like a Franka."""

from math import cos, sin
from typing import Any

from arena_robot.drivers.sim.mjcf import Node
from arena_robot.robots.arms import FRICTION, ROTORS, Robot

JOINTS = tuple(f'joint{i}' for i in range(1, 8))
TASK_TENDONS = tuple(f'task{i}' for i in range(6))
FLANGE_SITE = 'flange'

# Per link: (kind, material, size, from, to) in the link's frame; 'hit' capsules also collide.
_SHAPES: tuple[tuple[tuple[Any, ...], ...], ...] = (
    (('cylinder', 'arm_white', 0.062, (0, 0, -0.195), (0, 0, -0.075)),
     ('cylinder', 'arm_grey', 0.0635, (0, 0, -0.193), (0, 0, -0.183)),
     ('capsule', 'arm_white', 0.061, (0, 0, -0.09), (0, 0, -0.02)),
     ('cylinder', 'arm_white', 0.062, (0, -0.055, 0), (0, 0.055, 0))),
    (('cylinder', 'arm_white', 0.061, (0, 0, 0.052), (0, 0, 0.078)),
     ('cylinder', 'arm_grey', 0.046, (0, 0, 0.078), (0, 0, 0.083)),
     ('cylinder', 'arm_white', 0.061, (0, 0, -0.078), (0, 0, -0.052)),
     ('cylinder', 'arm_grey', 0.046, (0, 0, -0.083), (0, 0, -0.078)),
     ('capsule', 'arm_white', 0.058, (0, -0.05, 0), (0, -0.12, 0)),
     ('cylinder', 'arm_white', 0.060, (0, -0.10, 0), (0, -0.19, 0)),
     ('cylinder', 'arm_grey', 0.0605, (0, -0.182, 0), (0, -0.192, 0))),
    (('cylinder', 'arm_white', 0.060, (0, 0, -0.122), (0, 0, -0.06)),
     ('capsule', 'arm_white', 0.054, (0.005, 0, -0.07), (0.0825, 0, -0.012)),
     ('cylinder', 'arm_white', 0.055, (0.0825, -0.05, 0), (0.0825, 0.05, 0))),
    (('cylinder', 'arm_white', 0.054, (0, 0, 0.05), (0, 0, 0.074)),
     ('cylinder', 'arm_grey', 0.040, (0, 0, 0.074), (0, 0, 0.079)),
     ('cylinder', 'arm_white', 0.054, (0, 0, -0.074), (0, 0, -0.05)),
     ('cylinder', 'arm_grey', 0.040, (0, 0, -0.079), (0, 0, -0.074)),
     ('capsule', 'arm_white', 0.052, (-0.01, 0.02, 0), (-0.0825, 0.075, 0)),
     ('cylinder', 'arm_white', 0.056, (-0.0825, 0.062, 0), (-0.0825, 0.122, 0)),
     ('cylinder', 'arm_grey', 0.0565, (-0.0825, 0.114, 0), (-0.0825, 0.124, 0))),
    (('cylinder', 'arm_white', 0.056, (0, 0, -0.26), (0, 0, -0.20)),
     ('capsule', 'arm_white', 0.052, (0, 0.004, -0.215), (0, 0.055, -0.10), 'hit'),
     ('capsule', 'arm_white', 0.043, (0, 0.066, -0.12), (0, 0.05, -0.01), 'hit'),
     ('cylinder', 'arm_white', 0.048, (0, -0.02, 0), (0, 0.072, 0))),
    (('cylinder', 'arm_white', 0.047, (0, 0, -0.048), (0, 0, 0.016), 'hit'),
     ('cylinder', 'arm_grey', 0.036, (0, 0, 0.016), (0, 0, 0.022)),
     ('capsule', 'arm_white', 0.044, (0.02, 0, 0), (0.088, 0, 0), 'hit'),
     ('cylinder', 'arm_white', 0.047, (0.088, -0.052, 0), (0.088, 0.045, 0))),
    (('cylinder', 'arm_white', 0.045, (0, 0, 0.05), (0, 0, 0.082), 'hit'),
     ('cylinder', 'arm_grey', 0.0315, (0, 0, 0.082), (0, 0, 0.107)),
     ('capsule', 'arm_white', 0.013, (0.038, 0.0, 0.066), (0.058, 0.0, 0.066)),
     ('cylinder', 'arm_blue', 0.006, (0.062, 0.0, 0.066), (0.072, 0.0, 0.066))),
)


def add_arm(world: Node, robot: Robot) -> Node:
    """Add base and seven links below ``world``; return the flange body (``link8``)."""
    base = world.add('body', name='link0')
    for kind, material, size, a, b in (
            ('cylinder', 'arm_white', 0.066, (0, 0, 0.004), (0, 0, 0.138)),
            ('cylinder', 'arm_grey', 0.0675, (0, 0, 0.126), (0, 0, 0.136)),
            ('capsule', 'arm_white', 0.055, (-0.005, 0, 0.055), (-0.085, 0, 0.055)),
            ('cylinder', 'arm_grey', 0.085, (0, 0, 0), (0, 0, 0.014))):
        base.add('geom', class_='visual', type=kind, material=material, size=[size],
                 fromto=(*a, *b))
    base.add('geom', class_='visual', type='box', material='arm_grey', size=(0.075, 0.07, 0.007),
             pos=(-0.07, 0, 0.007))
    body = base
    for i in range(7):
        body = _link(body, robot, i)
    flange = body.add('body', name='link8', pos=(0, 0, robot.flange_m))
    flange.add('site', name=FLANGE_SITE, size=[0.004], rgba=(0, 0, 0, 0))
    return flange


def _link(parent: Node, robot: Robot, i: int) -> Node:
    a, d, alpha = robot.dh[i]
    body = parent.add('body', name=f'link{i + 1}', gravcomp=1,
                      pos=(a, -sin(alpha) * d, cos(alpha) * d),
                      quat=(cos(alpha / 2), sin(alpha / 2), 0, 0))
    link = robot.links[i]
    body.add('inertial', mass=link.mass, pos=link.com, fullinertia=link.inertia)
    tau = robot.joint_torque[i]
    span = robot.limits.hardware_lower[i], robot.limits.hardware_upper[i]
    body.add('joint', name=JOINTS[i], axis=(0, 0, 1), range=span,
             armature=ROTORS[i], damping=FRICTION, actuatorfrcrange=(-tau, tau))
    for kind, material, size, start, end, *hit in _SHAPES[i]:
        body.add('geom', class_='arm' if hit else 'visual', type=kind, material=material,
                 size=[size], fromto=(*start, *end))
    return body


def add_servos(root: Node, robot: Robot) -> None:
    """
    Add seven joint servos and six task-space servos.

    The task-space ones act through fixed tendons whose coefficients the controller sets to the
    rows of the flange Jacobian, so that MuJoCo itself evaluates the hybrid law at every step.
    """
    tendons, actuators = root.add('tendon'), root.add('actuator')
    for name in TASK_TENDONS:
        fixed = tendons.add('fixed', name=name)
        for joint in JOINTS:
            fixed.add('joint', joint=joint, coef=1)
    for name in JOINTS:
        actuators.add('general', name=name, joint=name, gainprm=(1, 0, 0), biastype='affine',
                      biasprm=(0, -1, -1))
    for name in TASK_TENDONS:
        actuators.add('general', name=name, tendon=name, gainprm=(1, 0, 0), biastype='affine',
                      biasprm=(0, -1, -1))
