"""Move things without holding them, use a tool, or do nothing."""

from collections.abc import Iterator

import numpy as np

from arena_robot.drivers.sim.fixtures import Stain, Zone
from arena_robot.drivers.sim.props import Block, Bottle, Cup
from arena_robot.drivers.sim.tasks.base import (
    Approach,
    ExpertHands,
    Layout,
    Place,
    Setup,
    Staged,
    apart,
    choose,
    colours,
    held,
    present,
    share,
)
from arena_robot.drivers.sim.tasks.pick import scatter
from arena_robot.drivers.sim.truth import SceneTruth

BOOK = (0.055, 0.055, 0.014)
SPONGE = (0.032, 0.024, 0.014)


class SlideBook(Staged):
    """Push a book that is too wide to grasp into the taped square."""

    name, category = 'slide_book', 'move and slide'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, tape, other = colours(rng, 3)
        side = 1.0 if rng.random() < 0.5 else -1.0
        self.heading = side * np.pi / 2 + float(rng.uniform(-0.35, 0.35))
        x, y = float(rng.uniform(0.45, 0.55)), -side * float(rng.uniform(0.05, 0.12))
        reach = float(rng.uniform(0.15, 0.20))
        goal = np.array([x, y]) + reach * np.array([np.cos(self.heading), np.sin(self.heading)])
        self._reach, self._way = Approach(), Approach()
        layout = Layout(rng)
        for step in np.linspace(-0.1, reach + 0.05, 6):
            layout.take(x + step * np.cos(self.heading), y + step * np.sin(self.heading), 0.10)
        self.setup = Setup(
            choose(rng, f'slide the book onto the {tape} square',
                   f'push the {colour} book into the {tape} square'),
            (Block('book', colour, BOOK, density=500),
             Zone('zone', float(goal[0]), float(goal[1]), self.heading, tape),
             Block(f'{other}_cube', other)),
            {'book': Place(x, y, BOOK[2], self.heading),
             f'{other}_cube': Place(*layout.spot(0.03, y_range=(-0.34, 0.34)), 0.022)})

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.2, then the distance."""
        way = self._way(apart(truth.position('book'), truth.position('zone')))
        reach = 0.2 * self._reach(truth.distance('book'))
        return max(reach, 0.2 + 0.75 * way if way > 0.03 else 0.0)

    def done(self, truth: SceneTruth) -> bool:
        """Its middle is within 3 cm of the square's."""
        return (apart(truth.position('book'), truth.position('zone')) < 0.03
                and truth.speed('book') < 0.05)

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Push its rear face with two fingers."""
        book, zone = hands.truth.position('book'), hands.truth.position('zone')
        ahead = np.array([np.cos(self.heading), np.sin(self.heading)])
        yaw = self.heading + np.pi if self.heading < 0 else self.heading
        back = book[:2] - ahead * (BOOK[0] + 0.04)
        end = zone[:2] - ahead * (BOOK[0] + 0.012 + 0.004)
        yield from hands.grip(0.4)
        yield from hands.go(back[0], back[1], 0.12, yaw)
        yield from hands.go(back[0], back[1], 0.022, yaw)
        yield from hands.go(end[0], end[1], 0.022, yaw)
        off = end - ahead * 0.03
        yield from hands.go(off[0], off[1], 0.022, yaw)
        yield from hands.go(off[0], off[1], 0.12, yaw)


class KnockOver(Staged):
    """Knock the bottle over; a cup on the table is not part of the task."""

    name, category = 'knock_over', 'knock over'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, other = colours(rng, 2)
        layout = Layout(rng, gap=0.08)
        self._reach = Approach()
        self.setup = Setup(
            choose(rng, 'knock over the bottle', f'tip the {colour} bottle over',
                   'push the bottle so that it falls'),
            (Bottle('bottle', colour), Cup('cup', other)),
            {'bottle': Place(*layout.spot(0.03, x_range=(0.42, 0.56)), 0.0),
             'cup': Place(*layout.spot(0.05), 0.0, float(rng.uniform(-1, 1)))})

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.5, then the tilt."""
        reach = 0.5 * self._reach(truth.distance('bottle'))
        tilt = share(1.0 - truth.upright('bottle'), 0.6)
        return max(reach, 0.5 + 0.45 * tilt if tilt > 0.02 else 0.0)

    def done(self, truth: SceneTruth) -> bool:
        """It lies."""
        return truth.upright('bottle') < 0.35

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Push its neck sideways, away from the cup."""
        bottle, cup = hands.truth.position('bottle'), hands.truth.position('cup')
        side = 1.0 if bottle[1] > cup[1] else -1.0
        x, y, z = bottle[0], bottle[1], 0.135
        yield from hands.grip(1.0)
        yield from hands.go(x - 0.02, y - side * 0.08, z + 0.10)
        yield from hands.go(x, y - side * 0.08, z)
        yield from hands.go(x, y + side * 0.10, z)
        yield from hands.wait(0.8)


class WipeTable:
    """Wipe four spots away with the sponge."""

    name, category = 'wipe_table', 'use a tool'

    def __init__(self, rng: np.random.Generator) -> None:
        layout = Layout(rng)
        x, y = float(rng.uniform(0.42, 0.54)), float(rng.uniform(-0.12, 0.12))
        turn = float(rng.uniform(-0.5, 0.5)) + np.pi / 2
        line = np.array([np.cos(turn), np.sin(turn)])
        self.spots = {f'stain_{i}': np.array([x, y]) + line * (i - 1.5) * 0.032
                      + rng.uniform(-0.004, 0.004, 2) for i in range(4)}
        for spot in self.spots.values():
            layout.take(float(spot[0]), float(spot[1]), 0.04)
        self._reach = Approach()
        self._wiped: set[str] = set()
        (other,) = colours(rng, 1, ('white', 'black', 'yellow'))
        self.setup = Setup(
            choose(rng, 'wipe the stain off the table with the sponge',
                   'clean the table with the yellow sponge'),
            (Block('sponge', 'yellow', SPONGE, density=120), Block(f'{other}_cube', other),
             *(Stain(name, *at) for name, at in self.spots.items())),
            {'sponge': Place(*layout.spot(0.045), SPONGE[2], float(rng.uniform(-0.6, 0.6))),
             **scatter(rng, layout, [f'{other}_cube'])})

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.15, grasp 0.3, then the share of spots wiped."""
        sponge = truth.position('sponge')
        for name, at in self.spots.items():
            if (name not in self._wiped and apart(sponge, at) < 0.026
                    and sponge[2] < SPONGE[2] + 0.008 and truth.grasped('sponge')):
                self._wiped.add(name)
                truth.hide(name)
        if not self._wiped and not truth.grasped('sponge'):
            return 0.15 * self._reach(truth.distance('sponge'))
        return 0.3 + 0.65 * len(self._wiped) / len(self.spots)

    def potential(self, truth: SceneTruth) -> float:
        """The share of spots wiped, which cannot be undone; before that reach and grasp."""
        self.stage(truth)
        wiped = len(self._wiped) / len(self.spots)
        reach = self._reach(truth.distance('sponge'))
        start = 0.3 if held(truth, 'sponge', SPONGE[2]) else 0.15 * reach
        return present(self.done(truth), wiped + (1.0 - wiped) * start)

    def done(self, truth: SceneTruth) -> bool:
        """No spot is left."""
        return len(self._wiped) == len(self.spots)

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Drag the sponge along the spots."""
        yield from hands.pick('sponge', 0.006, lift=0.08)
        first, last = self.spots['stain_0'], self.spots['stain_3']
        ahead = (last - first) / np.linalg.norm(last - first) * 0.02
        begin, end = first - ahead, last + ahead
        low = SPONGE[2] + 0.006
        yield from hands.go(begin[0], begin[1], low + 0.08)
        yield from hands.go(begin[0], begin[1], low)
        yield from hands.go(end[0], end[1], low)
        yield from hands.go(end[0], end[1], low + 0.08)


class StayStill:
    """Do not move for five seconds; a motion of the arm fails the task permanently."""

    name, category = 'do_not_move', 'do not move'

    def __init__(self, rng: np.random.Generator) -> None:
        names = colours(rng, 3)
        cubes = [f'{name}_cube' for name in names]
        self._home: np.ndarray | None = None
        self._since_s = self._longest_s = 0.0
        self._moved = False
        self.setup = Setup(choose(rng, 'do not move', 'stay still', 'do nothing'),
                           tuple(Block(f'{name}_cube', name) for name in names),
                           scatter(rng, Layout(rng), cubes))

    def stage(self, truth: SceneTruth) -> float:
        """The share of five seconds kept still."""
        if self._home is None:
            self._home, self._since_s = truth.tcp(), truth.now_s
        self._moved = self._moved or bool(np.linalg.norm(truth.tcp() - self._home) > 0.03)
        if not self._moved:
            self._longest_s = truth.now_s - self._since_s
        return 0.95 * share(self._longest_s, 5.0)

    def potential(self, truth: SceneTruth) -> float:
        """The share of five seconds kept still; 0 for good once the arm moved."""
        stage = self.stage(truth)
        return 0.0 if self._moved else present(self.done(truth), stage)

    def done(self, truth: SceneTruth) -> bool:
        """Five seconds passed without leaving a 3 cm ball."""
        return not self._moved and self._longest_s >= 5.0

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Wait."""
        yield from hands.wait(5.5)
