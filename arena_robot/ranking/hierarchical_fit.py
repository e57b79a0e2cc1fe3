"""
The hierarchical model's posterior: Laplace's approximation, its variances by EM.

Every block of unknowns is normal about 0 with a variance of its own. For given variances Newton's
steps with the expected information find the maximum of the posterior, and the inverse of that
information is its covariance. The variances then become the mean of x² + var(x) of their block,
with the weight of a few pseudo-observations, so that a block without evidence stays small; σ and ρ
of the scores likewise. Both steps alternate until no ability changes. That these variances are
estimates too is added to the covariance, to first order (Kass and Steffey, 1989).
"""

from dataclasses import dataclass, field, replace

import numpy as np

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import Floats
from arena_robot.ranking.conditions import FACTORS
from arena_robot.ranking.hierarchical_likelihood import (
    LocalLikelihood,
    Noise,
    derivatives,
    local,
    measure_rows,
)
from arena_robot.ranking.hierarchical_terms import BLOCKS, GLOBALS, GROUPS, ModelTerms

ROUNDS, SETTLED = 200, 3e-3
STEPS, ROUGH, CLOSE, NEARLY, LONGEST = 60, 1e-3, 1e-6, 0.05, 1.5
SLOW = 6
# Prior standard deviations and their weight in observations. Abilities are log-odds without
# scores, and progress with them, where they are about a fifth.
PRIOR = {'theta': (1.0, 3.0), 'category': (0.3, 4.0), 'institution': (0.3, 4.0),
         'evaluator': (0.3, 4.0), **dict.fromkeys(FACTORS, (0.3, 4.0)), 'side': (0.2, 4.0),
         'reliability': (0.3, 6.0)}
PROGRESS, MOST_RELIABLE, MEAN_RELIABILITY = 0.2, 0.5, 0.02
NOISE = {'score': (0.3, 0.3), 'audit': (0.3, 0.3)}


@dataclass(frozen=True)
class BlockSpreads:
    """Standard deviations of the blocks, and σ and ρ of scores and audits."""

    of: dict[str, float]
    noise: Noise = field(default_factory=lambda: dict(NOISE))


@dataclass(frozen=True)
class AbilityPosterior:
    """Mean (P,) and covariance (P, P) of the unknowns, the spreads, the value and the rounds."""

    terms: ModelTerms
    x: Floats
    covariance: Floats
    spreads: BlockSpreads
    value: float
    rounds: int
    settled: bool


def unit(terms: ModelTerms, name: str) -> float:
    """Return the prior standard deviation of a block, in its unit."""
    return PRIOR[name][0] * (PROGRESS if terms.scored and name in ('theta', *GROUPS) else 1.0)


def fit_posterior(terms: ModelTerms) -> AbilityPosterior:
    """
    Return the posterior with the variances of the blocks fitted.

    :raises NotConverged: Newton's steps do not end.
    """
    spreads = BlockSpreads({name: unit(terms, name) for name in PRIOR})
    x = np.zeros(terms.size)
    for name, place in terms.places.items():
        x[place] = GLOBALS[name][0]
    if terms.scored:
        x[terms.places['m']] = np.nanmean([terms.votes.score_first, terms.votes.score_second])
    if terms.audited:
        x[terms.places['audit_m']] = np.nanmean(terms.audits)
    rounds, change = 0, np.inf
    while rounds < ROUNDS and change > SETTLED:
        found = laplace(terms, spreads, x, ROUGH)
        new, rounds, x = _renewed(found), rounds + 1, found.x
        change = max(abs(float(np.log(new.of[name] / spreads.of[name]))) for name in PRIOR)
        spreads = new
    last = laplace(terms, spreads, x)
    return replace(last, covariance=last.covariance + of_spreads(last), rounds=rounds,
                   settled=last.settled and change <= SETTLED)


def laplace(terms: ModelTerms, spreads: BlockSpreads, x: Floats, close: float = CLOSE,
            ) -> AbilityPosterior:
    """
    Return the posterior for given spreads, searched from ``x`` until a step is below ``close``.

    Steps of the unknowns of the whole data count in their prior standard deviations: β can be 40.
    Where verdicts follow the scores almost always, β and the reliabilities converge slowly
    together, or about the maximum, as their product does not enter the expected information; after
    ``SLOW`` steps the best length of each is searched by halving and doubling.

    :raises NotConverged: Newton's steps do not end.
    """
    precision = prior_precision(terms, spreads)
    here = local(terms, x, spreads.noise)
    value = here.value - 0.5 * float(x @ precision @ x)
    reach = np.ones(terms.size)
    for name, place in terms.places.items():
        reach[place] = GLOBALS[name][1]
    for count in range(STEPS):
        slope, matrix = derivatives(terms, x, here)
        matrix += precision
        step = np.asarray(np.linalg.solve(matrix, slope - precision @ x), float)
        size = float(np.abs(step / reach).max())
        step *= min(1.0, LONGEST / max(size, 1e-300))
        new, there, gained = _climbed(terms, spreads, precision, (x, value), step,
                                      count >= SLOW)
        if size < close or there is None:
            return AbilityPosterior(terms, x, inverse(matrix), spreads, value, 0, True)
        x, here, value = new, there, gained
    if size < NEARLY:
        return AbilityPosterior(terms, x, inverse(matrix), spreads, value, 0, False)
    raise NotConverged(f'the hierarchical model on {terms.votes.n} policies still changed by '
                       f'{size:.1e} after {STEPS} steps')


def of_spreads(found: AbilityPosterior) -> Floats:
    """
    Return (P, P) what the uncertainty of the blocks' variances adds to the covariance.

    The logarithm of a variance that is estimated from k values has variance 2/k; of the values of
    a block those count that the data determine, and the prior's weight. By as much as it changes,
    the unknowns are shrunk less or more.
    """
    total = np.zeros_like(found.covariance)
    for name, (_, weight) in PRIOR.items():
        block, variance = found.terms.block(name), found.spreads.of[name] ** 2
        own = np.diag(found.covariance)[block]
        determined = float(np.maximum(1 - own / variance, 0.0).sum())
        slope = found.covariance[:, block] @ (found.x[block] / variance)
        total += 2 / (determined + weight) * np.outer(slope, slope)
    return total


def inverse(matrix: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    return np.asarray(np.linalg.inv(matrix), float)


def prior_precision(terms: ModelTerms, spreads: BlockSpreads) -> Floats:
    """
    Return (P, P) the prior precision of the unknowns.

    The mean log reliability is held at 0: a common factor of all would only rescale the abilities,
    and the maximum would take it wherever abilities cost least.
    """
    out = np.empty(terms.size)
    for name in BLOCKS[:-1]:
        out[terms.block(name)] = 1 / spreads.of[name] ** 2
    for name, place in terms.places.items():
        out[place] = 1 / GLOBALS[name][1] ** 2
    matrix, block = np.diag(out), terms.block('reliability')
    people = block.stop - block.start
    if people:
        matrix[block, block] += 1 / (MEAN_RELIABILITY * people) ** 2
    return matrix


def _climbed(terms: ModelTerms, spreads: BlockSpreads, precision: Floats,
             now: tuple[Floats, float], step: Floats, searched: bool,
             ) -> tuple[Floats, LocalLikelihood | None, float]:
    def tried(length: float) -> tuple[Floats, LocalLikelihood, float]:
        new = x + length * step
        there = local(terms, new, spreads.noise)
        return new, there, there.value - 0.5 * float(new @ precision @ new)

    x, value = now
    for halving in range(12):
        found = tried(0.5 ** halving)
        if found[2] >= value - 1e-9:
            break
    else:
        return x, None, value
    if searched and halving == 0:
        for factor in (0.5, 2.0):
            length = factor
            while (further := tried(length))[2] > found[2]:
                found, length = further, length * factor
    return found


def _renewed(found: AbilityPosterior) -> BlockSpreads:
    """Return the spreads that the posterior implies."""
    terms, variance, of = found.terms, np.diag(found.covariance), {}
    for name, (_, weight) in PRIOR.items():
        block, prior = terms.block(name), unit(terms, name) ** 2
        determined = np.maximum(1 - variance[block] / found.spreads.of[name] ** 2, 0.0).sum()
        square = float((found.x[block] ** 2).sum() + weight * prior) / (determined + weight)
        of[name] = float(np.sqrt(square))
    # Beyond that, one evaluator's votes would count e² times those of another.
    of['reliability'] = min(of['reliability'], MOST_RELIABLE)
    here, noise = local(terms, found.x, found.spreads.noise), dict(found.spreads.noise)
    for name, each in here.measures.items():
        weight = terms.votes.weight * each.known
        apart, joint = (
            float(weight @ (rest ** 2 + unsure + ((rows @ found.covariance) * rows).sum(axis=1))
                  / weight.sum())
            for rest, unsure, rows in zip((each.pairs.apart, each.pairs.joint),
                                          each.pairs.unsure[:2],
                                          measure_rows(terms, found.x, name), strict=True))
        noise[name] = (float(np.sqrt((apart + joint) / 2)),
                       float(np.clip((joint - apart) / (joint + apart), -0.9, 0.95)))
    return BlockSpreads(of, noise)
