"""
Progress that the hierarchical model expects of each policy, on the scale from 0 to 1.

A score is log-odds, and where scores have ends a unit of it is less progress near them. What is
expected is the mean progress in sessions like those of the data: with their shares of categories,
institutions, evaluators and scenes, with the noise of a score, and cut at the ends.
"""

import numpy as np
from scipy.special import ndtr

from arena_robot.core.wilson import Z95
from arena_robot.ranking.base import Floats
from arena_robot.ranking.hierarchical_fit import AbilityPosterior
from arena_robot.ranking.hierarchical_terms import GROUPS, levels


def mixed_rows(found: AbilityPosterior) -> Floats:
    """
    Return (n, P) what the mean ability over the data's sessions is the sum of.

    A group in which a policy never was adds nothing.
    """
    terms, votes = found.terms, found.terms.votes
    rows = np.eye(votes.n, terms.size)
    for block in GROUPS:
        names, code = levels(votes, block)
        share = np.bincount(code, votes.weight, minlength=len(names)) / votes.weight.sum()
        group, policy = terms.cells[block].T
        rows[policy, terms.start[block] + np.arange(len(group))] = share[group]
    return rows


def expected_progress(found: AbilityPosterior, rows: Floats) -> Floats:
    """
    Return (n, 3) the expected progress and its 95 % interval.

    ``rows`` (n, P) are what the abilities are the sum of. The offsets of other groups, by their
    variances, are part of the noise. The ends of the interval are those of the ability, cut too.
    """
    terms = found.terms
    rows = rows.copy()
    rows[:, terms.places['m']] = 1.0
    level = rows @ found.x
    off = Z95 * np.sqrt((rows @ found.covariance * rows).sum(axis=1))
    out = np.stack([level, level - off, level + off], axis=1)
    if terms.ends.any():
        variance = found.spreads.noise['score'][0] ** 2 + sum(
            found.spreads.of[name] ** 2 for name in GROUPS if len(terms.cells[name]))
        out = cut(out, float(np.sqrt(variance)))
    return out


def cut(level: Floats, sd: float) -> Floats:
    """Return the means of normal values of mean ``level`` that are cut at 0 and 1."""
    z = level / sd, (level - 1) / sd
    above = [sd * (each * ndtr(each) + np.exp(-0.5 * each ** 2) / np.sqrt(2 * np.pi))
             for each in z]
    return np.asarray(above[0] - above[1])
