"""Deviation gains of the games that a table of scores defines, without their tensors."""

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
