"""Algorithm 1: invariants of the labels, the dataset file, and going on after an interruption."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skill_worlds import StructuralExecutor, all_specs

from arena_robot.core.errors import ConfigError, DataError, ModelBadReply
from arena_robot.core.parallel import Workers
from arena_robot.skills.base import Execution, Solution, Subtask, SubtaskKind
from arena_robot.skills.dataset import (
    LabelMakers,
    Provenance,
    counts,
    make_dataset,
    read_dataset,
)
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.identity import prefix_keys, solution_key
from arena_robot.skills.labelling import CompletedBase, LabelSettings, label_task
from arena_robot.skills.labels import COMPLETION, TriedSolution, label_prefixes, shortest_success
from arena_robot.skills.pool import ExemplarPool

SPECS = all_specs(1)[:8]


def solution(codes, scene=0):
    return Solution('t', {'joints': {'a': scene}}, tuple(
        Subtask(f'step {code}', SubtaskKind.PRIMITIVE, f'success = {code}') for code in codes))


TRIED = st.lists(st.builds(
    lambda codes, good, scene: TriedSolution(solution(codes, scene), Execution((), good, good)),
    st.lists(st.integers(0, 2), min_size=1, max_size=4), st.booleans(), st.integers(0, 1)),
    max_size=8)


def marks(tried):
    return {one.key: (one.good, one.share) for one in label_prefixes(tried)}


@settings(max_examples=40)
@given(TRIED, st.randoms(use_true_random=False))
def test_labels_keep_their_invariants(tried, rng):
    found = marks(tried)
    assert len(found) == len(label_prefixes(tried))
    for one in tried:
        goods = [found[key][0] for key in prefix_keys(one.solution)]
        assert goods == sorted(goods, reverse=True)
        if one.execution.success:
            assert all(goods)
    if not any(one.execution.success for one in tried):
        assert not any(good for good, _ in found.values())
    assert all(good == (share > 0.0) for good, share in found.values())
    shuffled = list(tried)
    rng.shuffle(shuffled)
    assert marks(shuffled) == found


def test_identity_counts_scene_and_code_and_not_the_name():
    one = solution([1, 2])
    named = dataclasses.replace(one, subtasks=tuple(
        dataclasses.replace(s, name='other', code=s.code + '  \n') for s in one.subtasks))
    assert solution_key(named) == solution_key(one)
    assert len({solution_key(s) for s in (one, solution([1, 2], 1), solution([2, 1]),
                                          solution([1]))}) == 4


def explored(completed=CompletedBase.FIRST, policy=None, **more):
    executor = StructuralExecutor()
    chosen = LabelSettings(bases=4, completions=2, completed=completed, **more)
    made = [label_task(spec, policy or StructuredGenerator(), executor, (), chosen)
            for spec in SPECS]
    return made, executor


@pytest.mark.parametrize('completed', CompletedBase)
def test_completions_keep_the_prefix_and_nothing_runs_twice(completed):
    made, executor = explored(completed)
    keys = [solution_key(one) for one in executor.solutions]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {solution_key(t.solution) for one in made for t in one.tried}
    bases = {(one.spec.name, t.number): t.solution for one in made for t in one.tried
             if t.origin != COMPLETION}
    for one in made:
        completed_of = {t.number for t in one.tried if t.origin == COMPLETION}
        wins = {t.number for t in one.tried if t.origin != COMPLETION and t.execution.success}
        assert completed_of <= wins
        assert len(completed_of) == (len(wins) if completed is CompletedBase.ALL
                                     else min(len(wins), 1))
        for t in one.tried:
            base = bases[one.spec.name, t.number]
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
    made, _ = explored(policy=Mumbling())
    assert all(one.malformed == 2 for one in made)
    assert counts(made)['malformed'] == 2 * len(SPECS)
    assert all(len([t for t in one.tried if t.origin != COMPLETION]) == 2 for one in made)


def makers(executor=StructuralExecutor):
    return LabelMakers(StructuredGenerator, executor, LabelSettings(bases=4, completions=1))


def provenance(batch=4):
    return Provenance('grammar-1', 'structure', makers().settings, batch,
                      tuple(spec.name for spec in SPECS))


def test_a_dataset_is_the_same_for_all_workers_and_is_read_back(tmp_path, dask):
    shown = []
    here = make_dataset(tmp_path / 'a.jsonl', SPECS, provenance(), makers(),
                        progress=lambda *more: shown.append(more[:2]))
    there = make_dataset(tmp_path / 'b.jsonl', SPECS, provenance(), makers(),
                         workers=Workers(cluster=dask))
    assert here == there == read_dataset(tmp_path / 'a.jsonl')
    assert shown == [(k + 1, len(SPECS)) for k in range(len(SPECS))]
    assert (tmp_path / 'a.jsonl').read_bytes() == (tmp_path / 'b.jsonl').read_bytes()


class Ending(StructuralExecutor):
    """Ends the program at the seventh task."""

    def execute(self, spec, one, seed):
        if spec.name == SPECS[6].name:
            raise KeyboardInterrupt
        return super().execute(spec, one, seed)


def test_an_interrupted_dataset_goes_on(tmp_path):
    path = tmp_path / 'a.jsonl'
    with pytest.raises(KeyboardInterrupt):
        make_dataset(path, SPECS, provenance(), makers(Ending))
    assert len(read_dataset(path).tasks) == 4
    whole = make_dataset(path, SPECS, provenance(), makers())
    assert whole == make_dataset(tmp_path / 'b.jsonl', SPECS, provenance(), makers())
    with pytest.raises(ConfigError, match='other tasks or settings'):
        make_dataset(path, SPECS, provenance(batch=3), makers())


def test_the_pool_of_a_dataset_has_the_shortest_and_no_test_task(tmp_path):
    data = make_dataset(tmp_path / 'a.jsonl', SPECS, provenance(), makers())
    barred = frozenset({SPECS[0].name})
    pool = data.pool(ExemplarPool(barred=barred))
    solved = {one.spec.name: shortest_success(one.tried) for one in data.tasks}
    assert {one.spec.name for one in pool.exemplars} == {
        name for name, best in solved.items() if best is not None} - barred
    assert all(one.solution == solved[one.spec.name] for one in pool.exemplars)


def test_a_broken_dataset_file_is_told(tmp_path):
    path = tmp_path / 'a.jsonl'
    with pytest.raises(ConfigError, match='cannot read'):
        read_dataset(path)
    for text in ('', '[]\n', '{"version": 9}\n', '{"version": 1}\n{}\n'):
        path.write_text(text)
        with pytest.raises(DataError):
            read_dataset(path)


