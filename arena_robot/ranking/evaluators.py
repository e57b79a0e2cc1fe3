"""
Evaluator statistics: agreement with the consensus, side bias, random or inverted votes.

An evaluator's votes are scored under four descriptions, with the abilities θ taken from the
robust consensus (:mod:`robust`):

``honest``      P(first) = σ(θ_i - θ_j)
``random``      P(first) = ½
``inverted``    P(first) = σ(θ_j - θ_i)
``one-sided``   P(first) = the share this evaluator chose the policy shown first

A fifth, ``partial``, adds a fitted bonus to one policy: P(first) = σ(θ_i - θ_j ± c). Free
parameters cost one nat each, as in AIC, and the choice of the policy log n. Ties are left out.
``suspicion`` is the log-likelihood of the best other description minus that of ``honest``; above 0
the other description is more likely. Votes on policies of equal ability carry no information and
leave the suspicion near 0. An evaluator whose tasks favour other policies than those of the other
evaluators also looks random: ``own_scores`` near 1 indicates honest votes on unusual tasks.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, xlogy

from arena_robot.core.errors import RankingError
from arena_robot.ranking.base import Comparisons, Floats, Method, competition_ranks
from arena_robot.ranking.robust import RobustBradleyTerry, fit_robust

NEWTON_STEPS = 25
MOST_FAVOUR = 6.0


@dataclass(frozen=True)
class VoterReport:
    """
    Vote statistics of one evaluator or one institution.

    ``agreement`` is the share of decisive votes for the policy with the higher consensus ability,
    ``expected`` what an honest voter would reach on the same pairs, ``z`` their difference in
    standard errors. ``first_share`` is the share of decisive votes for the policy shown first,
    ``side_z`` its distance from what the pairs explain; ``ties`` the share of ties.
    ``own_scores`` is the share of decisive votes that agree with the evaluator's own progress
    scores where these differ, NaN without any. ``suspicion`` in nats, and ``kind``, the likeliest
    description; ``favours`` is the policy of ``partial``.
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
    kind: str
    favours: str | None
    reliability: float


def evaluators(comparisons: Comparisons, method: RobustBradleyTerry | None = None,
               ) -> list[VoterReport]:
    """
    Report on every evaluator, most suspicious first.

    :raises RankingError: the comparisons cannot order the policies.
    """
    state = fit_robust(comparisons, method or RobustBradleyTerry())
    ability = state.theta[comparisons.first] - state.theta[comparisons.second]
    return _reports(comparisons, ability, comparisons.evaluator, comparisons.evaluators,
                    state.reliability, True)


def institutions(comparisons: Comparisons, method: RobustBradleyTerry | None = None,
                 ) -> list[VoterReport]:
    """
    Report on every institution, most suspicious first.

    The reliability and side bias of its evaluators are those of the fit, so that a random voter is
    not reported as a bias of the lab; only ``partial`` is tested.
    """
    state = fit_robust(comparisons, method or RobustBradleyTerry())
    votes = np.bincount(comparisons.institution, minlength=len(comparisons.institutions))
    mean = np.bincount(comparisons.institution, state.reliability[comparisons.evaluator],
                       minlength=len(votes)) / np.maximum(votes, 1)
    alone = replace(state, favour=np.zeros_like(state.favour)).logits(comparisons)
    return _reports(comparisons, alone, comparisons.institution, comparisons.institutions, mean,
                    False)


def _reports(votes: Comparisons, logits: Floats, group: np.ndarray, names: tuple[str, ...],
             reliability: Floats, any_kind: bool) -> list[VoterReport]:
    found = [_report(votes.take(group == k), logits[group == k], name, float(reliability[k]),
                     any_kind)
             for k, name in enumerate(names) if np.any(group == k)]
    return sorted(found, key=lambda report: -report.suspicion)


def _report(votes: Comparisons, d: Floats, name: str, reliability: float, any_kind: bool,
            ) -> VoterReport:
    y, w = votes.outcome, votes.weight
    decisive = (y != 0.5) & (w > 0)
    said, p = y[decisive] == 1, expit(d[decisive])
    honest = np.maximum(p, 1 - p)
    agree = np.where(said, d[decisive] > 0, d[decisive] < 0)
    suspicion, kind, favoured = _likeliest(votes, d, any_kind)
    own = np.sign(votes.score_first - votes.score_second)
    told = decisive & np.isfinite(own) & (own != 0)
    return VoterReport(
        name, int((w > 0).sum()), _mean(agree), _mean(honest),
        _z(agree.sum() - honest.sum(), (honest * (1 - honest)).sum()), _mean(said),
        _z(said.sum() - p.sum(), (p * (1 - p)).sum()), _mean(y[w > 0] == 0.5),
        _mean(np.sign(y[told] - 0.5) == own[told]), suspicion, kind,
        None if favoured is None else votes.items[favoured], reliability)


def _likeliest(votes: Comparisons, d: Floats, any_kind: bool) -> tuple[float, str, int | None]:
    decisive = votes.outcome != 0.5
    votes, d = votes.take(decisive), d[decisive]
    w, y = votes.weight, votes.outcome

    def score(x: Floats) -> float:
        return float(w @ (y * log_expit(x) + (1 - y) * log_expit(-x)))

    total = float(w.sum())
    share = float(w @ y) / total if total > 0 else 0.5
    one_sided = total * float(xlogy(share, share) + xlogy(1 - share, 1 - share)) - 1
    best, policy = _favourite(votes, d)
    honest = score(d)
    others = {'partial': best - 1 - float(np.log(votes.n))}
    if any_kind:
        others |= {'random': score(np.zeros_like(d)), 'inverted': score(-d),
                   'one-sided': one_sided}
    kind = max(others, key=lambda name: others[name])
    suspicion = others[kind] - honest
    if suspicion <= 0:
        return suspicion, 'honest', None
    return suspicion, kind, policy if kind == 'partial' else None


def _favourite(votes: Comparisons, d: Floats) -> tuple[float, int]:
    """Return the best log-likelihood with one policy favoured, and that policy."""
    at = np.arange(len(votes))
    side = np.zeros((len(votes), votes.n))
    side[at, votes.first], side[at, votes.second] = 1.0, -1.0
    extra, w, y = np.zeros(votes.n), votes.weight[:, None], votes.outcome[:, None]
    for _ in range(NEWTON_STEPS):
        p = expit(d[:, None] + side * extra)
        slope = (w * side * (y - p)).sum(axis=0) - 1e-3 * extra
        bend = (w * side ** 2 * p * (1 - p)).sum(axis=0) + 1e-3
        extra = np.clip(extra + np.clip(slope / bend, -1.0, 1.0), -MOST_FAVOUR, MOST_FAVOUR)
    x = d[:, None] + side * extra
    values = (w * (y * log_expit(x) + (1 - y) * log_expit(-x))).sum(axis=0)
    best = int(np.argmax(values))
    return float(values[best]), best


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
    found = []
    for k, name in enumerate(comparisons.evaluators):
        rest = comparisons.take(comparisons.evaluator != k)
        votes = len(comparisons) - len(rest)
        if not votes:
            continue
        try:
            scores = method(rest).scores
        except RankingError as error:
            found.append(Influence(name, votes, float('inf'), '', {}, str(error)))
            continue
        change = scores - scores.mean() - full
        worst = int(np.argmax(np.abs(change)))
        after = competition_ranks(scores)
        moved = {item: (int(a), int(b)) for item, a, b in
                 zip(comparisons.items, ranks, after, strict=True) if a != b}
        found.append(Influence(name, votes, float(abs(change[worst])), comparisons.items[worst],
                               moved))
    return sorted(found, key=lambda one: -one.largest)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float('nan')


def _z(difference: float, variance: float) -> float:
    return float(difference / np.sqrt(variance)) if variance > 1e-12 else 0.0
