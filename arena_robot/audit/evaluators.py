"""
Preference against audit, per evaluator: honest, a coin, or inverted.

Only sessions that are decisive for both count. An honest evaluator agrees with the audit at the
``rate`` of the others, an inverted one at 1 - rate, a coin-tosser half the time; the likelihood
of the sessions decides. A low agreement of a coin-tosser is not taken for inversion. The audit
changes no score: it names evaluators to ask.

Evaluators have a second signal, the suspicion of their votes: the log-likelihood of the best other
description minus that of an honest voter, in nats (:mod:`arena_robot.ranking.evaluators.reports`).
The audit's is the same of a coin or an inverted evaluator against an honest one. Both are of the
same votes, and not independent: their sum orders whom to ask, and is no probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import exp, log

from arena_robot.core.errors import ConfigError
from arena_robot.ranking.evaluators.reports import VoterReport

SURE = 0.95
AT_LEAST = 20    # decisive sessions; with fewer a coin agrees or disagrees too often by chance
# Of honest evaluators against an audit, which is neither a coin nor always right.
LOWEST_RATE, HIGHEST_RATE = 0.6, 0.98
# How common each is before any session: most people are honest.
PRIOR: Mapping[str, float] = {'honest': 0.94, 'coin': 0.03, 'inverted': 0.03}


class EvaluatorKind(str, Enum):
    """What an evaluator's agreement with the audit looks like."""

    HONEST = 'honest'
    COIN = 'coin'
    INVERTED = 'inverted'
    UNDECIDED = 'undecided'


@dataclass(frozen=True)
class EvaluatorAgreement:
    """One evaluator: ``agree`` of ``decisive`` sessions, and how likely each kind is."""

    evaluator: str
    agree: int
    decisive: int
    kind: EvaluatorKind
    likely: Mapping[str, float]


def evaluator_kinds(agree: Mapping[str, Sequence[bool]]) -> list[EvaluatorAgreement]:
    """
    Return each evaluator's kind from whether the decisive sessions agree, by name.

    The rate of the honest is the median of the evaluators' rates, within 0.6 and 0.98.
    """
    shares = sorted(sum(rows) / len(rows) for rows in agree.values() if len(rows))
    middle = shares[len(shares) // 2] if shares else LOWEST_RATE
    rate = min(max(middle, LOWEST_RATE), HIGHEST_RATE)
    return [evaluator_kind(name, sum(rows), len(rows), rate)
            for name, rows in sorted(agree.items())]


def evaluator_kind(evaluator: str, agree: int, decisive: int, rate: float
                   ) -> EvaluatorAgreement:
    """Return an evaluator's kind; undecided below 20 decisive sessions or without 95 %."""
    if not 0 <= agree <= decisive or not 0.5 < rate < 1.0:
        raise ConfigError(f'{agree} of {decisive} sessions agree, honest ones at {rate}: '
                          'expected 0 <= agree <= decisive and a rate above 0.5')
    hit = {'honest': rate, 'coin': 0.5, 'inverted': 1.0 - rate}
    scores = {name: log(PRIOR[name]) + agree * log(p) + (decisive - agree) * log(1.0 - p)
              for name, p in hit.items()}
    top = max(scores.values())
    total = sum(exp(s - top) for s in scores.values())
    likely = {name: exp(s - top) / total for name, s in scores.items()}
    best = max(likely, key=lambda name: likely[name])
    sure = likely[best] >= SURE and decisive >= AT_LEAST
    return EvaluatorAgreement(evaluator, agree, decisive,
                              EvaluatorKind(best) if sure else EvaluatorKind.UNDECIDED, likely)


@dataclass(frozen=True)
class EvaluatorSignal:
    """
    One evaluator: ``agree`` of ``decisive`` sessions with the audit, and suspicions in nats.

    ``audit_kind`` is honest, coin, inverted or undecided; ``flagged_by`` is 'votes', 'audit',
    'votes and audit', or ''.
    """

    name: str
    agree: int
    decisive: int
    audit_kind: str
    votes_suspicion: float
    audit_suspicion: float
    suspicion: float
    flagged_by: str


def evaluator_signals(reports: Sequence[VoterReport], audits: Mapping[str, tuple[int, int]]
                      ) -> list[EvaluatorSignal]:
    """Return both signals of every evaluator, most suspicious first; ``audits`` by name."""
    kinds = {e.evaluator: e for e in evaluator_kinds({
        name: [True] * agree + [False] * (decisive - agree)
        for name, (agree, decisive) in audits.items() if decisive})}
    signals = [_signal(report, kinds.get(report.name)) for report in reports]
    return sorted(signals, key=lambda signal: -signal.suspicion)


def _signal(report: VoterReport, seen: EvaluatorAgreement | None) -> EvaluatorSignal:
    nats = _nats(seen) if seen else 0.0
    by_audit = seen is not None and seen.kind in (EvaluatorKind.COIN, EvaluatorKind.INVERTED)
    flags = [word for word, is_so in (('votes', report.flagged), ('audit', by_audit)) if is_so]
    return EvaluatorSignal(
        report.name, seen.agree if seen else 0, seen.decisive if seen else 0,
        (seen.kind if seen else EvaluatorKind.UNDECIDED).value, report.suspicion, nats,
        report.suspicion + nats, ' and '.join(flags))


def _nats(seen: EvaluatorAgreement) -> float:
    """Return the log-likelihood of the better other kind minus that of honest, without priors."""
    score = {name: log(max(share, 1e-300)) - log(PRIOR[name])
             for name, share in seen.likely.items()}
    return max(score['coin'], score['inverted']) - score['honest']
