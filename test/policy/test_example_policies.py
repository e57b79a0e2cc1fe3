"""The example policies: honest, deterministic, sound, and of clearly different strength."""

import ast
import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from policy_samples import observation

from arena_robot.core.errors import PolicyRefused
from arena_robot.core.observation import Image
from arena_robot.policy import examples
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.conformance.probe import Probe, ProbeLimits
from arena_robot.policy.conformance.suite import run_suite
from arena_robot.policy.connect import SERVERS
from arena_robot.policy.examples import vision
from arena_robot.policy.examples.vision_body import WristEye, downward, joints_for, pads
from arena_robot.policy.examples.vision_colours import COLOURS, PAINTS, labelled
from arena_robot.policy.examples.vision_prompt import Goal, Thing, understood
from arena_robot.policy.examples.vision_shapes import (
    BOTTLE,
    CUBE,
    CUP,
    PANEL,
    TRAY,
    Found,
    fitted,
    height_of,
)
from arena_robot.policy.examples.vision_sight import blobs, tilt_error
from arena_robot.policy.loading import load_policy
from arena_robot.safety.kinematics import FLANGE, frames
from arena_robot.safety.robots import PANDA, RESET_JOINTS

FOLDER = Path(examples.__file__).parent
QUICK = ProbeLimits(calls=5, clients=2)
BLACK = np.zeros((180, 320, 3), np.uint8)

PROMPTS = {
    'pick up the red cube': Goal('lift', (Thing('cube', 'red'),)),
    'grab the pink cube and lift it': Goal('lift', (Thing('cube', 'pink'),)),
    'Put the Blue block in the bowl.': Goal('put', (Thing('cube', 'blue'), Thing('bowl'))),
    'move the green cube to the bowl': Goal('put', (Thing('cube', 'green'), Thing('bowl'))),
    'place the purple mug on the plate': Goal('put', (Thing('cup', 'purple'), Thing('plate'))),
    'put the red block on top of the blue block':
        Goal('stack', (Thing('cube', 'red'), Thing('cube', 'blue'))),
    'sort the cubes onto the trays of the same colour':
        Goal('sort', (Thing('cube'), Thing('tray'))),
    'push the button': Goal('press', (Thing('button'),)),
    'press the pink button': Goal('press', (Thing('button', 'pink'),)),
    'push the bottle so that it falls': Goal('topple', (Thing('bottle'),)),
    'the red cube is under the green cup, show it':
        Goal('find', (Thing('cube', 'red'), Thing('cup', 'green'))),
    'push the drawer shut': Goal('shut'),
    'stay still': Goal('stay'), 'do not move': Goal('stay'),
    'fold the towel': Goal(''), '': Goal(''), 'ß' * 500: Goal(''),
}


@pytest.mark.parametrize(('prompt', 'goal'), PROMPTS.items(), ids=lambda v: str(v)[:30])
def test_prompts_are_understood(prompt, goal):
    assert understood(prompt) == goal


def test_examples_know_nothing_of_the_simulator():
    allowed = ('arena_robot.core', 'arena_robot.safety', 'arena_robot.policy')
    for path in FOLDER.glob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            names = ([node.module] if isinstance(node, ast.ImportFrom)
                     else [a.name for a in node.names] if isinstance(node, ast.Import) else [])
            for name in names:
                assert not name.startswith('arena_robot') or name.startswith(allowed), path
                assert name.split('.')[0] not in ('mujoco', 'importlib'), path


def test_there_are_enough_examples_and_all_load():
    assert len(examples.EXAMPLES.built_in) >= 6
    for name in examples.EXAMPLES.built_in:
        assert isinstance(load_policy(name).spec, PolicySpec)


@pytest.mark.parametrize('name', sorted(set(examples.EXAMPLES.built_in) - {'echo'}))
def test_examples_pass_the_conformance_suite(name):
    with SERVERS['grpc'](load_policy(name)) as server:
        report = run_suite(server.address, QUICK)
    assert report.passed, report.text()


def test_vision_passes_over_openpi():
    with SERVERS['openpi'](vision.Vision()) as server:
        report = run_suite(server.address, QUICK)
    assert report.passed, report.text()


# -- seeing ---------------------------------------------------------------------------------


def painted(solid, foot, yaw, colour, eye):
    import cv2
    picture = np.full((180, 320, 3), (170, 165, 160), np.uint8)
    rgb = tuple(int(200 * part) for part in PAINTS[colour])
    for outline in solid.outlines(eye, np.array([*foot, 0.0]), yaw):
        cv2.fillConvexPoly(picture, np.round(outline * 16).astype(np.int32), rgb, shift=4)
    return picture


@pytest.fixture
def eye():
    turn = downward(0.0, 0.42)
    at = np.array([0.32, 0.0, 0.54]) + 0.152 * turn[:, 2]
    return WristEye.at(joints_for(np.array(RESET_JOINTS), at, turn, 60))


@pytest.mark.parametrize('solid', [CUBE, TRAY, CUP, BOTTLE, PANEL],
                         ids=['cube', 'tray', 'cup', 'bottle', 'panel'])
@pytest.mark.parametrize('foot', [(0.45, 0.1), (0.58, -0.15), (0.5, 0.2)])
def test_solids_are_found_by_their_outline(solid, foot, eye):
    for colour, yaw in zip(COLOURS, np.tile(solid.yaws, 7)[2:30:5], strict=False):
        picture = painted(solid, foot, yaw, colour, eye)
        patches = blobs(labelled(picture), colour)
        assert len(patches) == 1, colour
        found = fitted(eye, patches[0], solid)
        assert found.away(np.array(foot)) < 0.005
        assert found.sure > 0.85
        assert abs(found.position[2] - solid.height / 2) < 1e-9
        if solid is not BOTTLE:
            turn = (found.yaw - yaw + np.pi) % (2 * np.pi) - np.pi
            assert abs(turn) < 0.3 or solid in (CUBE, TRAY), (solid, found.yaw, yaw)


@pytest.mark.parametrize('shade', [0.35, 0.6, 1.0])
@pytest.mark.parametrize('colour', COLOURS)
def test_paints_are_told_apart_in_light_and_shade(colour, shade):
    for warmth in (-0.08, 0.0, 0.08):
        rgb = 255 * shade * np.array(PAINTS[colour]) * (1.0, 1.0 + warmth / 3, 1.0 + warmth)
        patch = np.tile(np.clip(rgb, 0, 255).astype(np.uint8), (8, 8, 1))
        assert [blob.colour for blob in blobs(labelled(patch))] == [colour]


@pytest.mark.parametrize('wood', [(196, 158, 112), (128, 88, 60), (92, 60, 40), (214, 210, 203),
                                  (140, 136, 132), (20, 20, 20), (255, 255, 255)])
def test_tables_and_grippers_are_no_paint(wood):
    assert blobs(labelled(np.full((20, 20, 3), wood, np.uint8))) == []


@pytest.mark.parametrize('error', [-0.03, 0.0, 0.02])
def test_the_tilt_is_read_off_the_fingertips(error):
    picture = np.full((180, 320, 3), 160, np.uint8)
    for side in (1, -1):
        y = side * np.array([0.0425, 0.0545])
        near = np.array([[0.011, y[0], 0.167], [0.011, y[1], 0.167]])
        left, right = sorted(WristEye.in_hand(error).project(near)[:, 0])
        top = WristEye.in_hand(error).project(near)[0, 1]
        picture[round(top):, round(left) - 1:round(right) + 2] = 18
    assert tilt_error(picture, 1.0) == pytest.approx(error, abs=0.005)
    assert tilt_error(BLACK, 1.0) is None
    assert tilt_error(BLACK + 200, 1.0) is None


def test_an_eye_sees_points_where_they_are(eye):
    points = np.array([[0.4, 0.1, 0.02], [0.6, -0.2, 0.02], [0.5, 0.0, 0.02]])
    np.testing.assert_allclose(eye.on_plane(eye.project(points), 0.02), points[:, :2], atol=1e-9)


def test_joints_bring_the_pads_where_they_are_wanted():
    for x, y, z, yaw in ((0.5, 0.2, 0.02, 0.7), (0.38, -0.24, 0.2, -1.5), (0.62, 0.24, 0.1, 0.0)):
        q = joints_for(np.array(RESET_JOINTS), np.array([x, y, z]), downward(yaw), 80)
        at, turn = pads(q)
        np.testing.assert_allclose(at, [x, y, z], atol=5e-4)
        np.testing.assert_allclose(turn, downward(yaw), atol=5e-3)
        np.testing.assert_allclose(at, (frames(q)[FLANGE] @ [0, 0, 0.152, 1])[:3])


# -- behaving -------------------------------------------------------------------------------


def rolled(policy, pictures, token='e', prompt='lift the red cube'):
    """Return the targets of an episode whose arm goes where it is sent."""
    q, chunks = np.array(RESET_JOINTS), []
    for picture in pictures:
        seen = observation({vision.VIEW: picture}, prompt=prompt, gripper=0.0)
        seen = dataclasses.replace(seen, arm=dataclasses.replace(seen.arm, q=q))
        chunks.append(policy.infer(seen, token).actions)
        q = chunks[-1][-1, :7].astype(float)
    return np.concatenate(chunks)


@pytest.mark.parametrize('kind', [vision.Vision, vision.VisionNoisy, vision.VisionConfused])
def test_the_same_is_done_after_a_reset(kind):
    random = np.random.default_rng(3)
    pictures = random.integers(0, 256, (12, 180, 320, 3), np.uint8)
    policy = kind()
    first = rolled(policy, pictures)
    policy.reset('e')
    np.testing.assert_array_equal(rolled(policy, pictures), first)
    np.testing.assert_array_equal(rolled(kind(), pictures), first)


def test_looking_in_vain_goes_on_within_the_joints_limits():
    targets = rolled(vision.Vision(), [BLACK] * 60)
    assert len(targets) == 480
    assert np.all(targets[:, :7] > PANDA.limits.q_min)
    assert np.all(targets[:, :7] < PANDA.limits.q_max)
    assert np.abs(np.diff(targets[:, :7], axis=0)).max() < 0.12
    assert np.ptp(targets[240:, 0]) > 0.05      # it looks from several sides


@pytest.mark.parametrize('prompt', ['do not move', 'fold the towel'])
def test_it_keeps_still_when_told_or_when_it_did_not_understand(prompt):
    targets = rolled(vision.Vision(), [BLACK] * 4, prompt=prompt)
    np.testing.assert_array_equal(targets, np.tile(targets[0], (32, 1)))


@pytest.mark.parametrize('images', [{}, {vision.VIEW: BLACK[:1, :1]}, {'left_left': BLACK}])
def test_other_pictures_are_refused(images):
    with pytest.raises(PolicyRefused, match=r"view 'wrist_left' must be \(180, 320, 3\)"):
        vision.Vision().infer(observation(images), 'e')


def test_episodes_that_nobody_resets_are_let_go():
    policy = vision.Vision()
    for index in range(vision.EPISODES + 5):
        policy.infer(observation({vision.VIEW: BLACK}, prompt='stay still'), f'e{index}')
    assert len(policy._episodes) == vision.EPISODES


def test_only_joints_gripper_and_pictures_matter():
    seen = observation({vision.VIEW: BLACK, 'left_left': BLACK + 9}, prompt='lift the red cube')
    arm = dataclasses.replace(seen.arm, pose=seen.arm.pose + 1.0, stamp_ns=7)
    other = dataclasses.replace(seen, arm=arm, stamp_ns=9, step=1000,
                                images={vision.VIEW: Image(BLACK, 5)})
    one, two = (vision.Vision().infer(o, 'e').actions for o in (seen, other))
    np.testing.assert_array_equal(one, two)


def test_the_suite_sees_the_policy_over_the_wire():
    with SERVERS['grpc'](vision.Vision()) as server:
        assert Probe(server.address, QUICK).spec == vision.Vision().spec


# -- on the simulated station ---------------------------------------------------------------


@pytest.fixture(scope='module')
def trials():
    if importlib.util.find_spec('mujoco') is None:
        pytest.skip('mujoco is not installed')
    from arena_robot.trials import trial
    return trial


@pytest.fixture(scope='module')
def course(trials):
    one = trials.Course()
    yield one
    one.close()


@pytest.mark.parametrize('task', ['lift_cube', 'cube_in_bowl'])
def test_the_strong_one_beats_the_weak_ones(trials, course, task):
    def outcomes(name, steps):
        return [course.run(trials.Trial(name, task, seed, steps)) for seed in (0, 1, 2)]

    strong = outcomes('vision', 400)
    assert [one.succeeded for one in strong] == [True] * 3, strong
    for weak in ('random_walk', 'frozen'):
        found = outcomes(weak, 120)
        assert not any(one.succeeded for one in found)
        assert max(one.progress for one in found) < 0.3
    assert all(one.end == 'done' and one.clamped < 0.2 * one.steps for one in strong)


def test_a_trial_repeats_exactly(trials, course):
    trial = trials.Trial('vision_noisy', 'cube_in_bowl', 4, 160)
    first = course.run(trial)
    course.run(trials.Trial('vision', 'press_button', 1))
    assert course.run(trial) == first


def driven(station, before=lambda step, action: None, steps=400):
    """Let the vision policy move a station's arm until its task is done; return the steps."""
    from arena_robot.core.action import Action, ArmCommand, GripperCommand
    from arena_robot.core.observation import Observation
    from arena_robot.safety.filter import Safety

    policy, safety = vision.Vision(), Safety(PANDA.limits, station.clock)
    for step in range(steps):
        arm, gripper = station.arm.state(), station.gripper.state()
        if step % vision.LENGTH == 0:
            images = {vision.VIEW: station.cameras['wrist'].frame().left}
            chunk = policy.infer(Observation(station.clock.now_ns(), arm, gripper,
                                             station.instruction, step, images))
        action = chunk.actions[step % vision.LENGTH].astype(float)
        before(step, action)
        safe = safety.check(Action(action, chunk.space), arm, gripper)
        station.arm.command(ArmCommand(safe.q, station.clock.now_ns()))
        station.gripper.command(GripperCommand(safe.gripper, station.clock.now_ns()))
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


@pytest.mark.parametrize('height', [0.022, 0.066, 0.11])
def test_two_views_tell_the_height(height, eye):
    hover = WristEye.at(joints_for(np.array(RESET_JOINTS), np.array([0.5, 0.1, 0.16]),
                                   downward(0.0), 60))
    seen = [Found('red', np.array([*one.on_plane(one.project(np.array([0.5, 0.1, height])), 0.022)[
        0], 0.022]), 0.0, 1.0, one.position) for one in (eye, hover)]
    assert height_of(*seen) == pytest.approx(height, abs=1e-9)
    assert height_of(seen[0], seen[0]) == np.inf
