"""Several things at once: stack, sort, find."""

from collections.abc import Iterator

import numpy as np

from arena_robot.drivers.sim.fixtures import Towel
from arena_robot.drivers.sim.props import Block, Cup, Tray
from arena_robot.drivers.sim.tasks.base import (
    Approach,
    Carry,
    CarryPotential,
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
from arena_robot.drivers.sim.tasks.pick import HALF, scatter
from arena_robot.drivers.sim.truth import SceneTruth

_SMALL = 0.016    # half the side of the cube that fits under a cup, m


class StackBlocks(CarryTask):
    """Stack one cube on another; a third is in the way."""

    name, category = 'stack_blocks', 'stack'

    def __init__(self, rng: np.random.Generator) -> None:
        top, base, other = colours(rng, 3)
        super().__init__(f'{top}_cube', HALF, f'{base}_cube', 0.022)
        names = [f'{name}_cube' for name in (top, base, other)]
        self.setup = Setup(
            choose(rng, f'stack the {top} cube on the {base} cube',
                   f'put the {top} block on top of the {base} block'),
            tuple(Block(f'{name}_cube', name) for name in (top, base, other)),
            scatter(rng, Layout(rng), names))

    def done(self, truth: SceneTruth) -> bool:
        """Standing on the other cube."""
        top, base = truth.position(self.target), truth.position(self.goal)
        return (apart(top, base) < 0.022 and abs(top[2] - base[2] - 2 * HALF) < 0.006
                and self._carry.resting(truth))

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Pick and set it down gently."""
        yield from hands.pick(self.target)
        base = hands.truth.position(self.goal)
        yield from hands.place(base[0], base[1], base[2] + 2 * HALF + 0.003)


class SortCubes:
    """Put two cubes on the trays of their colours."""

    name, category = 'sort_cubes', 'sort'

    def __init__(self, rng: np.random.Generator) -> None:
        self.colours = colours(rng, 2)
        layout = Layout(rng, gap=0.03)
        places = {f'{colour}_tray': Place(*layout.spot(0.08, y_range=side), 0.0)
                  for colour, side in zip(self.colours, ((0.12, 0.24), (-0.24, -0.12)),
                                          strict=True)}
        cubes = [f'{colour}_cube' for colour in self.colours]
        places |= scatter(rng, layout, cubes)
        self._carries = {cube: Carry(cube, HALF) for cube in cubes}
        self._present = {cube: CarryPotential(cube, HALF, 0.05) for cube in cubes}
        a, b = self.colours
        self.setup = Setup(
            choose(rng, 'sort the cubes onto the trays of the same colour',
                   f'put the {a} cube on the {a} tray and the {b} cube on the {b} tray'),
            (*(Tray(f'{colour}_tray', colour) for colour in self.colours),
             *(Block(f'{colour}_cube', colour) for colour in self.colours)), places)

    def stage(self, truth: SceneTruth) -> float:
        """The mean over both cubes; a sorted one counts 1."""
        return sum(1.0 if self._sorted(truth, colour) else
                   self._carries[f'{colour}_cube'].stage(truth, truth.position(f'{colour}_tray'))
                   for colour in self.colours) / 2

    def potential(self, truth: SceneTruth) -> float:
        """Half for each sorted cube, and half the carry of the other that is farthest on."""
        rest = [self._present[f'{colour}_cube'](truth, truth.position(f'{colour}_tray'))
                for colour in self.colours if not self._sorted(truth, colour)]
        sorted_ = len(self.colours) - len(rest)
        return present(not rest, (sorted_ + max(rest, default=0.0)) / len(self.colours))

    def done(self, truth: SceneTruth) -> bool:
        """Both are sorted."""
        return all(self._sorted(truth, colour) for colour in self.colours)

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """One after the other."""
        for colour in self.colours:
            yield from hands.pick(f'{colour}_cube')
            tray = hands.truth.position(f'{colour}_tray')
            yield from hands.place(tray[0], tray[1], tray[2] + HALF + 0.012)

    def _sorted(self, truth: SceneTruth, colour: str) -> bool:
        cube, tray = truth.position(f'{colour}_cube'), truth.position(f'{colour}_tray')
        return (apart(cube, tray) < 0.05 and cube[2] < tray[2] + 0.04
                and self._carries[f'{colour}_cube'].resting(truth))


class FindCube:
    """Uncover the cube hidden under one of two cups; a towel lies on the table."""

    name, category = 'find_cube', 'find'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, cup, other, cloth = colours(rng, 4)
        layout = Layout(rng)
        x, y = layout.spot(0.06)
        self._reach, self._near = Approach(), Approach()
        self.setup = Setup(
            choose(rng, f'find the {colour} cube', f'uncover the {colour} cube under the cup',
                   f'the {colour} cube is under the {cup} cup, show it'),
            (Cup('cup', cup), Cup('decoy', other), Block('cube', colour, (_SMALL,) * 3),
             Towel('towel', cloth)),
            {'cube': Place(x, y, _SMALL, float(rng.uniform(-0.7, 0.7))),
             'cup': Place(x, y, 0.085, float(rng.uniform(-1.2, 1.2)), flipped=True),
             'decoy': Place(*layout.spot(0.06), 0.085, float(rng.uniform(-1.2, 1.2)), True),
             'towel': Place(*layout.spot(0.06, y_range=(-0.3, 0.3)), 0.004,
                            float(rng.uniform(-1, 1)))})

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.2, grasp 0.4, lift 0.7, aside 0.95."""
        reach = self._reach(truth.distance('cup'))
        if not truth.grasped('cup'):
            return 0.2 * reach
        lifted = share(truth.position('cup')[2] - 0.085, 0.06)
        aside = share(apart(truth.position('cup'), truth.position('cube')), 0.09)
        return 0.4 + 0.3 * lifted + 0.25 * lifted * aside

    def potential(self, truth: SceneTruth) -> float:
        """The stage, with a grasp that does not flicker; a cup let go aside counts 0.3."""
        cup = truth.position('cup')
        aside = share(apart(cup, truth.position('cube')), 0.09)
        lifted = share(cup[2] - 0.085, 0.06)
        reach = self._near(max(truth.distance('cup') - 0.035, 0.0))
        holds = held(truth, 'cup', 0.085)
        return present(self.done(truth), 0.4 + 0.3 * lifted + 0.25 * lifted * aside if holds
                       else 0.2 * reach + 0.3 * aside)

    def done(self, truth: SceneTruth) -> bool:
        """The cup is away from the cube, which stayed on the table."""
        cup, cube = truth.position('cup'), truth.position('cube')
        return apart(cup, cube) > 0.09 and cube[2] < _SMALL + 0.01

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Lift the cup straight up and set it aside."""
        cup = hands.truth.position('cup')
        yield from hands.pick('cup', -0.03, hands.truth.yaw('cup'), lift=0.14)
        aside = 0.13 if cup[1] < 0 else -0.13
        yield from hands.go(cup[0], cup[1] + aside, cup[2] + 0.08)
