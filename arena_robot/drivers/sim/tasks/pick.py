"""Pick, and pick and place."""

from collections.abc import Iterator

import numpy as np

from arena_robot.drivers.sim.props import Block, Bowl, Cup, Plate
from arena_robot.drivers.sim.tasks.base import (
    Approach,
    CarryTask,
    ExpertHands,
    Layout,
    Place,
    Setup,
    apart,
    choose,
    colours,
    held,
    present,
    share,
)
from arena_robot.drivers.sim.truth import SceneTruth

HALF = 0.022    # half the side of a cube, m


def scatter(rng: np.random.Generator, layout: Layout, names: list[str]) -> dict[str, Place]:
    """Return random places for cubes."""
    return {name: Place(*layout.spot(HALF * 1.5), HALF, float(rng.uniform(-0.7, 0.7)))
            for name in names}


class LiftCube:
    """Lift one of three cubes 10 cm."""

    name, category = 'lift_cube', 'pick and place'

    def __init__(self, rng: np.random.Generator) -> None:
        names = colours(rng, 3)
        self.target = f'{names[0]}_cube'
        self._reach = Approach()
        self.setup = Setup(
            choose(rng, f'pick up the {names[0]} cube', f'lift the {names[0]} block',
                   f'grab the {names[0]} cube and lift it'),
            tuple(Block(f'{name}_cube', name) for name in names),
            scatter(rng, Layout(rng), [f'{name}_cube' for name in names]))

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.2, grasp 0.4, then height."""
        reach = self._reach(truth.distance(self.target))
        if not truth.grasped(self.target):
            return 0.2 * reach
        return 0.4 + 0.5 * share(truth.position(self.target)[2] - HALF, 0.1)

    def potential(self, truth: SceneTruth) -> float:
        """The stage, with a grasp that does not flicker."""
        reach = self._reach(truth.distance(self.target))
        height = share(truth.position(self.target)[2] - HALF, 0.1)
        holds = held(truth, self.target, HALF)
        return present(self.done(truth), 0.4 + 0.5 * height if holds else 0.2 * reach)

    def done(self, truth: SceneTruth) -> bool:
        """Held 10 cm above the table."""
        return bool(truth.position(self.target)[2] > HALF + 0.10 and truth.grasped(self.target))

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Pick it."""
        yield from hands.pick(self.target, lift=0.18)


class CubeInBowl(CarryTask):
    """Put one of two cubes into the bowl."""

    name, category = 'cube_in_bowl', 'pick and place'

    def __init__(self, rng: np.random.Generator) -> None:
        names = colours(rng, 2)
        layout = Layout(rng)
        super().__init__(f'{names[0]}_cube', HALF, 'bowl', 0.065)
        bowl = Place(*layout.spot(0.09), 0.0)
        self.setup = Setup(
            choose(rng, f'put the {names[0]} cube in the bowl',
                   f'place the {names[0]} block into the bowl',
                   f'move the {names[0]} cube to the bowl'),
            (*(Block(f'{name}_cube', name) for name in names), Bowl('bowl', 'white')),
            {'bowl': bowl, **scatter(rng, layout, [f'{name}_cube' for name in names])})

    def done(self, truth: SceneTruth) -> bool:
        """Resting inside the bowl."""
        cube, bowl = truth.position(self.target), truth.position('bowl')
        return (apart(cube, bowl) < 0.065 and cube[2] < bowl[2] + 0.07
                and self._carry.resting(truth))

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Pick it, drop it over the bowl."""
        yield from hands.pick(self.target)
        bowl = hands.truth.position('bowl')
        yield from hands.place(bowl[0], bowl[1], bowl[2] + 0.075)


class CupOnPlate(CarryTask):
    """Put the mug on the plate, upright."""

    name, category = 'cup_on_plate', 'pick and place'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, other = colours(rng, 2)
        layout = Layout(rng)
        super().__init__('cup', 0.0, 'plate', 0.06)
        self.setup = Setup(
            choose(rng, 'put the cup on the plate', f'place the {colour} mug on the plate',
                   'set the mug down on the plate'),
            (Plate('plate', 'white'), Cup('cup', colour), Block('cube', other)),
            {'plate': Place(*layout.spot(0.10), 0.0),
             'cup': Place(*layout.spot(0.05), 0.0, float(rng.uniform(-1.2, 1.2))),
             **scatter(rng, layout, ['cube'])})

    def done(self, truth: SceneTruth) -> bool:
        """Standing upright on the plate."""
        cup, plate = truth.position('cup'), truth.position('plate')
        return (apart(cup, plate) < 0.06 and abs(cup[2] - plate[2]) < 0.02
                and truth.upright('cup') > 0.95 and self._carry.resting(truth))

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Grasp the body across the handle."""
        yield from hands.pick('cup', 0.06, hands.truth.yaw('cup'))
        plate = hands.truth.position('plate')
        yield from hands.place(plate[0], plate[1], plate[2] + 0.06 + 0.008)
