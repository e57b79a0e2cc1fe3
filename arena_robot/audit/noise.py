"""
The threshold of stagnation from a judge's noise on clips in which nothing happens.

With independent normal noise of standard deviation σ, differences of neighbours have √2 σ. So
|d| < ε holds with probability 1 - α for ε = √2 σ Φ⁻¹(1 - α/2), equation 17 of the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.observation import Floats

FLOOR = 1e-6
ALPHA = 0.01


@dataclass(frozen=True)
class JudgeNoise:
    """
    Noise of a judge: ``sigma``, and the ``epsilon`` for a share ``alpha`` of false motion.

    ``neighbours`` is the correlation of neighbouring values (0 for independent noise): where it is
    far from 0, equation 17 does not hold. ``clips`` and ``values`` say what it was measured on.
    """

    sigma: float
    epsilon: float
    alpha: float
    neighbours: float
    clips: int
    values: int


def threshold(sigma: float, alpha: float = ALPHA) -> float:
    """Return ε of equation 17, at least 1e-6: with ε = 0 nothing would ever stagnate."""
    if not sigma >= 0.0 or not 0.0 < alpha < 1.0:
        raise ConfigError(f'sigma must be at least 0 and alpha between 0 and 1, found {sigma} '
                          f'and {alpha}')
    return max(sqrt(2.0) * sigma * NormalDist().inv_cdf(1.0 - alpha / 2.0), FLOOR)


def static_noise(traces: Sequence[Floats], alpha: float = ALPHA) -> JudgeNoise:
    """
    Return the noise on traces of static clips; each has a level of its own.

    σ² is the variance about the clips' means, Σ(Φ - mean)² / Σ(n - 1).
    """
    kept = [np.asarray(trace, np.float64) for trace in traces]
    if not kept or any(len(trace) < 3 for trace in kept):
        raise DataError('the noise needs at least one static clip, of three values or more each')
    rest = [trace - trace.mean() for trace in kept]
    square = sum(float(r @ r) for r in rest)
    if not np.isfinite(square):
        raise DataError('a static clip has a value that is not finite')
    sigma = sqrt(square / sum(len(r) - 1 for r in rest))
    beside = sum(float(r[1:] @ r[:-1]) for r in rest)
    return JudgeNoise(sigma, threshold(sigma, alpha), alpha, beside / square if square else 0.0,
                      len(kept), sum(len(r) for r in rest))
