"""The result of a bench as text, side by side with the paper's numbers and what differs."""

from collections.abc import Mapping
from typing import Any

PAPER = {
    ('task', 'base'): 0.67, ('task', 'verifier'): 0.91, ('solution', 'base'): 0.56,
    ('solution', 'verifier'): 0.92, ('task', 'fixed'): 0.53, ('task', 'pool'): 0.74}
ROWS = ('base', 'fixed', 'pool', 'verifier', 'rule', 'permuted', 'name_only', 'pool_verifier',
        'oracle')
DIFFERS = (
    "the paper's verifier numbers are of a filter (success among accepted solutions), here in the "
    'column filter; best-of-N chooses one solution of every task and leaves none out',
    "the paper's policy model is Qwen2.5-Coder-32B, its verifier a language model with 1.5B "
    'parameters, its executor RoboGen with learned skills of 1M steps; here the policy is the '
    'one named above, the verifier a logistic model, the executor a search on the simulated '
    'station',
    "the paper's fixed and pool rows are of five tasks, its splits of 20 to 27 solutions; here "
    'every task is held out once, and intervals are a bootstrap over tasks')


def as_text(result: Mapping[str, Any]) -> str:
    """Return the result as lines of text."""
    lines = [f'policy {result["policy"]}, executor {result["executor"]}, {result["tasks"]} tasks, '
             f'{result["candidates"]} solutions each, seed {result["seed"]}, scores of prefixes '
             f'joined by {result["strategy"]}']
    for split, found in result['splits'].items():
        lines += ['', f'split by {split:<14}success, best of 8      filter: precision, coverage'
                      '         AUC within a task   paper']
        judges = [name for name in found if name.startswith('judge')]
        lines += [_row(split, name, found[name]) for name in (*ROWS, *judges) if found.get(name)]
        lines += ['  gains: ' + '; '.join(f'{name} {_interval(value)}'
                                          for name, value in found['gains'].items())]
    per = result['subtasks_per_solution']
    lines += ['', 'subtasks per solution: ' + ', '.join(
        f'{name} {_interval(value)}' for name, value in per.items())]
    stage = result['stages']['base']
    lines += [f'labels: {stage["solutions"]} solutions, {stage["successful"]} successful, '
              f'{stage["claimed"]} by their own indicators, {stage["malformed"]} malformed; '
              f'{stage["subtasks"]} prefixes, {stage["good_subtasks"]} good (paper: 150, 83; 287, '
              '144)', '', 'What differs from the paper:', *(f'- {one}' for one in DIFFERS)]
    return '\n'.join(lines)


def _row(split: str, name: str, found: Mapping[str, Any]) -> str:
    taken = found.get('filter')
    both = f'{_interval(taken["precision"])}, {_interval(taken["coverage"])}' if taken else ''
    within = _interval(found['auc_within_task']) if 'auc_within_task' in found else ''
    paper = PAPER.get((split, name))
    return (f'  {name:<22}{_interval(found["atsr"]):<24}{both:<40}{within:<20}'
            f'{"" if paper is None else paper}').rstrip()


def _interval(value: 'list[float | None]') -> str:
    if value[0] is None:
        return '-'
    ends = '' if value[1] is None else f' [{value[1]:.2f}, {value[2]:.2f}]'
    return f'{value[0]:.2f}{ends}'
