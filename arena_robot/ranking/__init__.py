"""
Ranking methods: standings computed from comparisons, votes and games.

For notebooks: ``from arena_robot.ranking import Comparisons, from_frame, rank, to_frame``. It
needs numpy and scipy, but no ROS, simulator or server.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena_robot.ranking.base import Comparisons
    from arena_robot.ranking.evaluators.agreement import (
        agreement_alpha,
        decayed,
        intransitivity,
    )
    from arena_robot.ranking.evaluators.reports import influence
    from arena_robot.ranking.frames import from_frame, to_frame, win_rates
    from arena_robot.ranking.intervals.needed import first_known, needed_words, sessions_needed
    from arena_robot.ranking.methods import METHODS, method, rank, rank_comparable
    from arena_robot.ranking.pairwise.covariates import adjusted, plackett_luce, waiting
    from arena_robot.ranking.standings import Standings

# What is loaded from where when it is asked for, so that `import arena_robot.ranking` is fast.
_HOMES = {name: home for home, names in {
    'base': ('Comparisons',), 'standings': ('Standings',),
    'frames': ('from_frame', 'to_frame', 'win_rates'),
    'methods': ('METHODS', 'method', 'rank', 'rank_comparable'),
    'pairwise.covariates': ('adjusted', 'plackett_luce', 'waiting'),
    'evaluators.agreement': ('agreement_alpha', 'decayed', 'intransitivity'),
    'evaluators.reports': ('influence',),
    'intervals.needed': ('first_known', 'needed_words', 'sessions_needed')}.items()
    for name in names}

__all__ = ['METHODS', 'Comparisons', 'Standings', 'adjusted', 'agreement_alpha', 'decayed',
           'first_known', 'from_frame', 'influence', 'intransitivity', 'method',
           'needed_words', 'plackett_luce', 'rank', 'rank_comparable', 'sessions_needed',
           'to_frame', 'waiting', 'win_rates']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'arena_robot.ranking' has no attribute '{name}'")
    return getattr(importlib.import_module(f'arena_robot.ranking.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
