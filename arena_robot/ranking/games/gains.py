"""
Deviation gains of a game: of payoff tensors, or of a table of scores without its tensors.

A[c, a] is what constraint c's player gains at the joint strategy a by deviating to c's strategy.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ModelTaskGains:
    """
    Two players: the model gets T[m, t], the task gets −T[m, t].

    Rows: M models, then the tasks. Joint strategies (i, t), flat. Deviating from (i, t), the
    model gains T[m, t] − T[i, t], the task T[i, t] − T[i, t′].
    """

    def __init__(self, scores: Floats) -> None:
        self.scores = scores
        self.rows, self.size = sum(scores.shape), scores.size

    def price(self, duals: Floats) -> Floats:
        """Return dualsᵀA, shape (K,)."""
        T, y, z = self.scores, duals[:len(self.scores)], duals[len(self.scores):]
        out: Floats = ((y @ T)[None, :] + (z.sum() - y.sum()) * T - (T @ z)[:, None]).ravel()
        return out

    def columns(self, joint: Ints) -> Floats:
        """Return A[:, joint], shape (C, k)."""
        i, t = np.divmod(joint, self.scores.shape[1])
        here = self.scores[i, t]
        return np.concatenate([self.scores[:, t] - here, here - self.scores[i].T])

    def expand(self, joint: Ints, mass: Floats) -> tuple[Ints, Floats]:
        """Return the joint strategies as (model, task), shape (k, 2), and their mass."""
        return np.stack(np.divmod(joint, self.scores.shape[1]), axis=1), mass

    def level(self, joint: Ints) -> tuple[Ints, Floats]:
        """Return the task of each joint strategy and what its model scores there."""
        i, t = np.divmod(joint, self.scores.shape[1])
        return t, self.scores[i, t]


class ModelModelTaskGains:
    """
    Three players: models a and b and a task t; G_a = T[a, t] − T[b, t] = −G_b, G_t = |G_a|.

    The model players are symmetric, so a joint strategy is an unordered pair {i, j} (i = j too)
    and a task, standing for both orders equally: the model rows become
    T[m, t] − ½(T[i, t] + T[j, t]), one per model. The task gains |T[i, t′] − T[j, t′]| −
    |T[i, t] − T[j, t]|. Rows: M models, then the tasks. K = M(M + 1)/2 · tasks.
    """

    def __init__(self, scores: Floats) -> None:
        self.scores = scores
        M, self._tasks = scores.shape
        self._i, self._j = np.triu_indices(M)
        self._half = (scores[self._i] + scores[self._j]) / 2
        self._apart = np.abs(scores[self._i] - scores[self._j])
        self.rows, self.size = M + self._tasks, self._half.size

    def price(self, duals: Floats) -> Floats:
        """Return dualsᵀA, shape (K,)."""
        y, z = duals[:len(self.scores)], duals[len(self.scores):]
        out = self._half * -y.sum()
        out -= z.sum() * self._apart
        out += (y @ self.scores)[None, :]
        out += (self._apart @ z)[:, None]
        result: Floats = out.ravel()
        return result

    def columns(self, joint: Ints) -> Floats:
        """Return A[:, joint], shape (C, k)."""
        pair, t = np.divmod(joint, self._tasks)
        return np.concatenate([self.scores[:, t] - self._half[pair, t],
                               self._apart[pair].T - self._apart[pair, t]])

    def expand(self, joint: Ints, mass: Floats) -> tuple[Ints, Floats]:
        """Return (model a, model b, task), shape (k, 3), both orders of a pair, and their mass."""
        pair, t = np.divmod(joint, self._tasks)
        i, j = self._i[pair], self._j[pair]
        both = i != j
        index = np.concatenate([np.stack([i, j, t], axis=1), np.stack([j, i, t], axis=1)[both]])
        return index, np.concatenate([np.where(both, mass / 2, mass), mass[both] / 2])

    def level(self, joint: Ints) -> tuple[Ints, Floats]:
        """Return the task of each joint strategy and the mean score of its pair there."""
        pair, t = np.divmod(joint, self._tasks)
        return t, self._half[pair, t]


def symmetric_groups(payoffs: tuple[Floats, ...]) -> list[list[int]]:
    """
    Group the players whose exchange does not change any payoff, exactly.

    Swapping p and q must turn G_p into G_q and leave every other player's payoffs as they are;
    such swaps generate all permutations within a group.
    """
    groups: list[list[int]] = []
    for q in range(len(payoffs)):
        for group in groups:
            if _can_swap(payoffs, group[0], q):
                group.append(q)
                break
        else:
            groups.append([q])
    return groups


def _can_swap(payoffs: tuple[Floats, ...], p: int, q: int) -> bool:
    shape = payoffs[0].shape
    if shape[p] != shape[q]:
        return False
    for r, G in enumerate(payoffs):
        image = payoffs[{p: q, q: p}.get(r, r)]
        if not np.array_equal(np.swapaxes(G, p, q), image):
            return False
    return True


class TensorGains:
    """
    A[c, a] = G_p(a′, a₋ₚ) − G_p(a) for c = (p, a′), averaged over symmetric players.

    payoffs: one tensor per player, all of shape (A₁, …, A_N). Rows: for each symmetric group, the
    strategies of one player. A joint strategy is a flat index; only those whose indices do not
    fall within a group are ever used, each standing for all its permutations. Ratings do not
    change: among equilibria with the same gains there is a symmetric one.
    """

    def __init__(self, payoffs: tuple[Floats, ...]) -> None:
        self.payoffs = payoffs
        self.shape = payoffs[0].shape
        self.groups = symmetric_groups(payoffs)
        self.rows = sum(self.shape[g[0]] for g in self.groups)
        self.size = payoffs[0].size
        self._redundant = self._falling()

    def slices(self) -> list[slice]:
        """Return the rows of each group."""
        ends = np.cumsum([self.shape[g[0]] for g in self.groups])
        return [slice(int(e) - self.shape[g[0]], int(e))
                for e, g in zip(ends, self.groups, strict=True)]

    def _along(self, p: int, values: Ints) -> Ints:
        return values.reshape([-1 if axis == p else 1 for axis in range(len(self.shape))])

    def _falling(self) -> NDArray[np.bool_]:
        out = np.zeros(self.shape, dtype=bool)
        for group in self.groups:
            for p, q in itertools.pairwise(group):
                index = np.arange(self.shape[p])
                out |= self._along(p, index) > self._along(q, index)
        return out.ravel()

    def price(self, duals: Floats) -> Floats:
        """Return dualsᵀA, shape (K,), ∞ where redundant."""
        total = np.zeros(self.shape)
        for rows, group in zip(self.slices(), self.groups, strict=True):
            y = duals[rows] / len(group)
            for p in group:
                gain = np.tensordot(y, self.payoffs[p], axes=(0, p))
                total += np.expand_dims(gain, p) - y.sum() * self.payoffs[p]
        flat = total.ravel()
        flat[self._redundant] = np.inf
        return flat

    def columns(self, joint: Ints) -> Floats:
        """Return A[:, joint], shape (C, k)."""
        index = np.unravel_index(joint, self.shape)
        out = np.zeros((self.rows, len(joint)))
        for rows, group in zip(self.slices(), self.groups, strict=True):
            for p in group:
                G = self.payoffs[p]
                moved = [np.arange(self.shape[p])[:, None] if axis == p else i[None, :]
                         for axis, i in enumerate(index)]
                out[rows] += (G[tuple(moved)] - G[index][None, :]) / len(group)
        return out

    def expand(self, joint: Ints, mass: Floats) -> tuple[Ints, Floats]:
        """
        Spread the mass over the permutations of each joint strategy.

        Returns indices, shape (k, N), and their probabilities, shape (k,).
        """
        index = np.stack(np.unravel_index(joint, self.shape), axis=1).astype(np.int64)
        for group in self.groups:
            for k in range(len(group) - 1, 0, -1):
                index, mass = _mixed(index, mass, group, k)
        distinct, at = np.unique(index, axis=0, return_inverse=True)
        return distinct, np.bincount(at.ravel(), mass, len(distinct)).astype(float)


def _mixed(index: Ints, mass: Floats, group: list[int], k: int) -> tuple[Ints, Floats]:
    """Swap place k of a group with each place up to k, equally: one round of a fair shuffle."""
    copies = []
    for j in range(k + 1):
        other = index.copy()
        other[:, [group[j], group[k]]] = index[:, [group[k], group[j]]]
        copies.append(other)
    return np.concatenate(copies), np.tile(mass / (k + 1), k + 1)
