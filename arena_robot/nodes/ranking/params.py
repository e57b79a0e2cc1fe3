"""The parameters of ranking_node."""

from dataclasses import dataclass

from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.ranking.intervals.choice import CHOICES
from arena_robot.ranking.recommended import RECOMMENDED


@dataclass(frozen=True, kw_only=True)
class RankingParams(Parameters):
    """The parameters of ranking_node."""

    source: str = param(
        '~/arena/sessions', 'folder of sessions or tables, database URL, or site')
    method: str = param(RECOMMENDED, 'default method, by name or module:name')
    intervals: int = param(
        200, 'bootstrap replicates behind the intervals; 0: none', 0, 10_000)
    cluster_by: str = param(
        'auto', 'what counts as one observation in the intervals', choices=CHOICES)
    period: float = param(1.0, 'period of checks of the source', 0.05, 3600.0, unit='s')
    debounce: float = param(
        0.5, 'time without changes before standings are computed', 0.0, 60.0, unit='s')
