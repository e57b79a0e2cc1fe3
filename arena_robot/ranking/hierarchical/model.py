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
from arena_robot.ranking.base import FACTORS, Comparisons, Diagnostics, Fit, Floats, Ints
from arena_robot.ranking.counts import count_pairs, require_comparisons, vote_warnings
from arena_robot.ranking.hierarchical.fit import AbilityPosterior, fit_posterior
from arena_robot.ranking.hierarchical.terms import (
    GROUPS,
    AbilityLink,
    ModelTerms,
    both_at_an_end,
    levels,
    link,
    make_terms,
)
from arena_robot.ranking.pairwise.davidson import expected_share as davidson_share
from arena_robot.ranking.pairwise.davidson import outcome_probabilities
from arena_robot.ranking.pairwise.prior import PRIOR_L2, established, one_sided
from arena_robot.ranking.rollouts import AuditTable

NODES, NODE_SHARES = np.polynomial.hermite_e.hermegauss(15)
NODE_SHARES = NODE_SHARES / NODE_SHARES.sum()


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


def _per_ability_slope(terms: ModelTerms, at: AbilityLink, alike: bool = False) -> Floats:
    """Return (P,) the derivative of the log-odds for a unit of ability; ``alike`` as below."""
    row, apart = np.zeros(terms.size), 0.0 if alike else 1.0
    for name, slope in (('delta', 1.0), ('beta', apart), ('audit_c', at.alpha),
                        ('alpha', at.audit_c + apart * at.audit_g),
                        ('audit_g', apart * at.alpha)):
        if name in terms.places:
            row[terms.places[name]] = slope
    return row


def measure_noise(fit: AbilityPosterior, alike: bool = False) -> float:
    """
    Return the variance of d that the noise of scores and audits adds.

    ``alike``: both scores are the same.
    """
    at = link(fit.terms, fit.x)
    per = {'score': 0.0 if alike else at.beta + at.alpha * at.audit_g, 'audit': at.alpha}
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


def predict(fit: AbilityPosterior, votes: Comparisons) -> Floats:
    """
    Return (M, 3) the probabilities that the first wins, of a tie, and that it loses.

    Categories, institutions, evaluators, light and clutter are recognised by name and bring their
    offsets, evaluators also their bias and reliability. The posterior's uncertainty is averaged
    over; a new name adds the variance of its prior. Scores, audits and waits of ``votes`` are not
    used, but the chance that both rollouts end at the same end of the scale is.
    """
    (first, new_first), (second, new_second) = (_ability_rows(fit, votes, policy) for policy in (
        votes.first, votes.second))
    gap, new = first - second, new_first + new_second
    chance = _verdicts(fit, votes, gap, new)
    if fit.terms.ends.any():
        level = link(fit.terms, fit.x).m + np.stack([first @ fit.x, second @ fit.x], axis=1)
        same = both_at_an_end(level, *fit.deviations.noise['score'])[:, None]
        chance += same * (_verdicts(fit, votes, gap, new, True) - chance)
    return chance


def _verdicts(fit: AbilityPosterior, votes: Comparisons, rows: Floats, new: Floats,
              alike: bool = False) -> Floats:
    """
    Return (M, 3) the probabilities of verdicts for differences of abilities.

    ``rows`` (M, P) say what these are the sum of, ``new`` (M,) is their variance beside that of
    the posterior. ``alike``: both scores are the same.
    """
    terms, at = fit.terms, link(fit.terms, fit.x)
    gap, per = rows @ fit.x, at.per_ability_alike if alike else at.per_ability
    rows = per * rows + np.outer(gap, _per_ability_slope(terms, at, alike))
    unsure = (rows @ fit.covariance * rows).sum(axis=1)
    unsure += per ** 2 * new + measure_noise(fit, alike)
    side, side_unsure = _of_evaluator(fit, votes, 'side')
    reliability, reliability_unsure = _of_evaluator(fit, votes, 'reliability')
    chance = np.zeros((len(votes), 3))
    for node, weight in zip(NODES, NODE_SHARES, strict=True):
        scale = np.exp(reliability + np.sqrt(reliability_unsure) * node)
        deviation = np.sqrt(scale ** 2 * unsure + side_unsure)
        d = (scale * per * gap + side)[:, None] + deviation[:, None] * NODES
        chance += weight * np.stack(
            [outcome @ NODE_SHARES for outcome in outcome_probabilities(d, at.kappa)], axis=1)
    return chance


def _ability_rows(fit: AbilityPosterior, votes: Comparisons, policies: Ints,
                  ) -> tuple[Floats, Floats]:
    """Return (M, P) what the abilities of ``policies`` (M,) are the sum of, (M,) new variance."""
    terms, old = fit.terms, fit.terms.votes
    policy = np.array([old.items.index(name) for name in votes.items])[policies]
    each, rows, new = np.arange(len(votes)), np.zeros((len(votes), terms.size)), np.zeros(
        len(votes))
    rows[each, policy] = 1.0
    for block in GROUPS:
        (here, its), (there, _) = levels(votes, block), levels(old, block)
        code = np.array([there.index(name) if name and name in there else -1
                         for name in here], dtype=np.int64)[its]
        cells = terms.cells[block]
        place = np.full((len(there) + 1, old.n), -1)
        place[cells[:, 0], cells[:, 1]] = terms.start[block] + np.arange(len(cells))
        at = place[code, policy]
        rows[each[at >= 0], at[at >= 0]] += 1.0
        if len(cells) or block not in FACTORS:
            unknown = (at < 0) if len(cells) else (code < 0)
            new += unknown * fit.deviations.of[block] ** 2
    return rows, new


def _of_evaluator(fit: AbilityPosterior, votes: Comparisons, block: str,
                  ) -> tuple[Floats, Floats]:
    """Return (M,) an unknown of each verdict's evaluator, and its variance."""
    terms, old = fit.terms, fit.terms.votes
    its = terms.side if block == 'side' else terms.reliability
    place = {old.evaluators[who]: at for who, at in zip(old.evaluator, its, strict=True)
             if at >= 0}
    at = np.array([place.get(name, -1) for name in votes.evaluators])[votes.evaluator]
    variance = np.diag(fit.covariance)
    return (np.where(at >= 0, fit.x[at], 0.0),
            np.where(at >= 0, variance[at], fit.deviations.of[block] ** 2))


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
