"""The example policies on the simulated station: the strong beats the weak, each trial repeats."""

import importlib.util
import os

import numpy as np
import pytest

from arena_robot.policy.examples import vision
from arena_robot.robots.arms import PANDA

LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='one task shows it: make walks')


@pytest.fixture(scope='module')
def trials():
    if importlib.util.find_spec('mujoco') is None:
        pytest.skip('mujoco is not installed')
    from arena_robot.trials import trial
    return trial


@pytest.fixture(scope='module')
def course(trials):
    shared = trials.Course()
    yield shared
    shared.close()


@pytest.mark.parametrize('task', ['lift_cube', pytest.param('cube_in_bowl', marks=LONG)])
def test_the_strong_one_beats_the_weak_ones(trials, course, task):
    def outcomes(name, steps):
        return [course.run(trials.Trial(name, task, seed, steps)) for seed in (0, 1, 2)]

    strong = outcomes('vision', 400)
    assert [trial.succeeded for trial in strong] == [True] * 3, strong
    for weak in ('random_walk', 'frozen'):
        trials_of = outcomes(weak, 120)
        assert not any(trial.succeeded for trial in trials_of)
        assert max(trial.progress for trial in trials_of) < 0.3
    assert all(trial.end == 'done' and trial.clamped < 0.2 * trial.steps for trial in strong)


def test_a_trial_repeats_exactly(trials, course):
    trial = trials.Trial('vision_noisy', 'cube_in_bowl', 4, 160)
    first = course.run(trial)
    course.run(trials.Trial('vision', 'press_button', 1))
    assert course.run(trial) == first


def driven(station, before=lambda step, action: None, steps=400):
    """Let the vision policy move a station's arm until its task is done; return the steps."""
    from arena_robot.core.action import Action, GripperCommand
    from arena_robot.core.observation import Observation
    from arena_robot.drivers.guarded import guarded

    policy, guard = vision.Vision(), guarded(station.arm, PANDA, station.clock)
    for step in range(steps):
        arm, gripper = station.arm.state(), station.gripper.state()
        if step % vision.LENGTH == 0:
            images = {vision.VIEW: station.cameras['wrist'].frame().left}
            chunk = policy.infer(Observation(station.clock.now_ns(), arm, gripper,
                                             station.instruction, step, images))
        action = chunk.actions[step % vision.LENGTH].astype(float)
        before(step, action)
        guard.act(Action(action, chunk.space), station.clock.now_ns()).result()
        station.gripper.command(GripperCommand(float(action[7] > 0.5), station.clock.now_ns()))
        station.step(1 / 15)
        if station.succeeded():
            return step
    return steps


@pytest.fixture
def cubes(trials):
    from arena_robot.drivers.sim.station import SimStation

    with SimStation.make('lift_cube', 3, cameras=('wrist',), eyes=('left',)) as station:
        yield station


def test_a_block_taken_from_under_the_hand_is_picked_all_the_same(cubes):
    at, closed = cubes.world.joint(cubes.task.target)[0], []

    def take_away(step, action):
        if action[7] > 0.5 and not closed:
            closed.append(step)
            cubes.world.data.qpos[at:at + 2] += (0.0, 0.07)

    steps = driven(cubes, take_away)
    assert cubes.succeeded()
    assert steps > closed[0] + 60


def test_a_block_on_another_is_seen_to_be_higher_and_picked(cubes):
    target = cubes.task.target
    other = next(name for name in cubes.task.setup.places if name != target)
    cubes.world.data.qpos[cubes.world.joint(target)[0]:][:3] = (
        cubes.truth.position(other) + np.array([0.0, 0.0, 0.045]))
    cubes.step(0.3)
    assert cubes.truth.position(target)[2] > 0.06
    driven(cubes)
    assert cubes.succeeded()
    assert cubes.truth.position(other)[2] < 0.03
