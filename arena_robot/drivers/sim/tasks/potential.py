"""
Progress of the present state, for judging: it falls when work is undone, unlike the best stage.

0 at reset and 1 when done, with no memory but the distances at reset, and what cannot be undone.
"""

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.gripper_model import FINGERS
from arena_robot.drivers.sim.tasks.oracle import apart, share
from arena_robot.drivers.sim.truth import SceneTruth

ALMOST = 0.99
_NEAR_M, _LIFTED_M = 0.05, 0.012


def present(done: bool, stage: float) -> float:
    """Return 1 when done, else the stage, which stays below 1."""
    return 1.0 if done else min(stage, ALMOST)


def held(truth: SceneTruth, name: str, rest_z: float) -> bool:
    """
    Return whether a prop is in the gripper, with hysteresis.

    Both fingers touch it; or it is off the table between the pads, and one touches it.
    """
    touching = set(FINGERS) & truth.touching(name)
    return len(touching) == len(FINGERS) or (
        bool(touching) and truth.distance(name) < _NEAR_M
        and bool(truth.position(name)[2] > rest_z + _LIFTED_M))


class Closer:
    """Measures how much closer two points are than at reset: 0 at the first call, 1 together."""

    def __init__(self) -> None:
        self.first_m: float | None = None

    def __call__(self, distance_m: float) -> float:
        """Return the covered share of the first distance; 0 also for farther away."""
        if self.first_m is None:
            self.first_m = max(distance_m, 1e-6)
        return share(self.first_m - distance_m, self.first_m)

    def along(self, distance_m: float) -> float:
        """Return 1 at the point and 0.14 at the first distance; it falls on without end."""
        self(distance_m)
        return float(np.exp(-2.0 * distance_m / self.first_m)) if self.first_m else 0.0


class CarryPotential:
    """
    Carrying a prop to a goal: reach 0.15, grasped 0.3, lifted 0.5, above the goal 0.85.

    Within ``radius_m`` of the goal (its footprint) lowering costs nothing, and a prop let go there
    counts 0.9 until it rests. A prop let go beside it counts up to 0.25 for being closer.
    """

    def __init__(self, name: str, rest_z: float, radius_m: float) -> None:
        self.name, self.rest_z, self.radius_m = name, rest_z, radius_m
        self._reach, self._way = Closer(), Closer()

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
