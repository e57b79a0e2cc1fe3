"""
The arms of DROID stations, one row each: everything that depends on which Franka it is.

What the maker publishes, and DROID's limits a little inside of it, from which the differential IK
keeps a distance, as DROID's does. Whatever needs the name of a joint or frame, a limit, the reset
pose, the geometry or the masses of an arm takes it from here.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The joints of every arm here.
DOF = 7

# What DROID's velocity actions of 1 add to the measured joint (rad) or flange (m, rad).
MAX_JOINT_DELTA, MAX_LINEAR_DELTA, MAX_ROTATION_DELTA = 0.2, 0.075, 0.15
# DROID's hybrid joint impedance: joint and cartesian stiffness and damping.
KQ = np.array([40.0, 30.0, 50.0, 25.0, 35.0, 25.0, 10.0])
KQD = np.array([4.0, 6.0, 5.0, 5.0, 3.0, 2.0, 1.0])
KX = np.array([400.0] * 3 + [15.0] * 3)
KXD = np.array([37.0] * 3 + [2.0] * 3)
# What the names of the base and flange frames end with.
BASE_LINK, FLANGE_LINK = '_link0', f'_link{DOF + 1}'
# DROID's reset pose, rad.
RESET_JOINTS = (0.0, -math.pi / 5, 0.0, -4 * math.pi / 5, 0.0, 3 * math.pi / 5, 0.0)
# Modified (Craig) Denavit-Hartenberg parameters a_{i-1} (m), d_i (m), alpha_{i-1} (rad) of joints
# 1 to 7, and the way from the seventh frame to the flange (m): the same for Panda and FR3.
FRANKA_DH = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
)
FRANKA_FLANGE_M = 0.107


@dataclass(frozen=True)
class ArmLimits:
    """
    Bounds on what may be sent to an arm.

    Joints rad, (7,); velocity rad/s; torque N m of the controller's spring; ``workspace_*`` the
    box (m, base frame) that the flange stays in, ``elbow_*`` that of the elbow.
    ``max_joint_delta`` bounds how far an action's target may lie from the measured joints (rad),
    ``max_lead`` the same for a raw target that reaches the arm a little later.
    """

    joint_lower: tuple[float, ...]
    joint_upper: tuple[float, ...]
    hardware_lower: tuple[float, ...]
    hardware_upper: tuple[float, ...]
    velocity: tuple[float, ...] = (2.075,) * 4 + (2.51,) * 3
    torque: tuple[float, ...] = (86.0,) * 4 + (11.5,) * 3
    workspace_lower: tuple[float, ...] = (-1.0, -1.0, -1.0)
    workspace_upper: tuple[float, ...] = (1.0, 1.0, 1.0)
    elbow_lower: tuple[float, ...] = (-1.0, -1.0, -1.0)
    elbow_upper: tuple[float, ...] = (1.0, 1.0, 1.0)
    velocity_margin: float = 0.5
    max_joint_delta: float = MAX_JOINT_DELTA
    max_lead: float = 0.3

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            size = 3 if field.name.startswith(('workspace', 'elbow')) else DOF
            if isinstance(value, tuple) and len(value) != size:
                raise ValueError(f'{field.name} needs {size} numbers, found {len(value)}')
            if not np.all(np.isfinite(value)):
                raise ValueError(f'{field.name} must be finite, found {value}')
        for low, high in (('joint_lower', 'joint_upper'), ('hardware_lower', 'hardware_upper'),
                          ('workspace_lower', 'workspace_upper'), ('elbow_lower', 'elbow_upper')):
            if np.any(np.array(getattr(self, low)) >= np.array(getattr(self, high))):
                raise ValueError(f'{low} must lie below {high} in every element')
        for name in ('velocity', 'torque', 'velocity_margin', 'max_joint_delta', 'max_lead'):
            if np.any(np.array(getattr(self, name)) <= 0.0):
                raise ValueError(f'{name} must be positive, found {getattr(self, name)}')

    @cached_property
    def q_min(self) -> Floats:
        """Lower joint limits (7,) rad: DROID's or the maker's, whichever is tighter."""
        return np.maximum(self.joint_lower, self.hardware_lower)

    @cached_property
    def q_max(self) -> Floats:
        """Upper joint limits (7,) rad: DROID's or the maker's, whichever is tighter."""
        return np.minimum(self.joint_upper, self.hardware_upper)

    @cached_property
    def dq_max(self) -> Floats:
        """Velocity limits (7,) rad/s."""
        return np.array(self.velocity)

    @cached_property
    def tau_max(self) -> Floats:
        """Torque limits (7,) N m."""
        return np.array(self.torque)

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """Lower and upper corners (2, 3) m of the boxes of flange and elbow, in this order."""
        return (np.array([self.workspace_lower, self.elbow_lower]),
                np.array([self.workspace_upper, self.elbow_upper]))


@dataclass(frozen=True)
class Link:
    """A link's inertia: kg, centre of mass in m, and xx yy zz xy xz yz about it in kg m^2."""

    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]


# Of each joint: the inertia of its rotor as its gear shows it, kg m^2. Of all: N m s/rad.
ROTORS = (0.12, 0.12, 0.12, 0.12, 0.06, 0.06, 0.06)
FRICTION = 0.4


@dataclass(frozen=True)
class Robot:
    """
    One arm.

    ``name`` is what joint and frame names begin with, and the value of ``robot_type``.
    ``joint_velocity`` (7,) rad/s, ``joint_acceleration`` (7,) rad/s² and ``joint_torque`` (7,) N m
    are the maker's limits; those of position are ``limits.hardware_*``. ``limits`` is what a
    station allows unless it says less; ``links`` are the moving ones, first to last, whose meshes
    are in ``mesh_folder`` of the share folders where franka_description is installed.
    """

    name: str
    title: str
    limits: ArmLimits
    joint_velocity: tuple[float, ...]
    joint_acceleration: tuple[float, ...]
    joint_torque: tuple[float, ...]
    links: tuple[Link, ...]
    mesh_folder: str
    reset_joints: tuple[float, ...] = RESET_JOINTS
    dh: tuple[tuple[float, float, float], ...] = FRANKA_DH
    flange_m: float = FRANKA_FLANGE_M

    def arm_name(self, prefix: str = '') -> str:
        """Return what all names of an arm begin with, such as ``panda`` or ``left_fr3``."""
        return f'{prefix}_{self.name}' if prefix else self.name

    def joint_names(self, prefix: str = '') -> list[str]:
        """Return Franka's joint names, such as ``left_fr3_joint1``."""
        return [f'{self.arm_name(prefix)}_joint{i}' for i in range(1, DOF + 1)]

    def flange_joint(self, prefix: str = '') -> str:
        """Return Franka's name of the fixed joint behind the last one."""
        return f'{self.arm_name(prefix)}_joint{DOF + 1}'

    def base_frame(self, prefix: str = '') -> str:
        """Return the name of the base frame, such as ``panda_link0``: poses are in it."""
        return f'{self.arm_name(prefix)}{BASE_LINK}'

    def flange_frame(self, prefix: str = '') -> str:
        """Return the name of the flange's frame, such as ``panda_link8``."""
        return f'{self.arm_name(prefix)}{FLANGE_LINK}'


MESHES = 'franka_description/meshes/robot_arms'
# Masses and inertias, as Franka publishes them.
PANDA_LINKS = (
    Link(2.7907, (0.00033, -0.02204, -0.04762),
         (0.01564783, 0.01439884, 0.00500444, 5.31e-06, -3.677e-05, -0.00248481)),
    Link(2.5420, (0.00038, -0.09211, 0.01908),
         (0.01662428, 0.00462501, 0.01545125, 3.086e-05, 8.36e-06, 0.0035589983)),
    Link(2.2513, (0.05152, 0.01696, -0.02971),
         (0.00631742, 0.00866285, 0.00657804, 0.0009731, 0.00292526, 0.00093469)),
    Link(2.2037, (-0.05113, 0.05825, 0.01698),
         (0.00784586, 0.00649543, 0.0100308, -0.00339592, 0.00158704, -0.00181478)),
    Link(2.2855, (-0.00005, 0.03730, -0.09280),
         (0.02297015, 0.02095061, 0.00430607, -9.49e-06, -2.063e-05, 0.00382346)),
    Link(1.353, (0.06572, -0.00371, 0.00153),
         (0.00087965, 0.00277797, 0.00286702, -0.00021488, -0.00011912, 1.274e-05)),
    Link(0.35973, (0.00089, -0.00044, 0.05491),
         (0.00019541, 0.0001921, 0.00017936, 1.65e-06, 1.49e-06, -1.31e-06)),
)
FR3_LINKS = (
    Link(2.927465, (4.128e-07, -0.0181251, -0.0386036),
         (0.0239273, 0.0224822, 0.0063501, 1.332e-05, -0.000114, -0.001995)),
    Link(2.935537, (0.0031829, -0.0743222, 0.0088146),
         (0.0419389, 0.0251451, 0.0617021, 0.0002026, 0.0040778, -0.0042252)),
    Link(2.244901, (0.0407016, -0.0048201, -0.0289731),
         (0.0241014, 0.0197405, 0.0190445, 0.0024047, -0.0028563, -0.0021042)),
    Link(2.615596, (-0.0459101, 0.0630493, -0.0085188),
         (0.03453, 0.0288816, 0.0412547, 0.0132255, 0.0101514, -0.0009763)),
    Link(2.327121, (-0.001604, 0.0292536, -0.0972966),
         (0.0516103, 0.0478773, 0.0164236, -0.0057152, -0.0035673, 0.010674)),
    Link(1.817038, (0.0597131, -0.0410295, -0.0101693),
         (0.0054123, 0.0140583, 0.0160808, 0.0061935, 0.0014219, -0.0013141)),
    Link(0.627143, (0.0045226, 0.0086262, -0.0161633),
         (0.0002109, 0.0001772, 5.993e-05, -2.433e-05, 4.564e-05, 8.744e-05)),
)
PANDA = Robot(
    'panda', 'Franka Panda (FER)',
    ArmLimits(
        joint_lower=(-2.80, -1.66, -2.80, -2.97, -2.80, 0.08, -2.80),
        joint_upper=(2.80, 1.66, 2.80, -0.17, 2.80, 3.65, 2.80),
        hardware_lower=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
        hardware_upper=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)),
    joint_velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    joint_acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    joint_torque=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0), links=PANDA_LINKS,
    mesh_folder=f'{MESHES}/fer')
FR3 = Robot(
    'fr3', 'Franka Research 3',
    ArmLimits(
        joint_lower=(-2.65, -1.68, -2.80, -2.95, -2.70, 0.45, -2.90),
        joint_upper=(2.65, 1.68, 2.80, -0.16, 2.70, 4.40, 2.90),
        hardware_lower=(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
        hardware_upper=(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159)),
    joint_velocity=(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    joint_acceleration=(10.0,) * DOF,
    joint_torque=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0), links=FR3_LINKS,
    mesh_folder=f'{MESHES}/fr3')
ROBOTS = {robot.name: robot for robot in (PANDA, FR3)}


@cache
def robot_of_joints(names: tuple[str, ...]) -> Robot | None:
    """Return the robot whose joints ``names`` are, in order and with any prefix; None: of none."""
    for robot in ROBOTS.values():
        own = robot.joint_names()
        prefix = names[0].removesuffix(own[0]) if names else ''
        if names == tuple(prefix + name for name in own):
            return robot
    return None


