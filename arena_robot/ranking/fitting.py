"""
Fit a ranking method to comparisons, and ask the result.

>>> from arena_robot import ranking
>>> votes = ranking.load([('pi0', 'octo', 'A'), ('octo', 'act', 'A'), ('act', 'pi0', 'B'),
...                       ('octo', 'pi0', 'A'), ('act', 'octo', 'tie')] * 6)
>>> result = ranking.fit(votes, 'davidson')
>>> result['pi0'].rank, result['pi0'].n
(1, 18)
>>> [f'{end:.1f}' for end in result.interval('pi0')]
['0.1', '1.8']
>>> f"{result.probability('pi0', 'act'):.2f}"
'0.86'
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot import DISTRIBUTION
from arena_robot.core.errors import RankingError
from arena_robot.core.figures import save_figure
from arena_robot.core.parallel import HERE, Workers
from arena_robot.ranking.base import Comparisons, Floats
from arena_robot.ranking.methods import LOG_ODDS, METHODS, rank_comparable
from arena_robot.ranking.pairwise.davidson import outcome_probabilities
from arena_robot.ranking.plots import standings_figure
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Standing, Standings, basis_words, framed


def fit(comparisons: Comparisons, method: str = RECOMMENDED, *, intervals: int = 200,
        level: float = 0.95, cluster: str = 'auto', seed: int = 0, workers: Workers = HERE,
        **options: Any) -> 'Ranking':
    """
    Rank the policies that the method can rank together; the site and `arena rank` do the same.

    ``method`` is one of ``METHODS`` by name, or ``module:name``; ``options`` go to it, and its
    docstring says what it assumes. ``intervals`` is the number of bootstrap replicates of methods
    whose intervals need some, 0 for no intervals at all; ``level`` is that of the intervals.
    ``cluster`` says which comparisons depend on each other: 'session', 'evaluator', 'institution',
    or 'auto', which is evaluator where at least two are known. ``workers`` refit replicates, whose
    draws depend on ``seed`` alone.

    :raises RankingError: no two policies can be compared, or the method is unknown.
    """
    standings, left_out = rank_comparable(
        comparisons, method, intervals=intervals, level=level, cluster=cluster, seed=seed,
        workers=workers, **options)
    return Ranking(standings, tuple(left_out))


@dataclass(frozen=True)
class Ranking:
    """
    A fitted method: its ``standings``, and the policies that were ``left_out``.

    A notebook shows it as a table. It can be pickled.
    """

    standings: Standings
    left_out: tuple[str, ...] = ()

    def __getitem__(self, policy: str) -> Standing:
        """Return the row of a policy; RankingError for an unknown one."""
        return self.standings[policy]

    def interval(self, policy: str) -> tuple[float, float]:
        """
        Return the ends of a policy's interval, in the unit of the scores.

        An end that the data do not bound is infinite; both are NaN where the data are too few.
        """
        row = self.standings[policy]
        return row.low, row.high

    def better(self, first: str, second: str) -> float:
        """
        Return how probable it is that the ability of ``first`` is above that of ``second``.

        :raises RankingError: there are no intervals, or a policy is unknown.
        """
        table = self.standings.p_better
        if table is None:
            raise RankingError('how probable a difference is comes with intervals, and these '
                               'standings were asked for without')
        return float(table[self.standings.index(first), self.standings.index(second)])

    def probability(self, first: str, second: str) -> float:
        """Return the probability that ``first`` wins a verdict; see :meth:`predict`."""
        return float(self.predict([(first, second)])[0])

    def predict(self, pairs: Iterable[tuple[str, str]]) -> Floats:
        """
        Return (P,) the probability that the first of each pair wins a verdict.

        That is the model's probability at the scores, a tie being half a win.

        :raises RankingError: a policy is unknown, or the scores are no log-odds of winning.
        """
        at = [(self.standings.index(a), self.standings.index(b)) for a, b in pairs]
        first, second = np.array(at, dtype=np.int64).reshape(-1, 2).T
        return self._chances(self.standings.scores[first] - self.standings.scores[second])

    def win_probabilities(self, kind: str | None = None) -> Any:
        """
        Return the probability that the row's policy wins a verdict against the column's.

        As a mapping of columns: 'policy' has the names of the rows, best first, and each policy
        has a column. ``kind`` asks for the data frame of pandas or polars instead.

        :raises RankingError: as :meth:`predict`, or ``kind`` is no data frame or not installed.
        """
        order = self.standings.order
        scores, names = self.standings.scores[order], [self.standings.items[k] for k in order]
        table = self._chances(scores[:, None] - scores)
        columns = {'policy': names, **dict(zip(names, table.T.tolist(), strict=True))}
        return columns if kind is None else framed(columns, kind)

    def _chances(self, gap: Floats) -> Floats:
        method = self.standings.method
        unit = METHODS.find(method).unit
        if unit not in LOG_ODDS:
            raise RankingError(f"scores of '{method}' are {unit}, which say nothing of who wins a "
                               f'verdict; known are methods in {" and ".join(LOG_ODDS)}')
        kappa = float(self.standings.diagnostics.details.get('kappa', 0.0))
        win, tie, _ = outcome_probabilities(LOG_ODDS[unit] * gap, kappa)
        return np.asarray(win + tie / 2)

    def plot(self, path: Path | str | None = None) -> Any:
        """
        Return Matplotlib's figure of the standings, saved as ``path`` (.png or .svg) where given.

        :raises RankingError: Matplotlib is not installed.
        :raises DataError: the path ends in something else, or cannot be written.
        """
        try:
            figure = standings_figure(self.standings, METHODS.find(self.standings.method).unit)
        except ModuleNotFoundError as error:
            raise RankingError('a plot needs Matplotlib, which is not installed: pip install '
                               f"'{DISTRIBUTION}[ranking]'") from error
        if path is not None:
            save_figure(figure, path)
        return figure

    def _repr_html_(self) -> str:
        left = (f'left out, not comparable with the others: {", ".join(self.left_out)}',) \
            if self.left_out else ()
        notes = (basis_words(self.standings), *self.standings.diagnostics.warnings, *left)
        return self.standings._repr_html_() + ''.join(f'<p>{escape(note)}</p>' for note in notes)
