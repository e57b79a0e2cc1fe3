"""
Bradley–Terry with a fitted reliability of each evaluator.

Model, after Crowd-BT (Chen et al. 2013) with a slope instead of a coin flip, for a vote of
evaluator e at institution h on policies i (shown first) and j:

    logit P(first preferred) = r_e (θ_i - θ_j) + b_e + c_hi - c_hj

``r_e`` is reliability: 1 votes like the consensus, 0 at random, below 0 the other way round. Its
square is the weight of the evaluator's votes in θ, so a random voter has weight 0 and an inverted
one has its votes reversed. ``b_e`` is a bias to the side shown first, ``c_hp`` an institution's
bias for a policy. Ties are left out: given that a vote has a winner, Davidson's model is
Bradley–Terry's, and half votes would lower the reliability of evaluators with many ties. Maximised
is the log-likelihood less the priors r ~ N(1, s_r²), b ~ N(0, s_b²), c ~ N(0, s_c²) and a small
ridge on θ; the blocks take Newton steps in turn, each of which is a concave problem. The
likelihood is the same if r and θ both change sign, so the start (r = 1) and the prior select the
solution in which most votes are honest.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from arena_robot.core.errors import NotConverged
from arena_robot.ranking.base import Comparisons, Diagnostics, Fit, Floats
from arena_robot.ranking.bradley_terry import expected_share
from arena_robot.ranking.counts import count_pairs, require_connected, vote_warnings

MAX_SWEEPS = 500
TOLERANCE = 1e-7


@dataclass(frozen=True)
class RobustState:
    """θ (n,), reliability r (E,), side pull b (E,), favour c (H, n) and the objective in nats."""

    theta: Floats
    reliability: Floats
    side: Floats
    favour: Floats
    value: float = -np.inf
    sweeps: int = 0

    def logits(self, votes: Comparisons) -> Floats:
        """Return (M,) the log-odds that the policy shown first is preferred."""
        h, i, j, e = votes.institution, votes.first, votes.second, votes.evaluator
        return np.asarray(self.reliability[e] * (self.theta[i] - self.theta[j]) + self.side[e]
                          + self.favour[h, i] - self.favour[h, j])


@dataclass(frozen=True)
class RobustBradleyTerry:
    """The method: ridge ``l2`` on θ, prior spreads of r, b and c (0 holds a block at its mean)."""

    l2: float = 0.01
    spread_reliability: float = 1.0
    spread_side: float = 1.0
    spread_favour: float = 0.5

    def __call__(self, comparisons: Comparisons) -> Fit:
        """
        Fit; ``details`` hold reliability and side per evaluator and favour per institution.

        :raises RankingError: the comparisons cannot order the policies.
        :raises NotConverged: the blocks did not converge.
        """
        state = fit_robust(comparisons, self)
        votes, people = comparisons, comparisons.evaluators
        warnings = vote_warnings(votes)
        against = [people[k] for k in np.flatnonzero(state.reliability < 0)]
        if against:
            warnings += (f"evaluators whose votes were reversed: {', '.join(against)}",)
        theta = state.theta - state.theta.mean()
        return Fit(theta, expected_share(theta), Diagnostics(
            True, state.sweeps, state.value, warnings, {
                'reliability': dict(zip(people, state.reliability.tolist(), strict=True)),
                'side': dict(zip(people, state.side.tolist(), strict=True)),
                'favour': {name: dict(zip(votes.items, row.tolist(), strict=True))
                           for name, row in zip(votes.institutions, state.favour, strict=True)}}))


def fit_robust(votes: Comparisons, method: RobustBradleyTerry) -> RobustState:
    """
    Maximise the objective, starting at plain Bradley–Terry.

    :raises RankingError: the decisive votes cannot order the policies.
    :raises NotConverged: an ability still moves after 500 sweeps.
    """
    votes = votes.take(votes.outcome != 0.5)
    require_connected(count_pairs(votes))
    people, places = len(votes.evaluators), len(votes.institutions)
    state = RobustState(np.zeros(votes.n), np.ones(people), np.zeros(people),
                        np.zeros((places, votes.n)))
    for _ in range(8):
        state = _step(state, votes, method, 'theta')
    blocks = ['theta']
    blocks += ['evaluators'] if max(method.spread_reliability, method.spread_side) > 0 else []
    blocks += ['favour'] if method.spread_favour > 0 else []
    for sweep in range(1, MAX_SWEEPS + 1):
        before = state
        for block in blocks:
            state = _step(state, votes, method, block)
        state = _rebalanced(state, votes, method)
        moved = max(float(np.max(np.abs(a - b))) for a, b in (
            (state.theta, before.theta), (state.reliability, before.reliability),
            (state.favour, before.favour)))
        if moved < TOLERANCE:
            return replace(state, sweeps=sweep)
    raise NotConverged(f'bt_robust still changed by {moved:.1e} after {MAX_SWEEPS} sweeps; give '
                       'stronger priors (smaller spreads)')


def objective(state: RobustState, votes: Comparisons, method: RobustBradleyTerry) -> float:
    """Return the log-likelihood less the priors, in nats."""
    x = state.logits(votes)
    value = votes.weight @ (votes.outcome * x - np.logaddexp(0.0, x))
    penalty = method.l2 * state.theta @ state.theta
    for deviation, spread in ((state.reliability - 1, method.spread_reliability),
                              (state.side, method.spread_side),
                              (state.favour, method.spread_favour)):
        penalty += float((deviation ** 2).sum()) / spread ** 2 if spread > 0 else 0.0
    return float(value - penalty / 2)


def _step(state: RobustState, votes: Comparisons, method: RobustBradleyTerry, block: str,
          ) -> RobustState:
    x = state.logits(votes)
    p = expit(x)
    surplus, bend = votes.weight * (votes.outcome - p), votes.weight * p * (1 - p)
    if block == 'theta':
        changes = {'theta': _abilities(state, votes, surplus, bend, method.l2)}
    elif block == 'evaluators':
        reliability, side = _evaluators(state, votes, surplus, bend, method)
        changes = {'reliability': reliability, 'side': side}
    else:
        changes = {'favour': _favours(state, votes, surplus, bend, method.spread_favour)}
    value = state.value if np.isfinite(state.value) else objective(state, votes, method)
    for halving in range(30):
        new = replace(state, **{name: getattr(state, name) + 0.5 ** halving * step
                                for name, step in changes.items()})
        found = objective(new, votes, method)
        if found >= value - 1e-10 * max(1.0, abs(value)):
            return replace(new, value=found)
    return replace(state, value=value)


def _rebalanced(state: RobustState, votes: Comparisons, method: RobustBradleyTerry) -> RobustState:
    """Step along the two directions in which the votes have little information."""
    shared = state.favour.mean(axis=0)
    tries = [replace(state, theta=state.theta + shared, favour=state.favour - shared)]
    r, total = state.reliability, float(state.reliability.sum())
    if method.spread_reliability > 0 and total > 0:
        scale = float(r @ r) / total
        ridge = method.l2 * float(state.theta @ state.theta) * method.spread_reliability ** 2
        for _ in range(20):
            value = ridge * scale ** 4 + total * scale - float(r @ r)
            scale -= value / (4 * ridge * scale ** 3 + total)
        tries.append(replace(state, theta=state.theta * scale, reliability=r / scale))
    for new in tries:
        value = objective(new, votes, method)
        if value > state.value:
            state = replace(new, value=value)
    return state


def _abilities(state: RobustState, votes: Comparisons, surplus: Floats, bend: Floats, l2: float,
               ) -> Floats:
    n, r = votes.n, state.reliability[votes.evaluator]
    matrix, slope = _laplacians(votes, np.zeros(len(votes), int), 1, r * surplus, r * r * bend)
    slope = slope[0] - l2 * state.theta
    return np.asarray(np.linalg.solve(matrix[0] + max(l2, 1e-9) * np.eye(n), slope))


def _favours(state: RobustState, votes: Comparisons, surplus: Floats, bend: Floats,
             spread: float) -> Floats:
    places, n = state.favour.shape
    matrix, slope = _laplacians(votes, votes.institution, places, surplus, bend)
    slope = slope - state.favour / spread ** 2
    return np.asarray(np.linalg.solve(matrix + np.eye(n) / spread ** 2, slope[:, :, None])[..., 0])


def _laplacians(votes: Comparisons, group: np.ndarray, count: int, slope: Floats, weight: Floats,
                ) -> tuple[Floats, Floats]:
    n = votes.n
    cell = (group * n + votes.first) * n + votes.second
    pairs = np.bincount(cell, weight, minlength=count * n * n).reshape(count, n, n)
    pairs = pairs + pairs.transpose(0, 2, 1)
    matrix = -pairs
    matrix[:, np.arange(n), np.arange(n)] += pairs.sum(axis=2)
    sums = (np.bincount(group * n + votes.first, slope, minlength=count * n)
            - np.bincount(group * n + votes.second, slope, minlength=count * n))
    return matrix, np.asarray(sums, float).reshape(count, n)


def _evaluators(state: RobustState, votes: Comparisons, surplus: Floats, bend: Floats,
                method: RobustBradleyTerry) -> tuple[Floats, Floats]:
    e, count = votes.evaluator, len(votes.evaluators)
    d = state.theta[votes.first] - state.theta[votes.second]

    def sums(values: Floats) -> Floats:
        return np.asarray(np.bincount(e, values, minlength=count))

    pr = 1 / method.spread_reliability ** 2 if method.spread_reliability > 0 else 1e12
    pb = 1 / method.spread_side ** 2 if method.spread_side > 0 else 1e12
    g_r, g_b = sums(surplus * d) - pr * (state.reliability - 1), sums(surplus) - pb * state.side
    rr, rb, bb = sums(bend * d * d) + pr, sums(bend * d), sums(bend) + pb
    det = rr * bb - rb * rb
    return (bb * g_r - rb * g_b) / det, (rr * g_b - rb * g_r) / det
