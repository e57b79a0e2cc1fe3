"""
Published numbers of the two arms DROID stations use: Franka Panda (FER) and Research 3.

Modified (Craig) DH parameters, URDF joint limits and link inertias as Franka publishes them;
link frames follow the DH convention, the flange is ``link8``.
"""

from dataclasses import dataclass

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError

HALF_PI = 1.5707963267948966
DH_A = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
DH_D = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
DH_ALPHA = (0.0, -HALF_PI, HALF_PI, HALF_PI, -HALF_PI, HALF_PI, HALF_PI)
FLANGE_M = 0.107

RESET_Q = (0.0, -0.6283185307, 0.0, -2.5132741229, 0.0, 1.8849555922, 0.0)
"""DROID's reset pose: 0, -pi/5, 0, -4 pi/5, 0, 3 pi/5, 0."""


@dataclass(frozen=True)
class Link:
    """A link's inertia: kg, centre of mass in m, and xx yy zz xy xz yz about it in kg m^2."""

    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class RobotModel:
    """One arm: limits per joint in rad, rad/s and N m, and its seven moving links."""

    name: str
    q_min: tuple[float, ...]
    q_max: tuple[float, ...]
    dq_max: tuple[float, ...]
    tau_max: tuple[float, ...]
    links: tuple[Link, ...]


PANDA = RobotModel(
    'panda',
    q_min=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    q_max=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    dq_max=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    tau_max=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0),
    links=(
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
    ))

FR3 = RobotModel(
    'fr3',
    q_min=(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
    q_max=(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159),
    dq_max=(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    tau_max=(87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0),
    links=(
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
    ))

ROBOTS = {robot.name: robot for robot in (PANDA, FR3)}


def robot_model(name: str) -> RobotModel:
    """Return an arm by name; ConfigError names the nearest known one."""
    try:
        return ROBOTS[name]
    except KeyError:
        raise ConfigError(f"no robot type '{name}'.{nearest(name, ROBOTS)}") from None
