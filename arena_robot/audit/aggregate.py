"""
Metrics over many episodes: all, successes alone, failures alone, with intervals.

Intervals are percentiles of a bootstrap over sessions: the episodes of a session are drawn
together, because they share scene and evaluator. Fingerprints compare the failures of policies
within a task, as the paper's figure 5: z-scores over the policies' means (population standard
deviation), CRA and STR negated so that more is better, none below ``MIN_FAILURES`` failures, 0
where all policies are alike.

Marks of one curve are here too: when a quarter was reached first, falls, and long standstill.

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
from typing import Any

import numpy as np

from arena_robot.audit.opd import MILESTONES, QUARTERS, milestone_shares, milestone_words
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats
from arena_robot.ranking.evaluators.reports import VoterReport
from arena_robot.records.audit_file import EpisodeAudit

MIN_FAILURES = 3    # a mean of fewer is an anecdote
DRAWS = 1000        # of a bootstrap: its 2.5 % ends move by a few per cent of their width
FINGERPRINT = ('mp', 'ppl', 'cra', 'str')
QUALITY = ('ppl', 'cra', 'str')
_NEGATED = {'cra', 'str'}
FALL = 0.15      # below the best so far: more than the noise of a judge
STILL_S = 3.0    # longer than a policy waits for its answer
STILL = 0.02    # of a judge with a noise of .03 or less over five averaged frames
SURE = 0.95
AT_LEAST = 20    # decisive sessions; with fewer a coin agrees or disagrees too often by chance
# Of honest evaluators against an audit, which is neither a coin nor always right.
LOWEST_RATE, HIGHEST_RATE = 0.6, 0.98
# How common each is before any session: most people are honest.
PRIOR: Mapping[str, float] = {'honest': 0.94, 'coin': 0.03, 'inverted': 0.03}
Span = tuple[float, float]


@dataclass(frozen=True)
class Audited:
    """One audited episode; ``metrics`` None or missing is undefined or refused."""

    name: str
    session: str
    policy: str
    task: str
    success: bool | None
    metrics: Mapping[str, float | None]


@dataclass(frozen=True)
class Mean:
    """A mean over ``count`` episodes, standard deviation (n - 1), 95 % interval; NaN: none."""

    mean: float
    sd: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class PolicySummary:
    """
    A policy's metrics on a task (empty: all tasks).

    ``reached`` are the shares of episodes that reached each milestone of MC, the last one without
    episodes whose MC is refused; ``successes`` and ``failures`` are means over those alone.
    """

    policy: str
    task: str
    episodes: int
    labelled: int
    reached: Mapping[str, Mean]
    overall: Mapping[str, Mean]
    successes: Mapping[str, Mean]
    failures: Mapping[str, Mean]


@dataclass(frozen=True)
class Fingerprint:
    """z-scores of a policy's failures on a task; None is too few failures, or undefined."""

    policy: str
    task: str
    failures: int
    z: Mapping[str, float | None]


def summaries(episodes: Sequence[Audited], by_task: bool = False, seed: int = 0,
              draws: int = DRAWS, milestones: int = MILESTONES) -> list[PolicySummary]:
    """Return a summary per policy, or per policy and task, by name; ``milestones`` is K of MC."""
    keys = sorted({(e.policy, e.task if by_task else '') for e in episodes})
    return [_summary(policy, task, [e for e in episodes if e.policy == policy
                                    and task in ('', e.task)], seed, draws, milestones)
            for policy, task in keys]


def fingerprints(episodes: Sequence[Audited], at_least: int = MIN_FAILURES) -> list[Fingerprint]:
    """Return the failure fingerprints of all policies on all tasks."""
    if at_least < 1:
        raise ConfigError(f'a fingerprint needs at least 1 failure, found {at_least}')
    prints = []
    for task in sorted({e.task for e in episodes}):
        failed = {policy: [e for e in episodes if e.task == task and e.policy == policy
                           and e.success is False]
                  for policy in sorted({e.policy for e in episodes if e.task == task})}
        scores = {metric: _z({policy: _values(rows, metric) for policy, rows in failed.items()
                              if len(rows) >= at_least}, metric) for metric in FINGERPRINT}
        prints += [Fingerprint(policy, task, len(rows), {
            metric: scores[metric].get(policy) for metric in FINGERPRINT})
            for policy, rows in failed.items()]
    return prints


def _z(values: Mapping[str, Floats], metric: str) -> dict[str, float]:
    means = {policy: float(v.mean()) * (-1.0 if metric in _NEGATED else 1.0)
             for policy, v in values.items() if len(v)}
    if not means:
        return {}
    all_of = np.array(list(means.values()))
    sd = float(all_of.std())
    return {policy: (mean - float(all_of.mean())) / sd if sd > 1e-12 else 0.0
            for policy, mean in means.items()}


def _summary(policy: str, task: str, rows: Sequence[Audited], seed: int, draws: int,
             milestones: int) -> PolicySummary:
    done = [e for e in rows if e.success is True]
    failed = [e for e in rows if e.success is False]
    metrics = sorted({m for e in rows for m in e.metrics})

    def means(chosen: Sequence[Audited], names: Sequence[str]) -> dict[str, Mean]:
        return {m: _mean([(e.session, v) for e in chosen
                          if (v := e.metrics.get(m)) is not None], seed, draws) for m in names}

    peaks = [(e.session, v, e.metrics.get('mc', v) is not None) for e in rows
             if (v := e.metrics.get('mp')) is not None]
    reached = {word: _mean([(s, float(v >= q)) for s, v, to_the_end in peaks
                            if to_the_end or q < 1.0], seed, draws)
               for q, word in zip(milestone_shares(milestones), milestone_words(milestones),
                                  strict=True)}
    return PolicySummary(policy, task, len(rows), len(done) + len(failed), reached,
                         means(rows, metrics), means(done, metrics), means(failed, metrics))


def _mean(values: Sequence[tuple[str, float]], seed: int, draws: int) -> Mean:
    """Return the mean of (session, value) with a bootstrap over sessions."""
    nan = float('nan')
    if not values:
        return Mean(nan, nan, nan, nan, 0)
    sessions = sorted({session for session, _ in values})
    sums, counts = np.zeros(len(sessions)), np.zeros(len(sessions))
    index = {session: k for k, session in enumerate(sessions)}
    for session, value in values:
        sums[index[session]] += value
        counts[index[session]] += 1
    numbers = np.array([value for _, value in values])
    low = high = nan
    if len(sessions) > 1:
        drawn = np.random.default_rng(seed).integers(len(sessions), size=(draws, len(sessions)))
        low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1),
                                [0.025, 0.975]).tolist()
    sd = float(numbers.std(ddof=1)) if len(numbers) > 1 else nan
    return Mean(float(numbers.mean()), sd, low, high, len(numbers))


def _values(rows: Sequence[Audited], metric: str) -> Floats:
    return np.array([v for e in rows if (v := e.metrics.get(metric)) is not None])


@dataclass(frozen=True)
class Marks:
    """
    ``milestones`` are (seconds, quarter) at the first time that a quarter was reached.

    ``falls`` and ``still`` are spans (from, to in seconds): more than .15 below the best so far,
    and no change for three seconds or longer.
    """

    milestones: tuple[tuple[float, float], ...] = ()
    falls: tuple[Span, ...] = ()
    still: tuple[Span, ...] = ()


def marks_of(audit: EpisodeAudit) -> Marks:
    """
    Return the marks of an audit's curve; milestones only where the judge is calibrated.

    Without the last quarter and standstill where the judge is not trusted with MC@100 and STR.
    """
    marks = curve_marks(audit.times_s, audit.phi, audit.epsilon, audit.calibrated)
    return Marks(tuple((t, q) for t, q in marks.milestones
                       if q < QUARTERS[-1] or 'mc' not in audit.lost), marks.falls,
                 () if 'str' in audit.lost else marks.still)


def curve_marks(times_s: Sequence[float], phi: Sequence[float], epsilon: float = 0.0,
                calibrated: bool = True) -> Marks:
    """Return the marks of a curve; see :class:`Marks`."""
    values, times = np.array(phi, np.float64), np.array(times_s, np.float64)
    if len(values) < 2:
        return Marks()
    below = np.maximum.accumulate(values) - values > FALL
    steps = np.abs(np.diff(values)) < max(epsilon, STILL)
    still = _spans(np.concatenate([steps[:1], steps]), times)
    return Marks(tuple((float(times[np.argmax(values >= q)]), float(q)) for q in QUARTERS
                       if calibrated and (values >= q).any()),
                 _spans(below, times), tuple(s for s in still if s[1] - s[0] >= STILL_S))


def _spans(wanted: Any, times: Any) -> tuple[Span, ...]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(int), [0]])))
    return tuple((float(times[a]), float(times[b - 1])) for a, b in edges.reshape(-1, 2))


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
