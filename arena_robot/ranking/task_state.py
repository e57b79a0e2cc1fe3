"""What TASK's variants share: their options, the parameters that are fitted, and the E-step."""

from dataclasses import dataclass

import numpy as np

from arena_robot.ranking.base import Floats
from arena_robot.ranking.task_models import BucketModel


@dataclass(frozen=True)
class TaskOptions:
    """
    The hyperparameters, with the paper's defaults where it gives one.

    ``sigma`` and ``score_weight`` are σ_partial and w_ps of B.4, which gives no default; σ is held
    fixed, so that with a σ above the spread of the scores the buckets see nothing. ``restarts``
    starts are run and the best kept; ``tolerance`` is the largest change of a score between
    iterations that counts as converged.
    """

    buckets: int = 60
    iterations: int = 60
    step_clip: float = 1.0
    step_decay: float = 0.99
    l2_theta: float = 1e-2
    l2_psi: float = 1e-2
    tolerance: float = 1e-4
    sigma: float = 0.3
    score_weight: float = 1.0
    start_psi: float = 0.5
    start: float = 0.1
    restarts: int = 1
    seed: int = 0
    variant: str = 'solve'


@dataclass(frozen=True)
class TaskState:
    """Parameters: θ (n,), ψ (n, T), τ (T,), ν (T,), log κ; ``value`` is the objective."""

    theta: Floats
    psi: Floats
    tau: Floats
    nu: Floats
    log_kappa: float
    value: float = -np.inf
    log_likelihood: float = -np.inf
    iterations: int = 0
    change: float = np.inf

    @property
    def z(self) -> Floats:
        """(n, T) log-odds of each policy in each bucket."""
        return np.asarray(self.theta[:, None] + self.psi - self.tau)

    @property
    def score(self) -> Floats:
        """(n,) mean log-odds over the buckets."""
        return np.asarray(self.z @ self.nu)


def expect(model: BucketModel, state: TaskState, options: TaskOptions,
           ) -> tuple[TaskState, Floats]:
    """E-step: the state with its objective, and w_n γ_nt (R, T)."""
    logs = model.log_likelihood(state.z, state.log_kappa)
    top = logs.max(axis=1, keepdims=True)
    share = np.exp(logs - top) * state.nu
    total = share.sum(axis=1, keepdims=True)
    weight = model.rows.weight
    value = float(weight @ (top + np.log(total))[:, 0])
    penalty = (options.l2_theta * float(state.theta @ state.theta)
               + options.l2_psi * float((state.psi * state.psi).sum())) / 2
    share *= weight[:, None] / total
    return TaskState(state.theta, state.psi, state.tau, state.nu, state.log_kappa,
                     value - penalty, value), share
