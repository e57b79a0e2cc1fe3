"""Random places on the table that do not overlap."""

import numpy as np

from arena_robot.drivers.sim.props import COLOURS

X_RANGE, Y_RANGE = (0.38, 0.62), (-0.24, 0.24)


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
