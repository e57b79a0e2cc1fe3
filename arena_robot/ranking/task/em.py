"""
TASK: policies compared over latent task buckets, fitted by expectation–maximisation.

Model (RoboArena, section 3.2 and appendix B): a verdict belongs to bucket t with probability ν_t,
where policy p has the log-odds z_pt = θ_p + ψ_pt - τ_t; :mod:`.buckets` defines the verdict's
likelihood. The objective is

    Σ_n w_n log Σ_t ν_t P(y_n | t) - λ_θ/2 Σ θ² - λ_ψ/2 Σ ψ²

Each iteration takes the responsibilities γ, one joint Newton step in (θ, ψ, τ), clipped, and
ν_t = mean γ_t. The step is joint because θ, ψ and τ move the same z: separate steps would apply
the same correction two or three times. A step that lowers the objective is halved.

Two variants. ``solve`` (the default) is the composite likelihood that the printed outcome
probabilities imply. ``paper`` is Algorithm 2 as printed.

Differences from the paper: ∂Q/∂θ_p is a sum over the trials in which p is first PLUS a sum over
those in which it is second (B.2 prints a minus). θ, ψ and τ are not identified separately, only z
and ν are, so the score is the mean log-odds Σ_t ν_t z_pt about that of the established policies,
and not θ_p: over further iterations θ drifts while the score is constant. The printed start ψ = 0
is a saddle point where all buckets stay equal; here ψ starts at random.

Kept from the paper in that variant: the start (ψ = 0, θ and τ near 0), clipped Newton steps of θ,
then ψ, then τ one coordinate at a time, a clip that decays, θ, ψ and τ each centred after every
iteration, the update of ν_tie (half the ratio of the expected tie to the expected win
probabilities, which touches nothing else), the stop on θ, and the ranking by θ. Only the sign of
the sum over the trials in which a policy is second is corrected; with the printed sign the updates
diverge. Centring one by one changes z, so the iteration does not increase any objective and its
result depends on when it stops; therefore it is not the default.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.counts import (
    PairCounts,
    count_pairs,
    require_connected,
    shrunk_warnings,
    vote_warnings,
)
from arena_robot.ranking.pairwise.prior import established
from arena_robot.ranking.task.buckets import (
    SolveModel,
    TaskOptions,
    TaskState,
    VerdictRows,
    expect,
    make_rows,
)

VARIANTS = ('solve', 'paper')
TAU_RIDGE = 1e-6


@dataclass(frozen=True)
class TaskModel:
    """
    The method; ``partial`` uses progress scores too (B.4).

    It assumes latent kinds of task, and that verdict and progress both depend on solving the task.
    """

    options: TaskOptions = field(default_factory=TaskOptions)
    partial: bool = False

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit comparisons.

        :raises RankingError: they cannot order the policies, or scores are required but missing.
        """
        # The random start is drawn policy by policy: in one order, whatever that of the items.
        order = sorted(range(comparisons.n), key=lambda k: comparisons.items[k])
        fit = self._fit(comparisons.only([comparisons.items[k] for k in order]))
        place = np.argsort(order)
        return replace(fit, scores=fit.scores[place], solve=fit.solve[place],
                       anchor=None if fit.anchor is None else fit.anchor[place])

    def _fit(self, comparisons: Comparisons) -> Fit:
        options, counts = self.options, count_pairs(comparisons)
        _check(options, comparisons, self.partial)
        require_connected(counts)
        known = vote_warnings(comparisons) + shrunk_warnings(counts)
        rows = make_rows(comparisons, options.score_weight / options.sigma ** 2
                         if self.partial else 0.0)
        if options.variant == 'paper':
            return fit_paper(rows, options, known)
        model = SolveModel(rows)
        runs = [run_em(model, options, np.random.default_rng([options.seed, k]))
                for k in range(max(1, options.restarts))]
        best = max(runs, key=lambda run: run.value)
        single = replace(options, buckets=1, iterations=50, tolerance=1e-6)
        one_bucket = run_em(model, single, np.random.default_rng(0))
        diagnostics = _diagnostics(options, counts, runs, best, one_bucket, model)
        diagnostics = replace(diagnostics, warnings=known + diagnostics.warnings)
        anchor = established(counts)
        return Fit(best.score - best.score[anchor].mean(), solved(best), diagnostics,
                   anchor=anchor)


def start_state(n: int, options: TaskOptions, rng: np.random.Generator) -> TaskState:
    """Draw a start: θ and τ as in the paper, ψ wide enough to separate the buckets."""
    t = options.buckets
    psi = rng.normal(0.0, options.start_psi, (n, t)) if t > 1 else np.zeros((n, t))
    return TaskState(rng.normal(0.0, options.start, n), psi, rng.normal(0.0, options.start, t),
                     np.full(t, 1.0 / t))


def run_em(model: SolveModel, options: TaskOptions, rng: np.random.Generator) -> TaskState:
    """Run one start until the scores converge or the iterations are used up."""
    state = start_state(model.rows.took.shape[1], options, rng)
    state, share = expect(model, state, options)
    iteration, change, score = 0, np.inf, _centred(state.score)
    while iteration < options.iterations and not change < options.tolerance:
        state, share = _climb(model, state, share, options)
        before, score = score, _centred(state.score)
        iteration, change = iteration + 1, float(np.max(np.abs(score - before)))
    return replace(state, iterations=iteration, change=change)


def _climb(model: SolveModel, state: TaskState, share: Floats, options: TaskOptions,
           ) -> tuple[TaskState, Floats]:
    slope, bend = model.derivatives(state.z, share)
    step = joint_step(state, slope, bend, (options.l2_theta, options.l2_psi))
    clip = options.step_clip
    d_theta, d_psi, d_tau = (np.clip(d, -clip, clip) for d in step)
    nu = share.sum(axis=0) / share.sum()
    for halving in range(20):
        f = 0.5 ** halving
        new = TaskState(state.theta + f * d_theta, state.psi + f * d_psi, state.tau + f * d_tau,
                        nu)
        new, after = expect(model, new, options)
        if new.value >= state.value - 1e-9:
            return new, after
    return state, share


def solved(state: TaskState) -> Floats:
    """Return (n,) the probability of each policy to solve a task: Σ_t ν_t σ(z_pt)."""
    return np.asarray(expit(state.z) @ state.nu)


def _check(options: TaskOptions, comparisons: Comparisons, partial: bool) -> None:
    if options.variant not in VARIANTS:
        raise RankingError(f"unknown variant '{options.variant}'; known: {', '.join(VARIANTS)}")
    if options.buckets < 1 or not options.sigma > 0 or not options.l2_theta > 0 \
            or not options.l2_psi > 0:
        raise RankingError('TASK needs buckets >= 1, sigma > 0, l2_theta > 0 and l2_psi > 0; got '
                           f'{options}')
    if partial and not np.isfinite(comparisons.score_first).any():
        raise RankingError('asked for progress scores; no comparison has one; give --episodes, or '
                           'use a method on preferences alone')


def _diagnostics(options: TaskOptions, counts: PairCounts, runs: list[TaskState],
                 best: TaskState, one_bucket: TaskState, model: SolveModel) -> Diagnostics:
    gain = best.log_likelihood - one_bucket.log_likelihood
    n, converged = counts.n, best.change < options.tolerance
    warnings = []
    if not converged:
        warnings.append(f'stopped at {best.iterations} iterations with scores still changing by '
                        f'{best.change:.1e} per iteration')
    if options.buckets > 1 and gain < n:
        warnings.append(
            f'{options.buckets} buckets gain {gain:.1f} nats over one bucket, less than the '
            f'{n} parameters of a second bucket cost: the buckets mean nothing on these data')
    weights = best.nu[best.nu > 0]
    details = {
        'variant': options.variant, 'buckets': options.buckets,
        'effective_buckets': float(np.exp(-(weights * np.log(weights)).sum())),
        'sufficient_counts': counts.sufficient, 'rows': len(model.rows.weight),
        'bucket_parameters': options.buckets * (n + 2) + n,
        'one_bucket_log_likelihood': one_bucket.log_likelihood, 'bucket_gain': gain,
        'restart_log_likelihoods': [run.log_likelihood for run in runs]}
    return Diagnostics(converged, best.iterations, best.log_likelihood, tuple(warnings), details)


def _centred(x: Floats) -> Floats:
    return np.asarray(x - x.mean())


def joint_step(state: TaskState, slope: Floats, bend: Floats, ridges: tuple[float, float],
               ) -> tuple[Floats, Floats, Floats]:
    """
    Return the Newton steps in θ (n,), ψ (n, T) and τ (T,).

    ``slope`` and ``bend`` (n, T) are gradient and minus Hessian by z; ``ridges`` are λ_θ, λ_ψ. ψ
    and then τ are eliminated, which leaves a system of n unknowns; a tiny ridge on τ keeps empty
    buckets still.
    """
    l2_theta, l2_psi = ridges
    g_psi = slope - l2_psi * state.psi
    inner = bend + l2_psi
    left = bend * (l2_psi / inner)
    moved = bend * g_psi / inner
    across = left.sum(axis=0) + TAU_RIDGE
    r_theta = slope.sum(axis=1) - l2_theta * state.theta - moved.sum(axis=1)
    r_tau = moved.sum(axis=0) - slope.sum(axis=0) - TAU_RIDGE * state.tau
    scaled = left / across
    matrix = -(scaled @ left.T)
    matrix.flat[::len(bend) + 1] += left.sum(axis=1) + l2_theta
    d_theta = np.linalg.solve(matrix, r_theta + scaled @ r_tau)
    d_tau = (r_tau + d_theta @ left) / across
    return d_theta, (g_psi - bend * (d_theta[:, None] - d_tau)) / inner, d_tau


def fit_paper(rows: VerdictRows, options: TaskOptions, warnings: tuple[str, ...] = ()) -> Fit:
    """Run Algorithm 2; ``solve`` is Σ_t ν_t σ(z_pt), the score θ_p."""
    model, rng = SolveModel(rows), np.random.default_rng(options.seed)
    n, t = rows.took.shape[1], options.buckets
    state = TaskState(np.asarray(rng.normal(0.0, options.start, n)), np.zeros((n, t)),
                      rng.normal(0.0, options.start, t), np.full(t, 1.0 / t))
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
    return Fit(state.theta, solved(state), Diagnostics(
        converged, iteration, state.log_likelihood, warnings,
        {'variant': 'paper', 'buckets': t, 'nu_tie': tie, 'rows': len(rows.weight)}))


def _sweep(model: SolveModel, state: TaskState, share: Floats, options: TaskOptions, clip: float,
           ) -> TaskState:
    theta, psi, tau = state.theta, state.psi, state.tau
    slope, bend = model.derivatives(theta[:, None] + psi - tau, share)
    theta = theta + np.clip((slope.sum(axis=1) - options.l2_theta * theta)
                            / (bend.sum(axis=1) + options.l2_theta), -clip, clip)
    slope, bend = model.derivatives(theta[:, None] + psi - tau, share)
    psi = psi + np.clip((slope - options.l2_psi * psi) / (bend + options.l2_psi), -clip, clip)
    slope, bend = model.derivatives(theta[:, None] + psi - tau, share)
    tau = tau - np.clip(slope.sum(axis=0) / np.maximum(bend.sum(axis=0), 1e-12), -clip, clip)
    nu = share.sum(axis=0) / share.sum()
    return TaskState(theta - theta.mean(), psi - psi.mean(axis=1, keepdims=True),
                     tau - tau.mean(), nu)


def _tie(model: SolveModel, state: TaskState, share: Floats, tie: float) -> float:
    rows, q = model.rows, expit(state.z)
    first, second = q[rows.first], q[rows.second]
    p_tie = 2 * tie * np.sqrt(first * (1 - first) * second * (1 - second))
    p_win = first * (1 - second)
    return float(0.5 * (share * p_tie).sum() / max((share * p_win).sum(), 1e-300))
