"""
What a finished study says: for every two policies that it compares, one sentence and its numbers.

Blocks in which both ran and counted are the observations; a block is won by the policy that
succeeds alone, gets further, or is preferred, as the study's rule says. The tests are those that
the rule names:

- fixed, by block: the sign test of :mod:`.shares`
- fixed, by evaluator: all signs of the evaluators' sums are exchanged (2^E ways, or 20 000 drawn)
- sequential: the bets of :mod:`arena_robot.ranking.intervals.needed`, by block or evaluator

With several comparisons in a study, the level is divided among them by Holm's method after a
fixed number of blocks, and evenly in a sequential study.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from scipy.special import stdtrit

from arena_robot.blind.compare import points
from arena_robot.blind.planning import more_blocks
from arena_robot.blind.shares import (
    Floats,
    difference_sequence,
    paired_interval,
    quantile,
    sign_test,
)
from arena_robot.blind.study import DecisionRule, Measure, Stopping, Study, Unit
from arena_robot.blind.trials import StudyRecord, TrialResult, block_verdict
from arena_robot.core.clock import to_iso
from arena_robot.core.episode import CONTROL_RATE_HZ, Preference
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import BETWEEN
from arena_robot.core.wilson import wilson
from arena_robot.ranking.intervals.needed import clustered_capital, log_capital
from arena_robot.records.roboarena import SLOTS, RoboArenaRollout, RoboArenaSession
from arena_robot.server.base import LocalSession

LOCAL = 'local'    # the origin of verdicts that no server relayed
ID_CHARS = 20      # of the hash of a study's seed, which no other study has

MOST_EXACT, DRAWN = 14, 20_000    # evaluators whose 16 384 exchanges are all made; beyond, drawn
LEAST_EVALUATORS = 6              # with fewer, no result can reach a level of 5 %


@dataclass(frozen=True)
class MatchedBlock:
    """One block of two policies; ``outcome`` is 1 if the first won it, -1 the second, else 0."""

    first: TrialResult
    second: TrialResult
    outcome: int


@dataclass(frozen=True)
class Contrast:
    """
    Two policies compared.

    ``first`` is the better one where there is one, else the one that won more blocks.
    ``difference``, ``low`` and ``high`` are of success rates, or of the shares of blocks won; the
    interval is None where the rule has none. ``p_value`` is adjusted for several comparisons.
    ``decided_after`` counts blocks of a sequential study. ``more`` is how many blocks would tell
    the two apart if they go on as observed.
    """

    first: str
    second: str
    blocks: tuple[MatchedBlock, ...]
    wins: int
    losses: int
    difference: float
    interval: tuple[float, float] | None
    p_value: float
    better: str | None
    decided_after: int | None
    more: float

    def successes(self, second: bool = False) -> int:
        """Return in how many blocks the first policy, or the second, succeeded."""
        return sum(bool((block.second if second else block.first).success)
                   for block in self.blocks)

    def counts(self, measure: Measure) -> str:
        """Return what was counted: ``31 of 40 against 19 of 40``."""
        total = len(self.blocks)
        if measure is Measure.SUCCESS:
            return f'{self.successes()} of {total} against {self.successes(True)} of {total}'
        return (f'{"preferred" if measure is Measure.PREFERENCE else "further"} in {self.wins} '
                f'of {total} blocks against {self.losses}')


@dataclass(frozen=True)
class StudyResult:
    """The contrasts of a study, and the record that they come from."""

    record: StudyRecord
    results: tuple[TrialResult, ...]

    @property
    def study(self) -> Study:
        """The newest version of the study."""
        return self.record.study

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """Every two policies that the study compares."""
        rule, pairs = self.study.decision, self.study.contrasts()
        level = rule.level / len(pairs)
        made = [contrast(matched_blocks(self.results, a, b, rule.measure), a, b, rule, level)
                for a, b in pairs]
        return tuple(made if rule.stopping is Stopping.SEQUENTIAL else _by_holm(made, rule.level))

    def sentences(self) -> list[str]:
        """Return what may be said, a sentence for each contrast."""
        return [sentence(c, self.study, self.chosen(c)) for c in self.contrasts]

    def chosen(self, c: Contrast) -> str:
        """Return when the test was chosen, and what takes from its worth."""
        newest, rule = self.record.versions[-1], self.study.decision
        if self.record.fits() is False:
            return 'but the revealed seed is not the promised one'
        words = 'test chosen before' if self.record.sealed_first and not newest.trials else (
            f'test chosen after {newest.trials} trials' if newest.trials else
            'no proof that the test was chosen before')
        early = (rule.stopping is Stopping.FIXED
                 and len(c.blocks) < self.study.blocks_per_contrast())
        return f'{words}, but the study ended early' if early else words


def study_result(record: StudyRecord) -> StudyResult:
    """Return the results of a study that was revealed. Raises DataError before the reveal."""
    return StudyResult(record, record.with_arms())


def matched_blocks(results: Sequence[TrialResult], first: str, second: str, measure: Measure,
                   ) -> tuple[MatchedBlock, ...]:
    """Return the blocks in which both policies counted and were judged, in their order."""
    blocks: dict[tuple[int, int], dict[str, TrialResult]] = {}
    for result in results:
        if result.counts:
            blocks.setdefault((result.version, result.block), {})[result.arm] = result
    matched = []
    for arms in blocks.values():
        if {first, second} <= set(arms):
            outcome = _outcome(arms[first], arms[second], measure)
            if outcome is not None:
                matched.append(MatchedBlock(arms[first], arms[second], outcome))
    return tuple(matched)


def _outcome(first: TrialResult, second: TrialResult, measure: Measure) -> int | None:
    if measure is Measure.PREFERENCE:
        said = first.preference or second.preference
        if said is None:
            return None
        return 0 if said is Preference.TIE else 1 if said.value == first.slot else -1
    a, b = ((first.success, second.success) if measure is Measure.SUCCESS else
            (first.progress, second.progress))
    return None if a is None or b is None else int(a > b) - int(a < b)


def contrast(blocks: tuple[MatchedBlock, ...], first: str, second: str, rule: DecisionRule,
             level: float) -> Contrast:
    """Return what the rule says of two policies at this level."""
    outcome = np.array([block.outcome for block in blocks], dtype=int)
    wins, losses = int((outcome > 0).sum()), int((outcome < 0).sum())
    lead, decided_after, p_value = _test(blocks, outcome, rule, level)
    turned = lead < 0 or (lead == 0 and losses > wins)
    if turned:
        first, second, wins, losses = second, first, losses, wins
        blocks = tuple(MatchedBlock(b.second, b.first, -b.outcome) for b in blocks)
    interval = _interval(blocks, rule, level)
    more = math.inf if lead or not blocks else more_blocks(
        wins, losses, len(blocks), level, rule.power, rule.stopping is Stopping.SEQUENTIAL)
    return Contrast(first, second, blocks, wins, losses,
                    (wins - losses) / len(blocks) if blocks else 0.0, interval, p_value,
                    first if lead else None, decided_after, more)


def _test(blocks: Sequence[MatchedBlock], outcome: np.ndarray, rule: DecisionRule, level: float,
          ) -> tuple[int, int | None, float]:
    """Return who is better (1, -1, or 0), after how many blocks, and the p-value."""
    if not len(outcome):
        return 0, None, 1.0
    evaluators = np.array([block.first.evaluator for block in blocks])
    if rule.stopping is Stopping.FIXED:
        p_value = (exchange_test(outcome, evaluators) if rule.unit is Unit.EVALUATOR else
                   float(sign_test((outcome > 0).sum(), (outcome < 0).sum())))
        return int(np.sign(outcome.sum())) if p_value <= level else 0, None, p_value
    wins, losses = np.cumsum(outcome > 0), np.cumsum(outcome < 0)
    if rule.unit is Unit.EVALUATOR:
        forward, backward = clustered_capital((outcome + 1) / 2, evaluators)
        path, lead = np.logaddexp(forward, backward) - math.log(2), forward - backward
    else:
        path, lead = log_capital(wins, losses), wins - losses
    crossed = np.flatnonzero(path >= -math.log(level))
    p_value = float(np.exp(-max(0.0, path.max())))
    return ((int(np.sign(lead[crossed[0]])), int(crossed[0]) + 1, p_value) if len(crossed) else
            (0, None, p_value))


def exchange_test(outcome: np.ndarray, evaluators: np.ndarray, seed: int = 0) -> float:
    """
    Return the p-value that evaluators favour either policy alike.

    If they do, the sum of each could as well have the other sign. The p-value is the share of
    exchanges of signs with a total at least as far from 0.
    """
    sums = np.array([outcome[evaluators == name].sum() for name in np.unique(evaluators)])
    if len(sums) <= MOST_EXACT:
        signs = np.array(list(product((1, -1), repeat=len(sums))))
        return float((np.abs(signs @ sums) >= abs(sums.sum())).mean())
    signs = np.random.default_rng(seed).choice((1, -1), size=(DRAWN, len(sums)))
    return float((1 + (np.abs(signs @ sums) >= abs(sums.sum())).sum()) / (1 + DRAWN))


def _interval(blocks: Sequence[MatchedBlock], rule: DecisionRule, level: float,
              ) -> tuple[float, float] | None:
    outcome = np.array([block.outcome for block in blocks])
    n, wins, losses = len(outcome), int((outcome > 0).sum()), int((outcome < 0).sum())
    if not n:
        return None
    if rule.unit is Unit.EVALUATOR:
        return None if rule.stopping is Stopping.SEQUENTIAL else _clustered(
            outcome, np.array([block.first.evaluator for block in blocks]), level)
    if rule.stopping is Stopping.SEQUENTIAL:
        return difference_sequence(wins, n - wins - losses, losses, level)
    if rule.measure is Measure.SUCCESS:
        both = sum(bool(block.first.success and block.second.success) for block in blocks)
        return paired_interval(both, wins, losses, n - both - wins - losses, level)
    low, high = wilson(wins + (n - wins - losses) / 2, n, quantile(level))
    return 2 * low - 1, 2 * high - 1


def _clustered(outcome: np.ndarray, evaluators: np.ndarray, level: float,
               ) -> tuple[float, float] | None:
    """Return Student's interval of the mean with each evaluator as one observation."""
    names = np.unique(evaluators)
    if len(names) < 2:
        return None
    rest: Floats = np.array([(outcome - outcome.mean())[evaluators == name].sum()
                             for name in names])
    reach = float(stdtrit(len(names) - 1.0, 1 - level / 2)) * math.sqrt(
        len(names) / (len(names) - 1) * float(rest @ rest)) / len(outcome)
    middle = float(outcome.mean())
    return max(-1.0, middle - reach), min(1.0, middle + reach)


def _by_holm(made: Sequence[Contrast], level: float) -> list[Contrast]:
    """Return the contrasts with p-values adjusted by Holm's method, and who is better by them."""
    adjusted, most = {}, 0.0
    for place, k in enumerate(sorted(range(len(made)), key=lambda k: made[k].p_value)):
        most = max(most, min(1.0, made[k].p_value * (len(made) - place)))
        adjusted[k] = most
    return [dataclasses.replace(c, p_value=adjusted[k], better=c.first if adjusted[k] <= level
                                and c.wins != c.losses else None) for k, c in enumerate(made)]


def sentence(c: Contrast, study: Study, chosen: str) -> str:
    """Return what may be said of two policies, in one sentence."""
    if not c.blocks:
        return f'{c.first} and {c.second} were not compared at *{study.name}*: no block counts.'
    between = '' if c.interval is None else f', difference {points(*c.interval)}'
    what = f'{c.counts(study.decision.measure)}{between}'
    if c.better:
        return f'{c.first} is better than {c.second} at *{study.name}*: {what}, {chosen}.'
    return (f'{c.first} and {c.second} cannot be told apart at *{study.name}*: {what}, {chosen}; '
            f'{more_words(c, study.decision)}.')


def more_words(c: Contrast, rule: DecisionRule) -> str:
    """Return how many more blocks would tell two policies apart."""
    if math.isinf(c.more):
        return 'these trials do not tell how many more would'
    if rule.stopping is Stopping.SEQUENTIAL:
        return f'{c.more:.0f} more blocks would in {rule.power:.0%} of cases, if they go on so'
    return (f'a new study of {c.more:.0f} blocks would in {rule.power:.0%} of cases, if the '
            'difference is as observed')


def is_decided(record: StudyRecord, seed: str) -> bool:
    """
    Tell whether a sequential study may end: each of its comparisons is decided.

    ``seed`` is the secret one: only the program that keeps it can ask before the reveal.
    """
    rule, pairs = record.study.decision, record.study.contrasts()
    if rule.stopping is Stopping.FIXED:
        return False
    results = dataclasses.replace(record, seed=seed).with_arms()
    for first, second in pairs:
        blocks = matched_blocks(results, first, second, rule.measure)
        outcome = np.array([block.outcome for block in blocks], dtype=int)
        if not _test(blocks, outcome, rule, rule.level / len(pairs))[0]:
            return False
    return True


def result_to_json(result: StudyResult) -> dict[str, Any]:
    """Return the contrasts of a study as JSON values."""
    rule = result.study.decision
    return {'study': result.study.name, 'sha256': result.record.versions[-1].sha256,
            'measure': rule.measure.value, 'stopping': rule.stopping.value, 'level': rule.level,
            'contrasts': [{
                'first': c.first, 'second': c.second, 'blocks': len(c.blocks), 'wins': c.wins,
                'losses': c.losses, 'successes': [c.successes(), c.successes(True)],
                'difference': c.difference,
                'interval': None if c.interval is None else list(c.interval),
                'p_value': c.p_value, 'better': c.better, 'decided_after': c.decided_after,
                'more_blocks': None if math.isinf(c.more) else int(c.more),
                'sentence': words} for c, words in zip(result.contrasts, result.sentences(),
                                                       strict=True)]}


def study_sessions(result: StudyResult) -> list[RoboArenaSession]:
    """
    Return the blocks of a revealed study in which slots A and B count.

    So `arena rank` and `arena study methods` work on a study as on a station's sessions. Progress
    is what the evaluator said; where nobody did, a success is 1 and a failure 0.
    """
    return [_block_session(result, version, block, slots)
            for (version, block), slots in _whole_blocks(result).items()]


def local_sessions(result: StudyResult) -> list[LocalSession]:
    """
    Return the blocks of a revealed study as an arena server takes them.

    Raises DataError for a study of which nobody can tell later that it was blind, and for one
    without pairs.
    """
    record = result.record
    if not record.fits() or not record.sealed_first:
        raise DataError('the order of this study was not promised before its first trial, or the '
                        'revealed seed is another one; it is not sent')
    blocks = _whole_blocks(result)
    if any(len(slots) > len(SLOTS) for slots in blocks.values()):
        raise DataError('a session has two policies, and a block of this study has more; send '
                        'studies of the designs pairs, round_robin and control')
    if not blocks:
        raise DataError('no block of this study counts; there is nothing to send')
    return [LocalSession(_block_session(result, version, block, slots), block_verdict(slots),
                         result.study.name, record.versions[version - 1].sha256)
            for (version, block), slots in blocks.items()]


def _whole_blocks(result: StudyResult) -> dict[tuple[int, int], dict[str, TrialResult]]:
    """Return the trials that count by slot, of blocks in which slots A and B do."""
    blocks: dict[tuple[int, int], dict[str, TrialResult]] = defaultdict(dict)
    for trial in result.results:
        if trial.counts:
            blocks[trial.version, trial.block][trial.slot] = trial
    return {key: slots for key, slots in blocks.items() if set(SLOTS) <= set(slots)}


def _block_session(result: StudyResult, version: int, block: int,
                   slots: dict[str, TrialResult]) -> RoboArenaSession:
    declared = result.record.versions[version - 1]
    first, last = slots[min(slots)], slots[max(slots)]
    condition = declared.study.condition(first.condition)
    rollouts = tuple(RoboArenaRollout(
        trial.arm, slot, _progress(trial), steps=round(trial.seconds * CONTROL_RATE_HZ),
        prompt=condition.instruction or condition.task, order=place, success=trial.success,
        stage=trial.stage, failure_tags=BETWEEN.join(trial.failure_tags),
        time_to_success_s=trial.time_to_success_s, interventions=trial.interventions,
        intervention_s=trial.intervention_s) for place, (slot, trial) in enumerate(
            sorted(slots.items())))
    return RoboArenaSession(
        f'{(result.record.seed_sha256 or declared.sha256)[:ID_CHARS]}-{version}-{block}',
        slots['A'].arm, slots['B'].arm,
        preference=last.preference, evaluator=first.evaluator, explanation=last.reason,
        created=to_iso(first.started_ns) if first.started_ns else '',
        completed=to_iso(last.ended_ns) if last.ended_ns else '', origin=LOCAL, chosen=False,
        rollouts=rollouts)


def _progress(trial: TrialResult) -> float | None:
    if trial.progress is not None or trial.success is None:
        return trial.progress
    return float(trial.success)
