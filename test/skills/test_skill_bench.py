"""Labels of prefixes from executed solutions, and the bench over them."""

import dataclasses
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skill_worlds import StructuralExecutor, all_specs

from arena_robot.core.errors import ConfigError, DataError, ModelBadReply
from arena_robot.core.parallel import Workers
from arena_robot.reports.skill_page import plot_calibration
from arena_robot.skills.base import Execution, Solution, Subtask, SubtaskKind
from arena_robot.skills.baselines import RuleScorer
from arena_robot.skills.bench import (
    FAMILY,
    SPLITS,
    TASK,
    SkillBenchParts,
    SkillBenchPlan,
    folds_of,
    groups,
    most_solutions,
    pools,
    run_stages,
)
from arena_robot.skills.bench_report import as_text, evaluate
from arena_robot.skills.dataset import (
    LabelMakers,
    Provenance,
    counts,
    make_dataset,
    nothing,
    read_dataset,
)
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.labelling import (
    COMPLETION,
    CompletedBase,
    LabelSettings,
    TriedSolution,
    label_prefixes,
    label_task,
    prefix_keys,
    shortest_success,
    solution_key,
)
from arena_robot.skills.pool import ExemplarPool

SPECS = all_specs(1)
PLAN = SkillBenchPlan(candidates=4, with_exemplars=2, folds=3, permutations=1, ridge=3.0)
PARTS = SkillBenchParts('grammar-1', 'structure', StructuredGenerator, StructuralExecutor)
LABELLED = all_specs(1)[:8]


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
            train = {(task.spec.name, solution_key(t.solution)) for task in fold.train
                     for t in task.tried}
            test = [(task.spec.name, t.number, solution_key(t.solution)) for task in fold.test
                    for t in task.tried]
            assert not train & {(name, key) for name, _, key in test}
            if split != 'solution':
                assert not {name for name, _ in train} & {name for name, _, _ in test}
            held += test
        assert len(held) == len(set(held)) == 4 * len(SPECS)
    assert all(len({spec.family for spec in SPECS if spec.name in names}) == 2
               for names in groups(SPECS, FAMILY, 3, 0))


def test_pools_have_no_test_task_and_no_test_family(stages):
    base = stages[1]['base']
    family = {spec.name: spec.family for spec in SPECS}
    for split in (TASK, FAMILY):
        for name, pool in pools(base, split, PLAN).items():
            inside = {exemplar.spec.name for exemplar in pool.exemplars}
            assert inside
            assert name in pool.barred
            assert not inside & pool.barred
            if split == FAMILY:
                assert family[name] not in {family[other] for other in inside}


def test_a_bench_is_complete_goes_on_and_says_the_same_again(stages, result):
    folder, made_before = stages
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for split in result['splits'].values():
        for name in ('base', 'fixed', 'pool', 'verifier', 'rule', 'permuted', 'name_only',
                     'strong_rule', 'with_text', 'text_only', 'other_spelling'):
            value, low, high = split[name]['atsr']
            assert 0.0 <= low <= value <= high <= 1.0
        assert len(split['auc_within_task']) == 3
        assert split['judge:rules'] == split['rule']
        assert split['other_spelling']['atsr'] == split['verifier']['atsr']
        assert split['name_only']['auc_within_task'][0] == 0.5
        assert split['verifier']['atsr'][0] <= split['oracle']['atsr'][0]
    text = as_text(result)
    assert text.count('judge:rules') == len(SPLITS)
    assert text.index('split by family') < text.index('split by task'), 'the hardest first'
    assert text.count('verifier - strong_rule') == text.count('text_only ') / 2 == len(SPLITS)
    assert "paper's policy model" in text
    bins = {split: values['calibration'] for split, values in result['splits'].items()}
    assert all(sum(row['count'] for row in rows) == 4 * len(SPECS) for rows in bins.values())
    plot_calibration(bins, folder / 'calibration.svg')
    assert '<svg' in (folder / 'calibration.svg').read_text()
    (folder / 'pool.jsonl').unlink()
    again = run_stages(folder, SPECS, PARTS, PLAN)
    assert again == made_before
    with pytest.raises(ConfigError, match='as many families'):
        run_stages(folder, SPECS[:2], PARTS, PLAN)


def test_results_do_not_depend_on_processor_time(stages, result):
    def slower(data):
        return replace(data, tasks=tuple(replace(task, tried=tuple(
            replace(t, execution=replace(t.execution, results=tuple(
                replace(r, cpu_s=r.cpu_s + 7.0) for r in t.execution.results)))
            for t in task.tried)) for task in data.tasks))

    again = evaluate({name: slower(stage) for name, stage in stages[1].items()}, PLAN, nothing,
                     {'judge:rules': RuleScorer()})
    assert again == result


def test_a_bench_says_before_how_much_it_does(stages):
    most = most_solutions(PLAN, len(SPECS))
    tried = sum(len(task.tried) + task.malformed for data in stages[1].values()
                for task in data.tasks)
    assert 0.5 * most < tried <= most


def solution(codes, scene=0):
    return Solution('t', {'joints': {'a': scene}}, tuple(
        Subtask(f'step {code}', SubtaskKind.PRIMITIVE, f'success = {code}') for code in codes))


TRIED = st.lists(st.builds(
    lambda codes, good, scene: TriedSolution(solution(codes, scene), Execution((), good, good)),
    st.lists(st.integers(0, 2), min_size=1, max_size=4), st.booleans(), st.integers(0, 1)),
    max_size=8)


def marks(tried):
    return {label.key: (label.good, label.share) for label in label_prefixes(tried)}


@settings(max_examples=40)
@given(TRIED, st.randoms(use_true_random=False))
def test_labels_keep_their_invariants(tried, rng):
    marked = marks(tried)
    assert len(marked) == len(label_prefixes(tried))
    for solved in tried:
        goods = [marked[key][0] for key in prefix_keys(solved.solution)]
        assert goods == sorted(goods, reverse=True)
        if solved.execution.success:
            assert all(goods)
    if not any(solved.execution.success for solved in tried):
        assert not any(good for good, _ in marked.values())
    assert all(good == (share > 0.0) for good, share in marked.values())
    shuffled = list(tried)
    rng.shuffle(shuffled)
    assert marks(shuffled) == marked


def test_identity_counts_scene_and_code_and_not_the_name():
    first = solution([1, 2])
    named = dataclasses.replace(first, subtasks=tuple(
        dataclasses.replace(s, name='other', code=s.code + '  \n') for s in first.subtasks))
    assert solution_key(named) == solution_key(first)
    assert len({solution_key(s) for s in (first, solution([1, 2], 1), solution([2, 1]),
                                          solution([1]))}) == 4


def explored(completed=CompletedBase.FIRST, policy=None, **more):
    executor = StructuralExecutor()
    chosen = LabelSettings(bases=4, completions=2, completed=completed, **more)
    tasks = [label_task(spec, policy or StructuredGenerator(), executor, (), chosen)
             for spec in LABELLED]
    return tasks, executor


@pytest.mark.parametrize('completed', CompletedBase)
def test_completions_keep_the_prefix_and_nothing_runs_twice(completed):
    tasks, executor = explored(completed)
    keys = [solution_key(solution) for solution in executor.solutions]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {solution_key(t.solution) for task in tasks for t in task.tried}
    bases = {(task.spec.name, t.number): t.solution for task in tasks for t in task.tried
             if t.origin != COMPLETION}
    for task in tasks:
        completed_of = {t.number for t in task.tried if t.origin == COMPLETION}
        wins = {t.number for t in task.tried if t.origin != COMPLETION and t.execution.success}
        assert completed_of <= wins
        assert len(completed_of) == (len(wins) if completed is CompletedBase.ALL
                                     else min(len(wins), 1))
        for t in task.tried:
            base = bases[task.spec.name, t.number]
            assert t.solution.subtasks[:t.kept] == base.subtasks[:t.kept]
            assert t.solution.scene == base.scene


def test_a_seed_reproduces_and_another_does_not():
    assert explored(seed=3)[0] == explored(seed=3)[0]
    assert explored(seed=3)[0] != explored(seed=4)[0]


class Mumbling(StructuredGenerator):
    """Every second answer cannot be read."""

    def generate(self, spec, exemplars, seed):
        if seed % 20000 < 10000:
            raise ModelBadReply('no JSON')
        return super().generate(spec, exemplars, seed)


def test_malformed_answers_are_counted():
    tasks, _ = explored(policy=Mumbling())
    assert all(task.malformed == 2 for task in tasks)
    assert counts(tasks)['malformed'] == 2 * len(LABELLED)
    assert all(len([t for t in task.tried if t.origin != COMPLETION]) == 2 for task in tasks)


def makers(executor=StructuralExecutor):
    return LabelMakers(StructuredGenerator, executor, LabelSettings(bases=4, completions=1))


def provenance(batch=4):
    return Provenance('grammar-1', 'structure', makers().settings, batch,
                      tuple(spec.name for spec in LABELLED))


def test_a_dataset_is_the_same_for_all_workers_and_is_read_back(tmp_path, dask):
    shown = []
    here = make_dataset(tmp_path / 'a.jsonl', LABELLED, provenance(), makers(),
                        progress=lambda *more: shown.append(more[:2]))
    there = make_dataset(tmp_path / 'b.jsonl', LABELLED, provenance(), makers(),
                         workers=Workers(cluster=dask))
    assert here == there == read_dataset(tmp_path / 'a.jsonl')
    assert shown == [(k + 1, len(LABELLED)) for k in range(len(LABELLED))]
    assert (tmp_path / 'a.jsonl').read_bytes() == (tmp_path / 'b.jsonl').read_bytes()


class Ending(StructuralExecutor):
    """Ends the program at the seventh task."""

    def execute(self, spec, one, seed):
        if spec.name == LABELLED[6].name:
            raise KeyboardInterrupt
        return super().execute(spec, one, seed)


def test_an_interrupted_dataset_goes_on(tmp_path):
    path = tmp_path / 'a.jsonl'
    with pytest.raises(KeyboardInterrupt):
        make_dataset(path, LABELLED, provenance(), makers(Ending))
    assert len(read_dataset(path).tasks) == 4
    whole = make_dataset(path, LABELLED, provenance(), makers())
    assert whole == make_dataset(tmp_path / 'b.jsonl', LABELLED, provenance(), makers())
    with pytest.raises(ConfigError, match='other tasks or settings'):
        make_dataset(path, LABELLED, provenance(batch=3), makers())


def test_the_pool_of_a_dataset_has_the_shortest_and_no_test_task(tmp_path):
    data = make_dataset(tmp_path / 'a.jsonl', LABELLED, provenance(), makers())
    barred = frozenset({LABELLED[0].name})
    pool = data.pool(ExemplarPool(barred=barred))
    solved = {task.spec.name: shortest_success(task.tried) for task in data.tasks}
    assert {exemplar.spec.name for exemplar in pool.exemplars} == {
        name for name, best in solved.items() if best is not None} - barred
    assert all(exemplar.solution == solved[exemplar.spec.name] for exemplar in pool.exemplars)


def test_a_broken_dataset_file_is_told(tmp_path):
    path = tmp_path / 'a.jsonl'
    with pytest.raises(ConfigError, match='cannot read'):
        read_dataset(path)
    for text in ('', '[]\n', '{"version": 9}\n', '{"version": 1}\n{}\n'):
        path.write_text(text)
        with pytest.raises(DataError):
            read_dataset(path)
