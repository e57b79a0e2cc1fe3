"""
Whether abilities differ: over time, or between kinds of robot.

Over time (a policy that is retrained, a laboratory that drifts) the comparisons are cut into
windows of equal numbers, and a method ranks each window by itself. A change is the score in the
last window minus that in the first. Scores are relative to the mean of the policies: one that gets
better lowers all others a little, and what changes all alike, such as stricter evaluators, is not
seen.

The interval of a change has the half-widths of both windows, squared and added, as of independent
estimates. An evaluator with votes in both windows has the same taste in both, which cancels in the
change, so that the interval is then wider than needed.

For standings of now, :func:`.evaluators.agreement.decayed` lets old verdicts count less.

Between robots r, Bradley–Terry with abilities θ_ri of their own is tested against one with common
abilities θ_i by Rao's score statistic, which needs the common fit alone:

    e_m = w_m (y_m - σ(θ_i - θ_j))              residual of verdict m, a tie is y = ½
    U_r = Σ_{m on r} e_m (1_i - 1_j)            slope of ℓ by θ_r
    H_r = Laplacian of the weights w p (1 - p)  information on robot r, H = Σ H_r
    S_r = U_r - H_r H⁺ Σ_s U_s                  slope that the common abilities leave
    T   = Σ_r S_r' H_r⁺ S_r                     about χ² with Σ rank H_r - rank H degrees

H_r⁺ S_r is about how much stronger each policy is on robot r than in common. The p value counts
draws of T without a difference: outcomes permuted among the verdicts of the same pair, which is
exact. Where verdicts depend on each other, all residuals of an evaluator or an institution change
their sign together instead.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import chdtri, chndtr, expit, logit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats, Ints
from arena_robot.ranking.counts import LEAST_COMPARISONS, MOST_CELLS, numbered
from arena_robot.ranking.intervals.choice import chosen_cluster
from arena_robot.ranking.methods import rank, rank_comparable
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry
from arena_robot.ranking.recommended import RECOMMENDED
from arena_robot.ranking.standings import Standings

DRAWS = 999        # p values in steps of 0.001
ALPHA = 0.05       # robots are not pooled below this p value
POWER = 0.8        # the chance with which a difference would have been seen
MOST_SEEN, CLOSE = 4.0, 0.01    # log-odds: even chances become 98 %; as exactly as is printed
RANK = 1e-10       # smaller eigenvalues of a Laplacian, as a share of the largest, are 0
COARSE = 2.0       # log-odds: even chances become 88 %, which nobody would pool unseen
LEAST_CLUSTERS = 6    # sign flips of fewer evaluators have less than 20 outcomes up to a sign


@dataclass(frozen=True)
class OverTime:
    """
    Standings by window, oldest first, and the changes from the first window to the last.

    ``spans`` are the first and the last time in each window. ``changes`` are (change, low, high)
    by policy, the largest first, NaN where the data are too few to tell. Who is ``left_out`` has
    fewer than 5 comparisons in some window.
    """

    spans: tuple[tuple[float, float], ...]
    standings: tuple[Standings, ...]
    changes: dict[str, tuple[float, float, float]]
    left_out: tuple[str, ...]


def over_time(comparisons: Comparisons, when: ArrayLike, windows: int = 2,
              method: str = RECOMMENDED, *, intervals: int = 200, **options: Any) -> OverTime:
    """
    Rank ``windows`` of equal numbers of comparisons; the other arguments are those of ``fit``.

    ``when`` (M,) are the times of the comparisons, as numbers or numpy's datetime64 (then the
    times of the windows are days since 1970).

    :raises RankingError: a time is not known, there are fewer than two windows, or fewer than two
    policies with 5 comparisons in each.

    >>> votes = Comparisons.build([0] * 40, [1] * 40, [1, 1, 1, 0] * 5 + [1, 0, 0, 0] * 5)
    >>> found = over_time(votes, range(40), method='bt')
    >>> {name: f'{change:+.1f}' for name, (change, _, _) in found.changes.items()}
    {'item_1': '+1.1', 'item_0': '-1.1'}
    """
    times = np.asarray(when)
    if times.dtype.kind == 'M':
        times = np.where(np.isnat(times), np.nan, times.astype('M8[s]').astype(float) / 86400)
    times = times.astype(float)
    if times.shape != (len(comparisons),) or not np.isfinite(times).all() or windows < 2:
        raise RankingError(f'ability over time needs two windows or more and {len(comparisons)} '
                           f'known times; got {windows} windows and {np.isfinite(times).sum()} '
                           'times')
    parts = np.array_split(np.argsort(times, kind='stable'), windows)
    met = np.array([comparisons.take(rows).appearances() for rows in parts]).min(axis=0)
    kept = [name for name, count in zip(comparisons.items, met, strict=True)
            if count >= LEAST_COMPARISONS]
    if len(kept) < 2:
        raise RankingError(f'fewer than two policies have {LEAST_COMPARISONS} comparisons in each '
                           f'of {windows} windows; ask for fewer windows')
    ranked = tuple(rank(comparisons.take(rows).only(kept), method, intervals=intervals, apart=True,
                        **options) for rows in parts)
    return OverTime(tuple((float(times[rows].min()), float(times[rows].max())) for rows in parts),
                    ranked, _changes(ranked[0], ranked[-1]),
                    tuple(name for name in comparisons.items if name not in kept))


def _changes(first: Standings, last: Standings) -> dict[str, tuple[float, float, float]]:
    change = last.scores - first.scores
    change = change - change.mean()
    wide = np.hypot(first.high - first.low, last.high - last.low) / 2
    return {first.items[k]: (float(change[k]), float(change[k] - wide[k]),
                             float(change[k] + wide[k]))
            for k in np.argsort(-change, kind='stable')}


@dataclass(frozen=True)
class AcrossRobots:
    """
    Standings by kind of robot, and whether the kinds may be pooled.

    ``shared`` are the policies with 5 comparisons on each of two robots or more. ``pooled`` is
    None where that cannot be told. Had one policy been stronger or weaker by ``would_see``
    log-odds on one robot alone, that would have been found with a chance of 80 %, as a mean over
    policies.
    ``differs`` has (policy, the robot on which it is best, the one on which it is worst), where
    one policy stands out. ``unknown`` comparisons name no robot; ``unranked`` says of a robot why
    it has no standings. NaN stands for what cannot be told.
    """

    standings: dict[str, Standings]
    unranked: dict[str, str]
    shared: tuple[str, ...]
    unknown: int
    by: str
    pooled: bool | None
    p_value: float
    would_see: float
    differs: tuple[tuple[str, str, str], ...]
    words: str


def across_robots(comparisons: Comparisons, method: str = RECOMMENDED, *, intervals: int = 200,
                  cluster: str = 'auto', seed: int = 0, **options: Any) -> AcrossRobots:
    """
    Rank each robot by itself, and test whether abilities differ; arguments are those of ``fit``.

    The robots are those of ``comparisons.conditions.factors['robot']``.

    :raises RankingError: no comparison names its robot.

    >>> from arena_robot.ranking.loading import load
    >>> votes = load({'policy_a': ['pi0'] * 80, 'policy_b': ['octo'] * 80,
    ...               'preference': list('AAAB' * 10 + 'BBBA' * 10),
    ...               'robot': ['gen3'] * 40 + ['ur5e'] * 40})
    >>> found = across_robots(votes, 'bt', intervals=0)
    >>> found.pooled, found.p_value, found.differs
    (False, 0.001, (('octo', 'ur5e', 'gen3'), ('pi0', 'gen3', 'ur5e')))
    """
    names, code = comparisons.conditions.factors.get(
        'robot', (('',), np.zeros(len(comparisons), dtype=np.int64)))
    known = np.array([bool(name) for name in names])[code]
    if not known.any():
        raise RankingError('no comparison names its robot; in a table that is the column robot')
    ranked: dict[str, Standings] = {}
    unranked: dict[str, str] = {}
    for place in np.unique(code[known]):
        try:
            ranked[names[place]] = rank_comparable(
                _seen(comparisons.take(code == place)), method, intervals=intervals,
                cluster=cluster, seed=seed, **options)[0]
        except RankingError as error:
            unranked[names[place]] = str(error)
    votes = _seen(comparisons.take(known & (comparisons.weight > 0)))
    levels, robot = np.unique(code[known & (comparisons.weight > 0)], return_inverse=True)
    by = chosen_cluster(votes, cluster)
    found = _tested(votes, robot, [names[k] for k in levels], by, seed)
    return AcrossRobots(ranked, unranked, unknown=int((~known).sum()), by=by, **found)


def _seen(comparisons: Comparisons) -> Comparisons:
    """Return the comparisons with the policies that occur in them."""
    return comparisons.only([name for name, count in zip(
        comparisons.items, comparisons.appearances(), strict=True) if count])


def _tested(votes: Comparisons, robot: Ints, names: list[str], by: str, seed: int,
            ) -> dict[str, Any]:
    """Return the fields of the test; ``robot`` (M,) are places in ``names``."""
    met = np.array([votes.take(robot == r).appearances() for r in range(len(names))]).reshape(
        len(names), votes.n) >= LEAST_COMPARISONS
    both = np.flatnonzero(met.sum(axis=0) >= 2)
    shared = tuple(votes.items[k] for k in both)
    nothing = {'shared': shared, 'pooled': None, 'p_value': np.nan, 'would_see': np.nan,
               'differs': ()}
    if len(both) < 2:
        return {**nothing, 'words': f'cannot be told: {_policies(len(both))} with '
                f'{LEAST_COMPARISONS} comparisons on each of two robots; two or more are needed'}
    model = _Model.build(votes, robot, len(names))
    people = numbered(votes.clusters(by))[1]
    if model.degrees < 1 or (by != 'session' and people < LEAST_CLUSTERS):
        return {**nothing, 'words': 'cannot be told: ' + (
            f'{people} {by}s; {LEAST_CLUSTERS} or more are needed' if model.degrees >= 1 else
            'no two policies are connected by comparisons on several robots')}
    rng = np.random.default_rng(seed)
    draws = model.permuted(rng) if by == 'session' else model.flipped(votes.clusters(by), rng)
    found = model.statistic(model.slopes)[0]
    drawn = model.statistic(draws)
    p_value = (1 + np.count_nonzero(drawn >= found * (1 - 1e-9))) / (1 + DRAWS)
    pooled, seen = bool(p_value >= ALPHA), model.would_see(met, drawn.mean() / model.degrees)
    differs = () if pooled else tuple(
        (votes.items[k], names[high], names[low]) for k, high, low in model.standing_out(
            draws, met))
    return {**nothing, 'p_value': float(p_value), 'would_see': seen, 'differs': differs,
            'pooled': None if pooled and seen > COARSE else pooled,
            'words': _words(len(both), p_value, pooled, seen, differs)}


def _policies(count: int) -> str:
    return 'one policy' if count == 1 else f"{count or 'no'} policies"


def _words(shared: int, p_value: float, pooled: bool, seen: float,
           differs: tuple[tuple[str, str, str], ...]) -> str:
    basis = f'p {p_value:.2g}; {shared} policies met on several robots'
    limit = (f'a policy that is stronger or weaker by {seen:.1f} log-odds on one robot alone '
             f'would be found in {100 * POWER:.0f} % of cases')
    if not pooled:
        who = ', '.join(f'{name} is better on {high} and worse on {low}'
                        for name, high, low in differs)
        return f"not pooled: {who or 'abilities differ, and no policy stands out'} ({basis})"
    if seen > COARSE:
        return f'cannot be told: no difference was seen ({basis}), and ' + (
            f'only {limit}' if np.isfinite(seen) else 'so few comparisons would show none')
    return f'may be pooled: no difference was seen ({basis}); {limit}'


@dataclass(frozen=True)
class _Model:
    """
    The common fit of M verdicts on R robots; letters are those of the module.

    ``design`` (R n, M) sums residuals into slopes, ``information`` and ``inverse`` are (R, n, n).
    """

    votes: Comparisons
    share: Floats
    design: csr_array
    information: Floats
    inverse: Floats
    common: Floats
    degrees: int

    @classmethod
    def build(cls, votes: Comparisons, robot: Ints, robots: int) -> '_Model':
        theta = BradleyTerry()(votes).scores
        share = np.asarray(expit(theta[votes.first] - theta[votes.second]))
        m, n, rows = len(votes), votes.n, np.arange(len(votes))
        design = csr_array((np.repeat([1.0, -1.0], m), (
            np.r_[robot * n + votes.first, robot * n + votes.second], np.r_[rows, rows])),
            shape=(robots * n, m))
        information = np.zeros((robots, n, n))
        weight = votes.weight * share * (1 - share)
        for i, j, sign in ((votes.first, votes.first, 1), (votes.second, votes.second, 1),
                           (votes.first, votes.second, -1), (votes.second, votes.first, -1)):
            np.add.at(information, (robot, i, j), sign * weight)
        inverse: Floats = np.asarray(np.linalg.pinv(information, RANK, hermitian=True))
        whole = information.sum(axis=0)
        common: Floats = np.asarray(np.linalg.pinv(whole, RANK, hermitian=True))
        degrees = np.einsum('rij,rji->', information, inverse) - np.trace(whole @ common)
        return cls(votes, share, design, information, inverse, common,
                   round(float(degrees)))

    @property
    def slopes(self) -> Floats:
        """(1, R, n) S of the verdicts as they are."""
        return self._projected(self.votes.weight * (self.votes.outcome - self.share))

    def _projected(self, residuals: Floats) -> Floats:
        """Return (B, R, n) S of residuals (B, M)."""
        return self._left((self.design @ np.atleast_2d(residuals).T).T)

    def _left(self, slopes: Floats) -> Floats:
        """Return (B, R, n) S of the slopes U (B, R n)."""
        apart = slopes.reshape(-1, *self.information.shape[:2])
        return np.asarray(apart - np.einsum('rij,bj->bri', self.information @ self.common,
                                            apart.sum(axis=1)))

    def statistic(self, slopes: Floats) -> Floats:
        """Return (B,) T."""
        return np.asarray(np.einsum('bri,rij,brj->b', slopes, self.inverse, slopes,
                                    optimize=True))

    def permuted(self, rng: np.random.Generator) -> Floats:
        """Return S of outcomes that are permuted among the verdicts of each pair."""
        votes = self.votes
        turned = votes.first > votes.second
        low = np.where(turned, 1 - votes.outcome, votes.outcome)
        pair = np.minimum(votes.first, votes.second) * votes.n + np.maximum(votes.first,
                                                                           votes.second)
        order = np.argsort(pair, kind='stable')
        place, parts = numbered(pair)[0][order], []
        step = max(1, MOST_CELLS // len(votes))
        for start in range(0, DRAWS, step):
            mixed = np.argsort(place + rng.random((min(step, DRAWS - start), len(votes))), axis=1)
            outcome = np.empty(mixed.shape)
            outcome[:, order] = low[order][mixed]
            outcome = np.where(turned, 1 - outcome, outcome)
            parts.append(self._projected(votes.weight * (outcome - self.share)))
        return np.concatenate(parts)

    def flipped(self, cluster: Ints, rng: np.random.Generator) -> Floats:
        """Return S where the residuals of each cluster keep or change their sign together."""
        place, count = numbered(cluster)
        residuals = self.votes.weight * (self.votes.outcome - self.share)
        apart = csr_array((residuals, (np.arange(len(place)), place)), shape=(len(place), count))
        signs = rng.choice([-1.0, 1.0], (count, DRAWS)) * np.sqrt(count / (count - 1))
        return self._left(((self.design @ apart) @ signs).T)

    def would_see(self, met: np.ndarray, scale: float) -> float:
        """
        Return the difference of one policy on one robot that is found with ``POWER``.

        The chance is the mean over policies, robots, and stronger or weaker, by non-central χ²;
        ``scale`` is the mean of the draws over that of χ². Infinite where ``MOST_SEEN`` has less.
        Of many policies only some, evenly spaced, are tried.
        """
        robots, policies = np.nonzero(met & (met.sum(axis=0) >= 2))
        some = slice(None, None, 1 + len(robots) * len(self.votes) // MOST_CELLS)
        robots, policies = robots[some], policies[some]
        ways = self.design[robots * self.votes.n + policies].toarray()
        ways, odds = np.concatenate([ways, -ways]), logit(self.share)
        critical = chdtri(self.degrees, ALPHA)
        low, high = 0.0, 2 * MOST_SEEN
        while high - low > CLOSE:
            middle = (low + high) / 2
            moved = self.votes.weight * (expit(odds + middle * ways) - self.share)
            found = self.statistic(self._projected(moved)) / scale
            enough = np.mean(1 - chndtr(critical, self.degrees, found)) >= POWER
            low, high = (low, middle) if enough else (middle, high)
        return float(high) if high <= MOST_SEEN else float('inf')

    def standing_out(self, draws: Floats, met: np.ndarray) -> list[tuple[int, int, int]]:
        """
        Return (policy, robot where best, where worst) beyond what draws have by chance.

        Abilities on a robot are relative to their median, which one other policy cannot move far.
        """
        both = np.flatnonzero(met.sum(axis=0) >= 2)
        some = met[:, both].any(axis=1)
        of = np.where(met[some][:, both], 1.0, np.nan)
        robots = np.flatnonzero(some)

        def moves(slopes: Floats) -> Floats:
            moved = np.einsum('rij,brj->bri', self.inverse[some], slopes[:, some])[:, :, both] * of
            return np.asarray(moved - np.nanmedian(moved, axis=2, keepdims=True))

        found, drawn = moves(self.slopes)[0], moves(draws)
        ranges = np.nanmax(drawn, axis=1) - np.nanmin(drawn, axis=1)
        typical = ranges.mean(axis=0)
        limit = np.quantile((ranges / typical).max(axis=1), 1 - ALPHA)
        wide = (np.nanmax(found, axis=0) - np.nanmin(found, axis=0)) / typical
        return [(int(both[k]), int(robots[np.nanargmax(found[:, k])]),
                 int(robots[np.nanargmin(found[:, k])]))
                for k in np.argsort(-wide.round(9), kind='stable') if wide[k] > limit]

