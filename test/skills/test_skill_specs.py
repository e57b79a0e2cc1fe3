"""The table of skill tasks, and the files of specifications and solutions."""

import dataclasses
import json
from collections import Counter

import pytest

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.skills.as_json import to_json
from arena_robot.skills.base import SkillActionSpace, Solution, Subtask, SubtaskKind
from arena_robot.skills.confined.code import check_code
from arena_robot.skills.robogen import read_task_folder, write_task_folder
from arena_robot.skills.specs.files import (
    read_solution,
    read_spec,
    write_solution,
    write_spec,
)
from arena_robot.skills.specs.goals import JointGoal, PressGoal
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import SKILL_TASKS, find_task, slug


def test_there_are_enough_tasks_with_opposite_goals():
    families = Counter(task.spec.family for task in SKILL_TASKS.values())
    assert len(SKILL_TASKS) >= 36
    assert len(families) >= 12
    assert min(families.values()) >= 2
    for family in families:
        goals = {(goal.joint, goal.target > 0.5) for task in SKILL_TASKS.values()
                 for goal in task.goals
                 if task.spec.family == family and isinstance(goal, JointGoal)}
        joints = {joint for joint, _ in goals}
        assert all({(one, True), (one, False)} <= goals for one in joints), family


@pytest.mark.parametrize('task', SKILL_TASKS.values(), ids=lambda task: slug(task.spec.name))
def test_names_of_a_task_belong_together(task):
    spec = task.spec
    links = {f'{one.name}/{link.name}' for one in spec.objects for link in one.links}
    joints = {f'{one.name}/{joint.name}' for one in spec.objects for joint in one.joints}
    assert joints == set(spec.initial)
    assert set(task.untouched) < joints | {''}
    for goal in task.goals:
        if isinstance(goal, JointGoal | PressGoal):
            key = f'{goal.object}/{goal.joint}'
            assert key in joints
            assert f'{goal.object}/{task.held[key]}' in links
    for one in spec.objects:
        names = {link.name for link in one.links}
        assert all(link.parent in names | {''} for link in one.links)
        assert all(joint.link in names and joint.low < joint.high for joint in one.joints)
    assert find_task(slug(spec.name)) is task
    for step in reference_solution(task).subtasks:
        check_code(step)


def test_an_unknown_task_names_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'open_drawer'"):
        find_task('open_draw')


def test_specifications_survive_their_files(tmp_path):
    path = tmp_path / 'spec.json'
    for task in list(SKILL_TASKS.values())[::9]:
        write_spec(path, task.spec)
        assert read_spec(path) == task.spec
    path.write_text('{"name": "a", "descriptoin": "b"}')
    with pytest.raises(DataError, match='descriptoin'):
        read_spec(path)


def test_a_solution_survives_its_file(tmp_path):
    solution = reference_solution(find_task('open_drawer'))
    write_solution(tmp_path / 'a.json', solution)
    assert read_solution(tmp_path / 'a.json') == solution
    for text in ('[1]', '{', json.dumps(to_json(solution) | {'taks': 1})):
        (tmp_path / 'b.json').write_text(text)
        with pytest.raises(DataError, match=r'b\.json'):
            read_solution(tmp_path / 'b.json')


def test_a_task_folder_is_written_and_read(tmp_path):
    task = find_task('move_cube_to_left_mark')
    solution = reference_solution(task)
    twice = dataclasses.replace(
        solution, subtasks=(*solution.subtasks, *solution.subtasks[:1]), policy='me')
    write_task_folder(tmp_path / 'a', task.spec, twice)
    assert (tmp_path / 'a' / 'substep_types.txt').read_text() == (
        'primitive\nreward\nprimitive\nprimitive\n')
    assert read_task_folder(tmp_path / 'a', 'me') == twice


def test_a_folder_without_numbers_is_read(tmp_path):
    for name, text in {
            'open.yaml': '- use_table: true\n- name: Chair\n  type: urdf\n- joint_0: "0.5"\n'
                         '  set_joint_angle_object_name: Chair\n- task_name: Fold Chair\n',
            'substeps.txt': 'fold the seat\n', 'substep_types.txt': 'reward\n',
            'action_spaces.txt': 'delta-translation\n', 'fold_the_seat.py': 'code\n'}.items():
        (tmp_path / name).write_text(text)
    assert read_task_folder(tmp_path) == Solution(
        'Fold Chair', {'objects': ['Chair'], 'joints': {'Chair/joint_0': 0.5}},
        (Subtask('fold the seat', SubtaskKind.REWARD, 'code\n', SkillActionSpace.TRANSLATION),),
        'robogen')


@pytest.mark.parametrize(('name', 'text', 'found'), [
    ('config.yaml', 'a: 1', 'list of mappings'), ('config.yaml', '- a: 1', 'no task_name'),
    ('config.yaml', '[', 'no YAML'), ('substeps.txt', 'a\nb\n', 'as many'),
    ('substep_types.txt', 'primitive\nmagic\nprimitive\n', 'magic'),
    ('config.yaml', 'x' * 200_000, 'larger')])
def test_a_wrong_folder_is_a_data_error(tmp_path, name, text, found):
    task = find_task('open_drawer')
    write_task_folder(tmp_path, task.spec, reference_solution(task))
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=found):
        read_task_folder(tmp_path)
