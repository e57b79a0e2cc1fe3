"""
Bradley–Terry in which no evaluator and no institution can push a policy far.

The part of evaluator e in what is said of policy i is the surplus g_ei = Σ ±w (y - p) over the
evaluator's verdicts on i, with variance v_ei = Σ w p (1 - p) if the evaluator votes as the others
do. Where z = g / √(v + ½) is beyond ±1.5 (the ½ keeps a single surprising verdict), those verdicts
get the weight 1.5 / |z|, so that the part is held at 1.5 standard errors, whatever the number of
verdicts; a verdict takes the smaller weight of its two policies. The same is then done for
institutions, where there are at least 3, so that many accounts of one institution count no more
than one; evaluators without an institution are one of them.

Accounts with fewer than 10 verdicts, and those without a name, have earned no trust: they are one
group, wherever they say they belong. Their common part in a policy is held at 1.5 of the standard
errors that the part of a typical institution has (a typical evaluator where fewer than 3
institutions are known), so that sixty accounts with three verdicts each count no more than one
institution, and six hundred no more than sixty. Verdicts that agree with those of the others are
not held. Weights and abilities are computed in turn until they agree, and begin without these
accounts. Honest evaluators are rarely beyond 1.5, so that nearly nothing is lost where nobody
cheats.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Fit, Floats, Ints
from arena_robot.ranking.pairwise.bradley_terry import BradleyTerry

ROUNDS = 200
TOLERANCE = 1e-6
LEAST_GROUPS = 3
TRUSTED = 10
# Of 360 simulated honest arenas none had a common part beyond 4.1; twenty accounts that push a
# policy with three verdicts each have 5.5 to 9.5.
PUSHED = 5.0
ROUGHLY = 1e-3    # of weights that hold accounts, in half the rounds of TOLERANCE


@dataclass(frozen=True)
class RobustBradleyTerry:
    """
    The method: ``limit`` is the largest standardised part of one evaluator in one policy.

    It assumes what Bradley–Terry does, and that most votes are honest.
    """

    limit: float = 1.5

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit; ``details['weight']`` is the mean weight of each evaluator's verdicts.

        :raises RankingError: there are no comparisons, or the limit is not positive.
        """
        if not self.limit > 0:
            raise RankingError(f'bt_robust needs limit > 0; got {self.limit}')
        fit, weight, rounds = fit_robust(comparisons, self.limit)
        people = len(comparisons.evaluators)
        count = np.bincount(comparisons.evaluator, minlength=people)
        mean = np.bincount(comparisons.evaluator, weight, minlength=people) / np.maximum(count, 1)
        diagnostics = fit.diagnostics
        warnings = diagnostics.warnings if rounds < ROUNDS else (
            *diagnostics.warnings, 'weights and abilities do not settle; the last ones are used')
        details = {**diagnostics.details, 'limit': self.limit,
                   'weight': dict(zip(comparisons.evaluators, mean.tolist(), strict=True))}
        diagnostics = replace(diagnostics, iterations=rounds, converged=rounds < ROUNDS,
                              warnings=warnings, details=details)
        return replace(fit, diagnostics=diagnostics)


def fit_robust(votes: Comparisons, limit: float = 1.5, *, start: Floats | None = None,
               tolerance: float = TOLERANCE) -> tuple[Fit, Floats, int]:
    """
    Return the fit, the factor (M,) of each verdict's weight, and the number of rounds.

    ``start`` (M,) are factors to begin with; it ends when none changes by ``tolerance``.

    :raises RankingError: there are no comparisons.
    """
    plain = BradleyTerry()
    weight = np.where(newcomers(votes), 0.0, 1.0) if start is None else start
    step, change = 1.0, np.inf
    fit = plain(votes.reweighted(votes.weight * weight))
    for rounds in range(1, ROUNDS + 1):
        new = verdict_weights(votes, fit.scores, limit)
        before, change = change, float(np.max(np.abs(new - weight), initial=0.0))
        # Weights that oscillate get smaller steps.
        step = step * 0.7 if change > 0.9 * before else step
        weight = weight + step * (new - weight)
        fit = plain(votes.reweighted(votes.weight * weight))
        if change < tolerance:
            return fit, weight, rounds
    return fit, weight, ROUNDS


def verdict_weights(votes: Comparisons, theta: Floats, limit: float) -> Floats:
    """Return (M,) the factor of each verdict's weight at the abilities ``theta``."""
    named = named_rows(votes.evaluators, votes.evaluator)
    weight = np.where(named, _bounded(votes, theta, votes.evaluator, limit,
                                      np.ones(len(votes))), 1.0)
    new, group = newcomers(votes), votes.evaluator
    places = named_rows(votes.institutions, votes.institution) & ~new
    if len(np.unique(votes.institution[places])) >= LEAST_GROUPS:
        group = np.where(new, len(votes.institutions), votes.institution)
        weight = weight * np.where(new, 1.0, _bounded(votes, theta, group, limit, weight))
    if new.any():
        weight = weight * np.where(new, _held(votes, theta, np.where(new, -1, group), limit,
                                              weight), 1.0)
    return np.asarray(weight)


def newcomers(votes: Comparisons) -> NDArray[np.bool_]:
    """Return (M,) the verdicts of accounts without trust; none where fewer than 3 have any."""
    count = np.bincount(votes.evaluator, votes.weight > 0, minlength=len(votes.evaluators))
    trusted = (count >= TRUSTED) & np.array([bool(name) for name in votes.evaluators])
    return np.asarray(~trusted[votes.evaluator] & (trusted.sum() >= LEAST_GROUPS))


def held_newcomers(votes: Comparisons) -> tuple[Comparisons, tuple[str, ...]]:
    """
    Return the verdicts, with less weight for accounts without trust that push a policy together.

    They push one where their common part in it is beyond five of its standard errors. With it
    comes a warning that says so; () where they do not.
    """
    new = newcomers(votes)
    if not new.any():
        return votes, ()
    theirs, others = votes.take(new), BradleyTerry()(votes.take(~new))
    if np.abs(common_part(theirs, others.scores)).max() <= PUSHED:
        return votes, ()
    fit, weight, _ = fit_robust(votes, tolerance=ROUGHLY)
    z = common_part(theirs, fit.scores)
    k = int(np.argmax(np.abs(z)))
    if abs(z[k]) <= PUSHED:
        return votes, ()
    held = votes.reweighted(votes.weight * np.where(new, weight, 1.0))
    return held, (
        f'{len(np.unique(theirs.evaluator))} accounts with fewer than {TRUSTED} verdicts agree '
        f'with each other against all others, most {"for" if z[k] > 0 else "against"} '
        f'{votes.items[k]}: their {theirs.weight.sum():.0f} verdicts count as '
        f'{held.weight[new].sum():.1f}',)


def common_part(votes: Comparisons, theta: Floats) -> Floats:
    """Return (n,) the standardised part of all verdicts together at the abilities ``theta``."""
    g, v = parts(votes, theta, np.zeros(len(votes), np.int64), np.ones(len(votes)))
    return standardised(g[0], v[0])


def named_rows(names: tuple[str, ...], code: Ints) -> NDArray[np.bool_]:
    """Return (M,) whose code is that of a name."""
    return np.array([bool(name) for name in names], dtype=bool)[code]


def _held(votes: Comparisons, theta: Floats, group: Ints, limit: float, weight: Floats) -> Floats:
    """Return (M,) the factor that holds group -1 at the part of a typical other group."""
    g, v = parts(votes, theta, group + 1, weight)
    typical = np.median(v[np.unique(group[group >= 0]) + 1], axis=0)
    z = standardised(g[0], np.minimum(v[0], typical))
    factor = limit / np.maximum(np.abs(z), limit)
    return np.asarray(np.minimum(factor[votes.first], factor[votes.second]))


def parts(votes: Comparisons, theta: Floats, group: Ints, weight: Floats) -> tuple[Floats, Floats]:
    """Return surplus g (G, n) and variance v (G, n) of each group's part in each policy."""
    p = expit(theta[votes.first] - theta[votes.second])
    w = votes.weight * weight
    slope, bend = w * (votes.outcome - p), w * p * (1 - p)
    size = (int(group.max(initial=0)) + 1) * votes.n
    first, second = group * votes.n + votes.first, group * votes.n + votes.second
    g = np.bincount(first, slope, minlength=size) - np.bincount(second, slope, minlength=size)
    v = np.bincount(first, bend, minlength=size) + np.bincount(second, bend, minlength=size)
    return (np.asarray(g, float).reshape(-1, votes.n), np.asarray(v, float).reshape(-1, votes.n))


def standardised(g: Floats, v: Floats) -> Floats:
    """Return z of parts ``g`` with variance ``v``."""
    return np.asarray(g / np.sqrt(v + 0.5))


def _bounded(votes: Comparisons, theta: Floats, group: Ints, limit: float,
             weight: Floats) -> Floats:
    g, v = parts(votes, theta, group, weight)
    factor = limit / np.maximum(np.abs(standardised(g, v)), limit)
    return np.asarray(np.minimum(factor[group, votes.first], factor[group, votes.second]))
