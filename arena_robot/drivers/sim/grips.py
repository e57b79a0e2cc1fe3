"""Places where the gripper holds a link: sites of the model, ``<body>_grip``."""

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.drivers.sim.props import COLOURS

SUFFIX = '_grip'
PEG = (0.009, 0.007, 0.022)
_SWIVEL = (1.4, 0.002, 0.0005)
_METAL = (0.35, 0.36, 0.38, 1)
Rgba = tuple[float, float, float, float]


def colour(name: str) -> Rgba:
    """Return a colour of the table, opaque."""
    red, green, blue = COLOURS[name]
    return red, green, blue, 1.0


def add_grip(body: Node, name: str, pos: tuple[float, float, float] | Floats, width: float = 0.05,
             quat: Floats | None = None) -> None:
    """
    Mark where ``body`` (of that name) is held from above.

    The fingers close along the site's y axis, from ``width`` (m) apart.
    """
    turn = {} if quat is None else {'quat': quat}
    body.add('site', name=f'{name}{SUFFIX}', pos=pos, size=[width / 2], rgba=(0, 0, 0, 0), **turn)


def add_peg(parent: Node, name: str, foot: tuple[float, float, float],
            half: tuple[float, float, float] = PEG) -> None:
    """
    Add a body with an upright peg that is held near its top; ``foot`` is where it begins.

    It turns easily between the pads, so that the hand can stay upright on the way of a hinge.
    """
    peg = parent.add('body', name=name, pos=foot, gravcomp=1)
    peg.add('geom', class_='prop', type='box', size=half, pos=(0, 0, half[2]), density=300,
            rgba=_METAL, priority=2, friction=_SWIVEL)
    add_grip(peg, name, (0, 0, 2 * half[2] - 0.016))
