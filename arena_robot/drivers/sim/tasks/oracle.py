"""Measures that several oracles share."""

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.truth import SceneTruth


def share(value: float, full: float) -> float:
    """Return ``value / full`` within 0 to 1."""
    return float(np.clip(value / full, 0.0, 1.0))


def apart(a: Floats, b: Floats) -> float:
    """Return the distance of two points over the table plane, m."""
    return float(np.hypot(a[0] - b[0], a[1] - b[1]))


class Approach:
    """Measures the approach to a point: 0 at the first call, 1 at the point."""

    def __init__(self) -> None:
        self._first: float | None = None

    def __call__(self, distance: float) -> float:
        """Return the covered share of the first distance."""
        if self._first is None:
            self._first = max(distance, 1e-6)
        return share(self._first - distance, self._first)


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
