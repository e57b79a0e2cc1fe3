"""
One hierarchical model of verdicts and progress: abilities, partially pooled over what differs.

Abilities differ by category of task, by institution, by evaluator, and by light and clutter where
these are known. Evaluators also have a bias for the side shown first, and judge more or less
reliably. One likelihood of verdicts, ties, scores and audits estimates all of that
(:mod:`.terms`). Each kind of offset is shrunk by as much as the data say (:mod:`.fit`).

A score is the log-odds of winning against a policy of score 0. The evaluator has mean
reliability, the arm stood still for both equally long, and the two progress scores are not at the
same end. With progress scores a unit of progress is δ + β log-odds, with audits α (c + g) more.
The noise of scores and audits makes that less, as a logistic with normal noise is flatter.

``details['expected_progress']`` is the same standing as progress from 0 to 1: the mean progress
that a policy is expected to have in sessions like those of the data, with their shares of
categories, institutions, evaluators and scenes, with the noise of a score, and cut at the ends.

The posterior is normal, and verdicts are averaged over it. It contains what evaluators and
institutions add, so nothing is resampled.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from arena_robot.core.errors import RankingError
from arena_robot.core.wilson import Z95
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import count_pairs, require_comparisons, vote_warnings
from arena_robot.ranking.hierarchical.fit import AbilityPosterior, fit_posterior
from arena_robot.ranking.hierarchical.terms import (
    GROUPS,
    AbilityLink,
    ModelTerms,
    levels,
    link,
    make_terms,
)
from arena_robot.ranking.pairwise.davidson import expected_share as davidson_share
from arena_robot.ranking.pairwise.prior import PRIOR_L2, established, one_sided
from arena_robot.ranking.rollouts import AuditTable

NODES, NODE_SHARES = np.polynomial.hermite_e.hermegauss(15)
@dataclass(frozen=True)
class Hierarchical:
    """
    The method: ``category`` asks for the standings of one category of task, '' for all.

    Those of a category are shrunk towards those of all, as much as categories are alike.
    ``audits``: numbers of the rollouts, part of the likelihood. It assumes that what differs by
    category, institution and evaluator is normal, on one scale of log-odds.
    """

    category: str = ''
    audits: AuditTable | None = None

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit; ``covariance`` is that of the posterior.

        :raises RankingError: there are no comparisons, or none of the category.
        :raises NotConverged: Newton's steps do not end.
        """
        votes = comparisons if self.audits is None else self.audits.within(comparisons)
        return as_fit(posterior(votes), self.category)


def posterior(comparisons: Comparisons) -> AbilityPosterior:
    """
    Return the posterior of all unknowns.

    :raises RankingError: there are no comparisons, or too many unknowns.
    """
    require_comparisons(count_pairs(comparisons))
    terms = make_terms(comparisons.take(comparisons.weight > 0))
    return fit_posterior(terms)


def as_fit(fit: AbilityPosterior, category: str = '') -> Fit:
    """
    Return the standings of a posterior, in all or in one category.

    :raises RankingError: no comparison is of the category.
    """
    votes = fit.terms.votes
    counts = count_pairs(votes)
    rows = board_rows(fit, category)
    scale, scale_row = log_odds(fit)
    theta = rows @ fit.x
    full = scale * rows + np.outer(theta, scale_row)
    anchor = established(counts)
    centre = np.eye(votes.n) - anchor / anchor.sum()
    scores = centre @ (scale * theta)
    covariance = centre @ full @ fit.covariance @ full.T @ centre.T
    kappa = link(fit.terms, fit.x).kappa
    above, below = one_sided(counts)
    warnings = vote_warnings(votes) if fit.settled else (
        *vote_warnings(votes), 'the variances had not settled after the last round')
    return Fit(scores, davidson_share(scores, kappa), Diagnostics(
        fit.settled, fit.rounds, fit.value, warnings, {
            **_details(fit, scale, kappa),
            **_progress(fit, rows if category else mixed_rows(fit))}),
        np.asarray(covariance), np.where(above | below, PRIOR_L2, 0.0))


def board_rows(fit: AbilityPosterior, category: str) -> Floats:
    """
    Return (n, P) what each ability is the sum of: θ, and the offset in the category.

    :raises RankingError: no comparison is of the category.
    """
    terms = fit.terms
    rows = np.eye(terms.votes.n, terms.size)
    if category:
        if category not in terms.votes.categories:
            known = ', '.join(sorted(name for name in terms.votes.categories if name)) or 'none'
            raise RankingError(f"no comparison is of the category '{category}'; known: {known}")
        code = terms.votes.categories.index(category)
        for at, (group, policy) in enumerate(terms.cells['category']):
            if group == code:
                rows[policy, terms.start['category'] + at] = 1.0
    return rows


def log_odds(fit: AbilityPosterior) -> tuple[float, Floats]:
    """Return how many log-odds of winning a unit of ability is, and its derivative (P,)."""
    terms = fit.terms
    if not terms.scored:
        return 1.0, np.zeros(terms.size)
    at = link(terms, fit.x)
    weaker = float(1 / np.sqrt(1 + np.pi / 8 * measure_noise(fit)))
    return at.per_ability * weaker, weaker * _per_ability_slope(terms, at)


def _per_ability_slope(terms: ModelTerms, at: AbilityLink) -> Floats:
    """Return (P,) the derivative of the log-odds for a unit of ability."""
    row = np.zeros(terms.size)
    for name, slope in (('delta', 1.0), ('beta', 1.0), ('audit_c', at.alpha),
                        ('alpha', at.audit_c + at.audit_g), ('audit_g', at.alpha)):
        if name in terms.places:
            row[terms.places[name]] = slope
    return row


def measure_noise(fit: AbilityPosterior) -> float:
    """Return the variance of d that the noise of scores and audits adds."""
    at = link(fit.terms, fit.x)
    per = {'score': at.beta + at.alpha * at.audit_g, 'audit': at.alpha}
    return sum(2 * (per[name] * sigma) ** 2 * (1 - rho)
               for name, (sigma, rho) in fit.deviations.noise.items())


def _details(fit: AbilityPosterior, scale: float, kappa: float) -> dict[str, object]:
    terms, noise = fit.terms, fit.deviations.noise
    details: dict[str, object] = {
        'kappa': kappa, 'unknowns': terms.size,
        'spread': {name: value * (scale if name in ('theta', *terms.cells) else 1.0)
                   for name, value in fit.deviations.of.items()}}
    if terms.scored:
        details['score_noise'], details['score_shared'] = noise['score']
    if terms.audited:
        details['audit_noise'], details['audit_shared'] = noise['audit']
    named = {'omega': 'log_odds_of_standing_still', 'alpha': 'log_odds_of_audit'}
    for name, word in named.items():
        if name in terms.places:
            place = terms.places[name]
            off = float(Z95 * np.sqrt(fit.covariance[place, place]))
            details[word] = [float(fit.x[place]) + shift for shift in (0.0, -off, off)]
    return details


def _progress(fit: AbilityPosterior, rows: Floats) -> dict[str, object]:
    if not fit.terms.scored:
        return {}
    return {'expected_progress': dict(zip(fit.terms.votes.items, expected_progress(
        fit, rows).tolist(), strict=True))}


def mixed_rows(fit: AbilityPosterior) -> Floats:
    """
    Return (n, P) what the mean ability over the data's sessions is the sum of.

    A group in which a policy never was adds nothing.
    """
    terms, votes = fit.terms, fit.terms.votes
    rows = np.eye(votes.n, terms.size)
    for block in GROUPS:
        names, code = levels(votes, block)
        share = np.bincount(code, votes.weight, minlength=len(names)) / votes.weight.sum()
        group, policy = terms.cells[block].T
        rows[policy, terms.start[block] + np.arange(len(group))] = share[group]
    return rows


def expected_progress(fit: AbilityPosterior, rows: Floats) -> Floats:
    """
    Return (n, 3) the expected progress and its 95 % interval.

    ``rows`` (n, P) are what the abilities are the sum of. The offsets of other groups, by their
    variances, are part of the noise. The ends of the interval are those of the ability, cut too.
    """
    terms = fit.terms
    rows = rows.copy()
    rows[:, terms.places['m']] = 1.0
    level = rows @ fit.x
    off = Z95 * np.sqrt((rows @ fit.covariance * rows).sum(axis=1))
    out = np.stack([level, level - off, level + off], axis=1)
    if terms.ends.any():
        variance = fit.deviations.noise['score'][0] ** 2 + sum(
            fit.deviations.of[name] ** 2 for name in GROUPS if len(terms.cells[name]))
        out = cut(out, float(np.sqrt(variance)))
    return out


def cut(level: Floats, sd: float) -> Floats:
    """Return the means of normal values of mean ``level`` that are cut at 0 and 1."""
    z = level / sd, (level - 1) / sd
    above = [sd * (each * ndtr(each) + np.exp(-0.5 * each ** 2) / np.sqrt(2 * np.pi))
             for each in z]
    return np.asarray(above[0] - above[1])
