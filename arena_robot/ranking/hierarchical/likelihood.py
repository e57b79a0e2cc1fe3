"""What verdicts, scores and audits say of the hierarchical model's unknowns at one place."""

from dataclasses import dataclass

import numpy as np

from arena_robot.ranking.base import Floats, Ints
from arena_robot.ranking.hierarchical.terms import (
    AbilityLink,
    KnownPairs,
    ModelTerms,
    SparseRows,
    ability,
    known_pairs,
    link,
    sum_of_squares,
)
from arena_robot.ranking.pairwise.davidson import outcome_probabilities

NODES, NODE_SHARES = np.polynomial.hermite_e.hermegauss(9)
NODE_SHARES = NODE_SHARES / NODE_SHARES.sum()

# σ and ρ of 'score' and of 'audit'.
Noise = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class MeasureResiduals:
    """
    What scores or audits are off at one x, for both rollouts of each comparison.

    ``pairs`` are those of the difference and of the sum over √2, 0 where ``known`` is false;
    ``variances`` are their variances.
    """

    pairs: KnownPairs
    known: np.ndarray
    variances: tuple[float, float]

    @classmethod
    def of(cls, left: Floats, right: Floats, noise: tuple[float, float], ends: Ints,
           ) -> 'MeasureResiduals':
        """
        Return them for residuals (M,) of both rollouts, NaN where one is missing.

        ``ends`` (M, 2) are those of :func:`known_pairs`.
        """
        known, (sigma, rho) = np.isfinite(left + right), noise
        both = np.where(known[:, None], np.stack([left, right], axis=1), 0.0)
        pairs = known_pairs(both, np.where(known[:, None], ends, 0), sigma, rho)
        return cls(pairs, known, (sigma ** 2 * (1 - rho), sigma ** 2 * (1 + rho)))

    def value(self, weight: Floats) -> float:
        """Return the log-likelihood."""
        return float((weight * self.known) @ self.pairs.log)

    def slopes(self) -> tuple[Floats, Floats]:
        """Return (M,) the slopes by what is expected, apart and joint."""
        apart, joint = self.variances
        return self.pairs.apart / apart, self.pairs.joint / joint

    def information(self) -> tuple[Floats, Floats, Floats]:
        """Return (M,) minus the second derivatives: apart, joint, and mixed."""
        (apart, joint), unsure = self.variances, self.pairs.unsure
        return (1 / apart - unsure[0] / apart ** 2, 1 / joint - unsure[1] / joint ** 2,
                -unsure[2] / (apart * joint))


@dataclass(frozen=True)
class VerdictMoments:
    """
    What verdicts say at one d, or on average over the d that are possible; arrays (M,).

    ``mean`` is the expected outcome and ``tie`` the chance of a tie; ``bend``, ``cross`` and
    ``bend_kappa`` are minus the second derivatives of the log-likelihood ``log`` by d and log κ.
    """

    log: Floats
    mean: Floats
    tie: Floats
    bend: Floats
    cross: Floats
    bend_kappa: Floats

    @classmethod
    def of(cls, d: Floats, kappa: float, outcome: Floats, unsure: Floats | None,
           ) -> 'VerdictMoments':
        """Return them for d (M,) that are normal with variances ``unsure``, or known."""
        nodes, shares = (np.zeros(1), np.ones(1)) if unsure is None else (NODES, NODE_SHARES)
        deviation = np.zeros(len(d)) if unsure is None else np.sqrt(unsure)
        win, tie, loss = outcome_probabilities(d[:, None] + deviation[:, None] * nodes, kappa)
        mean = win + tie / 2
        chance = np.select([outcome[:, None] == 1, outcome[:, None] == 0.5], [win, tie], loss)
        return cls(*(each @ shares for each in (
            np.log(np.maximum(chance, 1e-300)), mean, tie, win + tie / 4 - mean ** 2,
            tie * (0.5 - mean), tie * (1 - tie))))


@dataclass(frozen=True)
class LocalLikelihood:
    """
    The model at one x; arrays (M,).

    ``gap`` are differences of abilities, ``seen`` of scores, ``heard`` of audits, ``waits`` of
    stand-still; ``scale`` is R, ``per_gap`` the derivative of d by the gap and ``unsure`` the
    variances of the gaps. ``measures`` are the scores and the audits. ``value`` is the
    log-likelihood.
    """

    gap: Floats
    seen: Floats
    heard: Floats
    waits: Floats
    scale: Floats
    per_gap: Floats
    unsure: Floats
    verdicts: VerdictMoments
    measures: dict[str, MeasureResiduals]
    value: float


def local(terms: ModelTerms, x: Floats, noise: Noise, unsure: Floats | None = None,
          ) -> LocalLikelihood:
    """
    Return the model at x; ``noise`` are σ and ρ of 'score' and 'audit'.

    ``unsure`` (M,) are the variances of the gaps over which verdicts are averaged, None for none.
    """
    votes, w, at = terms.votes, terms.votes.weight, link(terms, x)
    first, second, whole = ability(x, terms.first), ability(x, terms.second), np.append(x, 0.0)
    gap, scale = first - second, np.exp(whole[terms.reliability])
    seen = _or(votes.score_first - votes.score_second, gap) if terms.scored else 0.0 * gap
    heard = _or(terms.audits[:, 0] - terms.audits[:, 1], at.audit_c * gap + at.audit_g * seen) \
        if terms.audited else 0.0 * gap
    waits = np.nan_to_num(terms.waits[:, 0] - terms.waits[:, 1])
    d = scale * (at.delta * gap + at.beta * seen + at.alpha * heard + at.omega * waits) \
        + whole[terms.side]
    guessed, unheard = missing(terms)
    per_gap = scale * (at.delta + at.beta * guessed
                       + at.alpha * unheard * (at.audit_c + at.audit_g * guessed))
    verdicts = VerdictMoments.of(d, at.kappa, votes.outcome,
                                 None if unsure is None else per_gap ** 2 * unsure)
    measures = _measures(terms, at, first, second, noise)
    value = float(w @ verdicts.log) + sum(each.value(w) for each in measures.values())
    return LocalLikelihood(gap, seen, heard, waits, scale, per_gap,
                           np.zeros(len(gap)) if unsure is None else unsure, verdicts, measures,
                           value)


def missing(terms: ModelTerms) -> tuple[np.ndarray, np.ndarray]:
    """
    Return (M,) where scores and where audits are missing, False where the data have none.

    There d has what the abilities let expect of them.
    """
    none = np.zeros(len(terms.votes), bool)
    guessed = np.isnan(terms.votes.score_first + terms.votes.score_second)
    unheard = np.isnan(terms.audits.sum(axis=1))
    return guessed if terms.scored else none, unheard if terms.audited else none


def _or(values: Floats, others: Floats) -> Floats:
    return np.where(np.isfinite(values), values, others)


def _measures(terms: ModelTerms, at: AbilityLink, first: Floats, second: Floats, noise: Noise,
              ) -> dict[str, MeasureResiduals]:
    s, t, out = terms.votes.score_first, terms.votes.score_second, {}
    if terms.scored:
        out['score'] = MeasureResiduals.of(s - at.m - first, t - at.m - second, noise['score'],
                                           terms.ends)
    if terms.audited:
        u, v = (terms.audits.T - at.audit_m - at.audit_c * np.stack([first, second])
                - at.audit_g * np.stack([s, t]))
        out['audit'] = MeasureResiduals.of(u, v, noise['audit'], np.zeros_like(terms.ends))
    return out


def measure_rows(terms: ModelTerms, x: Floats, name: str) -> tuple[SparseRows, SparseRows]:
    """Return the derivatives of what is expected of ``name`` of the first and of the second."""
    at, votes, ones, out = link(terms, x), terms.votes, np.ones(len(terms.votes)), []
    for places, score in ((terms.first, votes.score_first), (terms.second, votes.score_second)):
        each, more = ones, {'m': ones}
        if name == 'audit':
            each, more = at.audit_c * ones, {'audit_m': ones, 'audit_c': ability(x, places),
                                             'audit_g': np.nan_to_num(score)}
        out.append(SparseRows.of(terms, [(places, each)], more))
    return out[0], out[1]


def derivatives(terms: ModelTerms, x: Floats, here: LocalLikelihood) -> tuple[Floats, Floats]:
    """Return the slope (P,) of the log-likelihood and its expected information (P, P)."""
    w, seen = terms.votes.weight, here.verdicts
    rows, at = verdict_rows(terms, x, here), terms.start['globals']
    slope = verdict_slope(terms, x, here, rows)
    squares = [(rows, w * seen.bend)]
    if here.unsure.any():
        squares.append((steepness_rows(terms, x, here), w * seen.bend * here.unsure))
    for name, each in here.measures.items():
        first, second = measure_rows(terms, x, name)
        its = w * each.known
        apart, joint = (its * np.sqrt(0.5) * part for part in each.slopes())
        slope += first.total(joint + apart) + second.total(joint - apart)
        own, sums, mixed = (its * part for part in each.information())
        squares += [(first, own + mixed), (second, own - mixed),
                    (first.plus(second), (sums - own) / 2)]
    matrix = sum_of_squares(squares, terms.size)
    cross = rows.total(w * seen.cross)
    matrix[at] += cross
    matrix[:, at] += cross
    matrix[at, at] += float(w @ seen.bend_kappa)
    return slope, matrix


def verdict_slope(terms: ModelTerms, x: Floats, here: LocalLikelihood, rows: SparseRows,
                  ) -> Floats:
    """Return (P,) the slope of what the verdicts say; ``rows`` are :func:`verdict_rows`."""
    votes, w, seen = terms.votes, terms.votes.weight, here.verdicts
    slope = rows.total(w * (votes.outcome - seen.mean))
    slope[terms.start['globals']] += float(w @ ((votes.outcome == 0.5) - seen.tie))
    if here.unsure.any():
        slope -= steepness_rows(terms, x, here).total(
            w * seen.bend * here.per_gap * here.unsure)
    return slope


def verdict_rows(terms: ModelTerms, x: Floats, here: LocalLikelihood) -> SparseRows:
    """Return the derivatives of d."""
    at, scale = link(terms, x), here.scale
    inside = at.delta * here.gap + at.beta * here.seen + at.alpha * here.heard \
        + at.omega * here.waits
    _, unheard = missing(terms)
    by_global = {'delta': here.gap, 'beta': here.seen, 'alpha': here.heard, 'omega': here.waits,
                 'audit_c': at.alpha * unheard * here.gap,
                 'audit_g': at.alpha * unheard * here.seen}
    more = {'reliability': scale * inside, 'side': np.ones(len(scale)), **{
        name: scale * values for name, values in by_global.items()}}
    return SparseRows.of(
        terms, [(terms.first, here.per_gap), (terms.second, -here.per_gap)], more)


def steepness_rows(terms: ModelTerms, x: Floats, here: LocalLikelihood) -> SparseRows:
    """Return the derivatives of ``per_gap`` by the reliabilities and the globals."""
    at, scale = link(terms, x), here.scale
    guessed, unheard = missing(terms)
    by_global = {'delta': np.ones(len(scale)), 'beta': 1.0 * guessed,
                 'alpha': unheard * (at.audit_c + at.audit_g * guessed),
                 'audit_c': at.alpha * unheard, 'audit_g': at.alpha * unheard * guessed}
    return SparseRows.of(terms, [], {'reliability': here.per_gap, **{
        name: scale * values for name, values in by_global.items()}})
