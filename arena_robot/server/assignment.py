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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import ConfigError
from arena_robot.server.assignment_goals import GOALS, AssignmentGoal, Posterior
from arena_robot.server.base import NoPair

Floats = NDArray[np.float64]


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
class Weights:
    """How strongly each consideration counts."""

    evenness: float = 1.0
    no_credit: float = 0.1
    full_credit: int = 20
    paid: float = 3.0
    exploration: float = 0.1


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
