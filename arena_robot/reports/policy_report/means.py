"""Means of numbers over sessions, with 95 % intervals in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

LEAST = 5


@dataclass(frozen=True)
class SampleMean:
    """A mean over ``count`` sessions with its 95 % interval (Student's t); NaN with one."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> 'SampleMean':
        """Return the mean of values; NaN without any."""
        x = np.asarray(values, dtype=float)
        if len(x) < 2:
            return cls(float(x.mean()) if len(x) else float('nan'), float('nan'), float('nan'),
                       len(x))
        reach = float(stdtrit(len(x) - 1, 0.975) * x.std(ddof=1) / np.sqrt(len(x)))
        return cls(float(x.mean()), float(x.mean()) - reach, float(x.mean()) + reach, len(x))

    @property
    def clear(self) -> bool:
        """Tell whether the interval leaves zero out."""
        return self.low > 0.0 or self.high < 0.0

    def words(self, signed: bool = False) -> str:
        """Return a mean of shares in percent with its interval."""
        if self.count < LEAST:
            return f'too few to tell, n = {self.count}'
        form = '+.0f' if signed else '.0f'
        low, high = (100 * min(max(x, -1.0 if signed else 0.0), 1.0)
                     for x in (self.low, self.high))
        return f'{100 * self.mean:{form}} ({low:{form}} to {high:{form}}), n = {self.count}'
