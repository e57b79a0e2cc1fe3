"""The example policies: honest, deterministic, sound, and of clearly different strength."""

import ast
import dataclasses
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
from arena_robot.policy.connect import SERVERS, load_policy
from arena_robot.policy.examples import vision
from arena_robot.policy.examples.vision_verbs import Goal, Thing, understood
from arena_robot.robots.arms import PANDA, RESET_JOINTS

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
    allowed = ('arena_robot.core', 'arena_robot.robots', 'arena_robot.safety',
               'arena_robot.policy')
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
    first, second = (vision.Vision().infer(o, 'e').actions for o in (seen, other))
    np.testing.assert_array_equal(first, second)


def test_the_suite_sees_the_policy_over_the_wire():
    with SERVERS['grpc'](vision.Vision()) as server:
        assert Probe(server.address, QUICK).spec == vision.Vision().spec


# -- on the simulated station ---------------------------------------------------------------
