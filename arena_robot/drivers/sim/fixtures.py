"""
Fixtures on the table with joints, those on a panel, and marks (zone, stain).

A drawer slides, a button is pressed; lids, screens and doors hang on a hinge, and their free ends
carry a peg to hold. On panels are knobs, switches, a lever, buttons, a slider, a window, a faucet.
"""

from dataclasses import dataclass

import numpy as np

from arena_robot.drivers.sim.mjcf import Node, yaw_quat
from arena_robot.drivers.sim.props import COLOURS, Rgba, add_grip, add_peg, colour, free_body

_BEECH = (0.80, 0.66, 0.46, 1)
_LIGHT = (0.90, 0.89, 0.86, 1)
GREY = (0.78, 0.78, 0.76, 1)
DARK = (0.22, 0.22, 0.24, 1)


def _boxes(body: Node, rows: tuple[tuple[float, ...], ...], rgba: Rgba,
           class_: str = 'fixed') -> None:
    """Add walls: (x, y, z, half x, half y, half z); those of class ``fixed`` do not move."""
    for row in rows:
        body.add('geom', class_=class_, type='box', pos=row[:3], size=row[3:], rgba=rgba)


def _container(body: Node, half: tuple[float, float, float], t: float, rgba: Rgba) -> None:
    """Add four walls and a floor, ``t`` half as thick."""
    sx, sy, sz = half
    _boxes(body, ((0, sy, sz, sx, t, sz), (0, -sy, sz, sx, t, sz), (sx, 0, sz, t, sy, sz),
                  (-sx, 0, sz, t, sy, sz), (0, 0, t, sx, sy, t)), rgba)


@dataclass(frozen=True)
class TableFixture:
    """Base of the fixtures: where it stands on the table, and its colour."""

    name: str
    x: float
    y: float
    yaw: float
    colour: str

    def stand(self, world: Node) -> Node:
        """Add its body; return it."""
        return world.add('body', name=self.name, pos=(self.x, self.y, 0), quat=yaw_quat(self.yaw))


@dataclass(frozen=True)
class Drawer(TableFixture):
    """
    A cabinet with one drawer that opens towards the robot at yaw 0.

    Joint ``<name>_slide`` runs from 0 (closed) to :attr:`TRAVEL_M`; body ``<name>_handle`` is the
    middle of the bar.
    """

    TRAVEL_M = 0.13
    DEPTH = 0.09                   # half, and so are the next two
    WIDTH = 0.11
    HEIGHT = 0.065
    HANDLE = (-0.138, 0.0, 0.062)  # in the cabinet's frame, closed

    def build(self, root: Node, world: Node) -> None:
        """Add cabinet, drawer and handle."""
        d, w, h, t = self.DEPTH, self.WIDTH, self.HEIGHT, 0.006
        case = self.stand(world)
        _boxes(case, ((0, w, h, d, t, h), (0, -w, h, d, t, h), (d, 0, h, t, w, h),
                      (0, 0, 2 * h, d + t, w + t, t), (0, 0, t / 2, d, w, t / 2)), _BEECH)
        drawer = case.add('body', name=f'{self.name}_tray', pos=(0, 0, 0))
        drawer.add('joint', name=f'{self.name}_slide', type='slide', axis=(-1, 0, 0),
                   range=(0, self.TRAVEL_M), damping=6, frictionloss=1.0)
        _boxes(drawer, ((-d - 0.001, 0, h - 0.002, t, w - t - 0.001, h - t - 0.006),),
               colour(self.colour), 'prop')
        _boxes(drawer, ((0, 0, 0.014, d - 0.01, w - 0.016, 0.003),
                        (0, w - 0.018, 0.04, d - 0.01, 0.003, 0.026),
                        (0, 0.018 - w, 0.04, d - 0.01, 0.003, 0.026),
                        (d - 0.014, 0, 0.04, 0.003, w - 0.02, 0.026)), _LIGHT, 'prop')
        hx, hy, hz = self.HANDLE
        handle = drawer.add('body', name=f'{self.name}_handle', pos=(hx, hy, hz))
        handle.add('geom', class_='prop', type='capsule', material='metal', size=[0.006],
                   fromto=(0, -0.045, 0, 0, 0.045, 0))
        add_grip(handle, f'{self.name}_handle', (0, 0, -0.004), 0.041, yaw_quat(np.pi / 2))
        for side in (-0.042, 0.042):
            handle.add('geom', class_='prop', type='capsule', material='metal', size=[0.005],
                       fromto=(0, side, 0, -hx - d - 0.004, side, 0))


@dataclass(frozen=True)
class LidBox(TableFixture):
    """
    A box whose lid hinges on its own +y side; joint ``<name>_lid``: 0 closed, 1.75 open.

    Body ``<name>_cover`` is the lid; its origin is on the hinge.
    """

    HALF = (0.085, 0.065, 0.04)
    OPEN_RAD = 1.75

    def build(self, root: Node, world: Node) -> None:
        """Add walls and lid."""
        (sx, sy, sz), t = self.HALF, 0.004
        box = self.stand(world)
        rgba = colour(self.colour)
        _container(box, self.HALF, t, rgba)
        lid = box.add('body', name=f'{self.name}_cover', pos=(0, sy + t, 2 * sz + 0.001))
        lid.add('joint', name=f'{self.name}_lid', axis=(-1, 0, 0), range=(0, self.OPEN_RAD + 0.05),
                damping=0.02, frictionloss=0.012)
        lid.add('geom', class_='prop', type='box', size=(sx + t, sy - 0.001, t),
                pos=(0, -sy - t, t + 0.001), density=350, rgba=[0.75 * c for c in rgba[:3]] + [1])
        lid.add('geom', class_='visual', type='box', size=(0.02, 0.004, 0.006), material='metal',
                pos=(0, -2 * sy - t, 0.004))


@dataclass(frozen=True)
class PushButton:
    """A push button; joint ``<name>_cap`` is 0 released, -8 mm pressed; body is the cap."""

    name: str
    x: float
    y: float
    colour: str

    TOP_M = 0.052
    TRAVEL_M = 0.008

    def build(self, root: Node, world: Node) -> None:
        """Add housing and cap."""
        base = world.add('body', name=f'{self.name}_base', pos=(self.x, self.y, 0))
        base.add('geom', class_='fixed', type='box', size=(0.045, 0.045, 0.012), pos=(0, 0, 0.012),
                 rgba=(0.88, 0.80, 0.25, 1))
        base.add('geom', class_='visual', type='cylinder', size=(0.033, 0.004),
                 pos=(0, 0, 0.026), material='dark')
        cap = base.add('body', name=self.name, pos=(0, 0, 0.04), gravcomp=1)
        cap.add('joint', name=f'{self.name}_cap', type='slide', axis=(0, 0, 1),
                range=(-self.TRAVEL_M, 0), stiffness=900, damping=8)
        cap.add('geom', class_='prop', type='cylinder', size=(0.026, 0.009), pos=(0, 0, 0.003),
                density=900, rgba=colour(self.colour))
        cap.add('geom', class_='visual', type='ellipsoid', size=(0.025, 0.025, 0.006),
                pos=(0, 0, 0.012), rgba=colour(self.colour))


@dataclass(frozen=True)
class Zone(TableFixture):
    """A square of tape on the table; body of its name."""

    half: float = 0.085

    def build(self, root: Node, world: Node) -> None:
        """Add four strips."""
        mark = self.stand(world)
        s = self.half
        for x, y, sx, sy in ((s, 0, 0.006, s + 0.006), (-s, 0, 0.006, s + 0.006),
                             (0, s, s, 0.006), (0, -s, s, 0.006)):
            mark.add('geom', class_='visual', type='box', size=(sx, sy, 0.0006),
                     pos=(x, y, 0.0006), rgba=colour(self.colour))


@dataclass(frozen=True)
class Stain:
    """A spot on the table that a task can wipe away; a mocap body."""

    name: str
    x: float
    y: float
    radius: float = 0.011

    def build(self, root: Node, world: Node) -> None:
        """Add a flat disc."""
        world.add('body', name=self.name, mocap=True, pos=(self.x, self.y, 0.0007)).add(
            'geom', class_='visual', type='cylinder', size=(self.radius, 0.0007),
            rgba=(0.42, 0.22, 0.10, 1))


@dataclass(frozen=True)
class Towel:
    """A strip of cloth: hinged slats that bend and drape."""

    name: str
    colour: str
    slats: int = 6

    SLAT = (0.0145, 0.055, 0.003)

    def build(self, root: Node, world: Node) -> None:
        """Add a chain of slats."""
        body = free_body(world, self.name)
        for i in range(self.slats):
            shade = 1.0 if i % 2 else 0.82
            rgba = [shade * c for c in COLOURS[self.colour]] + [1]
            if i:
                body = body.add('body', name=f'{self.name}_{i}', pos=(2 * self.SLAT[0], 0, 0))
                body.add('joint', type='hinge', name=f'{self.name}_{i}', axis=(0, 1, 0),
                         pos=(-self.SLAT[0], 0, 0), range=(-1.2, 1.2), damping=0.0015,
                         stiffness=0.002)
            body.add('geom', class_='prop', type='box', size=self.SLAT, density=260, rgba=rgba)


@dataclass(frozen=True)
class HingedLid(TableFixture):
    """
    A container with a lid on a hinge at its far side (+x).

    Joint ``<name>_hinge`` runs from 0 (shut) to 1.25 rad; bodies ``<name>_lid`` and, at the near
    edge, ``<name>_tab``. ``half`` has the container's half sizes.
    """

    half: tuple[float, float, float] = (0.075, 0.06, 0.035)

    OPEN_RAD = 1.25

    def build(self, root: Node, world: Node) -> None:
        """Add walls, floor, lid and tab."""
        (sx, sy, sz), t = self.half, 0.004
        box = self.stand(world)
        _container(box, self.half, t, colour(self.colour))
        _plate(box, self.name, ('hinge', 'lid', 'tab'), (sx, 0, 2 * sz + 0.002), (sx, sy, t),
               self.OPEN_RAD, colour(self.colour))


@dataclass(frozen=True)
class Laptop(TableFixture):
    """A laptop whose screen hinges at its far side: ``<name>_hinge``, 0 (shut) to 1.3 rad."""

    OPEN_RAD = 1.3
    HALF = (0.075, 0.1, 0.009)

    def build(self, root: Node, world: Node) -> None:
        """Add base, screen and the peg at its edge."""
        sx, sy, sz = self.HALF
        base = self.stand(world)
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
              density=250, rgba=[0.8 * part for part in rgba[:3]] + [1])
    add_peg(plate, f'{name}_{peg}', (0.014 - 2 * half[0], 0, 2 * half[2]))


@dataclass(frozen=True)
class HingedDoor(TableFixture):
    """
    A cabinet whose door hinges on the left and swings towards the robot.

    Joint ``<name>_hinge`` runs from 0 (shut) to 75 degrees; bodies ``<name>_door`` and, at its
    free edge, ``<name>_handle``.
    """

    OPEN_RAD = float(np.radians(75.0))
    HALF = (0.05, 0.07, 0.055)

    def build(self, root: Node, world: Node) -> None:
        """Add the case, the door and its handle."""
        (sx, sy, sz), t = self.HALF, 0.005
        case = self.stand(world)
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
class SwivelDisplay(TableFixture):
    """A display that turns on its stand: ``<name>_turn``, -0.9 (right) to 0.9 rad (left)."""

    TURN_RAD = 0.9

    def build(self, root: Node, world: Node) -> None:
        """Add foot, screen and the peg at its left edge."""
        stand = self.stand(world)
        stand.add('geom', class_='fixed', type='cylinder', size=(0.05, 0.008), pos=(0, 0, 0.008),
                  rgba=DARK)
        screen = stand.add('body', name=f'{self.name}_screen', pos=(0, 0, 0.02), gravcomp=1)
        screen.add('joint', name=f'{self.name}_turn', axis=(0, 0, 1),
                   range=(-self.TURN_RAD, self.TURN_RAD), damping=0.06, frictionloss=0.05,
                   armature=0.001)
        screen.add('geom', class_='prop', type='box', size=(0.006, 0.085, 0.04), pos=(0, 0, 0.04),
                   density=250, rgba=colour(self.colour))
        add_peg(screen, f'{self.name}_edge', (0, 0.072, 0.08), (0.007, 0.009, 0.022))


class PanelFixture(TableFixture):
    """Base of the fixtures on a panel."""

    def panel(self, world: Node, half: tuple[float, float, float]) -> Node:
        """Add a flat box on the table; return the body."""
        body = self.stand(world)
        body.add('geom', class_='fixed', type='box', size=half, pos=(0, 0, half[2]), rgba=GREY)
        return body

    def sliding(self, rail: Node, part: str, height: float, travel: float) -> Node:
        """Add a body that ``<name>_slide`` moves to the left, 0 to ``travel`` m; return it."""
        body = rail.add('body', name=f'{self.name}_{part}', pos=(0, -travel / 2, height),
                        gravcomp=1)
        body.add('joint', name=f'{self.name}_slide', type='slide', axis=(0, 1, 0),
                 range=(0, travel), damping=4, frictionloss=0.8)
        return body


@dataclass(frozen=True)
class Knobs(PanelFixture):
    """
    Two knobs.

    Joints ``<name>_left_turn`` and ``<name>_right_turn``, 0 to 1.8 rad; bodies
    ``<name>_left_knob`` and ``<name>_right_knob``.
    """

    TURN_RAD = 1.8

    def build(self, root: Node, world: Node) -> None:
        """Add panel and knobs; in the middle of its range a knob's bar points at the robot."""
        panel = self.panel(world, (0.05, 0.14, 0.015))
        for side, y in (('left', 0.085), ('right', -0.085)):
            name = f'{self.name}_{side}_knob'
            knob = panel.add('body', name=name, pos=(0, y, 0.032), gravcomp=1,
                             quat=yaw_quat(-self.TURN_RAD / 2))
            knob.add('joint', name=f'{self.name}_{side}_turn', axis=(0, 0, 1),
                     range=(0, self.TURN_RAD), damping=0.02, frictionloss=0.02, armature=0.0005)
            knob.add('geom', class_='prop', type='cylinder', size=(0.032, 0.005), density=400,
                     pos=(0, 0, 0.005), rgba=colour(self.colour))
            knob.add('geom', class_='prop', type='box', size=(0.028, 0.008, 0.02), density=400,
                     pos=(0, 0, 0.03), rgba=DARK)
            add_grip(knob, name, (0, 0, 0.034))


@dataclass(frozen=True)
class Switches(PanelFixture):
    """
    Two toggle switches.

    Joints ``<name>_left_toggle`` and ``<name>_right_toggle``, 0 to 0.8 rad; bodies
    ``<name>_left_switch`` and ``<name>_right_switch``.
    """

    TIP_RAD = 0.8

    def build(self, root: Node, world: Node) -> None:
        """Add panel and sticks, upright in the middle; on is away from the robot."""
        panel = self.panel(world, (0.05, 0.13, 0.015))
        half = self.TIP_RAD / 2
        for side, y in (('left', 0.075), ('right', -0.075)):
            name = f'{self.name}_{side}_switch'
            stick = panel.add('body', name=name, pos=(0, y, 0.034), gravcomp=1,
                              euler=(0, -half, 0))
            stick.add('joint', name=f'{self.name}_{side}_toggle', axis=(0, 1, 0),
                      range=(0, self.TIP_RAD), damping=0.03, frictionloss=0.04, armature=0.0005)
            stick.add('geom', class_='prop', type='box', size=(0.007, 0.011, 0.03), density=300,
                      pos=(0, 0, 0.034), rgba=colour(self.colour))
            add_grip(stick, name, (0, 0, 0.05))


@dataclass(frozen=True)
class LeverMachine(PanelFixture):
    """A machine with a lever: ``<name>_lever``, 0 (away) to 1 rad (towards the robot)."""

    TIP_RAD = 1.0
    ARM_M = 0.07

    def build(self, root: Node, world: Node) -> None:
        """Add body, lever arm and grip."""
        body = self.panel(world, (0.06, 0.08, 0.02))
        arm = body.add('body', name=f'{self.name}_arm', pos=(0, 0, 0.04), gravcomp=1,
                       euler=(0, self.TIP_RAD / 2, 0))
        arm.add('joint', name=f'{self.name}_lever', axis=(0, -1, 0), range=(0, self.TIP_RAD),
                damping=0.06, frictionloss=0.06, armature=0.001)
        arm.add('geom', class_='prop', type='capsule', size=[0.005], density=400,
                fromto=(0, 0, 0.008, 0, 0, self.ARM_M), rgba=DARK)
        add_peg(arm, f'{self.name}_grip', (0, 0, self.ARM_M), (0.009, 0.009, 0.02))


@dataclass(frozen=True)
class Buttons(PanelFixture):
    """
    Two push buttons.

    Joints ``<name>_start`` and ``<name>_stop``, 0 released and -8 mm pressed; bodies
    ``<name>_start_button`` and ``<name>_stop_button``.
    """

    def build(self, root: Node, world: Node) -> None:
        """Add panel and caps; start is on the left."""
        panel = self.panel(world, (0.05, 0.12, 0.012))
        travel = PushButton.TRAVEL_M
        for word, y, rgba in (('start', 0.065, colour(self.colour)), ('stop', -0.065, DARK)):
            name = f'{self.name}_{word}_button'
            cap = panel.add('body', name=name, pos=(0, y, 0.04), gravcomp=1)
            cap.add('joint', name=f'{self.name}_{word}', type='slide', axis=(0, 0, 1),
                    range=(-travel, 0), stiffness=400, damping=8,
                    solreflimit=(0.004, 1), solimplimit=(0.98, 0.999, 0.0005))
            cap.add('geom', class_='prop', type='cylinder', size=(0.026, 0.009),
                    pos=(0, 0, 0.003), density=900, rgba=rgba)
            cap.add('site', name=f'{name}_push', pos=(0, 0, 0.012), size=[0.002],
                    rgba=(0, 0, 0, 0))


@dataclass(frozen=True)
class RailSlider(PanelFixture):
    """A slider on a rail: ``<name>_slide``, 0 (right) to 0.14 m (left), of ``<name>_tab``."""

    TRAVEL_M = 0.14

    def build(self, root: Node, world: Node) -> None:
        """Add rail and tab."""
        rail = self.panel(world, (0.03, 0.1, 0.012))
        tab = self.sliding(rail, 'tab', 0.026, self.TRAVEL_M)
        tab.add('geom', class_='prop', type='box', size=(0.013, 0.008, 0.024), density=400,
                pos=(0, 0, 0.024), rgba=colour(self.colour))
        add_grip(tab, f'{self.name}_tab', (0, 0, 0.03))


@dataclass(frozen=True)
class SlidingWindow(PanelFixture):
    """A window whose pane slides to the left: ``<name>_slide``, 0 (shut) to 0.15 m."""

    TRAVEL_M = 0.15

    def build(self, root: Node, world: Node) -> None:
        """Add rail, pane and handle."""
        rail = self.panel(world, (0.02, 0.15, 0.006))
        pane = self.sliding(rail, 'pane', 0.014, self.TRAVEL_M)
        pane.add('geom', class_='prop', type='box', size=(0.005, 0.06, 0.035), density=250,
                 pos=(0, 0, 0.035), rgba=(0.6, 0.75, 0.85, 0.7))
        add_peg(pane, f'{self.name}_handle', (0, 0, 0.07), (0.009, 0.009, 0.022))


@dataclass(frozen=True)
class LeverFaucet(PanelFixture):
    """
    A faucet.

    Joint ``<name>_valve`` turns the handle on the right, 0 to 1.4 rad; ``<name>_swivel`` the
    spout on the left, -0.8 to 0.8 rad. Both point at the robot in the middle of their range.
    """

    VALVE_RAD = 1.4
    SWIVEL_RAD = 0.8

    def build(self, root: Node, world: Node) -> None:
        """Add base, spout and handle."""
        base = self.panel(world, (0.03, 0.13, 0.02))
        half = self.VALVE_RAD / 2
        for part, joint, y, length, low, turn, rgba in (
                ('spout', 'swivel', 0.095, 0.085, -self.SWIVEL_RAD, 0.0, (0.6, 0.6, 0.62, 1)),
                ('handle', 'valve', -0.095, 0.07, 0.0, -half, colour(self.colour))):
            arm = base.add('body', name=f'{self.name}_{part}', pos=(0, y, 0.056), gravcomp=1,
                           quat=yaw_quat(turn))
            arm.add('joint', name=f'{self.name}_{joint}', axis=(0, 0, 1),
                    range=(low, self.SWIVEL_RAD if low else self.VALVE_RAD), damping=0.04,
                    frictionloss=0.04, armature=0.0005)
            arm.add('geom', class_='prop', type='box', size=(length / 2 + 0.008, 0.007, 0.006),
                    pos=(-length / 2, 0, 0.006), density=400, rgba=rgba)
            arm.add('geom', class_='prop', type='box', size=(0.008, 0.007, 0.02), density=300,
                    pos=(-length, 0, 0.03), rgba=rgba)
            add_grip(arm, f'{self.name}_{part}', (-length, 0, 0.036))
            base.add('geom', class_='fixed', type='cylinder', size=(0.012, 0.008),
                     pos=(0, y, 0.046), rgba=DARK)
