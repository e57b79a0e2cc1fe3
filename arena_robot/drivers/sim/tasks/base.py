"""
Interface of a task: props drawn by a seed, a start, an instruction, an oracle.

The oracle's progress is the best stage reached so far (below 1), and 1 while the task is done:
an achievement undone falls back below 1, as a person would score it. The potential is the
progress of the present state, for judging: 0 at reset, 1 when done, and it falls when work is
undone. It has no memory but the distances at reset, and what cannot be undone.
"""

import abc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.gripper_model import FINGERS
from arena_robot.drivers.sim.props import COLOURS, Prop
from arena_robot.drivers.sim.truth import SceneTruth

X_RANGE, Y_RANGE = (0.38, 0.62), (-0.24, 0.24)
ALMOST = 0.99    # the most that a task not yet done can have
# A prop so near the pads and so high is still held when one finger loses touch.
_NEAR_M, _LIFTED_M = 0.05, 0.012


@dataclass(frozen=True)
class Place:
    """Where a free prop starts: position in m, ``yaw`` in rad, ``flipped`` upside down."""

    x: float
    y: float
    z: float
    yaw: float = 0.0
    flipped: bool = False


@dataclass
class Setup:
    """One seed's instance of a task; ``joints`` start values of fixtures' joints by name."""

    instruction: str
    props: tuple[Prop, ...]
    places: dict[str, Place]
    joints: dict[str, float] = field(default_factory=dict)


class ExpertHands(Protocol):
    """Motions of the scripted expert; every call yields once per control step."""

    truth: SceneTruth

    def pick(self, name: str, height: float = 0.0, yaw: float | None = None,
             lift: float = 0.16) -> Iterator[None]:
        """Grasp a prop ``height`` above its origin from above and lift it."""

    def place(self, x: float, y: float, z: float, yaw: float | None = None) -> Iterator[None]:
        """Put the held prop's grasp point at a position, let go and retreat."""

    def go(self, x: float, y: float, z: float, yaw: float | None = None,
           pitch: float = 0.0) -> Iterator[None]:
        """Move the pads straight to a position; ``pitch`` tips the fingers forward."""

    def grip(self, position: float, force: float = 0.0) -> Iterator[None]:
        """Open (0) or close (1) the gripper and wait for it."""

    def wait(self, seconds: float) -> Iterator[None]:
        """Keep still."""


class Task(Protocol):
    """A task; an instance has one seed's setup and its oracle's memory."""

    name: str
    category: str
    setup: Setup

    def __init__(self, rng: np.random.Generator) -> None: ...

    def stage(self, truth: SceneTruth) -> float:
        """Return the progress of the present state, 0 to below 1; called every 20 ms."""

    def potential(self, truth: SceneTruth) -> float:
        """
        Return the progress of the present state: 0 at reset, 1 when done, without jumps.

        It falls when work is undone. The first call is at reset.
        """

    def done(self, truth: SceneTruth) -> bool:
        """Return whether the task is done now."""

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Do the task; yields once per control step."""


class Layout:
    """Allocates free positions; ``radius`` in m is a prop's footprint."""

    def __init__(self, rng: np.random.Generator, gap: float = 0.035) -> None:
        self._rng, self._gap = rng, gap
        self._taken: list[tuple[float, float, float]] = []

    def take(self, x: float, y: float, radius: float) -> None:
        """Mark a spot as taken."""
        self._taken.append((x, y, radius))

    def spot(self, radius: float, x_range: tuple[float, float] = X_RANGE,
             y_range: tuple[float, float] = Y_RANGE) -> tuple[float, float]:
        """Return a free (x, y); the gap shrinks when the table is full."""
        gap = self._gap
        for attempt in range(2000):
            x, y = float(self._rng.uniform(*x_range)), float(self._rng.uniform(*y_range))
            if all(np.hypot(x - u, y - v) > radius + r + gap for u, v, r in self._taken):
                self.take(x, y, radius)
                return x, y
            if attempt % 200 == 199:
                gap *= 0.8
        raise ValueError(f'no room for a prop of radius {radius} m')


def colours(rng: np.random.Generator, count: int, without: tuple[str, ...] = ('white', 'black'),
            ) -> list[str]:
    """Return ``count`` different colour names."""
    names = [name for name in COLOURS if name not in without]
    return [str(name) for name in rng.choice(names, count, replace=False)]


def choose(rng: np.random.Generator, *variants: str) -> str:
    """Return one wording of an instruction."""
    return variants[int(rng.integers(len(variants)))]


def share(value: float, full: float) -> float:
    """Return ``value / full`` within 0 to 1."""
    return min(max(float(value / full), 0.0), 1.0)


def apart(a: Floats, b: Floats) -> float:
    """Return the distance of two points over the table plane, m."""
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))


class Approach:
    """Measures how much closer two points are than at reset: 0 at the first call, 1 together."""

    def __init__(self) -> None:
        self._first_m: float | None = None

    def __call__(self, distance_m: float) -> float:
        """Return the covered share of the first distance; 0 also for farther away."""
        if self._first_m is None:
            self._first_m = max(distance_m, 1e-6)
        return share(self._first_m - distance_m, self._first_m)

    def along(self, distance_m: float) -> float:
        """Return 1 at the point and 0.14 at the first distance; it falls on without end."""
        self(distance_m)
        return float(np.exp(-2.0 * distance_m / self._first_m)) if self._first_m else 0.0


class Carry:
    """Stages of carrying a prop to a point: reach 0.15, grasp 0.3, lift 0.5, above it 0.8."""

    def __init__(self, name: str, rest_z: float) -> None:
        self.name, self.rest_z = name, rest_z
        self._reach, self._way = Approach(), Approach()

    def stage(self, truth: SceneTruth, goal: Floats) -> float:
        """Return 0 to 0.8."""
        at = truth.position(self.name)
        way = self._way(apart(at, goal))
        reach = self._reach(truth.distance(self.name))
        if not truth.grasped(self.name):
            return 0.15 * reach
        lifted = share(at[2] - self.rest_z, 0.06)
        return 0.3 + 0.2 * lifted + 0.3 * lifted * way

    def resting(self, truth: SceneTruth) -> bool:
        """Return whether the prop is released and at rest."""
        return not truth.grasped(self.name) and truth.speed(self.name) < 0.05


def present(done: bool, stage: float) -> float:
    """Return 1 when done, else the stage, which stays below 1."""
    return 1.0 if done else min(stage, ALMOST)


class Staged:
    """Base of tasks whose stage falls when work is undone: the stage is their potential."""

    def potential(self: Task, truth: SceneTruth) -> float:
        """The stage, and 1 when the task is done."""
        return present(self.done(truth), self.stage(truth))


def held(truth: SceneTruth, name: str, rest_z: float) -> bool:
    """
    Return whether a prop is in the gripper, with hysteresis.

    Both fingers touch it; or it is off the table between the pads, and one touches it.
    """
    touching = set(FINGERS) & truth.touching(name)
    return len(touching) == len(FINGERS) or (
        bool(touching) and truth.distance(name) < _NEAR_M
        and bool(truth.position(name)[2] > rest_z + _LIFTED_M))


class CarryPotential:
    """
    Carrying a prop to a goal: reach 0.15, grasped 0.3, lifted 0.5, above the goal 0.85.

    Within ``radius_m`` of the goal (its footprint) lowering costs nothing, and a prop let go there
    counts 0.9 until it rests. A prop let go beside it counts up to 0.25 for being closer.
    """

    def __init__(self, name: str, rest_z: float, radius_m: float) -> None:
        self.name, self.rest_z, self.radius_m = name, rest_z, radius_m
        self._reach, self._way = Approach(), Approach()

    def __call__(self, truth: SceneTruth, goal: Floats) -> float:
        """Return 0 to 0.9."""
        at = truth.position(self.name)
        over = apart(at, goal)
        there = over < self.radius_m
        nearer, way = self._way(over), self._way.along(max(over - self.radius_m, 0.0))
        reach = self._reach(truth.distance(self.name))
        if held(truth, self.name, self.rest_z):
            lifted = 1.0 if there else share(at[2] - self.rest_z, 0.06)
            return 0.3 + 0.2 * lifted + 0.35 * lifted * way
        if there and at[2] > self.rest_z + 0.004:
            return 0.9
        return 0.15 * reach + 0.1 * nearer


class CarryTask(abc.ABC):
    """Base of tasks that carry the prop ``target`` to the prop ``goal``, within ``radius_m``."""

    def __init__(self, target: str, rest_z: float, goal: str, radius_m: float) -> None:
        self.target, self.goal = target, goal
        self._carry = Carry(target, rest_z)
        self._potential = CarryPotential(target, rest_z, radius_m)

    def stage(self, truth: SceneTruth) -> float:
        """The carry to the goal."""
        return self._carry.stage(truth, truth.position(self.goal))

    @abc.abstractmethod
    def done(self, truth: SceneTruth) -> bool:
        """Return whether the task is done now."""

    def potential(self, truth: SceneTruth) -> float:
        """The carry to the goal, and 1 when the task is done."""
        return present(self.done(truth), self._potential(truth, truth.position(self.goal)))
