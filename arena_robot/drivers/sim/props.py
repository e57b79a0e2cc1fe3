"""
Props on the table; every prop writes its own MJCF.

Bowls, cups, plates and trays are turned meshes to render and rings of boxes for collisions. Where
the gripper holds a link there is a site of the model, ``<body>_grip``.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.mjcf import Node

Rgb = tuple[float, float, float]

COLOURS: dict[str, Rgb] = {
    'red': (0.80, 0.13, 0.12), 'green': (0.16, 0.55, 0.22), 'blue': (0.12, 0.30, 0.75),
    'yellow': (0.93, 0.77, 0.12), 'orange': (0.93, 0.46, 0.10), 'purple': (0.45, 0.22, 0.60),
    'white': (0.92, 0.92, 0.90), 'black': (0.12, 0.12, 0.13), 'pink': (0.90, 0.50, 0.60),
}
SUFFIX = '_grip'
PEG = (0.009, 0.007, 0.022)       # half sizes that fit between the open pads
_SWIVEL = (1.4, 0.002, 0.0005)    # sliding, torsional and rolling friction of a peg
_METAL = (0.35, 0.36, 0.38, 1)
Rgba = tuple[float, float, float, float]
_SEGMENTS = 10


class Prop(Protocol):
    """Something a scene can hold."""

    @property
    def name(self) -> str:
        """The name of its body and, when it is free, of its joint."""

    def build(self, root: Node, world: Node) -> None:
        """Write the prop below ``world`` (and servos or assets below ``root``)."""


def colour(name: str) -> Rgba:
    """Return a colour of the table, opaque."""
    red, green, blue = COLOURS[name]
    return red, green, blue, 1.0


def free_body(world: Node, name: str, z: float = 0.0) -> Node:
    """Add a body that can be moved, parked out of sight until a task places it."""
    body = world.add('body', name=name, pos=(0, 0, z))
    body.add('freejoint', name=name)
    return body


@dataclass(frozen=True)
class Block:
    """A box of ``half`` size in m standing on its bottom face."""

    name: str
    colour: str
    half: tuple[float, float, float] = (0.022, 0.022, 0.022)
    density: float = 450.0

    def build(self, root: Node, world: Node) -> None:
        """Add a free box."""
        free_body(world, self.name, self.half[2]).add(
            'geom', class_='prop', type='box', size=self.half, density=self.density,
            rgba=colour(self.colour))


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


def _turned(root: Node, world: Node, name: str, profile: Floats, rgba: Rgba, sides: int = 24,
            ) -> Node:
    """
    Add a body that looks like ``profile`` (N, 2) of radius and height turned around z; return it.

    The profile runs from the outer bottom centre over the rim to the inner bottom centre.
    """
    angles = np.arange(sides) * 2 * np.pi / sides
    rings = [np.column_stack([r * np.cos(angles), r * np.sin(angles), np.full(sides, z)])
             for r, z in profile]
    vertices = np.concatenate(rings)
    faces = []
    for ring in range(len(profile) - 1):
        for k in range(sides):
            a, b = ring * sides + k, ring * sides + (k + 1) % sides
            faces += [(a, b, b + sides), (a, b + sides, a + sides)]
    root.add('asset').add('mesh', name=name, vertex=vertices.ravel(),
                          face=' '.join(str(i) for face in faces for i in face),
                          inertia='shell')
    body = free_body(world, name)
    body.add('geom', class_='visual', type='mesh', mesh=name, rgba=rgba)
    return body


def _floor(body: Node, radius: float, density: float) -> None:
    """Add a flat disc that the body stands on, unseen."""
    body.add('geom', class_='prop', type='cylinder', size=(radius, 0.003), pos=(0, 0, 0.003),
             group=3, density=density, rgba=(0, 0, 0, 0))


def _ring_of_boxes(body: Node, radius: tuple[float, float], heights: tuple[float, float],
                   thickness: float, density: float) -> None:
    """Add a wall of flat boxes from (bottom radius, bottom z) to (top radius, top z), unseen."""
    (r0, r1), (z0, z1) = radius, heights
    lean = np.arctan2(r1 - r0, z1 - z0)
    length = float(np.hypot(r1 - r0, z1 - z0))
    half_width = max(r0, r1) * np.tan(np.pi / _SEGMENTS) * 1.04
    for k in range(_SEGMENTS):
        angle = 2 * np.pi * k / _SEGMENTS
        middle = (r0 + r1) / 2
        body.add('geom', class_='prop', type='box', group=3, density=density,
                 size=(thickness / 2, half_width, length / 2),
                 pos=(middle * np.cos(angle), middle * np.sin(angle), (z0 + z1) / 2),
                 quat=_quat(angle, lean), rgba=(0, 0, 0, 0))


def _quat(yaw: float, lean: float) -> Floats:
    cz, sz, cy, sy = np.cos(yaw / 2), np.sin(yaw / 2), np.cos(lean / 2), np.sin(lean / 2)
    return np.array([cz * cy, -sz * sy, cz * sy, sz * cy])


@dataclass(frozen=True)
class Bowl:
    """A round bowl; origin on the table below its middle."""

    name: str
    colour: str
    radius: float = 0.078
    height: float = 0.048

    def build(self, root: Node, world: Node) -> None:
        """Add mesh, wall and floor."""
        r, h = self.radius, self.height
        t = np.linspace(0, 1, 7)[:, None]
        outer = np.hstack([0.45 * r + 0.55 * r * t ** 0.55, 0.006 + (h - 0.006) * t ** 1.5])
        inner = np.hstack([outer[::-1, :1] - 0.004, outer[::-1, 1:] + 0.001])
        profile = np.vstack([[0, 0], [0.45 * r, 0], outer, inner, [0, 0.007]])
        body = _turned(root, world, self.name, profile, colour(self.colour))
        _floor(body, 0.52 * r, 2500)
        _ring_of_boxes(body, (0.5 * r, 0.97 * r), (0.004, h), 0.005, 900)


@dataclass(frozen=True)
class Cup:
    """A mug with a handle along its own +x; origin at the middle of its bottom."""

    name: str
    colour: str
    radius: float = 0.031
    height: float = 0.085

    def build(self, root: Node, world: Node) -> None:
        """Add mesh, handle, wall and floor."""
        r, h = self.radius, self.height
        profile = np.array([[0, 0], [0.82 * r, 0], [0.86 * r, 0.004], [r, h - 0.003],
                            [r - 0.001, h], [r - 0.0035, h], [0.86 * r - 0.003, 0.008],
                            [0, 0.006]])
        rgba = colour(self.colour)
        body = _turned(root, world, self.name, profile, rgba)
        bend = [(r - 0.003, 0.066), (r + 0.017, 0.062), (r + 0.022, 0.042), (r + 0.012, 0.024),
                (r - 0.006, 0.021)]
        for (x0, z0), (x1, z1) in pairwise(bend):
            body.add('geom', class_='visual', type='capsule', size=[0.0042], rgba=rgba,
                     fromto=(x0, 0, z0, x1, 0, z1))
        body.add('geom', class_='prop', type='box', size=(0.011, 0.004, 0.022), group=3,
                 pos=(r + 0.012, 0, 0.044), density=400, rgba=(0, 0, 0, 0))
        _floor(body, 0.84 * r, 2500)
        _ring_of_boxes(body, (0.85 * r - 0.001, r - 0.002), (0.004, h), 0.004, 800)


@dataclass(frozen=True)
class Plate:
    """A round plate; origin at the middle of its bottom."""

    name: str
    colour: str
    radius: float = 0.095

    def build(self, root: Node, world: Node) -> None:
        """Add mesh and a flat disc to stand on."""
        r = self.radius
        profile = np.array([[0, 0], [0.6 * r, 0], [0.75 * r, 0.004], [r, 0.014],
                            [r - 0.001, 0.0165], [r - 0.006, 0.0155], [0.72 * r, 0.008],
                            [0.62 * r, 0.0062], [0, 0.006]])
        body = _turned(root, world, self.name, profile, colour(self.colour), sides=36)
        _floor(body, 0.7 * r, 2600)
        _ring_of_boxes(body, (0.72 * r, r), (0.003, 0.014), 0.004, 1500)


@dataclass(frozen=True)
class Bottle:
    """A tall bottle; origin at the middle of its bottom."""

    name: str
    colour: str
    radius: float = 0.029
    height: float = 0.19

    def build(self, root: Node, world: Node) -> None:
        """Add mesh, label, cap and two cylinders to collide with."""
        r, h = self.radius, self.height
        profile = np.array([[0, 0], [r - 0.003, 0], [r, 0.004], [r, 0.58 * h],
                            [0.75 * r, 0.70 * h], [0.42 * r, 0.78 * h], [0.40 * r, 0.92 * h],
                            [0, 0.92 * h]])
        body = _turned(root, world, self.name, profile, colour(self.colour))
        body.add('geom', class_='visual', type='cylinder', size=(r + 0.0005, 0.15 * h),
                 pos=(0, 0, 0.33 * h), rgba=(0.93, 0.92, 0.88, 1))
        body.add('geom', class_='prop', type='cylinder', size=(r, 0.30 * h), pos=(0, 0, 0.30 * h),
                 density=260, group=3, rgba=(0, 0, 0, 0))
        body.add('geom', class_='prop', type='cylinder', size=(0.46 * r, 0.2 * h),
                 pos=(0, 0, 0.8 * h), density=260, rgba=(0.9, 0.9, 0.9, 1))


@dataclass(frozen=True)
class Tray:
    """A square tray with a low wall; origin at the middle of its bottom."""

    name: str
    colour: str
    half: float = 0.062
    wall: float = 0.013

    def build(self, root: Node, world: Node) -> None:
        """Add floor and four walls."""
        body = free_body(world, self.name)
        rgba, s, w = colour(self.colour), self.half, self.wall
        body.add('geom', class_='prop', type='box', size=(s, s, 0.003), pos=(0, 0, 0.003),
                 density=2500, rgba=rgba)
        for x, y, sx, sy in ((s, 0, 0.003, s + 0.003), (-s, 0, 0.003, s + 0.003),
                             (0, s, s, 0.003), (0, -s, s, 0.003)):
            body.add('geom', class_='prop', type='box', size=(sx, sy, w), pos=(x, y, w),
                     density=1200, rgba=rgba)
