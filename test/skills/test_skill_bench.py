"""The bench on the structural executor: splits, pools without test tasks, going on, the verbs."""

import json
from dataclasses import replace

import pytest
from skill_worlds import StructuralExecutor, all_specs

from arena_robot.core.errors import ConfigError
from arena_robot.reports.skill_page import plot_calibration
from arena_robot.skills.baselines import RuleScorer
from arena_robot.skills.bench import (
    SkillBenchParts,
    SkillBenchPlan,
    most_solutions,
    pools,
    run_stages,
)
from arena_robot.skills.bench_report import evaluate
from arena_robot.skills.bench_splits import FAMILY, SPLITS, TASK, folds_of, groups
from arena_robot.skills.bench_text import as_text
from arena_robot.skills.dataset import nothing
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.identity import solution_key

SPECS = all_specs(1)
PLAN = SkillBenchPlan(candidates=4, with_exemplars=2, folds=3, permutations=1, ridge=3.0)
PARTS = SkillBenchParts('grammar-1', 'structure', StructuredGenerator, StructuralExecutor)


@pytest.fixture(scope='module')
def stages(tmp_path_factory):
    folder = tmp_path_factory.mktemp('bench')
    return folder, run_stages(folder, SPECS, PARTS, PLAN)


@pytest.fixture(scope='module')
def result(stages):
    return evaluate(stages[1], PLAN, nothing, {'judge:rules': RuleScorer()})


def test_every_task_and_solution_is_held_out_once(stages):
    tasks = stages[1]['base'].tasks
    for split in SPLITS:
        held = []
        for fold in folds_of(tasks, split, 3, 0):
            train = {(one.spec.name, solution_key(t.solution)) for one in fold.train
                     for t in one.tried}
            test = [(one.spec.name, t.number, solution_key(t.solution)) for one in fold.test
                    for t in one.tried]
            assert not train & {(name, key) for name, _, key in test}
            if split != 'solution':
                assert not {name for name, _ in train} & {name for name, _, _ in test}
            held += test
        assert len(held) == len(set(held)) == 4 * len(SPECS)
    assert all(len({one.family for one in SPECS if one.name in names}) == 2
               for names in groups(SPECS, FAMILY, 3, 0))


def test_pools_have_no_test_task_and_no_test_family(stages):
    base = stages[1]['base']
    family = {one.name: one.family for one in SPECS}
    for split in (TASK, FAMILY):
        for name, pool in pools(base, split, PLAN).items():
            inside = {one.spec.name for one in pool.exemplars}
            assert inside
            assert name in pool.barred
            assert not inside & pool.barred
            if split == FAMILY:
                assert family[name] not in {family[one] for one in inside}


def test_a_bench_is_complete_goes_on_and_says_the_same_again(stages, result):
    folder, found = stages
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for split in result['splits'].values():
        for name in ('base', 'fixed', 'pool', 'verifier', 'rule', 'permuted', 'name_only'):
            value, low, high = split[name]['atsr']
            assert 0.0 <= low <= value <= high <= 1.0
        assert len(split['auc_within_task']) == 3
        assert split['judge:rules'] == split['rule']
        assert split['name_only']['auc_within_task'][0] == 0.5
        assert split['verifier']['atsr'][0] <= split['oracle']['atsr'][0]
    told = as_text(result)
    assert told.count('judge:rules') == len(SPLITS)
    assert "paper's policy model" in told
    bins = {split: one['calibration'] for split, one in result['splits'].items()}
    assert all(sum(row['count'] for row in rows) == 4 * len(SPECS) for rows in bins.values())
    plot_calibration(bins, folder / 'calibration.svg')
    assert '<svg' in (folder / 'calibration.svg').read_text()
    (folder / 'pool.jsonl').unlink()
    again = run_stages(folder, SPECS, PARTS, PLAN)
    assert again == found
    with pytest.raises(ConfigError, match='as many families'):
        run_stages(folder, SPECS[:2], PARTS, PLAN)


def test_results_do_not_depend_on_processor_time(stages, result):
    def slower(data):
        return replace(data, tasks=tuple(replace(one, tried=tuple(
            replace(t, execution=replace(t.execution, results=tuple(
                replace(r, cpu_s=r.cpu_s + 7.0) for r in t.execution.results)))
            for t in one.tried)) for one in data.tasks))

    again = evaluate({name: slower(one) for name, one in stages[1].items()}, PLAN, nothing,
                     {'judge:rules': RuleScorer()})
    assert again == result


def test_a_bench_says_before_how_much_it_does(stages):
    most = most_solutions(PLAN, len(SPECS))
    tried = sum(len(one.tried) + one.malformed for data in stages[1].values()
                for one in data.tasks)
    assert 0.5 * most < tried <= most
