"""Fixtures on a panel: knobs, switches, a lever, buttons, a slider, a window and a faucet."""

from dataclasses import dataclass

from arena_robot.drivers.sim.fixtures import DARK, GREY, PushButton, TableFixture
from arena_robot.drivers.sim.mjcf import Node, yaw_quat
from arena_robot.drivers.sim.props import add_grip, add_peg, colour


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
