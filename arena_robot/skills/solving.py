"""
Verification in real time: while a solution is written, and while it runs.

A solution is read as it is written. At the first prefix whose score is too low the rest is not
written: another ending is asked for after the prefix before it. Each subtask is scored before it
runs and looked at after it ran; one that failed, or that claimed success before anything moved, is
written again after the prefix that was executed, whose state is kept. What failed once is never
run again, and a solution with code or names that no executor can run is never run.

`best_first` is what it is compared with: whole solutions are written, scored, and executed one
after another, the best first. Both count what they cost in the same units.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from arena_robot.core.errors import ConfigError, ModelBadReply
from arena_robot.skills.base import (
    SkillExecutor,
    SkillPolicy,
    Solution,
    StreamingPolicy,
    Subtask,
    SubtaskResult,
    TaskSpec,
)
from arena_robot.skills.baselines import infeasible
from arena_robot.skills.code_facts import JOINT, PLACE, PRIMITIVES, facts_of
from arena_robot.skills.labelling import Exemplars, prefix_keys, solution_key
from arena_robot.skills.verifier import PrefixScorer


@dataclass(frozen=True)
class SolveSettings:
    """
    ``threshold`` below which a prefix is rejected; ``drafts`` are replies of the policy model.

    ``runs`` are executions that reach an end or a failure; ``seed`` starts the drafts' seeds and
    is the executor's.
    """

    threshold: float = 0.5
    drafts: int = 24
    runs: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0 or self.drafts < 1 or self.runs < 1:
            raise ConfigError('the threshold is from 0 to 1; drafts and runs are at least 1')


@dataclass
class SolveCost:
    """What it cost: replies, subtasks that were written, runs, simulated control steps."""

    drafts: int = 0
    written: int = 0
    rejected: int = 0
    runs: int = 0
    sim_steps: int = 0


@dataclass(frozen=True)
class Attempt:
    """
    One run: the solution up to where it ended, its success, and why it failed.

    ``sim_steps`` are those of all runs so far.
    """

    solution: Solution
    success: bool
    sim_steps: int
    failure: str = ''


@dataclass
class Solved:
    """All runs in order, with what they cost; ``solution`` succeeded."""

    cost: SolveCost = field(default_factory=SolveCost)
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def solution(self) -> Solution | None:
        """The solution that succeeded by its own indicators and by the oracle."""
        return next((a.solution for a in self.attempts if a.success), None)


Meaning = tuple[object, ...]
NOT_DONE = 'all subtasks claimed success, but the task is not done'
HELD_BEFORE = 'its success held before anything moved'


@dataclass(frozen=True)
class Begun:
    """The subtasks that were executed with success, and why what followed them failed."""

    prefix: Solution | None = None
    failure: str = ''

    @property
    def length(self) -> int:
        """How many subtasks they are."""
        return len(self.prefix.subtasks) if self.prefix is not None else 0


class _Work:
    """What is known while one task is solved."""

    def __init__(self, spec: TaskSpec, executor: SkillExecutor, seed: int) -> None:
        self.spec, self._executor, self._seed = spec, executor, seed
        self.result = Solved()
        self._failed_starts: set[Meaning] = set()
        self._failed_wholes: set[Meaning] = set()
        self._run: set[str] = set()

    def run(self, solution: Solution, length: int) -> SubtaskResult | None:
        """Execute the prefix; return the result of its last subtask, None where that never ran."""
        prefix = replace(solution, subtasks=solution.subtasks[:length])
        results = self._executor.execute(self.spec, prefix, self._seed).results
        last = results[-1] if len(results) == length else None
        key = prefix_keys(prefix)[-1]
        if last is not None and key not in self._run:
            self._run.add(key)
            self.result.cost.sim_steps += last.sim_steps
        return last

    def ended(self, solution: Solution, whole: bool, failure: str = '') -> bool:
        """Note the end of a run and what failed; return its success."""
        success = whole and self._executor.execute(self.spec, solution, self._seed).success
        cost = self.result.cost
        cost.runs += 1
        self.result.attempts.append(Attempt(solution, success, cost.sim_steps,
                                            '' if success else failure or NOT_DONE))
        if not success:
            failed = self.meaning(solution)
            if whole:
                self._failed_wholes.add(_without_ending(failed))
            else:
                self._failed_starts.add(failed)
        return success

    def failed_at(self, solution: Solution) -> int:
        """Return the first subtask with which it is like one that failed; their number if none."""
        meaning = self.meaning(solution)
        first = next((k for k in range(len(meaning)) if meaning[:k + 1] in self._failed_starts),
                     len(meaning))
        essence = _without_ending(meaning)
        return min(first, len(essence) - 1) if essence in self._failed_wholes else first

    def meaning(self, solution: Solution) -> Meaning:
        """Return what each subtask does, in whatever words: its grasp, or what decides success."""
        facts = [facts_of(subtask, self.spec.objects) for subtask in solution.subtasks]
        return tuple((f.about, f.of, f.goal, f.share, f.tolerance) if f.about else
                     tuple(call for call in f.calls if call[0] in PRIMITIVES) for f in facts)

    def did_nothing(self, subtask: Subtask, result: SubtaskResult) -> bool:
        """Return whether an indicator of a motion held before anything moved."""
        return not result.sim_steps and facts_of(
            subtask, self.spec.objects).about in (JOINT, PLACE)


def _without_ending(meaning: Meaning) -> Meaning:
    """Leave out what comes after the last motion of an object: releases and where the hand is."""
    last = max((k for k, step in enumerate(meaning)
                if isinstance(step, tuple) and step[:1] in ((JOINT,), (PLACE,))),
               default=len(meaning) - 1)
    return meaning[:last + 1]


def solve(spec: TaskSpec, policy: SkillPolicy, executor: SkillExecutor, scorer: PrefixScorer,
          exemplars: Exemplars, settings: SolveSettings) -> Solved:
    """Return what came of a task: written, verified and executed subtask by subtask."""
    work = _Work(spec, executor, settings.seed)
    done = Begun()
    while work.result.cost.runs < settings.runs:
        draft = _written(work, policy, scorer, exemplars, settings, done)
        if draft is None:
            break
        kept, failure = _executed(work, draft, done.length)
        if kept == len(draft.subtasks):
            if work.ended(draft, whole=True):
                break
            done = Begun(replace(draft, subtasks=()), f'{NOT_DONE}: {_list(draft)}')
        else:
            work.ended(replace(draft, subtasks=draft.subtasks[:kept + 1]), False, failure)
            # What was executed is kept once: when nothing more follows it, it may be to blame.
            length = 0 if kept == done.length else kept
            done = Begun(replace(draft, subtasks=draft.subtasks[:length]), failure)
    return work.result


def _executed(work: _Work, draft: Solution, done: int) -> tuple[int, str]:
    """Execute subtask by subtask; return how many did what they say, and why the next did not."""
    for place in range(done, len(draft.subtasks)):
        result, subtask = work.run(draft, place + 1), draft.subtasks[place]
        if result is None or not result.success:
            why = result.error if result else 'the scene does not allow it'
            return place, f'subtask {place + 1}, {subtask.name}: {why}'
        if work.did_nothing(subtask, result):
            return place, f'subtask {place + 1}, {subtask.name}: {HELD_BEFORE}'
    return len(draft.subtasks), ''


def _list(draft: Solution) -> str:
    return '; '.join(subtask.name for subtask in draft.subtasks)


def _written(work: _Work, policy: SkillPolicy, scorer: PrefixScorer, exemplars: Exemplars,
             settings: SolveSettings, done: Begun) -> Solution | None:
    """Return a solution whose prefixes are all good enough; the best of those seen at the end."""
    cost = work.result.cost
    best: tuple[float, Solution] | None = None
    begun = done
    for _ in range(settings.drafts):
        if cost.drafts >= settings.drafts * settings.runs:
            break
        watch = _Watch(work.spec, scorer, settings.threshold)
        draft, start = _draft(work, policy, exemplars, settings, begun, watch), begun.length
        if draft is None:
            begun = done
            continue
        scores = scorer.prefixes(work.spec, draft)
        able, why = _feasible(work.spec, draft)
        failed = min(work.failed_at(draft), able)
        low = next((k for k in range(start, failed) if scores[k] < settings.threshold), failed)
        cost.written += min(low + 1, len(scores)) - start
        if low == len(scores):
            return draft
        cost.rejected += 1
        if failed == len(scores) and not watch.ended and (best is None or scores[-1] > best[0]):
            best = (float(scores[-1]), draft)
        # The next draft goes on from the good prefix, and from the start when that gave nothing.
        told = why if low == able else done.failure
        begun = replace(done, failure=told) if low <= start else \
            Begun(replace(draft, subtasks=draft.subtasks[:low]), told)
    if best is None:
        return None
    cost.written += len(best[1].subtasks)
    return best[1]


def _feasible(spec: TaskSpec, draft: Solution) -> tuple[int, str]:
    """Return how many subtasks an executor can run, and why it cannot run the next."""
    for place, subtask in enumerate(draft.subtasks):
        if faults := infeasible(spec, subtask):
            return place, f"subtask {place + 1}, {subtask.name}: {'; '.join(faults)}"
    return len(draft.subtasks), ''


@dataclass
class _Watch:
    """Reads along while a model writes; ``ended``: a prefix was not good enough to go on."""

    spec: TaskSpec
    scorer: PrefixScorer
    threshold: float
    ended: bool = False

    def good(self, draft: Solution) -> bool:
        """Return whether the solution so far is good enough."""
        self.ended = bool(self.scorer.prefixes(self.spec, draft)[-1] < self.threshold)
        return not self.ended


def _draft(work: _Work, policy: SkillPolicy, exemplars: Exemplars, settings: SolveSettings,
           begun: Begun, watch: _Watch) -> Solution | None:
    """Return a reply with a subtask after those that are begun; None for one that has none."""
    cost = work.result.cost
    cost.drafts += 1
    seed = settings.seed * 100_000 + cost.drafts
    try:
        if isinstance(policy, StreamingPolicy):
            draft = policy.write(work.spec, begun.prefix, exemplars, seed, begun.failure,
                                 watch.good)
        else:
            draft = policy.generate(work.spec, exemplars, seed) if begun.prefix is None else \
                policy.complete(work.spec, begun.prefix, exemplars, seed, begun.failure)
    except ModelBadReply:
        return None
    return draft if len(draft.subtasks) > begun.length else None


def best_first(spec: TaskSpec, drafts: Sequence[Solution],
               executor: SkillExecutor, score: Callable[[Solution], float],
               settings: SolveSettings) -> Solved:
    """Return what came of solutions that were written whole: executed by score, each once."""
    work = _Work(spec, executor, settings.seed)
    work.result.cost.drafts = len(drafts)
    work.result.cost.written = sum(len(draft.subtasks) for draft in drafts)
    order = np.argsort([-score(draft) for draft in drafts], kind='stable')
    tried: set[str] = set()
    for draft in (drafts[int(place)] for place in order):
        key = solution_key(draft)
        if key in tried or not draft.subtasks:
            continue
        tried.add(key)
        whole = all((result := work.run(draft, k + 1)) is not None and result.success
                    for k in range(len(draft.subtasks)))
        if work.ended(draft, whole) or work.result.cost.runs >= settings.runs:
            break
    return work.result
