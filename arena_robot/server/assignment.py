"""
Which two policies are compared next, and who is A.

A pair's weight is the product of its policies' weights ``(1 + requested)^-evenness`` (little
evaluated policies first), times ``no_credit`` for each owner without credit. With a ranking's
posterior, the weight is mixed with the information that a comparison is expected to give about
the order; a floor keeps every pair possible. Pairs of one owner are taken only when there is no
other. Pure functions: who is asked for is decided by the caller, chance by the generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from arena_robot.server.base import NoPair

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """A policy that could be assigned: how often it was requested, and its owner's credit."""

    id: int
    owner_id: int
    requested: int
    has_credit: bool = True
    probation: bool = False


@dataclass(frozen=True)
class Posterior:
    """Abilities of the candidates: ``mean`` (n,) and ``covariance`` (n, n), natural log odds."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True)
class Weights:
    """How strongly each consideration counts."""

    evenness: float = 1.0
    no_credit: float = 0.1
    exploration: float = 0.2


def choose(candidates: Sequence[Candidate], rng: np.random.Generator,
           weights: Weights | None = None,
           posterior: Posterior | None = None) -> tuple[Candidate, Candidate]:
    """
    Return the policies of slot A and slot B.

    Raises NoPair when there are fewer than two candidates.
    """
    if len(candidates) < 2:
        raise NoPair('fewer than two policies fit this station now '
                     f'({len(candidates)} of the live ones does); try again later')
    table = pair_weights(candidates, weights or Weights(), posterior)
    rows, columns = np.triu_indices(len(candidates), 1)
    flat = table[rows, columns]
    pick = rng.choice(len(flat), p=flat / flat.sum())
    pair = candidates[rows[pick]], candidates[columns[pick]]
    return pair if rng.random() < 0.5 else (pair[1], pair[0])


def pair_weights(candidates: Sequence[Candidate], weights: Weights,
                 posterior: Posterior | None = None) -> Floats:
    """Return the symmetric (n, n) table of pair weights, upper triangle summing to one."""
    requested = np.array([c.requested for c in candidates], dtype=float)
    single = (1.0 + requested) ** -weights.evenness
    single *= np.where([c.has_credit for c in candidates], 1.0, weights.no_credit)
    owners = np.array([c.owner_id for c in candidates])
    allowed = _allowed(owners)
    plain = _normalised(np.outer(single, single) * allowed)
    if posterior is None:
        return plain
    informed = _normalised(information(posterior) * plain)
    return weights.exploration * plain + (1.0 - weights.exploration) * informed


def information(posterior: Posterior) -> Floats:
    """
    Return (n, n) how much a comparison of i and j is expected to tell about their order.

    With m and v the posterior mean and variance of the difference of abilities, a comparison has
    Fisher information w = p (1 - p) and is expected to give log(1 + w v) (twice the nats about
    the difference). That is multiplied by the chance Phi(-|m| / sqrt(v)) that the pair stands in
    the wrong order, since only an open order can be changed, and squared, which in simulation
    (`arena simulate-pool`) reaches a given rank correlation soonest.
    """
    mean, covariance = posterior.mean, posterior.covariance
    variance = np.diag(covariance)
    v = np.maximum(variance[:, None] + variance[None, :] - 2.0 * covariance, 1e-12)
    m = mean[:, None] - mean[None, :]
    p = 1.0 / (1.0 + np.exp(-np.clip(m, -500, 500)))
    gain = np.log1p(p * (1.0 - p) * v)
    table = gain * ndtr(-np.abs(m) / np.sqrt(v))
    np.fill_diagonal(table, 0.0)
    out: Floats = table ** 2
    return out


def _allowed(owners: NDArray[np.int64]) -> Floats:
    different: Floats = (owners[:, None] != owners[None, :]).astype(float)
    if different.any():
        return different
    return 1.0 - np.eye(len(owners))


def _normalised(table: Floats) -> Floats:
    return table / (np.triu(table, 1).sum() or 1.0)
