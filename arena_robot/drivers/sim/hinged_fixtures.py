"""Fixtures with a lid, a screen or a door on a hinge; free ends carry a peg to hold."""

from dataclasses import dataclass

import numpy as np

from arena_robot.drivers.sim.grips import add_peg, colour
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.drivers.sim.poses import yaw_quat

GREY = (0.78, 0.78, 0.76, 1)
DARK = (0.22, 0.22, 0.24, 1)


def _boxes(body: Node, rows: tuple[tuple[float, ...], ...], rgba: tuple[float, ...]) -> None:
    """Add walls that do not move: (x, y, z, half x, half y, half z)."""
    for row in rows:
        body.add('geom', class_='fixed', type='box', pos=row[:3], size=row[3:], rgba=rgba)


@dataclass(frozen=True)
class HingedLid:
    """
    A container with a lid on a hinge at its far side (+x).

    Joint ``<name>_hinge`` runs from 0 (shut) to 1.25 rad; bodies ``<name>_lid`` and, at the near
    edge, ``<name>_tab``. ``half`` has the container's half sizes.
    """

    name: str
    x: float
    y: float
    yaw: float
    colour: str
    half: tuple[float, float, float] = (0.075, 0.06, 0.035)

    OPEN_RAD = 1.25

    def build(self, root: Node, world: Node) -> None:
        """Add walls, floor, lid and tab."""
        (sx, sy, sz), t = self.half, 0.004
        box = world.add('body', name=self.name, pos=(self.x, self.y, 0), quat=yaw_quat(self.yaw))
        _boxes(box, ((0, sy, sz, sx, t, sz), (0, -sy, sz, sx, t, sz), (sx, 0, sz, t, sy, sz),
                     (-sx, 0, sz, t, sy, sz), (0, 0, t, sx, sy, t)), colour(self.colour))
        _plate(box, self.name, ('hinge', 'lid', 'tab'), (sx, 0, 2 * sz + 0.002), (sx, sy, t),
               self.OPEN_RAD, colour(self.colour))


@dataclass(frozen=True)
class Laptop:
    """A laptop whose screen hinges at its far side: ``<name>_hinge``, 0 (shut) to 1.3 rad."""

    name: str
    x: float
    y: float
    yaw: float
    colour: str

    OPEN_RAD = 1.3
    HALF = (0.075, 0.1, 0.009)

    def build(self, root: Node, world: Node) -> None:
        """Add base, screen and the peg at its edge."""
        sx, sy, sz = self.HALF
        base = world.add('body', name=self.name, pos=(self.x, self.y, 0), quat=yaw_quat(self.yaw))
        _boxes(base, ((0, 0, sz, sx, sy, sz),), GREY)
        _plate(base, self.name, ('hinge', 'screen', 'edge'), (sx, 0, 2 * sz + 0.002),
               (sx, sy, 0.003), self.OPEN_RAD, colour(self.colour))


def _plate(parent: Node, name: str, parts: tuple[str, str, str], at: tuple[float, float, float],
           half: tuple[float, float, float], open_rad: float, rgba: tuple[float, ...]) -> None:
    """Add a plate that turns up about its far edge, and a peg at its near edge."""
    joint, plate_name, peg = parts
    plate = parent.add('body', name=f'{name}_{plate_name}', pos=at, gravcomp=1)
    plate.add('joint', name=f'{name}_{joint}', axis=(0, 1, 0), range=(0, open_rad),
              damping=0.06, frictionloss=0.06, armature=0.001)
    plate.add('geom', class_='prop', type='box', size=half, pos=(-half[0], 0, half[2]),
              density=250, rgba=[0.8 * one for one in rgba[:3]] + [1])
    add_peg(plate, f'{name}_{peg}', (0.014 - 2 * half[0], 0, 2 * half[2]))


@dataclass(frozen=True)
class HingedDoor:
    """
    A cabinet whose door hinges on the left and swings towards the robot.

    Joint ``<name>_hinge`` runs from 0 (shut) to 75 degrees; bodies ``<name>_door`` and, at its
    free edge, ``<name>_handle``.
    """

    name: str
    x: float
    y: float
    yaw: float
    colour: str

    OPEN_RAD = float(np.radians(75.0))
    HALF = (0.05, 0.07, 0.055)

    def build(self, root: Node, world: Node) -> None:
        """Add the case, the door and its handle."""
        (sx, sy, sz), t = self.HALF, 0.005
        case = world.add('body', name=self.name, pos=(self.x, self.y, 0), quat=yaw_quat(self.yaw))
        _boxes(case, ((0, sy, sz, sx, t, sz), (0, -sy, sz, sx, t, sz), (sx, 0, sz, t, sy, sz),
                      (0, 0, 2 * sz, sx, sy, t), (0, 0, t, sx, sy, t)), GREY)
        door = case.add('body', name=f'{self.name}_door', pos=(-sx - 0.012, sy, 0), gravcomp=1)
        door.add('joint', name=f'{self.name}_hinge', axis=(0, 0, -1), range=(0, self.OPEN_RAD),
                 damping=0.06, frictionloss=0.05, armature=0.001)
        door.add('geom', class_='prop', type='box', size=(0.005, sy, sz), density=250,
                 pos=(0, -sy, sz + 0.004), rgba=colour(self.colour))
        add_peg(door, f'{self.name}_handle', (-0.004, 0.012 - 2 * sy, 2 * sz + 0.004),
                (0.008, 0.008, 0.022))


@dataclass(frozen=True)
class SwivelDisplay:
    """A display that turns on its stand: ``<name>_turn``, -0.9 (right) to 0.9 rad (left)."""

    name: str
    x: float
    y: float
    yaw: float
    colour: str

    TURN_RAD = 0.9

    def build(self, root: Node, world: Node) -> None:
        """Add foot, screen and the peg at its left edge."""
        stand = world.add('body', name=self.name, pos=(self.x, self.y, 0),
                          quat=yaw_quat(self.yaw))
        stand.add('geom', class_='fixed', type='cylinder', size=(0.05, 0.008), pos=(0, 0, 0.008),
                  rgba=DARK)
        screen = stand.add('body', name=f'{self.name}_screen', pos=(0, 0, 0.02), gravcomp=1)
        screen.add('joint', name=f'{self.name}_turn', axis=(0, 0, 1),
                   range=(-self.TURN_RAD, self.TURN_RAD), damping=0.06, frictionloss=0.05,
                   armature=0.001)
        screen.add('geom', class_='prop', type='box', size=(0.006, 0.085, 0.04), pos=(0, 0, 0.04),
                   density=250, rgba=colour(self.colour))
        add_peg(screen, f'{self.name}_edge', (0, 0.072, 0.08), (0.007, 0.009, 0.022))
