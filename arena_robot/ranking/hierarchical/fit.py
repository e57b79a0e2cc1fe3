"""
The hierarchical model's posterior: normal, verdicts averaged over it, its variances fitted.

Every block of unknowns is normal about 0 with a variance of its own. For given variances Newton's
steps with the expected information find the maximum of the posterior, and the inverse of that
information is its covariance.

Verdicts are averaged over the differences of abilities that this covariance leaves possible. The
maximum alone is nearer to 0 than the mean, most where there are many offsets with few verdicts
each, and the variances of such offsets would be too small (the bias of penalised
quasi-likelihood; Breslow and Lin, 1995). For the abilities, the average gives the normal
distribution nearest to the posterior (Ormerod and Wand, 2012).

Fisher's scoring finds the variances of greatest likelihood. Their prior weighs as much as a few
observations, so that a block without evidence stays small. EM finds σ and ρ of the scores. All
steps alternate until no variance changes. The covariance contains, to first order, the uncertainty
of the estimated variances (Kass and Steffey, 1989).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import FACTORS, Floats
from arena_robot.ranking.hierarchical.likelihood import (
    LocalLikelihood,
    Noise,
    derivatives,
    local,
    measure_rows,
    verdict_rows,
    verdict_slope,
)
from arena_robot.ranking.hierarchical.terms import (
    BLOCKS,
    GLOBALS,
    GROUPS,
    ModelTerms,
    SparseRows,
)

# ``SETTLED`` is the largest change of the logarithm of a deviation in the last round.
ROUNDS, SETTLED = 200, 3e-3
# Steps in prior deviations: ``ROUGH`` is enough while another round moves x again.
STEPS, ROUGH, CLOSE, NEARLY, LONGEST = 60, 1e-3, 1e-6, 0.05, 1.5
# After so many rounds, most need 10, rough places can make a small variance swing for ever.
SWINGING = 20
SLOW = 6
FARTHEST, STEP = 1.0, 1e-4    # a variance changes at most e-fold per round; finite difference
# Prior standard deviations and their weight in observations. Abilities are log-odds without
# scores, and progress with them, where they are about a fifth.
PRIOR = {'theta': (1.0, 3.0), 'category': (0.3, 4.0), 'institution': (0.3, 4.0),
         'evaluator': (0.3, 4.0), **dict.fromkeys(FACTORS, (0.3, 4.0)), 'side': (0.2, 4.0),
         'reliability': (0.3, 6.0)}
PROGRESS, MOST_RELIABLE, MEAN_RELIABILITY = 0.2, 0.5, 0.02
# Where σ and ρ of scores and audits start.
NOISE = {'score': (0.3, 0.3), 'audit': (0.3, 0.3)}


@dataclass(frozen=True)
class BlockDeviations:
    """Standard deviations of the blocks, and σ and ρ of scores and audits."""

    of: dict[str, float]
    noise: Noise = field(default_factory=lambda: dict(NOISE))


@dataclass(frozen=True)
class AbilityPosterior:
    """
    Mean (P,) and covariance (P, P) of the unknowns, the deviations, the value and the rounds.

    ``unsure`` (M,) are the variances of the gaps over which verdicts were averaged, None for none.
    """

    terms: ModelTerms
    x: Floats
    covariance: Floats
    deviations: BlockDeviations
    value: float
    rounds: int
    settled: bool
    unsure: Floats | None = None


def unit(terms: ModelTerms, name: str) -> float:
    """Return the prior standard deviation of a block, in its unit."""
    return PRIOR[name][0] * (PROGRESS if terms.scored and name in ('theta', *GROUPS) else 1.0)


def fit_posterior(terms: ModelTerms) -> AbilityPosterior:
    """
    Return the posterior with the variances of the blocks fitted.

    :raises NotConverged: Newton's steps do not end.
    """
    deviations = BlockDeviations({name: unit(terms, name) for name in PRIOR})
    x = np.zeros(terms.size)
    for name, place in terms.places.items():
        x[place] = GLOBALS[name][0]
    if terms.scored:
        x[terms.places['m']] = np.nanmean([terms.votes.score_first, terms.votes.score_second])
    if terms.audited:
        x[terms.places['audit_m']] = np.nanmean(terms.audits)
    rounds, change, unsure = 0, np.inf, np.zeros(len(terms.votes))
    while rounds < ROUNDS and change > SETTLED:
        fit = laplace(terms, deviations, x, ROUGH if rounds < SWINGING else CLOSE, unsure)
        unsure = gap_variances(fit)
        new, rounds, x = _renewed(fit), rounds + 1, fit.x
        change = max(abs(float(np.log(new.of[name] / deviations.of[name]))) for name in PRIOR)
        deviations = new
    last = laplace(terms, deviations, x, unsure=unsure)
    return replace(last, covariance=last.covariance + of_deviations(last), rounds=rounds,
                   settled=last.settled and change <= SETTLED)


def laplace(terms: ModelTerms, deviations: BlockDeviations, x: Floats, close: float = CLOSE,
            unsure: Floats | None = None) -> AbilityPosterior:
    """
    Return the posterior for given deviations, searched from ``x`` until a step is below ``close``.

    Verdicts are averaged over gaps of variances ``unsure`` (M,); without these it is Laplace's.

    Steps of the unknowns of the whole data count in their prior standard deviations: β can be 40.
    Where verdicts follow the scores almost always, β and the reliabilities converge slowly or
    swing about the maximum, as their product does not enter the expected information. After
    ``SLOW`` steps the best length of each step is searched by halving and doubling.

    :raises NotConverged: Newton's steps do not end.
    """
    precision = prior_precision(terms, deviations)
    here = local(terms, x, deviations.noise, unsure)
    value = here.value - 0.5 * float(x @ precision @ x)
    reach = np.ones(terms.size)
    for name, place in terms.places.items():
        reach[place] = GLOBALS[name][1]
    for count in range(STEPS):
        slope, matrix = derivatives(terms, x, here)
        matrix += precision
        factor, _ = cho_factor(matrix, lower=True, check_finite=False)
        step = np.asarray(cho_solve((factor, True), slope - precision @ x))
        size = float(np.abs(step / reach).max())
        step *= min(1.0, LONGEST / max(size, 1e-300))
        new, there, gained = _climbed(
            lambda new: local(terms, new, deviations.noise, unsure), precision, (x, value), step,
            count >= SLOW)
        if size < close or there is None:
            return AbilityPosterior(terms, x, inverse(factor), deviations, value, 0, True, unsure)
        x, here, value = new, there, gained
    if size < NEARLY:
        return AbilityPosterior(terms, x, inverse(factor), deviations, value, 0, False, unsure)
    raise NotConverged(f'the hierarchical model on {terms.votes.n} policies still changed by '
                       f'{size:.1e} after {STEPS} steps')


def gap_variances(fit: AbilityPosterior) -> Floats:
    """Return (M,) the variances of the differences of abilities."""
    return gap_rows(fit.terms).variances(fit.covariance)


def gap_rows(terms: ModelTerms) -> SparseRows:
    """Return the derivatives of the differences of abilities."""
    ones = np.ones(len(terms.votes))
    return SparseRows.of(terms, [(terms.first, ones), (terms.second, -ones)], {})


def of_deviations(fit: AbilityPosterior) -> Floats:
    """
    Return (P, P) what the uncertainty of the blocks' variances adds to the covariance.

    An error of a variance shrinks the unknowns too much or too little, and averages verdicts over
    too many or too few gaps.
    """
    terms, blocks = fit.terms, varied_blocks(fit.terms)
    slopes, rows = np.zeros((terms.size, len(blocks))), gap_rows(terms)
    for k, name in enumerate(blocks):
        block, variance = terms.block(name), fit.deviations.of[name] ** 2
        slopes[block, k] = fit.x[block] / variance
        if fit.unsure is not None:
            across = rows.times(fit.covariance[:, block])
            slopes[:, k] += _by_gaps(fit, fit.unsure, (across ** 2).sum(axis=1) / variance)
    moved = fit.covariance @ slopes
    return np.asarray(moved @ np.linalg.inv(information_of_deviations(fit)) @ moved.T)


def _by_gaps(fit: AbilityPosterior, unsure: Floats, more: Floats) -> Floats:
    """Return (P,) the derivative of the slope where the variances of the gaps grow by ``more``."""
    terms, x, ends = fit.terms, fit.x, []
    for each in (unsure, unsure + STEP * more):
        here = local(terms, x, fit.deviations.noise, each)
        ends.append(verdict_slope(terms, x, here, verdict_rows(terms, x, here)))
    return np.asarray((ends[1] - ends[0]) / STEP)


def varied_blocks(terms: ModelTerms) -> list[str]:
    """Return the B blocks with unknowns, whose variances are fitted."""
    return [name for name in PRIOR if terms.block(name).stop > terms.block(name).start]


def information_of_deviations(fit: AbilityPosterior) -> Floats:
    """
    Return (B, B) the expected information of the logarithms of the blocks' variances.

    k known values give k/2; values of variance v a posteriori and s a priori give
    Σ (1 - v/s)² / 2. The prior adds its weight. Off the diagonal stands what two blocks share,
    as both explain the same verdicts.
    """
    terms, blocks = fit.terms, varied_blocks(fit.terms)
    matrix = np.zeros((len(blocks), len(blocks)))
    for k, name in enumerate(blocks):
        block, variance = terms.block(name), fit.deviations.of[name] ** 2
        for j, other in enumerate(blocks[:k]):
            shared = fit.covariance[block, terms.block(other)] / variance
            matrix[k, j] = matrix[j, k] = (shared ** 2).sum() * (
                variance / fit.deviations.of[other] ** 2)
        own = np.eye(block.stop - block.start) - fit.covariance[block, block] / variance
        matrix[k, k] = (own ** 2).sum() + PRIOR[name][1]
    return matrix / 2


def _slope_of_deviations(fit: AbilityPosterior) -> Floats:
    """Return (B,) the derivative of the log-likelihood by the logarithms of the variances."""
    out = []
    for name in varied_blocks(fit.terms):
        block, variance = fit.terms.block(name), fit.deviations.of[name] ** 2
        weight, prior = PRIOR[name][1], unit(fit.terms, name) ** 2
        square = fit.x[block] ** 2 + np.diag(fit.covariance)[block]
        out.append((square / variance - 1).sum() + weight * (prior / variance - 1))
    return np.array(out) / 2


def inverse(factor: Floats) -> Floats:
    """Return the inverse of a matrix from the lower half of its Cholesky factor."""
    half = np.tril(dpotri(factor, lower=True)[0])
    return np.asarray(half + np.tril(half, -1).T)


def prior_precision(terms: ModelTerms, deviations: BlockDeviations) -> Floats:
    """
    Return (P, P) the prior precision of the unknowns.

    The mean log reliability is held at 0: a common factor of all would only rescale the abilities,
    and the maximum would take it wherever abilities cost least.
    """
    out = np.empty(terms.size)
    for name in BLOCKS[:-1]:
        out[terms.block(name)] = 1 / deviations.of[name] ** 2
    for name, place in terms.places.items():
        out[place] = 1 / GLOBALS[name][1] ** 2
    matrix, block = np.diag(out), terms.block('reliability')
    people = block.stop - block.start
    if people:
        matrix[block, block] += 1 / (MEAN_RELIABILITY * people) ** 2
    return matrix


def _climbed(model: Callable[[Floats], LocalLikelihood], precision: Floats,
             now: tuple[Floats, float], step: Floats, searched: bool,
             ) -> tuple[Floats, LocalLikelihood | None, float]:
    def tried(length: float) -> tuple[Floats, LocalLikelihood, float]:
        new = x + length * step
        there = model(new)
        return new, there, there.value - 0.5 * float(new @ precision @ new)

    x, value = now
    for halving in range(12):
        best = tried(0.5 ** halving)
        if best[2] >= value - 1e-9:
            break
    else:
        return x, None, value
    if searched and halving == 0:
        for factor in (0.5, 2.0):
            length = factor
            while (further := tried(length))[2] > best[2]:
                best, length = further, length * factor
    return best


def _renewed(fit: AbilityPosterior) -> BlockDeviations:
    """Return the deviations that the posterior implies."""
    terms, of = fit.terms, dict(fit.deviations.of)
    step = _slope_of_deviations(fit) / np.diag(information_of_deviations(fit))
    for name, by in zip(varied_blocks(terms), np.clip(step, -FARTHEST, FARTHEST), strict=True):
        of[name] *= float(np.exp(by / 2))
    # Beyond that, one evaluator's votes would count e² times those of another.
    of['reliability'] = min(of['reliability'], MOST_RELIABLE)
    here, noise = local(terms, fit.x, fit.deviations.noise), dict(fit.deviations.noise)
    for name, each in here.measures.items():
        weight = terms.votes.weight * each.known
        first, second = measure_rows(terms, fit.x, name)
        apart, joint = (
            float(weight @ (rest ** 2 + unsure + first.plus(second, sign).variances(
                fit.covariance) / 2) / weight.sum())
            for rest, unsure, sign in ((each.pairs.apart, each.pairs.unsure[0], -1.0),
                                       (each.pairs.joint, each.pairs.unsure[1], 1.0)))
        noise[name] = (float(np.sqrt((apart + joint) / 2)),
                       float(np.clip((joint - apart) / (joint + apart), -0.9, 0.95)))
    return BlockDeviations(of, noise)
