"""The fixtures have the links and joints that the specifications say."""

import dataclasses

import pytest

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.sim.scene import SceneSpec, build_scene
from arena_robot.drivers.sim.truth import SceneLinks
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.safety.limits import robot_of
from arena_robot.skills.base import SkillObject
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import SKILL_TASKS, find_task
from arena_robot.trials.skills.scenes import FIXTURES, scene_setup


@pytest.fixture(scope='module')
def links():
    props = tuple(make(name, 0.5 * number, 0.0, 0.0, 'red')
                  for number, (name, (make, *_)) in enumerate(FIXTURES.items(), 4))
    return SceneLinks(SimWorld(build_scene(SceneSpec(robot_of('panda'), props))))


def test_links_and_joints_are_those_of_the_specification(links):
    objects = {one.name: one for task in SKILL_TASKS.values() for one in task.spec.objects}
    assert set(FIXTURES) == {name for name, one in objects.items() if one.joints}
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
            thing, joint = key.split('/')
            assert f'{thing}_{joint}' in links.joints_of(f'{thing}_{link}')
            assert (links.grip(f'{thing}_{link}') is not None) or not task.grasps
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
