"""Likeness of tasks, the exemplar pool and its file."""

import numpy as np
import pytest
from skill_worlds import all_specs, spec_of

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.skills.base import Solution
from arena_robot.skills.embedding import HashedNgrams, cosines
from arena_robot.skills.generator import StructuredGenerator
from arena_robot.skills.pool import ExemplarPool, read_pool, write_pool

PAPER = {'Change Fan Direction': 'Change Lamp Direction', 'Open Pot Lid': 'Remove Pot Lid',
         'Adjust Display Angle': 'Tilt Display Screen'}


def solved(spec, subtasks=None):
    made = StructuredGenerator().generate(spec, (), 3)
    return Solution(made.task, made.scene, made.subtasks[:subtasks], made.policy)


def pool_of(specs):
    pool = ExemplarPool()
    for spec in specs:
        pool = pool.grown(spec, solved(spec), 'a test')
    return pool


def test_the_papers_first_neighbours_are_found():
    others = [*PAPER.values(), 'Open Toilet Lid', 'Rotate Laptop Screen', 'Rotate Fan Rotor']
    found = {name: others[int(np.argmax(cosines(HashedNgrams(), name, others)))]
             for name in PAPER}
    assert found == PAPER


def test_rows_have_length_one_and_texts_without_words_none():
    rows = HashedNgrams(64).embed(['open the drawer', '…'])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1.0, 0.0])


def test_the_nearest_are_of_other_tasks_and_like_the_task():
    pool = pool_of(all_specs())
    spec = spec_of('drawer', 0, 0)
    near = pool.nearest(spec, 3)
    assert [one.spec.family for one, _ in near] == ['drawer'] * 3
    assert spec.name not in [one.spec.name for one, _ in near]
    assert [like for _, like in near] == sorted((like for _, like in near), reverse=True)
    assert pool.nearest(spec, 0) == []
    assert ExemplarPool().nearest(spec, 2) == []


def test_a_pool_keeps_the_shortest_solution_and_bars_test_tasks():
    spec, other = spec_of('box', 0, 0), spec_of('box', 0, 1)
    long = solved(spec)
    pool = ExemplarPool(barred=frozenset({other.name})).grown(spec, long)
    assert pool.grown(spec, solved(spec, 1)).exemplars[0].solution.subtasks == long.subtasks[:1]
    assert pool.grown(spec, solved(spec, 1)).grown(spec, long).exemplars[0].solution.subtasks \
        == long.subtasks[:1]
    with pytest.raises(DataError, match='kept for tests'):
        pool.grown(other, solved(other))
    with pytest.raises(DataError, match='is of'):
        pool.grown(spec, solved(other))
    smaller = pool.without([spec.name])
    assert smaller.exemplars == ()
    with pytest.raises(DataError):
        smaller.grown(spec, long)


def test_a_pool_is_read_as_it_was_written(tmp_path):
    pool = pool_of(all_specs(1)).without([spec_of('lamp', 0, 0).name])
    path = tmp_path / 'pool.json'
    write_pool(path, pool)
    assert read_pool(path) == pool
    assert [p.name for p in tmp_path.iterdir()] == ['pool.json']
    path.write_text(path.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(DataError, match='version 7'):
        read_pool(path)
    path.write_text('{"version": 1}')
    with pytest.raises(DataError, match='no exemplar pool'):
        read_pool(path)
    with pytest.raises(ConfigError, match='cannot read'):
        read_pool(tmp_path / 'none.json')
