"""
Which two policies are compared next, and who is A.

A pair's weight is the product of its policies' weights ``(1 + requested)^-evenness`` (little
evaluated policies first), times what each owner's credits make of it: ``no_credit`` without any,
1 with ``full_credit``, and ``paid`` for a policy whose comparisons were paid for. With a ranking's
posterior, the weight is mixed with what a comparison is worth for the goal
(:mod:`assignment_goals`); a floor keeps every pair possible. Pairs of one owner are taken only
when there is no other. Pure functions: who is asked for is decided by the caller, chance by the
generator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import NDArray

from arena_robot.core.errors import ConfigError
from arena_robot.ranking.pairwise.prior import PRIOR_L2
from arena_robot.server.base import NoPair
from arena_robot.server.config import AssignmentGoal, Weights

Floats = NDArray[np.float64]
MOST_CONTENDERS = 40    # policies nearest to the border of the first k; others cannot cross it
PLACED = 60    # requests from which on a policy is no newcomer
# The prior: abilities of about two natural log odds.
MOST_STEPS, CLOSE = 50, 1e-4


@dataclass(frozen=True)
class Posterior:
    """Abilities of the candidates: ``mean`` (…, n), ``covariance`` (…, n, n), natural log odds."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True)
class Candidate:
    """
    A policy that could be assigned: how often it was requested, and its owner's credit.

    ``credit`` runs from 0 (none) to 1 (``full_credit`` or more); ``paid``: somebody paid for
    comparisons of it.
    """

    id: int
    owner_id: int
    requested: int
    credit: float = 1.0
    probation: bool = False
    paid: bool = False


@dataclass(frozen=True)
class Aim:
    """What the comparisons are for; ``top_k`` is the k of the goal ``topk``."""

    goal: AssignmentGoal = AssignmentGoal.ORDER
    top_k: int = 3

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ConfigError(f'top_k must be at least 1, found {self.top_k}')


def choose(candidates: Sequence[Candidate], rng: np.random.Generator,
           weights: Weights | None = None, posterior: Posterior | None = None,
           aim: Aim | None = None) -> tuple[Candidate, Candidate]:
    """
    Return the policies of slot A and slot B.

    Raises NoPair when there are fewer than two candidates.
    """
    if len(candidates) < 2:
        raise NoPair('fewer than two policies fit this station now '
                     f'({len(candidates)} of the live ones does); try again later')
    table = pair_weights(candidates, weights or Weights(), posterior, aim)
    rows, columns = np.triu_indices(len(candidates), 1)
    flat = table[rows, columns]
    pick = rng.choice(len(flat), p=flat / flat.sum())
    pair = candidates[rows[pick]], candidates[columns[pick]]
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def pair_weights(candidates: Sequence[Candidate], weights: Weights,
                 posterior: Posterior | None = None, aim: Aim | None = None) -> Floats:
    """Return the symmetric (n, n) table of pair weights, upper triangle summing to one."""
    requested = np.array([c.requested for c in candidates], dtype=float)
    credit = weights.no_credit + (1.0 - weights.no_credit) * np.array(
        [c.credit for c in candidates], dtype=float)
    credit *= np.where([c.paid for c in candidates], weights.paid, 1.0)
    owners = np.array([c.owner_id for c in candidates])
    permitted = credit[:, None] * credit[None, :] * _allowed(owners)
    return weight_table(requested, permitted, weights, posterior, aim or Aim())


def weight_table(requested: Floats, permitted: Floats, weights: Weights,
                 posterior: Posterior | None, aim: Aim) -> Floats:
    """
    Return (…, n, n) pair weights of pools; each upper triangle sums to one.

    ``requested`` (…, n) is how often each policy was requested, ``permitted`` (…, n, n) a factor
    of each pair.
    """
    single = (1.0 + requested) ** -weights.evenness
    plain = _normalised(single[..., :, None] * single[..., None, :] * permitted)
    if posterior is None:
        return plain
    goal = GOALS[aim.goal]
    value = goal.value(posterior, requested, aim.top_k)
    informed = _normalised(value * (plain if goal.evenly else permitted))
    return weights.exploration * plain + (1.0 - weights.exploration) * informed


def _allowed(owners: NDArray[np.int64]) -> Floats:
    different: Floats = (owners[:, None] != owners[None, :]).astype(float)
    if different.any():
        return different
    return 1.0 - np.eye(len(owners))


def _normalised(table: Floats) -> Floats:
    total = np.triu(table, 1).sum(axis=(-2, -1), keepdims=True)
    return np.asarray(table / np.where(total > 0, total, 1.0))


def gap_variance(covariance: Floats) -> Floats:
    """Return (…, n, n) the variances of the differences of abilities."""
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    return np.asarray(np.maximum(
        variance[..., :, None] + variance[..., None, :] - 2.0 * covariance, 1e-12))


def information(posterior: Posterior) -> Floats:
    """
    Return (…, n, n) how much a comparison of i and j is expected to tell about their order.

    With m and v the posterior mean and variance of the difference of abilities, a comparison has
    Fisher information w = p (1 - p) and is expected to give log(1 + w v) (twice the nats about
    the difference). That is multiplied by the chance Phi(-|m| / sqrt(v)) that the pair stands in
    the wrong order, since only an open order can be changed, and squared, which in simulation
    (`arena study pairs`) reaches a given rank correlation soonest.
    """
    v = gap_variance(posterior.covariance)
    m = posterior.mean[..., :, None] - posterior.mean[..., None, :]
    p = scipy.special.expit(m)
    tail = scipy.special.ndtr(-np.abs(m) / np.sqrt(v))
    out: Floats = (np.log1p(p * (1.0 - p) * v) * tail) ** 2
    out[..., np.arange(m.shape[-1]), np.arange(m.shape[-1])] = 0.0
    return out


def membership_gain(posterior: Posterior, top: int) -> Floats:
    """Return (…, n, n) how much a comparison can change who is among the first ``top``."""
    mean, covariance = posterior.mean, posterior.covariance
    n = mean.shape[-1]
    if n <= 2 or top >= n:
        return information(posterior)
    order = np.argsort(-mean, axis=-1, kind='stable')
    rank = np.argsort(order, axis=-1, kind='stable')
    rival = np.where(rank < top, order[..., top, None], order[..., top - 1, None])
    behind = np.abs(mean - np.take_along_axis(mean, rival, -1))
    shared = covariance - np.take_along_axis(covariance, rival[..., None], -2)
    m = mean[..., :, None] - mean[..., None, :]
    w = scipy.special.expit(m) * scipy.special.expit(-m)
    scale = np.sqrt(w / (1.0 + w * gap_variance(covariance)))
    gain = np.zeros_like(m)
    # One policy at a time keeps (n, n) arrays; those far behind cannot change anything.
    own = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 1e-12))
    near = np.argsort(behind / own, axis=-1, kind='stable')[..., :MOST_CONTENDERS]
    for place in range(near.shape[-1]):
        at = near[..., place, None]
        own_row = np.take_along_axis(shared, at[..., None], -2)[..., 0, :]
        gap = np.take_along_axis(behind, at, -1)[..., None]
        s = np.maximum(np.abs(own_row[..., :, None] - own_row[..., None, :]) * scale, 1e-12)
        z = gap / s
        value = s * np.exp(-z * z / 2) / np.sqrt(2 * np.pi) - gap * scipy.special.ndtr(-z)
        gain = np.maximum(gain, value)
    gain[..., np.arange(n), np.arange(n)] = 0.0
    return gain ** 2


def newcomers(requested: Floats) -> NDArray[np.bool_]:
    """
    Return (…, n) who is new.

    Requested less than 60 times, and less than 0.8 times as often as the median candidate.
    """
    usual = np.median(requested, axis=-1, keepdims=True)
    return np.asarray(requested < np.minimum(PLACED, 0.8 * usual))


def placing_gain(posterior: Posterior, requested: Floats) -> Floats:
    """Return (…, n, n) the information of the pairs with a newcomer, of all where none is."""
    new = newcomers(requested)
    with_one = new[..., :, None] | new[..., None, :]
    kept = with_one | ~np.asarray(new.any(axis=-1))[..., None, None]
    return np.where(kept, information(posterior), 0.0)


@dataclass(frozen=True)
class GoalValue:
    """
    What pairs are worth for a goal.

    ``value`` gives (…, n, n) from the posterior, how often each was requested, and k.
    ``evenly``: multiplied by the weights that favour little requested policies.
    """

    value: Callable[[Posterior, Floats, int], Floats]
    evenly: bool


GOALS = {
    AssignmentGoal.ORDER: GoalValue(lambda known, _, k: information(known), True),
    AssignmentGoal.TOP1: GoalValue(lambda known, _, k: membership_gain(known, 1), False),
    AssignmentGoal.TOPK: GoalValue(lambda known, _, k: membership_gain(known, k), False),
    AssignmentGoal.NEWCOMER: GoalValue(
        lambda known, requested, k: placing_gain(known, requested), True),
}


def posterior_of(wins: Floats, start: Floats | None = None) -> Posterior:
    """
    Return the posterior of tables ``wins`` (…, n, n), a tie being half a win for each.

    Bradley–Terry with a normal prior of 2 log-odds, at the maximum; ``start`` (…, n) is where the
    search begins.
    """
    n = wins.shape[-1]
    total, diagonal = wins + np.swapaxes(wins, -1, -2), np.arange(n)
    mean = np.zeros(wins.shape[:-1]) if start is None else np.array(start, dtype=float)
    for _ in range(MOST_STEPS):
        p = scipy.special.expit(mean[..., :, None] - mean[..., None, :])
        slope = (wins - total * p).sum(axis=-1) - PRIOR_L2 * mean
        matrix = -total * p * (1.0 - p)
        matrix[..., diagonal, diagonal] = 0.0
        matrix[..., diagonal, diagonal] = PRIOR_L2 - matrix.sum(axis=-1)
        covariance = np.linalg.inv(matrix)
        step = np.clip((covariance @ slope[..., None])[..., 0], -2.0, 2.0)
        mean = mean + step
        if np.abs(step).max(initial=0.0) < CLOSE:
            break
    return Posterior(mean, covariance)
