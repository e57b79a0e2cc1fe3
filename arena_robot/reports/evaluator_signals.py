"""
Reliability of evaluators from two sides: their votes among the others', and the audits.

The votes' suspicion is the log-likelihood of the best other description minus that of an honest
voter, in nats (see ``ranking.evaluators``). The audit's is the same of a coin or an inverted
evaluator against an honest one, over sessions decisive for both. They are of the same votes, and
not independent: their sum orders whom to ask, and is no probability.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from arena_robot.audit.evaluators import PRIOR, EvaluatorAgreement, EvaluatorKind, evaluator_kinds
from arena_robot.ranking.evaluators.reports import VoterReport


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
    found = [_signal(report, kinds.get(report.name)) for report in reports]
    return sorted(found, key=lambda one: -one.suspicion)


def _signal(report: VoterReport, seen: EvaluatorAgreement | None) -> EvaluatorSignal:
    nats = _nats(seen) if seen else 0.0
    by_audit = seen is not None and seen.kind in (EvaluatorKind.COIN, EvaluatorKind.INVERTED)
    by = [word for word, is_so in (('votes', report.flagged), ('audit', by_audit)) if is_so]
    return EvaluatorSignal(
        report.name, seen.agree if seen else 0, seen.decisive if seen else 0,
        (seen.kind if seen else EvaluatorKind.UNDECIDED).value, report.suspicion, nats,
        report.suspicion + nats, ' and '.join(by))


def _nats(seen: EvaluatorAgreement) -> float:
    """Return the log-likelihood of the better other kind minus that of honest, without priors."""
    score = {name: log(max(share, 1e-300)) - log(PRIOR[name])
             for name, share in seen.likely.items()}
    return max(score['coin'], score['inverted']) - score['honest']
