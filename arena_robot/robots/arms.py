"""
What is known of an arm, and the rows of DROID's Frankas.

A row has what the maker publishes, and the limits of a station a little inside of it, from which
the differential IK keeps a distance, as DROID's does. Whatever needs the number of joints, the
name of a joint or frame, a limit, the reset pose, the geometry or the masses of an arm takes it
from its row. Rows of other arms come from files: :mod:`arena_robot.safety.embodiments`.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The joints of DROID's arms; those of any other arm are counted in its row.
DOF = 7
MOST_JOINTS = 16    # of one arm: two arms of seven and a hand of each, that are moved as one

# What DROID's velocity actions of 1 add to the measured joint (rad) or flange (m, rad).
MAX_JOINT_DELTA, MAX_LINEAR_DELTA, MAX_ROTATION_DELTA = 0.2, 0.075, 0.15
# DROID's hybrid joint impedance: joint and cartesian stiffness and damping.
KQ = np.array([40.0, 30.0, 50.0, 25.0, 35.0, 25.0, 10.0])
KQD = np.array([4.0, 6.0, 5.0, 5.0, 3.0, 2.0, 1.0])
KX = np.array([400.0] * 3 + [15.0] * 3)
KXD = np.array([37.0] * 3 + [2.0] * 3)
# What the names of the base and flange frames of DROID's arms end with.
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

# The pose of a frame in itself: its 12 numbers are told at Chain.
HERE = (1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)


@dataclass(frozen=True)
class Shape:
    """
    A convex part of a ``link``, 0 the base, i what joint i moves, to tell how near links are.

    ``kind`` and ``size`` (m) are those of a MuJoCo geom: sphere, capsule, cylinder, ellipsoid or
    box at ``pose`` in the link's frame; or mesh, the hull of ``points`` in that frame (m).
    """

    link: int
    kind: str
    size: tuple[float, ...] = ()
    pose: tuple[float, ...] = HERE
    points: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True)
class Body:
    """The shapes of an arm's links, and the pairs of links that touch at its reset pose."""

    shapes: tuple[Shape, ...] = ()
    touching: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Chain:
    """
    Where the n joints of an arm are, from its base to its end; of two arms moved as one, a tree.

    A pose has 12 numbers: three rows of a rotation, each followed by a coordinate in m. ``places``
    has each joint's in the link before it, ``end`` the flange's in the last link. A joint turns
    about its unit vector in ``axes``, through the origin of its place, or slides along it where
    ``slides`` says so. ``elbow`` is the number of the link, from 0, whose origin has a workspace
    of its own. ``body`` returns the shapes of the links, none where no model has them; they
    are read from its files when they are first asked for. ``before`` has of each joint the number
    of the one that it hangs on, -1 for the base; empty: each hangs on the one before it. The
    flange is behind the last joint.
    """

    places: tuple[tuple[float, ...], ...]
    axes: tuple[tuple[float, ...], ...]
    slides: tuple[bool, ...]
    end: tuple[float, ...]
    elbow: int
    body: Callable[[], Body] = dataclasses.field(default=Body, repr=False, compare=False)
    before: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.places)
        if not 1 <= count <= MOST_JOINTS or len(self.axes) != count or len(self.slides) != count:
            raise ValueError(f'an arm has 1 to {MOST_JOINTS} joints, each with a place and an '
                             f'axis; found {count} places, {len(self.axes)} axes')
        if not 0 <= self.elbow < count:
            raise ValueError(f'elbow must be a link from 0 to {count - 1}, found {self.elbow}')
        if len(self.parents) != count or any(not -1 <= j < i for i, j in enumerate(self.parents)):
            raise ValueError('before needs for each joint an earlier one or -1, found '
                             f'{self.before}')

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Of each joint the number of the one that it hangs on; -1: the base."""
        return self.before or tuple(range(-1, len(self.places) - 1))

    @cached_property
    def moves(self) -> NDArray[np.bool_]:
        """Whether link i is moved by joint j (n, n)."""
        out = np.eye(len(self.places), dtype=bool)
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                out[i] |= out[parent]
        return out

    @cached_property
    def others(self) -> tuple[int, ...]:
        """The numbers of the joints that do not move the flange: of other arms and their hands."""
        return tuple(np.flatnonzero(~self.moves[-1]).tolist())

    @property
    def elbows(self) -> tuple[int, ...]:
        """The elbow, and the link in the middle of each other arm."""
        roots = [i for i in self.others if self.parents[i] not in self.others]
        links = [[i for i in self.others if self.moves[i, root]] for root in roots]
        return self.elbow, *(arm[(len(arm) - 1) // 2] for arm in links)

    @cached_property
    def parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (n, 4, 4) C, A, B, D of the poses C + cos(q) A + sin(q) B + q D of the links."""
        constant, cosine, sine, slope = (np.zeros((len(self.places), 4, 4)) for _ in range(4))
        for i, (place, (x, y, z), slide) in enumerate(
                zip(self.places, self.axes, self.slides, strict=True)):
            pose, along = matrix_of(place), np.outer((x, y, z), (x, y, z))
            constant[i], turn = pose, pose[:3, :3]
            if slide:
                slope[i, :3, 3] = turn @ (x, y, z)
                continue
            constant[i, :3, :3] = turn @ along
            cosine[i, :3, :3] = turn @ (np.eye(3) - along)
            sine[i, :3, :3] = turn @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        return constant, cosine, sine, slope

    @cached_property
    def directions(self) -> Floats:
        """The axes (n, 3, 1)."""
        return np.array(self.axes)[:, :, None]

    @cached_property
    def sliding(self) -> NDArray[np.bool_]:
        """Which joints slide (n,)."""
        return np.array(self.slides)

    @cached_property
    def end_pose(self) -> Floats:
        """The flange in the last link (4, 4)."""
        return matrix_of(self.end)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each joint's position, rad or m."""
        return tuple('m' if slide else 'rad' for slide in self.slides)


def matrix_of(pose: tuple[float, ...]) -> Floats:
    """Return the (4, 4) of the 12 numbers of a pose."""
    return np.vstack([np.array(pose, np.float64).reshape(3, 4), [0.0, 0.0, 0.0, 1.0]])


def _modified_dh(rows: tuple[tuple[float, float, float], ...], flange_m: float) -> Chain:
    """Return a chain of turning joints by their DH parameters, whose angles are quarter turns."""
    places = []
    for a, d, alpha in rows:
        c, s = round(math.cos(alpha), 15), round(math.sin(alpha), 15)
        places.append((1.0, 0.0, 0.0, a, 0.0, c, 0.0 - s, -d * s, 0.0, s, c, d * c))
    return Chain(tuple(places), ((0.0, 0.0, 1.0),) * len(rows), (False,) * len(rows),
                 (*HERE[:-1], flange_m), elbow=3)


FRANKA_CHAIN = _modified_dh(FRANKA_DH, FRANKA_FLANGE_M)


@dataclass(frozen=True)
class ArmLimits:
    """
    Bounds on what may be sent to an arm of the geometry ``chain``, which has n joints.

    Joints rad, or m where they slide, (n,); velocity per second; torque N m (or N) of the
    controller's spring, whose stiffness is ``stiffness`` (n,) at the joints and
    ``flange_stiffness`` (6,) at the flange: zeros where a controller of positions has none.
    ``workspace_*`` is the box (m, base frame) that the flange stays in, and all links of other
    arms, ``elbow_*`` that of the elbow. ``max_joint_delta`` bounds how far an action's target may
    lie from the measured joints (rad), ``max_lead`` the same for a raw target that reaches the arm
    a little later; a joint that slides may go ``scale`` of it, in m. Links are kept
    ``self_distance`` (m) apart where the chain has shapes; 0: they are not.
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
    stiffness: tuple[float, ...] = tuple(KQ)
    flange_stiffness: tuple[float, ...] = tuple(KX)
    self_distance: float = 0.02
    chain: Chain = FRANKA_CHAIN

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == 'chain':
                continue
            size = 3 if field.name.startswith(('workspace', 'elbow')) else (
                6 if field.name == 'flange_stiffness' else self.joints)
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
        if self.self_distance < 0.0:
            raise ValueError(f'self_distance must be 0 or more, found {self.self_distance}')

    @property
    def joints(self) -> int:
        """The number of joints, n."""
        return len(self.chain.places)

    @cached_property
    def scale(self) -> Floats:
        """The share (n,) of a bound in rad that holds for each joint: less where one slides."""
        return np.where(self.chain.sliding, MAX_LINEAR_DELTA / MAX_JOINT_DELTA, 1.0)

    @cached_property
    def q_min(self) -> Floats:
        """Lower joint limits (n,): the station's or the maker's, whichever is tighter."""
        return np.maximum(self.joint_lower, self.hardware_lower)

    @cached_property
    def q_max(self) -> Floats:
        """Upper joint limits (n,): the station's or the maker's, whichever is tighter."""
        return np.minimum(self.joint_upper, self.hardware_upper)

    @cached_property
    def dq_max(self) -> Floats:
        """Velocity limits (n,) rad/s or m/s."""
        return np.array(self.velocity)

    @cached_property
    def tau_max(self) -> Floats:
        """Torque limits (n,) N m or N."""
        return np.array(self.torque)

    @cached_property
    def box(self) -> tuple[Floats, Floats]:
        """Lower and upper corners m of the boxes of flange, elbow and the links of other arms."""
        others = len(self.chain.others)
        return (np.array([self.workspace_lower, self.elbow_lower]
                         + [self.workspace_lower] * others),
                np.array([self.workspace_upper, self.elbow_upper]
                         + [self.workspace_upper] * others))


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

    ``name`` is the value of ``robot_type``. ``joint_velocity`` (n,) rad/s, ``joint_acceleration``
    (n,) rad/s² and ``joint_torque`` (n,) N m are the maker's limits; those of position are
    ``limits.hardware_*``. ``limits`` is what a station allows unless it says less; ``links`` are
    the moving ones, first to last, whose meshes are in ``mesh_folder`` of the share folders where
    franka_description is installed; empty where their masses are not known. ``own_joints`` are
    the n names of the joints, ``own_frames`` the n + 2 of the base, the links and the flange;
    empty: Franka's, which begin with ``name``. ``fingers`` are the numbers of joints, from 0, that
    are those of another arm's hand, which touches what it holds.
    """

    name: str
    title: str
    limits: ArmLimits
    joint_velocity: tuple[float, ...]
    joint_acceleration: tuple[float, ...]
    joint_torque: tuple[float, ...]
    links: tuple[Link, ...] = ()
    mesh_folder: str = ''
    reset_joints: tuple[float, ...] = RESET_JOINTS
    own_joints: tuple[str, ...] = ()
    own_frames: tuple[str, ...] = ()
    fingers: tuple[int, ...] = ()

    @property
    def joints(self) -> int:
        """The number of joints, n."""
        return self.limits.joints

    def arm_name(self, prefix: str = '') -> str:
        """Return what all names of an arm begin with, such as ``panda`` or ``left_fr3``."""
        return f'{prefix}_{self.name}' if prefix else self.name

    def joint_names(self, prefix: str = '') -> list[str]:
        """Return the names of the joints, such as ``left_fr3_joint1``."""
        if self.own_joints:
            return [prefixed(name, prefix) for name in self.own_joints]
        return [f'{self.arm_name(prefix)}_joint{i}' for i in range(1, self.joints + 1)]

    def flange_joint(self, prefix: str = '') -> str:
        """Return the name of the fixed joint behind the last one."""
        return f'{self.arm_name(prefix)}_joint{self.joints + 1}'

    def frames(self, prefix: str = '') -> list[str]:
        """Return the n + 2 frames, such as ``panda_link0`` to ``panda_link8``."""
        if self.own_frames:
            return [prefixed(name, prefix) for name in self.own_frames]
        return [f'{self.arm_name(prefix)}_link{i}' for i in range(self.joints + 2)]

    def base_frame(self, prefix: str = '') -> str:
        """Return the name of the base frame, such as ``panda_link0``: poses are in it."""
        return self.frames(prefix)[0]

    def flange_frame(self, prefix: str = '') -> str:
        """Return the name of the flange's frame, such as ``panda_link8``."""
        return self.frames(prefix)[-1]


def prefixed(name: str, prefix: str) -> str:
    """Return the name of a joint or link of an arm with a prefix, such as ``left``."""
    return f'{prefix}_{name}' if prefix else name


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
def are_of_an_arm(names: tuple[str, ...]) -> bool:
    """
    Return whether ``names`` can be the joints of an arm, in their order.

    They are different names. Where one is a Franka's, all are, of one Franka or of two after each
    other: fewer of them, or in another order, are no arm.
    """
    frankas = [names[i:i + DOF] for i in range(0, len(names), DOF)]
    own = tuple(joint for robot in ROBOTS.values() for joint in robot.joint_names())
    return 1 <= len(names) <= MOST_JOINTS and len(set(names)) == len(names) and all(names) and (
        not any(name.endswith(own) for name in names)
        or all(robot_of_joints(part) is not None for part in frankas))


@cache
def robot_of_joints(names: tuple[str, ...]) -> Robot | None:
    """Return the robot whose joints ``names`` are, in order and with any prefix; None: of none."""
    for robot in ROBOTS.values():
        own = robot.joint_names()
        prefix = names[0].removesuffix(own[0]) if names else ''
        if names == tuple(prefix + name for name in own):
            return robot
    return None


