"""Standings as plain values for JSON: `arena rank --json`, the server, the ranking node."""

import math
from typing import Any

import numpy as np

from arena_robot.ranking.standings import Standings, is_few


def as_json(result: Standings) -> dict[str, Any]:
    """
    Return a ``Standings`` as plain values, best policy first, NaN and infinity as null.

    ``too_few``: the data are too few to tell, so there is no interval. ``unbounded`` is the end
    that the data do not bound: 'above', 'below', or null.
    """
    rows = []
    for k in result.order:
        row = {'policy': result.items[k], 'score': result.scores[k], 'low': result.low[k],
               'high': result.high[k], 'rank': int(result.ranks[k]), 'n': int(result.counts[k]),
               'solve': result.solve[k], 'too_few': is_few(result, k),
               'unbounded': 'above' if result.high[k] == math.inf else
                            'below' if result.low[k] == -math.inf else None}
        if (result.rank_low is not None and result.rank_high is not None
                and result.p_better is not None):
            row |= {'rank_low': int(result.rank_low[k]), 'rank_high': int(result.rank_high[k]),
                    **_joint(result, k),
                    'p_better': dict(zip(result.items, result.p_better[k], strict=True))}
        rows.append(row)
    told = result.diagnostics
    out: dict[str, Any] = plain({'method': result.method, 'standings': rows, 'diagnostics': {
        'converged': told.converged, 'iterations': told.iterations,
        'log_likelihood': told.log_likelihood, 'warnings': list(told.warnings),
        **told.details}})
    return out


def _joint(result: Standings, k: int) -> dict[str, int]:
    if result.rank_low_joint is None or result.rank_high_joint is None:
        return {}
    return {'rank_low_joint': int(result.rank_low_joint[k]),
            'rank_high_joint': int(result.rank_high_joint[k])}


def plain(value: Any) -> Any:
    """Return ``value`` with numpy numbers as Python's and NaN or infinity as None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
