"""
Rankings from comparisons, votes and games; with numpy and scipy alone.

``votes = ranking.load('sessions.csv')`` reads comparisons, ``result = ranking.fit(votes)`` ranks
the policies, ``print(result.standings)`` shows them. It needs no ROS, simulator or server.
"""

import importlib
from typing import TYPE_CHECKING, Any

from arena_robot.core.errors import RankingError

if TYPE_CHECKING:
    from arena_robot.ranking.base import Comparisons
    from arena_robot.ranking.differences import across_robots, over_time
    from arena_robot.ranking.evaluators.agreement import (
        agreement_alpha,
        decayed,
        intransitivity,
    )
    from arena_robot.ranking.evaluators.reports import influence
    from arena_robot.ranking.fitting import Ranking, fit
    from arena_robot.ranking.frames import win_rates
    from arena_robot.ranking.games.deviation import deviation_ratings, rate_table
    from arena_robot.ranking.games.nash_alpha import alpha_rank, nash_average
    from arena_robot.ranking.intervals.adjusted import adjusted
    from arena_robot.ranking.intervals.needed import (
        evidence,
        first_known,
        needed_words,
        sessions_needed,
    )
    from arena_robot.ranking.loading import load
    from arena_robot.ranking.methods import METHODS, method
    from arena_robot.ranking.pairwise.covariates import known_waits, plackett_luce
    from arena_robot.ranking.standings import Standings
    from arena_robot.ranking.voting.profile import Profile, from_games, from_scores
    from arena_robot.ranking.voting.rules import RULES, vote

# What is loaded from where when it is asked for, so that `import arena_robot.ranking` is fast.
_HOMES = {name: home for home, names in {
    'base': ('Comparisons',), 'standings': ('Standings',), 'loading': ('load',),
    'fitting': ('Ranking', 'fit'), 'frames': ('win_rates',),
    'differences': ('across_robots', 'over_time'), 'methods': ('METHODS', 'method'),
    'pairwise.covariates': ('known_waits', 'plackett_luce'),
    'evaluators.agreement': ('agreement_alpha', 'decayed', 'intransitivity'),
    'evaluators.reports': ('influence',), 'intervals.adjusted': ('adjusted',),
    'intervals.needed': ('evidence', 'first_known', 'needed_words', 'sessions_needed'),
    'voting.profile': ('Profile', 'from_games', 'from_scores'), 'voting.rules': ('RULES', 'vote'),
    'games.deviation': ('deviation_ratings', 'rate_table'),
    'games.nash_alpha': ('alpha_rank', 'nash_average')}.items() for name in names}

__all__ = [
    'METHODS', 'RULES', 'Comparisons', 'Profile', 'Ranking', 'RankingError', 'Standings',
    'across_robots', 'adjusted', 'agreement_alpha', 'alpha_rank', 'decayed',
    'deviation_ratings', 'evidence', 'first_known', 'fit', 'from_games', 'from_scores',
    'influence', 'intransitivity', 'known_waits', 'load', 'method', 'nash_average',
    'needed_words', 'over_time', 'plackett_luce', 'rate_table', 'sessions_needed', 'vote',
    'win_rates']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'arena_robot.ranking' has no attribute '{name}'")
    return getattr(importlib.import_module(f'arena_robot.ranking.{_HOMES[name]}'), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
