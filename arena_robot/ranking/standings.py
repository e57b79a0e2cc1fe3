"""
Standings: what a ranking method found; by name, in words, as a data frame, HTML and JSON.

Standings have intervals, rank ranges and probabilities only where these were computed. A
comparison came through a server's relay, was imported from tables, or is local: the standings say
how many did not pass a relay.
"""

import importlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_robot.core.config import nearest
from arena_robot.core.episode import Comparison
from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats, Ints

TIE_TOLERANCE = 1e-9    # of the spread of the scores: rounding makes no ranks
TOO_FEW = 'too few to tell'
RELAYED = 'relayed'
UNKNOWN = 'of unknown origin'
FRAMES = ('pandas', 'polars')    # the libraries of data frames that tables are returned in
RANGES = ('rank_low', 'rank_high', 'rank_low_joint', 'rank_high_joint')


@dataclass(frozen=True)
class Standing:
    """What the standings say of one policy; the fields are those of :class:`Standings`."""

    rank: int
    policy: str
    score: float
    low: float
    high: float
    solve: float
    n: int
    too_few: bool
    rank_low: int | None = None
    rank_high: int | None = None
    rank_low_joint: int | None = None
    rank_high_joint: int | None = None


@dataclass(frozen=True)
class Standings:
    """
    The outcome of one method: iterate over it for a row per policy, best first, or ask by name.

    ``scores`` (n,) in the method's own unit, higher is better; ``low``, ``high`` (n,)
    its interval, NaN without intervals. ``ranks`` (n,) count from 1; policies whose scores are
    equal share the better rank. ``counts`` (n,) comparisons of each. ``solve`` (n,) is the ability
    as a probability: of solving a task, or of beating a policy drawn from the pool.
    ``rank_low``, ``rank_high`` (n,) and ``p_better`` (n, n), the probability that the row's policy
    is better than the column's, come with intervals; ``_joint`` ranges hold for all policies at
    once. ``too_few`` (n,) marks the policies of which the data are too few to tell anything: their
    ``low`` and ``high`` are NaN. An end that the data do not bound is infinite.
    """

    method: str
    items: tuple[str, ...]
    scores: Floats
    low: Floats
    high: Floats
    ranks: Ints
    counts: Ints
    solve: Floats
    diagnostics: Diagnostics
    rank_low: Ints | None = None
    rank_high: Ints | None = None
    p_better: Floats | None = None
    rank_low_joint: Ints | None = None
    rank_high_joint: Ints | None = None
    too_few: NDArray[np.bool_] | None = None

    @property
    def order(self) -> list[int]:
        """The indices of the policies from best to worst; equal ones in the order of items."""
        return [int(k) for k in np.lexsort((np.arange(len(self.items)), self.ranks))]

    def index(self, policy: str) -> int:
        """
        Return the place of a policy in the arrays.

        :raises RankingError: it is not among the policies.
        """
        if policy not in self.items:
            raise RankingError(f"no policy '{policy}'.{nearest(policy, self.items)}")
        return self.items.index(policy)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Standing]:
        return (self._row(k) for k in self.order)

    def __getitem__(self, policy: str) -> Standing:
        return self._row(self.index(policy))

    def _row(self, k: int) -> Standing:
        ranks = {name: int(getattr(self, name)[k]) for name in RANGES
                 if getattr(self, name) is not None}
        return Standing(int(self.ranks[k]), self.items[k], float(self.scores[k]),
                        float(self.low[k]), float(self.high[k]), float(self.solve[k]),
                        int(self.counts[k]), is_few(self, k), **ranks)

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows as columns by name, best policy first; ranges where they are known."""
        rows = list(map(asdict, self))
        return {name: values for name in (field.name for field in fields(Standing))
                if None not in (values := [row[name] for row in rows])}

    def to_pandas(self) -> Any:
        """Return :meth:`columns` as a data frame of pandas, which must be installed."""
        return framed(self.columns(), 'pandas')

    def to_polars(self) -> Any:
        """Return :meth:`columns` as a data frame of polars, which must be installed."""
        return framed(self.columns(), 'polars')

    def __str__(self) -> str:
        return text_table(self)

    def _repr_html_(self) -> str:
        return html_table(self)


def framed(table: Mapping[str, Sequence[Any]], kind: str) -> Any:
    """
    Return columns as the data frame of a library.

    :raises RankingError: ``kind`` is none of ``FRAMES``, or is not installed.
    """
    if kind not in FRAMES:
        raise RankingError(f"no data frame '{kind}'; known: {', '.join(FRAMES)}")
    try:
        library = importlib.import_module(kind)
    except ImportError as error:
        raise RankingError(f'{kind} is not installed: pip install {kind}, or use the columns '
                           'without it') from error
    return library.DataFrame(table)


def standings(method: str, comparisons: Comparisons, fit: Fit) -> Standings:
    """Return the standings of a fit without intervals."""
    nothing = np.full(comparisons.n, np.nan)
    ranks = competition_ranks(fit.scores)
    return Standings(method, comparisons.items, fit.scores, nothing, nothing, ranks,
                     comparisons.appearances(), fit.solve, fit.diagnostics)


def competition_ranks(scores: ArrayLike) -> Ints:
    """
    Return ranks 1.. of scores (n,), highest first, equals sharing the better rank.

    Scores count as equal within 1e-9 of their range, so that rounding never splits a tie.

    >>> competition_ranks([0.5, 0.9, 0.5, 0.1]).tolist()
    [2, 1, 2, 4]
    """
    x = np.asarray(scores, dtype=float)
    order = np.argsort(-x, kind='stable')
    gap = TIE_TOLERANCE * max(float(np.ptp(x)) if len(x) else 0.0, 1e-3)
    new = np.r_[True, -np.diff(x[order]) > gap] if len(x) else np.zeros(0, bool)
    ranks = np.empty(len(x), dtype=np.int64)
    ranks[order] = np.maximum.accumulate(np.where(new, np.arange(1, len(x) + 1), 0))
    return ranks


@dataclass(frozen=True)
class Shown:
    """
    What is shown of one policy.

    ``interval`` and ``ranks`` in words, ``place`` the rank as stated (1–5 tied); ``left``,
    ``middle`` and ``right`` of its bar in per cent of the axis, ``left`` and ``right`` None where
    no interval is stated.
    """

    interval: str
    ranks: str
    place: str
    left: float | None
    middle: float
    right: float | None


def interval_words(low: float, high: float, few: str = '', form: str = '.2f',
                   between: str = ' to ') -> str:
    """Return an interval in words; one end may be infinite. ``few`` says why there is none."""
    if few:
        return few
    if math.isnan(low) or math.isnan(high):
        return '–'
    if math.isinf(low) and math.isinf(high):
        return TOO_FEW
    if math.isinf(high):
        return f'above {low:{form}}'
    if math.isinf(low):
        return f'below {high:{form}}'
    return f'{low:{form}}{between}{high:{form}}'


def stated_interval(standings: Standings, k: int, form: str = '.2f', between: str = ' to ') -> str:
    """Return the interval of policy ``k`` in words, or why there is none."""
    return interval_words(float(standings.low[k]), float(standings.high[k]),
                          few_words(standings, k), form, between)


def is_few(standings: Standings, k: int) -> bool:
    """Tell whether nothing is stated about policy ``k``."""
    return standings.too_few is not None and bool(standings.too_few[k])


def few_words(standings: Standings, k: int) -> str:
    """Return why nothing is stated about policy ``k``, '' where something is."""
    if not is_few(standings, k):
        return ''
    return (standings.diagnostics.details.get('intervals') or {}).get('none') or TOO_FEW


def shown_order(standings: Standings) -> list[int]:
    """Return the policies best first; those with too few comparisons last."""
    return sorted(standings.order, key=lambda k: is_few(standings, k))


def rank_words(standings: Standings, k: int, between: str = '–') -> str:
    """Return the likely ranks of policy ``k``, empty without intervals."""
    if standings.rank_low is None or standings.rank_high is None:
        return ''
    low, high = int(standings.rank_low[k]), int(standings.rank_high[k])
    return str(low) if low == high else f'{low}{between}{high}'


def place_words(standings: Standings, k: int) -> str:
    """Return the rank of policy ``k`` as it may be stated: '3', '1–5 tied', 'too few to tell'."""
    if few := few_words(standings, k):
        return few
    if words := rank_words(standings, k):
        return words if words.isdecimal() else f'{words} tied'
    same = int((standings.ranks == standings.ranks[k]).sum())
    return f'{standings.ranks[k]}{"=" if same > 1 else ""}'


def headline(standings: Standings) -> str:
    """
    Return what the standings say, in one sentence: which policies may be the best.

    A policy may be the best where no other is told apart as better.
    """
    known = [k for k in standings.order if not is_few(standings, k)]
    if standings.rank_low is None or not known:
        return f'These sessions are too few to tell {len(standings.items)} policies apart.'
    first = [standings.items[k] for k in known if standings.rank_low[k] == 1]
    behind = [standings.items[k] for k in known if standings.rank_low[k] > 1]
    if len(first) == 1:
        return f'{first[0]} is the best of {len(known)} policies.'
    if not behind:
        return f'The {len(known)} policies cannot be told apart yet.'
    rest = f'{behind[0]} is' if len(behind) == 1 else f'{len(behind)} are'
    return f'{len(first)} of {len(known)} policies may be the best; {rest} behind.'


def axis_ends(standings: Standings) -> tuple[float, float]:
    """Return the ends of the axis on which :func:`shown` places the bars."""
    ends = np.concatenate([standings.scores, standings.low, standings.high])
    ends = ends[np.isfinite(ends)]
    return float(ends.min()), float(ends.max())


def basis_words(standings: Standings) -> str:
    """Return what the standings are based on, in one sentence."""
    details = standings.diagnostics.details
    sessions = int(standings.counts.sum()) // 2
    text = f'{sessions} session{"" if sessions == 1 else "s"}'
    if elsewhere := not_relayed(origins := details.get('origins', {})):
        text += f' ({elsewhere if len(origins) > 1 else f"all {next(iter(origins))}"})'
    if count := details.get('institutions'):
        text += f' at {count} institution{"" if count == 1 else "s"}'
    if newest := details.get('newest'):
        text += f', the newest of {newest[:10]}'
    if intervals := details.get('intervals'):
        text += f'; intervals count each {intervals["by"]} as one observation'
    return text + '.'


def shown(standings: Standings, form: str = '.2f') -> list[Shown]:
    """Return what is shown of each policy, in the order of the items; open ends reach the edge."""
    first, last = axis_ends(standings)
    span = last - first or 1.0

    def place(value: float) -> float | None:
        if math.isnan(value):
            return None
        return min(max(100.0 * (value - first) / span, 0.0), 100.0)

    rows = []
    for k in range(len(standings.items)):
        low, high = float(standings.low[k]), float(standings.high[k])
        rows.append(Shown(stated_interval(standings, k, form),
                          rank_words(standings, k), place_words(standings, k), place(low),
                          100.0 * (float(standings.scores[k]) - first) / span, place(high)))
    return rows


def text_table(standings: Standings) -> str:
    """Return the standings as text, best policy first, and how the method converged."""
    width = max([len('policy'), *(len(name) for name in standings.items)])
    lines = [f"rank  {'policy':{width}}  {'score':>9}  {'interval':>18}  {'solve':>6}  {'n':>5}"]
    for k in standings.order:
        words = stated_interval(standings, k, '.3f')
        tied = '=' if (standings.ranks == standings.ranks[k]).sum() > 1 else ''
        rank = '–' if is_few(standings, k) else \
            rank_words(standings, k, '-') or f'{standings.ranks[k]}{tied}'
        lines.append(f'{rank:>4}  {standings.items[k]:{width}}  {standings.scores[k]:9.3f}'
                     f'  {words:>18}  {standings.solve[k]:6.3f}  {standings.counts[k]:>5}')
    diagnostics = standings.diagnostics
    done = 'converged' if diagnostics.converged else 'NOT converged'
    lines.append(f'{standings.method}: {done} after {diagnostics.iterations} iterations'
                 + (f', log-likelihood {diagnostics.log_likelihood:.2f}'
                    if np.isfinite(diagnostics.log_likelihood) else ''))
    return '\n'.join(lines)


def html_table(standings: Standings) -> str:
    """
    Return rank, policy, score, interval and number of comparisons, best policy first.

    The rank is as it may be stated: '3', '1–5 tied', 'too few to tell'.
    """
    return html_rows(standings.method, ('rank', 'policy', 'score', 'low', 'high', 'n'), [
        (place_words(standings, k), standings.items[k], number_words(standings.scores[k]),
         number_words(standings.low[k]), number_words(standings.high[k]),
         str(standings.counts[k])) for k in shown_order(standings)])


def html_rows(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table of texts."""
    lines = [('th', header), *(('td', row) for row in rows)]
    return f'<table><caption>{escape(caption)}</caption>' + ''.join(
        '<tr>' + ''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells) + '</tr>'
        for tag, cells in lines) + '</table>'


def number_words(value: float) -> str:
    """Return a number of a table, a dash for none."""
    if np.isnan(value):
        return '–'
    return f'{value:.3f}' if np.isfinite(value) else ('∞' if value > 0 else '−∞')


def origins(comparisons: Iterable[Comparison]) -> dict[str, int]:
    """Return how many comparisons came through a relay, and how many did not, by origin."""
    return dict(sorted(Counter(row.origin or UNKNOWN for row in comparisons).items()))


def not_relayed(counts: Mapping[str, int]) -> str:
    """Return in words how many did not pass a relay: '3 imported, 1 local'; '' for none."""
    return ', '.join(f'{number} {origin}' for origin, number in counts.items()
                     if origin != RELAYED)


def not_relayed_of(comparisons: Iterable[Comparison]) -> dict[str, str]:
    """Return :func:`not_relayed` for each policy that has such comparisons."""
    counted = Counter((row.a, row.b, row.origin or UNKNOWN) for row in comparisons
                      if row.origin != RELAYED)
    of: dict[str, dict[str, int]] = {}
    for (a, b, origin), number in sorted(counted.items()):
        for name in (a, b):
            counts = of.setdefault(name, {})
            counts[origin] = counts.get(origin, 0) + number
    return {name: not_relayed(dict(sorted(counts.items()))) for name, counts in sorted(of.items())}


def as_json(result: Standings) -> dict[str, Any]:
    """
    Return a ``Standings`` as plain values, best policy first, NaN and infinity as null.

    ``too_few``: the data are too few to tell, so there is no interval. ``unbounded`` is the end
    that the data do not bound: 'above', 'below', or null.
    """
    rows = []
    for k, row in zip(result.order, result, strict=True):
        told = {name: getattr(row, name) for name in (
            'policy', 'score', 'low', 'high', 'rank', 'n', 'solve', 'too_few')}
        told['unbounded'] = 'above' if row.high == math.inf else \
            'below' if row.low == -math.inf else None
        if result.p_better is not None:
            told |= {name: getattr(row, name) for name in RANGES
                     if getattr(row, name) is not None}
            told['p_better'] = dict(zip(result.items, result.p_better[k], strict=True))
        rows.append(told)
    diagnostics = result.diagnostics
    out: dict[str, Any] = plain({'method': result.method, 'standings': rows, 'diagnostics': {
        'converged': diagnostics.converged, 'iterations': diagnostics.iterations,
        'log_likelihood': diagnostics.log_likelihood, 'warnings': list(diagnostics.warnings),
        **diagnostics.details}})
    return out


def plain(value: Any) -> Any:
    """Return ``value`` with numpy numbers as Python's and NaN or infinity as None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
