"""
What the stages of a bench say: success with intervals by split, gains, calibration, counts.

Everything is computed from the dataset files; the same files give the same numbers. As text they
stand beside the paper's numbers, with what differs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from arena_robot.skills.baselines import RuleScorer, StrongRuleScorer
from arena_robot.skills.bench import (
    BASE_STAGE,
    FAMILY,
    FAMILY_STAGE,
    FIXED_STAGE,
    POOL_STAGE,
    SOLUTION,
    SPLITS,
    STAGES,
    SkillBenchPlan,
    Stages,
    folds_of,
    scored,
)
from arena_robot.skills.dataset import SkillDataset, counts
from arena_robot.skills.labelling import BASE, LabelledTask, label_prefixes
from arena_robot.skills.metrics import (
    SkillInterval,
    TaskScores,
    auc,
    best_of,
    calibration,
    difference,
    filtered,
    interval,
    mean_of,
    mean_success,
    oracle_best,
    over_tasks,
)
from arena_robot.skills.rewriting import rewritten
from arena_robot.skills.verifier import (
    STRATEGIES,
    PrefixScorer,
    ScoredOnce,
    TrainingSettings,
    train_verifier,
)

Rows = list[TaskScores]
VERIFIER, RULE, PERMUTED, NAME_ONLY = 'verifier', 'rule', 'permuted', 'name_only'
SPELLED = 'other_spelling'    # the verifier's choice among the same solutions, spelled otherwise
STRONG_RULE = 'strong_rule'
# The ablation: verifiers that see the text too, or alone, by the name of the row.
PARTS = {'with_text': 'all', 'text_only': 'text'}
PAPER = {
    ('task', 'base'): 0.67, ('task', 'verifier'): 0.91, ('solution', 'base'): 0.56,
    ('solution', 'verifier'): 0.92, ('task', 'fixed'): 0.53, ('task', 'pool'): 0.74}
ROWS = ('base', 'fixed', 'pool', 'verifier', SPELLED, 'strong_rule', 'rule', *PARTS,
        'permuted',
        'name_only', 'pool_verifier', 'oracle')
DIFFERS = (
    "the paper's verifier numbers are of a filter (success among accepted solutions), here in the "
    'column filter; best-of-N chooses one solution of every task and leaves none out',
    "the paper's policy model is Qwen2.5-Coder-32B, its verifier a language model with 1.5B "
    'parameters, its executor RoboGen with learned skills of 1M steps; here the policy is the '
    'one named above, the verifier a logistic model, the executor a search on the simulated '
    'station',
    "the paper's fixed and pool rows are of five tasks, its splits of 20 to 27 solutions; here "
    'every task is held out once, and intervals are a bootstrap over tasks')


def evaluate(stages: Stages, plan: SkillBenchPlan, progress: Callable[[int, int, str], None],
             judges: Mapping[str, PrefixScorer] | None = None) -> dict[str, Any]:
    """Return the result as JSON values; ``judges`` are scorers that need no training."""
    base = stages[BASE_STAGE]
    splits = {}
    for number, split in enumerate(SPLITS):
        progress(number, len(SPLITS), f'split by {split}')
        splits[split] = _split(stages, split, plan, {
            name: ScoredOnce(judge) for name, judge in (judges or {}).items()})
    return {
        'policy': base.provenance.policy, 'executor': base.provenance.executor,
        'seed': plan.seed, 'tasks': len(base.tasks), 'candidates': plan.candidates,
        'with_exemplars': plan.with_exemplars, 'strategy': plan.how, 'splits': splits,
        'stages': {name: counts(stages[name].tasks) for name in STAGES},
        'subtasks_per_solution': {name: lengths(stages[name]).as_json() for name in STAGES},
        'pool_shortens_by': _shortened(stages[FIXED_STAGE], stages[POOL_STAGE]).as_json(),
        'succeeds_by_task': {task.spec.name: round(_share(task), 4) for task in base.tasks}}


def _split(stages: Stages, split: str, plan: SkillBenchPlan, judges: Mapping[str, PrefixScorer]
           ) -> dict[str, Any]:
    tasks = stages[BASE_STAGE].tasks
    with_pool = stages[FAMILY_STAGE if split == FAMILY else POOL_STAGE].tasks
    n, m, seed = plan.candidates, plan.with_exemplars, plan.seed
    rows: dict[str, Rows] = {'base': scored(None, tasks, bases=n),
                             'fixed': scored(None, stages[FIXED_STAGE].tasks, bases=m),
                             'pool': scored(None, with_pool, bases=m)}
    by_strategy: dict[str, Rows] = {name: [] for name in STRATEGIES}
    chosen: dict[str, Rows] = {name: [] for name in (
        VERIFIER, SPELLED, STRONG_RULE, RULE, *PARTS, PERMUTED, NAME_ONLY, 'pool_verifier',
        *judges)}
    for fold in folds_of(tasks, split, plan.folds, seed):
        scorers_of = scorers(fold.train, plan) | {name: [judge] for name, judge in judges.items()}
        bases = 0 if split == SOLUTION else n
        for name, group in scorers_of.items():
            for scorer in group:
                chosen[name] += scored(scorer, fold.test, plan.how, bases)
        chosen[SPELLED] += scored(scorers_of[VERIFIER][0], _spelled(fold.test, seed), plan.how,
                                  bases)
        for how in STRATEGIES:
            by_strategy[how] += scored(scorers_of[VERIFIER][0], fold.test, how, bases)
        names = {task.spec.name for task in fold.test}
        if split != SOLUTION:
            chosen['pool_verifier'] += scored(
                scorers_of[VERIFIER][0], [task for task in with_pool if task.spec.name in names],
                plan.how, m)
    return _told(rows, chosen, by_strategy, stages, with_pool, seed)


def _spelled(tasks: Sequence[LabelledTask], seed: int) -> list[LabelledTask]:
    """Return the tasks with all solutions spelled otherwise; what they did stays the same."""
    return [replace(task, tried=tuple(
        replace(t, solution=rewritten(t.solution, seed + number))
        for number, t in enumerate(task.tried))) for task in tasks]


def scorers(train: Sequence[LabelledTask], plan: SkillBenchPlan) -> dict[str, list[PrefixScorer]]:
    """Return what is compared; permuted labels are trained on several times."""
    real = train_verifier(train, TrainingSettings(ridge=plan.ridge, seed=plan.seed))
    same = TrainingSettings(ridge=real.card.ridge, seed=plan.seed)
    return {VERIFIER: [ScoredOnce(real)], STRONG_RULE: [StrongRuleScorer()],
            RULE: [RuleScorer()],
            **{row: [train_verifier(train, replace(same, sees=part))]
               for row, part in PARTS.items()},
            NAME_ONLY: [train_verifier(train, replace(same, sees='name'))],
            PERMUTED: [train_verifier(train, replace(same, permuted=True,
                                                     seed=plan.seed * 100 + k))
                       for k in range(plan.permutations)]}


def _told(rows: dict[str, Rows], chosen: dict[str, Rows], by_strategy: dict[str, Rows],
          stages: Stages, with_pool: Sequence[LabelledTask], seed: int) -> dict[str, Any]:
    tasks = {'base': stages[BASE_STAGE].tasks, 'fixed': stages[FIXED_STAGE].tasks,
             'pool': with_pool}
    result: dict[str, Any] = {
        name: {'atsr': over_tasks(scores, mean_success, seed).as_json(),
               'assr': subtask_success(tasks[name], seed)} for name, scores in rows.items()}
    for name, scores in chosen.items():
        result[name] = _selected(scores, seed) if scores else None
    result['oracle'] = {'atsr': over_tasks(chosen[VERIFIER], oracle_best, seed).as_json()}
    result['auc_within_task'] = over_tasks(chosen[VERIFIER], auc, seed).as_json()
    result['strategies'] = {how: _selected(scores, seed) for how, scores in by_strategy.items()}
    result['calibration'] = calibration(chosen[VERIFIER])
    result['gains'] = _gains(rows, chosen, seed)
    return result


def _selected(rows: Rows, seed: int) -> dict[str, Any]:
    precision, coverage = filtered(rows, seed=seed)
    return {'atsr': over_tasks(rows, best_of, seed).as_json(),
            'auc_within_task': over_tasks(rows, auc, seed).as_json(),
            'filter': {'precision': precision.as_json(), 'coverage': coverage.as_json()}}


def _gains(rows: Mapping[str, Rows], chosen: Mapping[str, Rows], seed: int) -> dict[str, Any]:
    """Return differences of the same tasks; a choice is compared with what it chooses from."""
    gains = {'pool - fixed': difference(rows['pool'], mean_success, rows['fixed'], mean_success,
                                        seed),
             'pool - base': difference(rows['pool'], mean_success, rows['base'], mean_success,
                                       seed)}
    for name in (VERIFIER, SPELLED, RULE, PERMUTED, NAME_ONLY):
        gains[f'{name} - base'] = difference(chosen[name], best_of, chosen[name], mean_success,
                                             seed)
    for name in (STRONG_RULE, RULE, *PARTS):
        gains[f'verifier - {name}'] = difference(chosen[VERIFIER], best_of, chosen[name], best_of,
                                                 seed)
    if chosen['pool_verifier']:
        gains['pool_verifier - pool'] = difference(
            chosen['pool_verifier'], best_of, chosen['pool_verifier'], mean_success, seed)
    return {name: gain.as_json() for name, gain in gains.items()}


def subtask_success(tasks: Sequence[LabelledTask], seed: int) -> list[float | None]:
    """Return ASSR: the share of good prefixes, over tasks."""
    shares = [np.mean([p.good for p in label_prefixes(task.tried)])
              for task in tasks if task.tried]
    return interval(np.array(shares)[:, None], mean_of, seed).as_json()


def lengths(data: SkillDataset) -> SkillInterval:
    """Return how many subtasks base solutions have on average over tasks."""
    return interval(np.array(_lengths(data))[:, None], mean_of, seed=0)


def _lengths(data: SkillDataset) -> list[float]:
    return [float(np.mean([len(t.solution.subtasks) for t in task.tried if t.origin == BASE]))
            for task in data.tasks if task.tried]


def _shortened(fixed: SkillDataset, pool: SkillDataset) -> SkillInterval:
    apart = np.array(_lengths(fixed)) - np.array(_lengths(pool))
    return interval(apart[:, None], mean_of, 0)


def _share(task: LabelledTask) -> float:
    ends = [t.execution.success for t in task.tried if t.origin == BASE]
    return sum(ends) / max(len(ends), 1)


def as_text(result: Mapping[str, Any]) -> str:
    """Return the result as lines of text."""
    lines = [f'policy {result["policy"]}, executor {result["executor"]}, {result["tasks"]} tasks, '
             f'{result["candidates"]} solutions each, seed {result["seed"]}, scores of prefixes '
             f'joined by {result["strategy"]}']
    for split, of in result['splits'].items():
        lines += ['', f'split by {split:<14}success, best of 8      filter: precision, coverage'
                      '         AUC within a task   paper']
        judges = [name for name in of if name.startswith('judge')]
        lines += [_row(split, name, of[name]) for name in (*ROWS, *judges) if of.get(name)]
        lines += ['  gains: ' + '; '.join(f'{name} {_interval(value)}'
                                          for name, value in of['gains'].items())]
    per = result['subtasks_per_solution']
    lines += ['', 'subtasks per solution: ' + ', '.join(
        f'{name} {_interval(value)}' for name, value in per.items())]
    stage = result['stages']['base']
    lines += [f'labels: {stage["solutions"]} solutions, {stage["successful"]} successful, '
              f'{stage["claimed"]} by their own indicators, {stage["malformed"]} malformed; '
              f'{stage["subtasks"]} prefixes, {stage["good_subtasks"]} good (paper: 150, 83; 287, '
              '144)', '', 'What differs from the paper:', *(f'- {text}' for text in DIFFERS)]
    return '\n'.join(lines)


def _row(split: str, name: str, result: Mapping[str, Any]) -> str:
    choice = result.get('filter')
    both = f'{_interval(choice["precision"])}, {_interval(choice["coverage"])}' if choice else ''
    within = _interval(result['auc_within_task']) if 'auc_within_task' in result else ''
    paper = PAPER.get((split, name))
    return (f'  {name:<22}{_interval(result["atsr"]):<24}{both:<40}{within:<20}'
            f'{"" if paper is None else paper}').rstrip()


def _interval(value: 'list[float | None]') -> str:
    if value[0] is None:
        return '-'
    ends = '' if value[1] is None else f' [{value[1]:.2f}, {value[2]:.2f}]'
    return f'{value[0]:.2f}{ends}'
