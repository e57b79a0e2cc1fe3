"""Props on the table; every prop writes its own MJCF."""

from dataclasses import dataclass
from typing import Protocol

from arena_robot.drivers.sim.mjcf import Node

Rgb = tuple[float, float, float]

COLOURS: dict[str, Rgb] = {
    'red': (0.80, 0.13, 0.12), 'green': (0.16, 0.55, 0.22), 'blue': (0.12, 0.30, 0.75),
    'yellow': (0.93, 0.77, 0.12), 'orange': (0.93, 0.46, 0.10), 'purple': (0.45, 0.22, 0.60),
    'white': (0.92, 0.92, 0.90), 'black': (0.12, 0.12, 0.13), 'pink': (0.90, 0.50, 0.60),
}


class Prop(Protocol):
    """Something a scene can hold."""

    @property
    def name(self) -> str:
        """The name of its body and, when it is free, of its joint."""

    def build(self, root: Node, world: Node) -> None:
        """Write the prop below ``world`` (and servos or assets below ``root``)."""


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
            rgba=(*COLOURS[self.colour], 1))
