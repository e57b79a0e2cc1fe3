"""The learner of reward subtasks: its environment, and soft actor-critic where it is installed."""

import sys
from functools import partial

import numpy as np
import pytest

from arena_robot.cli.main import main
from arena_robot.core.errors import ConfigError, DriverError
from arena_robot.skills.confined.code import RewardCode
from arena_robot.skills.specs.reference import joint_step, reference_solution
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.executor import (
    EXECUTORS,
    LiveScene,
    StationExecutor,
    learner_of,
    motion_finder,
    run_subtask,
)
from arena_robot.trials.skills.learning import (
    EPISODE_STEPS,
    LearningBudget,
    SkillEnvironment,
    SkillLearner,
    sac_learner,
)
from arena_robot.trials.skills.search import RewardSearch
from arena_robot.trials.skills.view import StationView

TASK = find_task('open_drawer')
GOOD = reference_solution(TASK)
GRASP, OPEN, RELEASE = GOOD.subtasks
STILL = np.array([0.0, 0.0, 0.0, 0.0, -1.0])
KEY = '0' * 16
MISSING = 'stable-baselines3 is missing: pip install droid-arena[rl]'
LOW = 'def _compute_reward(self):\n    return -get_eef_pos(self)[0][2], 1 < 0\n'


@pytest.fixture(scope='module')
def drawer():
    scene = LiveScene(TASK, GOOD, 3)
    assert run_subtask(scene, GRASP, RewardSearch, KEY).result.success
    scene.begun = scene.station.save()
    yield scene
    scene.close()


@pytest.fixture
def held(drawer):
    drawer.station.restore(drawer.begun)
    return drawer


def environment(scene, code=OPEN.code):
    return SkillEnvironment(scene.motions, StationView(scene.motions, scene.objects),
                            RewardCode(code), scene.station.save())


def pulling(place, left, seed, speed=1.0):
    """Move the hand along the drawer's joint, whatever is seen."""
    del seed
    way = np.append(speed * place._links.motion('Drawer_slide').axis, [0.0, -1.0])
    place.reset(left())
    while place.found is None and left():
        step = place.step(way)
        if step.ended or step.cut:
            place.reset(left())


def test_a_motion_that_is_learned_is_kept_and_made_again(held):
    executor = StationExecutor(TASK, partial(SkillLearner, train=pulling,
                                             budget=LearningBudget(steps=400)))
    execution = executor.execute(TASK.spec, GOOD, 3)
    motion = executor.outcomes(TASK.spec, GOOD, 3)[1].motion
    executor.close()
    assert execution.success
    assert len(motion.path) == len(motion.widths) < EPISODE_STEPS
    view = StationView(held.motions, held.objects)
    assert RewardSearch(held.motions, view, RewardCode(OPEN.code)).again(motion)
    assert held.motions.links.motion('Drawer_slide').position > 0.08


def test_what_is_not_learned_leaves_the_station_as_it_was(held):
    before, steps = held.motions.links.motion('Drawer_slide').position, held.motions.steps
    finder = partial(SkillLearner, train=partial(pulling, speed=-1.0),
                     budget=LearningBudget(steps=150))
    outcome = run_subtask(held, OPEN, finder, KEY)
    assert (outcome.result.success, outcome.motion) == (False, None)
    assert outcome.result.error == 'no motion reaches the indicator'
    assert 150 <= held.motions.steps - steps < 160
    assert held.motions.links.motion('Drawer_slide').position == before


def test_a_learner_needs_no_step_where_the_goal_holds_and_none_without_time(held):
    steps = held.motions.steps
    holds = joint_step('Drawer', 'slide', 'handle', 0.0, 0.2)
    for budget, step, success in ((LearningBudget(), holds, True),
                                  (LearningBudget(cpu_s=0.0), OPEN, False)):
        finder = partial(SkillLearner, train=pulling, budget=budget)
        assert run_subtask(held, step, finder, KEY).result.success == success
    assert held.motions.steps == steps


def test_an_episode_is_the_same_each_time_and_ends_at_its_limit(held):
    place = environment(held)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (6, 5))
    runs = []
    for _ in range(2):
        first = place.reset(EPISODE_STEPS)
        steps = [place.step(action) for action in actions]
        runs.append([first, *(step.observation for step in steps),
                     [step.reward for step in steps]])
        assert first.shape == (place.observations,)
    for first_run, second_run in zip(*runs, strict=True):
        np.testing.assert_array_equal(first_run, second_run)
    place.reset(7)
    assert [place.step(STILL).cut for _ in range(3)] == [False, False, True]


def test_the_gripper_opens_when_several_actions_say_so(held):
    place, station = environment(held), held.station
    shut = station.gripper.state().width_m
    opening = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    place.step(opening)
    assert station.gripper.state().width_m == pytest.approx(shut, abs=1e-3)
    for _ in range(9):
        place.step(opening)
    assert station.gripper.state().width_m > 0.07


def test_an_arm_that_stops_ends_the_episode(held, monkeypatch):
    place = environment(held, LOW)
    away = [place.step(np.array([0.0, 0.0, 1.0, 0.0, 1.0])).reward for _ in range(6)]
    assert min(away) < -0.05

    def stopped(*_):
        raise DriverError('reflex')

    monkeypatch.setattr(held.motions, 'follow', stopped)
    step = place.step(STILL)
    assert (step.ended, step.reward) == (True, pytest.approx(10 * min(away)))
    assert place.found is None


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'stable_baselines3', None)
    monkeypatch.setitem(sys.modules, 'torch', sys)
    monkeypatch.setitem(sys.modules, 'gymnasium', sys)
    assert main(['skill', 'run', 'open_drawer', '--learner', 'sac']) == 2
    printed = capsys.readouterr().err
    assert 'stable_baselines3' in printed
    assert "pip install 'droid-arena[rl]'" in printed
    assert motion_finder('search') is RewardSearch
    assert [learner_of(EXECUTORS[name]) for name in EXECUTORS] == list(EXECUTORS)
    with pytest.raises(ConfigError, match="Did you mean 'sac'"):
        motion_finder('sak')


def test_soft_actor_critic_opens_the_drawer_the_same_way_twice(held):
    pytest.importorskip('stable_baselines3', reason=MISSING)
    runs = []
    for _ in range(2):
        held.station.restore(held.begun)
        runs.append(run_subtask(held, OPEN, sac_learner(), KEY))
        assert runs[-1].result.success
        assert held.motions.links.motion('Drawer_slide').position > 0.08
    assert runs[0].result.sim_steps == runs[1].result.sim_steps
    np.testing.assert_array_equal(*([pose.point for pose in run.motion.path] for run in runs))


def test_soft_actor_critic_ends_when_its_steps_are_spent(held):
    pytest.importorskip('stable_baselines3', reason=MISSING)
    never = joint_step('Drawer', 'slide', 'handle', 2.0, 0.2)
    result = run_subtask(held, never, sac_learner(LearningBudget(steps=600)), KEY).result
    assert not result.success
    assert 600 <= result.sim_steps < 610
