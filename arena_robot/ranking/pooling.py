"""
Shares of one policy in several groups, pooled partially.

A share s_c of n_c comparisons varies by v_c = m (1 - m) / n_c around the group's own, and groups
vary around the common mean m by τ². Both are estimated from the data (R. DerSimonian and N. Laird,
1986); a group's share is (s_c / v_c + m / τ²) / (1 / v_c + 1 / τ²): little data give the mean of
all groups, much data the group's own. With τ² = 0 all groups are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.wilson import Z95


@dataclass(frozen=True)
class PooledShare:
    """A share with its 95 % interval, both within 0 and 1."""

    share: float
    low: float
    high: float


def pooled_shares(shares: Sequence[float], counts: Sequence[float]) -> list[PooledShare]:
    """Return the pooled share of each group; ``counts`` are above 0."""
    s, n = np.asarray(shares, dtype=float), np.asarray(counts, dtype=float)
    if not len(s):
        return []
    plain = float((n @ s + 0.5) / (n.sum() + 1.0))    # never 0 or 1
    v = plain * (1 - plain) / n
    w = 1 / v
    spare = w.sum() - (w @ w) / w.sum()
    mean = float(w @ s / w.sum())
    q = float(w @ (s - mean) ** 2)
    between = max(0.0, (q - (len(s) - 1)) / spare) if spare > 1e-12 else 0.0
    weight = 1 / (v + between)
    mean = float(weight @ s / weight.sum())
    own = between / (between + v)
    found = own * s + (1 - own) * mean
    spread = Z95 * np.sqrt(own * v + (1 - own) ** 2 / weight.sum())
    return [PooledShare(*(float(min(max(x, 0.0), 1.0)) for x in (at, at - wide, at + wide)))
            for at, wide in zip(found, spread, strict=True)]
