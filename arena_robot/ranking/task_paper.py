"""
TASK as printed: RoboArena's Algorithm 2, for comparison with :mod:`task_em`.

Kept from the paper: the start (ψ = 0, θ and τ near 0), clipped Newton steps of θ, then ψ, then τ
one coordinate at a time, a clip that decays, θ, ψ and τ each centred after every iteration, the
update of ν_tie (half the ratio of the expected tie to the expected win probabilities, which
touches nothing else), the stop on θ, and the ranking by θ. Only the sign of the sum over the
trials in which a policy is second is corrected; with the printed sign the updates diverge.
Centring one by one changes z, so the iteration does not increase any objective and its result
depends on when it stops; therefore it is not the default.
"""

import numpy as np
from scipy.special import expit

from arena_robot.ranking.base import Diagnostics, Fit, Floats
from arena_robot.ranking.task_models import SolveModel, VerdictRows
from arena_robot.ranking.task_state import TaskOptions, TaskState, expect


def fit_paper(rows: VerdictRows, options: TaskOptions, warnings: tuple[str, ...] = ()) -> Fit:
    """Run Algorithm 2; ``solve`` is Σ_t ν_t σ(z_pt), the score θ_p."""
    model, rng = SolveModel(rows), np.random.default_rng(options.seed)
    n, t = rows.took.shape[1], options.buckets
    state = TaskState(np.asarray(rng.normal(0.0, options.start, n)), np.zeros((n, t)),
                      rng.normal(0.0, options.start, t), np.full(t, 1.0 / t), 0.0)
    tie, clip, change, iteration = 0.5, options.step_clip, np.inf, 0
    while iteration < options.iterations and change >= options.tolerance:
        iteration += 1
        state, share = expect(model, state, options)
        before = state.theta
        tie = _tie(model, state, share, tie)
        state = _sweep(model, state, share, options, clip)
        change, clip = float(np.max(np.abs(state.theta - before))), clip * options.step_decay
    state, _ = expect(model, state, options)
    converged = change < options.tolerance
    if not converged:
        warnings = (*warnings, f'stopped at {iteration} iterations with theta still changing by '
                               f'{change:.1e}')
    return Fit(state.theta, np.asarray(expit(state.z) @ state.nu), Diagnostics(
        converged, iteration, state.log_likelihood, warnings,
        {'variant': 'paper', 'buckets': t, 'nu_tie': tie, 'rows': len(rows.weight)}))


def _sweep(model: SolveModel, state: TaskState, share: Floats, options: TaskOptions, clip: float,
           ) -> TaskState:
    theta, psi, tau = state.theta, state.psi, state.tau
    slope, bend = model.derivatives(theta[:, None] + psi - tau, 0.0, share)
    theta = theta + np.clip((slope.sum(axis=1) - options.l2_theta * theta)
                            / (bend.sum(axis=1) + options.l2_theta), -clip, clip)
    slope, bend = model.derivatives(theta[:, None] + psi - tau, 0.0, share)
    psi = psi + np.clip((slope - options.l2_psi * psi) / (bend + options.l2_psi), -clip, clip)
    slope, bend = model.derivatives(theta[:, None] + psi - tau, 0.0, share)
    tau = tau - np.clip(slope.sum(axis=0) / np.maximum(bend.sum(axis=0), 1e-12), -clip, clip)
    nu = share.sum(axis=0) / share.sum()
    return TaskState(theta - theta.mean(), psi - psi.mean(axis=1, keepdims=True),
                     tau - tau.mean(), nu, 0.0)


def _tie(model: SolveModel, state: TaskState, share: Floats, tie: float) -> float:
    rows, q = model.rows, expit(state.z)
    one, two = q[rows.first], q[rows.second]
    p_tie = 2 * tie * np.sqrt(one * (1 - one) * two * (1 - two))
    p_win = one * (1 - two)
    return float(0.5 * (share * p_tie).sum() / max((share * p_win).sum(), 1e-300))
