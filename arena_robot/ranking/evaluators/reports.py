"""
Evaluator statistics: agreement with the consensus, side bias, random or inverted votes.

The consensus θ is the robust fit (:mod:`.robust`) without the evaluator's own votes. These are
scored under four descriptions:

``honest``      P(first) = σ(θ_i - θ_j)
``random``      P(first) = ½
``inverted``    P(first) = σ(θ_j - θ_i)
``one-sided``   P(first) = the share this evaluator chose the policy shown first

A fifth, ``partial``, adds a bonus to one policy; its gain is z²/2 for the largest standardised
surplus of a policy. Free parameters cost one nat each, as in AIC, and the choice of the policy
log n. Ties are left out. ``suspicion`` is the log-likelihood of the best other description minus
that of ``honest``, in nats.

What suspicion honest voters reach is simulated: their votes on the same pairs are drawn from the
consensus, with a preference of their own per policy whose spread is estimated from all evaluators,
since honest evaluators have different tasks. ``p_value`` is the share of simulated honest voters
with at least this suspicion; below 2 % an evaluator is ``flagged``. That is the rate of false
alarms: of 50 honest evaluators one is flagged. An evaluator whose tasks favour other policies than
those of the others can still be flagged: ``own_scores`` near 1 indicates honest votes on unusual
tasks.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, xlogy

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats, Ints, Method
from arena_robot.ranking.counts import count_pairs, require_comparisons
from arena_robot.ranking.evaluators.robust import fit_robust, parts, standardised
from arena_robot.ranking.standings import competition_ranks

FALSE_ALARMS = 0.02
SIMULATED = 199    # p-values are multiples of 1/200
# The median of a squared standard normal.
MEDIAN_SQUARE = 0.4549


@dataclass(frozen=True)
class VoterReport:
    """
    Vote statistics of one evaluator or one institution.

    ``agreement`` is the share of decisive votes for the policy with the higher consensus ability,
    ``expected`` what an honest voter would reach on the same pairs, ``z`` their difference in
    standard errors. ``first_share`` is the share of decisive votes for the policy shown first,
    ``side_z`` its distance from what the pairs explain; ``ties`` the share of ties.
    ``own_scores`` is the share of decisive votes that agree with the evaluator's own progress
    scores where these differ, NaN without any. ``suspicion`` in nats, its ``p_value`` among honest
    voters, whether it is ``flagged``, and ``kind``, the likeliest description; ``favours`` is the
    policy of ``partial``. ``weight`` is the mean weight of the votes in the robust fit.
    """

    name: str
    votes: int
    agreement: float
    expected: float
    z: float
    first_share: float
    side_z: float
    ties: float
    own_scores: float
    suspicion: float
    p_value: float
    flagged: bool
    kind: str
    favours: str | None
    weight: float


def evaluators(comparisons: Comparisons, *, seed: int = 0) -> list[VoterReport]:
    """
    Report on every evaluator, most suspicious first; ``seed`` of the simulated honest voters.

    :raises RankingError: the comparisons cannot order the policies.
    """
    return _reports(comparisons, comparisons.evaluator, comparisons.evaluators, True, seed)


def institutions(comparisons: Comparisons, *, seed: int = 0) -> list[VoterReport]:
    """Report on every institution, most suspicious first; only ``partial`` is tested."""
    return _reports(comparisons, comparisons.institution, comparisons.institutions, False, seed)


def _reports(votes: Comparisons, group: Ints, names: tuple[str, ...], any_kind: bool,
             seed: int) -> list[VoterReport]:
    if not np.any((votes.outcome != 0.5) & (votes.weight > 0)):
        raise RankingError('no decisive verdict: evaluators cannot be told apart by ties')
    require_comparisons(count_pairs(votes))
    fit, weight, _ = fit_robust(votes)
    own = _own_spread(votes, fit.scores, group)
    slope = np.ones(len(votes)) if any_kind else _reliability(votes, fit.scores)
    reports = []
    for k, name in enumerate(names):
        mine = group == k
        if not mine.any():
            continue
        theta = fit.scores if mine.all() else _without(votes, mine, fit.scores, weight)
        rng = np.random.default_rng([seed, k])
        reports.append(_report(votes.take(mine), theta, name, float(weight[mine].mean()), any_kind,
                               (own, rng), slope[mine]))
    return sorted(reports, key=lambda report: -report.suspicion)


def _without(votes: Comparisons, mine: np.ndarray, theta: Floats, weight: Floats) -> Floats:
    """Return the consensus without these votes; the common one where nothing else is left."""
    try:
        return fit_robust(votes.take(~mine), start=weight[~mine], tolerance=1e-3)[0].scores
    except RankingError:
        return theta


def _own_spread(votes: Comparisons, theta: Floats, group: Ints) -> float:
    """Return the spread of evaluators' own preferences per policy, in log-odds, robustly."""
    decisive = votes.take(votes.outcome != 0.5)
    g, v = parts(decisive, theta, group[votes.outcome != 0.5], np.ones(len(decisive)))
    seen = v > 0.5
    if seen.sum() < 5:
        return 0.0
    excess = float(np.median(g[seen] ** 2 / v[seen])) / MEDIAN_SQUARE - 1
    return float(np.sqrt(max(excess, 0.0) / np.median(v[seen])))


def _reliability(votes: Comparisons, theta: Floats) -> Floats:
    """
    Return (M,) by how much the logits of each vote's evaluator follow the consensus.

    A slope per evaluator with a prior N(1, 1), so that a random or inverted voter is not reported
    as a bias of the institution.
    """
    decisive, people = votes.outcome != 0.5, len(votes.evaluators)
    d = theta[votes.first] - theta[votes.second]
    slope = np.ones(people)
    for _ in range(25):
        p = expit(slope[votes.evaluator] * d)
        step = np.bincount(votes.evaluator, votes.weight * decisive * (votes.outcome - p) * d,
                           minlength=people) - (slope - 1)
        bend = 1 + np.bincount(votes.evaluator, votes.weight * decisive * p * (1 - p) * d * d,
                               minlength=people)
        slope = slope + np.clip(step / bend, -1.0, 1.0)
    return np.asarray(slope[votes.evaluator])


def _report(votes: Comparisons, theta: Floats, name: str, weight: float, any_kind: bool,
            honest_voters: tuple[float, np.random.Generator], slope: Floats) -> VoterReport:
    y, w = votes.outcome, votes.weight
    decisive = (y != 0.5) & (w > 0)
    logits = slope * (theta[votes.first] - theta[votes.second])
    d = logits[decisive]
    said, p = y[decisive] == 1, expit(d)
    honest = np.maximum(p, 1 - p)
    agree = np.where(said, d > 0, d < 0)
    suspicion, kind, favoured, p_value = _judged(votes.take(decisive), d, any_kind,
                                                 *honest_voters)
    flagged = p_value <= FALSE_ALARMS
    own = np.sign(votes.score_first - votes.score_second)
    scored = decisive & np.isfinite(own) & (own != 0)
    return VoterReport(
        name, int((w > 0).sum()), _mean(agree), _mean(honest),
        _z(agree.sum() - honest.sum(), (honest * (1 - honest)).sum()), _mean(said),
        _z(said.sum() - p.sum(), (p * (1 - p)).sum()), _mean(y[w > 0] == 0.5),
        _mean(np.sign(y[scored] - 0.5) == own[scored]), suspicion, p_value, flagged,
        kind if flagged else 'honest',
        votes.items[favoured] if flagged and kind == 'partial' else None, weight)


def _judged(votes: Comparisons, d: Floats, any_kind: bool, own: float,
            rng: np.random.Generator) -> tuple[float, str, int, float]:
    """Return suspicion, the likeliest other description, its policy, and the p-value."""
    if not len(votes):
        return 0.0, 'random', 0, 1.0
    taste = rng.normal(0.0, own, (SIMULATED, votes.n))
    chance = expit(d + taste[:, votes.first] - taste[:, votes.second])
    drawn = (rng.random(chance.shape) < chance).astype(float)
    table, policy = _gains(votes, np.vstack([votes.outcome, drawn]), d, any_kind)
    best = np.max(np.array(list(table.values())), axis=0)
    kind = max(table, key=lambda name: table[name][0])
    p_value = (1 + int((best[1:] >= best[0]).sum())) / (SIMULATED + 1)
    return float(best[0]), kind, int(policy[0]), p_value


def _gains(votes: Comparisons, y: Floats, d: Floats, any_kind: bool,
           ) -> tuple[dict[str, Floats], Ints]:
    """Return by description (K,) its gain in nats over honest, for votes ``y`` (K, M)."""
    w, p = votes.weight, expit(d)
    rows = np.arange(len(votes))
    side = np.zeros((len(votes), votes.n))
    side[rows, votes.first], side[rows, votes.second] = 1.0, -1.0
    z = standardised((y - p) @ (w[:, None] * side), (w * p * (1 - p)) @ side ** 2)
    policy = np.argmax(np.abs(z), axis=1)
    gains = {'partial': np.abs(z).max(axis=1) ** 2 / 2 - 1 - float(np.log(votes.n))}
    if any_kind:
        honest = (w * y) @ log_expit(d) + (w * (1 - y)) @ log_expit(-d)
        total, first = float(w.sum()), (w * y).sum(axis=1)
        share = first / total
        gains['random'] = -total * np.log(2.0) - honest
        gains['inverted'] = (w * y) @ log_expit(-d) + (w * (1 - y)) @ log_expit(d) - honest
        gains['one-sided'] = xlogy(first, share) + xlogy(total - first, 1 - share) - 1 - honest
    return gains, policy


@dataclass(frozen=True)
class Influence:
    """
    Changes of the standing when one evaluator is left out.

    ``largest`` is the largest change of a score, ``policy`` the policy with that change; ``moved``
    maps the policies whose rank changes to (rank with, rank without). ``failed`` says why the rest
    cannot be ranked, else None.
    """

    name: str
    votes: int
    largest: float
    policy: str
    moved: dict[str, tuple[int, int]]
    failed: str | None = None


def influence(comparisons: Comparisons, method: Method) -> list[Influence]:
    """Refit without each evaluator in turn; most influential first, failures before that."""
    full = method(comparisons).scores
    full = full - full.mean()
    ranks = competition_ranks(full)
    influences = []
    for k, name in enumerate(comparisons.evaluators):
        rest = comparisons.take(comparisons.evaluator != k)
        votes = len(comparisons) - len(rest)
        if not votes:
            continue
        try:
            scores = method(rest).scores
        except RankingError as error:
            influences.append(Influence(name, votes, float('inf'), '', {}, str(error)))
            continue
        change = scores - scores.mean() - full
        worst = int(np.argmax(np.abs(change)))
        after = competition_ranks(scores)
        moved = {item: (int(a), int(b)) for item, a, b in
                 zip(comparisons.items, ranks, after, strict=True) if a != b}
        influences.append(Influence(name, votes, float(abs(change[worst])),
                                    comparisons.items[worst], moved))
    return sorted(influences, key=lambda entry: -entry.largest)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float('nan')


def _z(difference: float, variance: float) -> float:
    return float(difference / np.sqrt(variance)) if variance > 1e-12 else 0.0
