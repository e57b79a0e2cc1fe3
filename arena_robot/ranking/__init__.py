"""
Ranking methods: standings computed from comparisons, votes and games.

For notebooks: ``from arena_robot.ranking import Comparisons, from_frame, rank, to_frame``. It
needs numpy and scipy, but no ROS, simulator or server.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena_robot.ranking.base import Comparisons, Standings
    from arena_robot.ranking.frames import from_frame, to_frame
    from arena_robot.ranking.methods import METHODS, rank, rank_comparable

# What is loaded from where when it is asked for, so that `import arena_robot.ranking` is fast.
_HOMES = {'Comparisons': 'base', 'Standings': 'base', 'from_frame': 'frames',
          'to_frame': 'frames', 'METHODS': 'methods', 'rank': 'methods',
          'rank_comparable': 'methods'}

__all__ = ['METHODS', 'Comparisons', 'Standings', 'from_frame', 'rank', 'rank_comparable',
           'to_frame']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'arena_robot.ranking' has no attribute '{name}'")
    return getattr(importlib.import_module(f'arena_robot.ranking.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
