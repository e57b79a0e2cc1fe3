"""Scenes of skill tasks, and solutions that are executed in them."""

import dataclasses
from functools import partial

import pytest

from arena_robot.core.errors import ConfigError
from arena_robot.core.extensions import broken_members
from arena_robot.drivers.sim.scene import SceneSpec, build_scene
from arena_robot.drivers.sim.truth import SceneLinks
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.safety.limits import robot_of
from arena_robot.skills.base import SkillExecutor, SkillObject, SubtaskKind
from arena_robot.skills.specs.reference import (
    grasp_step,
    joint_step,
    reference_solution,
    reward_step,
)
from arena_robot.skills.specs.table import SKILL_TASKS, find_task
from arena_robot.trials.skills.executor import (
    StationExecutor,
    scene_problem,
    station_executor,
)
from arena_robot.trials.skills.scenes import FIXTURES, scene_setup
from arena_robot.trials.skills.search import RewardSearch, SearchBudget

TASK = find_task('open_drawer')
GOOD = reference_solution(TASK)
GRASP, OPEN, RELEASE = GOOD.subtasks


@pytest.fixture(scope='module')
def drawer():
    budget = SearchBudget(rollouts=5, steps=300)
    executor = StationExecutor(TASK, partial(RewardSearch, budget=budget))
    yield executor
    executor.close()


def done(executor, *steps, **scene):
    solution = dataclasses.replace(GOOD, subtasks=steps, scene={**GOOD.scene, **scene})
    return executor.execute(TASK.spec, solution, 3)


def flags(execution):
    return [result.success for result in execution.results], execution.claimed, execution.oracle


def test_the_reference_succeeds_and_no_prefix_is_run_twice(drawer):
    executor = station_executor(TASK.spec)
    execution = done(executor, GRASP, OPEN, RELEASE)
    assert flags(execution) == ([True, True, True], True, True)
    assert all(0 < result.sim_steps < 120 for result in execution.results)
    assert not broken_members(executor, SkillExecutor)
    assert done(executor, GRASP, OPEN, RELEASE) == execution
    assert done(executor, GRASP, OPEN).success
    assert executor.executed == 3
    release = dataclasses.replace(RELEASE, code='release_grasp(self)\nsuccess = 1 > 0')
    completed = done(executor, GRASP, OPEN, release)
    assert completed.success
    assert executor.executed == 4
    executor.close()
    assert [result.sim_steps for result in done(drawer, GRASP, OPEN, release).results] == [
        result.sim_steps for result in completed.results]


@pytest.mark.parametrize('wrong', [
    pytest.param(joint_step('Drawer', 'slide', 'handle', 0.0, 0.1), id='sign'),
    pytest.param(joint_step('Drawer', 'slide', 'handle', 1.0, 1.1), id='tolerance'),
    pytest.param(joint_step('Dimmer', 'slide', 'tab', 0.5, 0.1), id='joint')])
def test_a_wrong_goal_is_claimed_and_the_oracle_says_no(drawer, wrong):
    assert flags(done(drawer, GRASP, wrong)) == ([True, True], True, False)


def test_another_joint_that_is_moved_is_no_success(drawer):
    moved = joint_step('Dimmer', 'slide', 'tab', 1.0, 0.3)
    execution = done(drawer, moved, OPEN)
    assert execution.results[0].success
    assert execution.results[0].sim_steps > 10
    assert not execution.oracle


def test_what_cannot_be_reached_fails_within_the_budget(drawer):
    execution = done(drawer, GRASP, joint_step('Drawer', 'slide', 'handle', 2.0, 0.2))
    assert flags(execution) == ([True, False], False, False)
    assert 50 < execution.results[1].sim_steps <= 320


def test_a_search_ends_when_its_time_is_spent():
    executor = StationExecutor(TASK, partial(RewardSearch, budget=SearchBudget(cpu_s=0.0)))
    execution = done(executor, OPEN)
    executor.close()
    assert flags(execution) == ([False], False, False)
    assert execution.results[0].sim_steps == 0


def test_a_body_without_a_place_to_hold_is_not_grasped(drawer):
    execution = done(drawer, grasp_step('Drawer', 'case'), OPEN)
    assert flags(execution) == ([False], False, False)
    assert 'indicator is false' in execution.results[0].error


@pytest.mark.parametrize(('step', 'words'), [
    (joint_step('Drawer', 'hinge', 'handle', 1.0, 0.2), 'Drawer has no joint'),
    (joint_step('Door', 'slide', 'handle', 1.0, 0.2), "no object 'Door'"),
    (joint_step('Drawer', 'slide', 'knob', 1.0, 0.2), 'Drawer has no link'),
    (reward_step('open', 'import os'), 'one function'),
    (dataclasses.replace(GRASP, kind=SubtaskKind.REWARD), 'one function'),
    (dataclasses.replace(OPEN, kind=SubtaskKind.PRIMITIVE), 'not allowed')])
def test_code_that_cannot_run_is_an_outcome(drawer, step, words):
    execution = done(drawer, step, RELEASE)
    assert flags(execution) == ([False], False, False)
    assert words in execution.results[0].error
    assert execution.results[0].sim_steps == 0


def test_the_scene_of_a_solution_counts(drawer):
    opened = {**TASK.spec.initial, 'Drawer/slide': 1.0}
    assert flags(done(drawer, OPEN, joints=opened)) == ([True], True, False)
    unseen = done(drawer, GRASP, objects=['Cube'])
    assert "no object 'Drawer'" in unseen.results[0].error
    for wrong in ({'joints': {'Drawer/slide': 7}}, {'joints': []}, {'objects': 'Drawer'}):
        assert done(drawer, GRASP, OPEN, **wrong).results == ()
    assert not done(drawer).claimed


@pytest.mark.parametrize(('name', 'joints', 'words'), [
    ('open_drawer', {}, ''),
    ('open_drawer', {'Drawer/slide': 0.02}, ''),
    ('open_drawer', {'Drawer/hinge': 0.5}, "no joint 'Drawer/hinge'; it has Drawer/slide"),
    ('open_drawer', {'Drawer/slide': 1.5}, "'Drawer/slide' must be 0 to 1, found 1.5"),
    ('open_drawer', {'Drawer/slide': 1.0}, 'done before anything moves'),
    ('open_drawer', {'Dimmer/slide': 0.9}, 'rest at 0.90 of its range, and starts at 0.50')])
def test_the_simulator_says_why_a_scene_cannot_begin(name, joints, words):
    task = find_task(name)
    scene = {'objects': [], 'joints': {**task.spec.initial, **joints}}
    problem = scene_problem(None, 0, task.spec, dataclasses.replace(GOOD, scene=scene))
    assert words in problem
    assert bool(words) == bool(problem)


def test_things_that_overlap_at_the_start_are_told(monkeypatch):
    def inside(spec, solution, seed):
        setup = scene_setup(spec, solution, seed)
        cube = setup.places['Cube']
        return dataclasses.replace(setup, places={
            'Cube': dataclasses.replace(cube, z=cube.z - 0.01)})

    monkeypatch.setattr('arena_robot.trials.skills.executor.scene_setup', inside)
    assert scene_problem(TASK, 0, TASK.spec, GOOD) in (
        'Cube and room overlap by 10 mm', 'room and Cube overlap by 10 mm')


def test_an_executor_runs_its_own_task_only(drawer):
    with pytest.raises(ConfigError, match='Open Drawer'):
        drawer.execute(find_task('close_drawer').spec, GOOD, 0)


def test_a_dropped_state_is_made_again(monkeypatch):
    monkeypatch.setattr('arena_robot.trials.skills.executor.KEPT_STATES', 1)
    monkeypatch.setattr('arena_robot.trials.skills.executor.KEPT_SCENES', 1)
    task = find_task('press_start_and_stop_buttons')
    executor = station_executor(task.spec)
    reference = reference_solution(task)
    start, stop = reference.subtasks
    assert executor.execute(task.spec, reference, 0).success
    reverse = dataclasses.replace(reference, subtasks=(stop,))
    assert not executor.execute(task.spec, reverse, 0).oracle
    longer = dataclasses.replace(reference, subtasks=(start, stop, start))
    assert executor.execute(task.spec, longer, 0).success
    executor.close()


@pytest.fixture(scope='module')
def links():
    props = tuple(make(name, 0.5 * number, 0.0, 0.0, 'red')
                  for number, (name, (make, *_)) in enumerate(FIXTURES.items(), 4))
    return SceneLinks(SimWorld(build_scene(SceneSpec(robot_of('panda'), props))))


def test_links_and_joints_are_those_of_the_specification(links):
    objects = {item.name: item for task in SKILL_TASKS.values() for item in task.spec.objects}
    assert set(FIXTURES) == {name for name, item in objects.items() if item.joints}
    for name in FIXTURES:
        for link in objects[name].links:
            assert links.has_body(f'{name}_{link.name}' if link.parent else name)
        for joint in objects[name].joints:
            motion = links.motion(f'{name}_{joint.name}')
            assert (motion.low, motion.high) == pytest.approx((joint.low, joint.high), abs=1e-4)
            assert motion.hinge == (joint.kind == 'hinge')
            assert links.body_of(motion.name) == f'{name}_{joint.link}'


def test_every_link_that_moves_a_joint_can_be_held_or_pushed(links):
    for task in SKILL_TASKS.values():
        for key, link in task.held.items():
            item, joint = key.split('/')
            assert f'{item}_{joint}' in links.joints_of(f'{item}_{link}')
            assert (links.grip(f'{item}_{link}') is not None) or not task.grasps
    assert links.grip('Drawer') is None
    assert links.grip('Box_lid').width_m == pytest.approx(0.05)


def test_a_scene_depends_on_its_seed_and_on_nothing_else():
    task = find_task('move_cube_to_left_mark')
    solution = reference_solution(task)
    assert scene_setup(task.spec, solution, 4) == scene_setup(task.spec, solution, 4)
    assert scene_setup(task.spec, solution, 4) != scene_setup(task.spec, solution, 5)
    strange = dataclasses.replace(task.spec, objects=(SkillObject('Piano', 'Piano'),))
    with pytest.raises(ConfigError, match='Piano'):
        scene_setup(strange, solution, 4)
