"""The world's time, its determinism, saved states, real time; the Gymnasium environment."""

import time

import numpy as np
import pytest

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.errors import ConfigError, DriverError, StaleData
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.sim.expert import ExpertMotions
from arena_robot.drivers.sim.station import KeptStart, SimStation, read_start, write_start


def station(task='cube_in_bowl', seed=0, **options):
    return SimStation.make(task, seed, cameras=(), **options)


def wave(sim, steps=20):
    q = sim.arm.state().q
    for k in range(steps):
        sim.arm.command(ArmCommand(q + 0.3 * np.sin(k / 5), 0))
        sim.gripper.command(GripperCommand(k % 2, 0))
        sim.step(1 / 15)
    return np.concatenate([sim.world.data.qpos, sim.world.data.qvel])


def test_the_same_commands_give_the_same_motion():
    with station(seed=4) as a, station(seed=4) as b:
        np.testing.assert_array_equal(wave(a), wave(b))


def test_steps_add_up_to_the_asked_time():
    with station(epoch_ns=10**18) as sim:
        for _ in range(150):
            sim.step(1 / 15)
        assert sim.clock.now_ns() - 10**18 == pytest.approx(10e9, abs=1.1e6)


def test_sleeping_on_the_clock_drives_an_idle_world():
    with station() as sim:
        sim.clock.sleep_until_ns(500_000_000)
        assert sim.clock.now_ns() == 500_000_000
        sim.clock.sleep_until_ns(1)
        assert sim.clock.now_ns() == 500_000_000


def test_restores_exactly():
    with station(seed=1) as sim:
        start = sim.save()
        qpos = sim.world.data.qpos.copy()
        first = wave(sim)
        sim.restore(start)
        np.testing.assert_array_equal(sim.world.data.qpos, qpos)
        np.testing.assert_array_equal(wave(sim), first)


def test_a_grip_survives_being_restored():
    with station('lift_cube', 2) as sim:
        for _ in ExpertMotions(sim).pick(sim.task.target, lift=0.1):
            sim.step(1 / 15)
        held = sim.save()
        sim.reset('lift_cube', 5)
        sim.restore(held)
        sim.step(2.0)
        assert sim.truth.position(sim.task.target)[2] > 0.08


def test_time_goes_on_when_the_past_is_restored():
    with station() as sim:
        start = sim.save()
        sim.step(1.0)
        sim.restore(start)
        assert sim.clock.now_ns() == 1_000_000_000
        sim.step(0.1)
        assert sim.clock.now_ns() == 1_100_000_000


def test_restores_as_a_person_would():
    with station(seed=1) as sim:
        start, names = sim.save(), sorted(sim.task.setup.places)
        home = {name: (sim.truth.position(name), sim.truth.yaw(name)) for name in names}
        moves, turns = [], []
        for seed in range(40):
            sim.restore(start, moved_mm=6, turned_deg=4, seed=seed)
            for name in names:
                moves.append((sim.truth.position(name) - home[name][0])[:2])
                turns.append(sim.truth.yaw(name) - home[name][1])
        assert np.std(moves) == pytest.approx(0.006, rel=0.2)
        assert np.std(turns) == pytest.approx(np.radians(4), rel=0.2)
        sim.restore(start, moved_mm=6, seed=3)
        again = sim.world.data.qpos.copy()
        sim.restore(start, moved_mm=6, seed=3)
        np.testing.assert_array_equal(sim.world.data.qpos, again)


def test_a_saved_start_of_another_scene_comes_back():
    with station('stack_blocks', 1) as sim:
        start, instruction = sim.save(), sim.instruction
        sim.reset('open_drawer', 2)
        assert sim.instruction != instruction
        sim.restore(start)
        assert sim.instruction == instruction
        assert sim.task.name == 'stack_blocks'
        sim.step(0.1)
        assert sim.progress() < 0.05


def test_a_kept_start_comes_back_in_another_process(tmp_path):
    path = tmp_path / 'simulation' / 'start.json'
    with station('open_drawer', 1) as sim:
        sim.reset('stack_blocks', 4)
        sim.step(0.5)
        at, _ = sim.world.joint(next(iter(sim.task.setup.places)))
        sim.world.data.qpos[at] += 0.02
        sim.world.settle(0.2)
        physics, instruction = sim.world.data.qpos.copy(), sim.instruction
        write_start(path, sim.kept(sim.save()))
    with station('cube_in_bowl', 0) as sim:
        sim.step(1.0)
        start = sim.load(read_start(path))
        assert sim.instruction == instruction
        np.testing.assert_allclose(sim.world.data.qpos, physics, atol=1e-9)
        sim.step(0.3)
        assert sim.progress() < 0.05
        sim.restore(start, moved_mm=3, seed=1)
        assert 0 < np.abs(sim.world.data.qpos - physics).max() < 0.05


def test_a_kept_start_that_does_not_fit_is_refused(tmp_path):
    path = tmp_path / 'start.json'
    assert read_start(path) is None
    path.write_text('{"version": 1, "task": "cube_in_bowl", "seed": 0}')
    with pytest.raises(DriverError, match="holds no start of a scene: 'physics'; delete"):
        read_start(path)
    with station() as sim, pytest.raises(DriverError, match='of another version of the scene'):
        sim.load(KeptStart('cube_in_bowl', 0, (0.0, 1.0)))
    with pytest.raises(DriverError, match='could not be kept'):
        write_start(path / 'below', KeptStart('cube_in_bowl', 0, ()))


def test_things_rest_where_they_were_put():
    with station('sort_cubes', 3) as sim:
        before = {name: sim.truth.position(name) for name in sim.task.setup.places}
        sim.step(3.0)
        for name, position in before.items():
            np.testing.assert_allclose(sim.truth.position(name), position, atol=1e-3)


def test_runs_in_real_time_and_faster():
    with station() as sim:
        for factor in (1.0, 3.0):
            sim.world.start(factor)
            begun, wall = sim.clock.now_ns(), time.monotonic()
            time.sleep(0.6)
            ratio = (sim.clock.now_ns() - begun) / 1e9 / (time.monotonic() - wall)
            sim.world.stop()
            assert ratio == pytest.approx(factor, rel=0.3)


def test_a_running_world_is_not_stepped_by_hand():
    with station() as sim:
        sim.world.start()
        with pytest.raises(DriverError, match='clock'):
            sim.step(0.1)
        with pytest.raises(DriverError, match='already'):
            sim.world.start()
        before = sim.clock.now_ns()
        sim.clock.sleep_until_ns(before + 50_000_000)
        assert sim.clock.now_ns() >= before + 50_000_000


def test_a_world_that_hangs_makes_states_stale():
    with station() as sim:
        sim.world.start()
        sim.world.on_tick.append(lambda: time.sleep(0.7))
        time.sleep(0.3)
        assert sim.world.silence_s() > 0.1
        with pytest.raises(StaleData, match='simulation'):
            sim.arm.state(0.05)
        sim.world.on_tick.pop()


def test_unknown_task_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'stack_blocks'"):
        SimStation.make('stack_block')


GYM_ID = 'arena_robot.drivers.sim.droid_gym:arena_robot/DroidStation-v0'


@pytest.fixture(scope='module')
def gymnasium():
    return pytest.importorskip('gymnasium', reason="pip install 'droid-arena[gym]'")


def walk(env, seed, steps=12):
    """Return the joints and rewards of random steps, and whether it ended."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    rows = []
    for _ in range(steps):
        observation, reward, *_ = env.step(env.action_space.sample())
        rows.append([*observation['joint_position'], reward])
    return np.array(rows)


@pytest.mark.parametrize('space', ['joint_position', 'cartesian_velocity'])
@pytest.mark.filterwarnings('ignore:.*recommend using a symmetric')    # joints have limits
def test_gymnasiums_checker_finds_nothing(gymnasium, space):
    from gymnasium.utils.env_checker import check_env
    env = gymnasium.make(GYM_ID, action_space=space, cameras=('wrist',), size=(64, 36),
                         render_mode='rgb_array')
    with env:
        check_env(env.unwrapped)
        observation, info = env.reset(seed=1)
        assert observation['wrist'].shape == (36, 64, 3)
        assert observation['wrist'].std() > 5.0
        assert env.render().shape == (36, 64, 3)
        assert info['instruction']


def test_seeds_reproduce_an_environment(gymnasium):
    with gymnasium.make(GYM_ID) as env, gymnasium.make(GYM_ID) as other:
        first = walk(env, 5)
        np.testing.assert_array_equal(walk(other, 5), first)
        np.testing.assert_array_equal(walk(env, 5), first)
        assert not np.array_equal(walk(env, 6), first)


def test_rewards_add_up_to_the_potential_and_success_ends_it(gymnasium):
    with gymnasium.make(GYM_ID, task='press_button', action_space='joint_position') as env:
        env.reset(seed=0)
        sim = env.unwrapped.station
        twin = station('press_button', sim.world.scene.spec.seed)
        twin.open()
        hands, total, ended = ExpertMotions(twin), sim.potential(), False
        for _ in twin.task.solve(hands):
            target = [*twin.world.arm.q_des, twin.gripper.state().requested_position]
            _, reward, ended, cut, info = env.step(np.float32(target))
            twin.step(1 / 15)
            total += reward
            if ended:
                break
        assert (ended, cut, info['success']) == (True, False, True)
        assert total == pytest.approx(sim.potential())
        twin.close()


def test_an_arm_that_stopped_itself_ends_the_episode(gymnasium):
    with gymnasium.make(GYM_ID) as env:
        env.reset(seed=0)
        env.unwrapped.station.arm.inject(RobotMode.REFLEX)
        *_, ended, _, info = env.step(env.action_space.sample())
        assert ended
        assert 'recover' in info['stopped']


def test_a_vector_of_environments_has_the_episodes_of_single_ones(gymnasium):
    with gymnasium.make(GYM_ID) as env:
        alone = [env.reset(seed=seed)[0]['joint_position'] for seed in (3, 4)]
        wave_1 = env.step(np.full(8, 0.25, np.float32))[0]['joint_position']
    many = gymnasium.make_vec(GYM_ID, num_envs=2, vectorization_mode='sync')
    try:
        observations, _ = many.reset(seed=3)
        np.testing.assert_array_equal(observations['joint_position'], alone)
        moved, rewards, *_ = many.step(np.full((2, 8), 0.25, np.float32))
        assert rewards.shape == (2,)
        np.testing.assert_allclose(moved['joint_position'][1], wave_1, atol=1e-6)
    finally:
        many.close()
