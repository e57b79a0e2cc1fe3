"""The tasks: instructions, oracles, potentials, the expert that proves them, `arena sim`."""

import json
import os

import cv2
import numpy as np
import pytest

from arena_robot.audit.opd import measure
from arena_robot.cli.main import main
from arena_robot.drivers.sim.expert import PERIOD_S, PadKinematics, run_expert
from arena_robot.drivers.sim.station import SimStation, make_task
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.drivers.sim.truth import SceneLinks
from arena_robot.skills.base import Solution
from arena_robot.skills.specs.table import SKILL_TASKS
from arena_robot.skills.specs.tasks import JointGoal, LiftGoal, PlaceGoal, PressGoal
from arena_robot.trials.labelled import script
from arena_robot.trials.skills.scenes import SkillScene, scene_setup

LONG = 'ARENA_TEST_WALKS' in os.environ
SMOKE_SEEDS = 2 if LONG else 1
SEEDS = 5 if LONG else 1
# By this script: the button stays pressed, the cube stays uncovered, nobody lifts the lid.
NOT_UNDONE = {'press_button', 'wipe_table', 'knock_over', 'close_box', 'find_cube'}


@pytest.fixture(scope='module')
def station():
    with SimStation.make('do_not_move', cameras=()) as station:
        yield station


def check(run):
    assert run.succeeded
    assert run.progress[-1] == 1.0
    assert np.min(np.diff((0.0, *run.progress))) >= -1e-9, 'progress must not fall'


def test_there_are_at_least_ten_tasks_of_many_kinds():
    assert len(TASKS.built_in) >= 10
    kinds = {task.category for task in TASKS.built_in.values()}
    assert {'pick and place', 'open and close', 'move and slide', 'knock over', 'stack', 'sort',
            'find', 'press', 'do not move', 'use a tool'} <= kinds


@pytest.mark.parametrize('name', TASKS.built_in)
def test_instructions_vary_and_setups_differ(name):
    tasks = [make_task(name, seed) for seed in range(12)]
    assert len({task.setup.instruction for task in tasks}) >= 2
    assert len({str(task.setup.places) for task in tasks}) == 12
    again = make_task(name, 3)
    assert again.setup.places == tasks[3].setup.places
    assert again.setup.instruction == tasks[3].setup.instruction


@pytest.fixture(scope='module')
def runs(station):
    """Return the expert's runs by task, of every task and seed."""
    runs_of = {name: [] for name in TASKS.built_in}
    for name, done in runs_of.items():
        for seed in range(SMOKE_SEEDS if name == 'do_not_move' else SEEDS):
            station.reset(name, seed)
            assert station.progress() == 0.0
            assert not station.succeeded()
            done.append(run_expert(station))
    return runs_of


@pytest.mark.parametrize('name', TASKS.built_in)
def test_progress_is_zero_at_reset_and_one_when_the_expert_is_done(runs, name):
    for run in runs[name][:SMOKE_SEEDS]:
        check(run)
        assert len({round(value, 1) for value in run.progress}) >= 5, 'it must grow by steps'


@pytest.mark.parametrize('name', [name for name in TASKS.built_in if name != 'do_not_move'])
def test_doing_nothing_gains_nothing(station, name):
    station.reset(name, 1)
    station.step(2.0)
    assert station.progress() < 0.05
    assert not station.succeeded()


def test_moving_fails_the_task_of_not_moving(station):
    station.reset('do_not_move', 0)
    station.arm.move_to(station.arm.state().q + 0.2, 1.0)
    station.step(8.0)
    assert not station.succeeded()
    assert station.progress() < 0.3


def test_what_is_undone_is_no_longer_one(station):
    station.reset('close_drawer', 0)
    assert run_expert(station).succeeded
    station.world.data.qpos[station.world.joint('drawer_slide')[0]] = 0.1
    station.world.rebind()
    assert 0.3 < station.progress() < 1.0
    assert not station.succeeded()


def test_the_fr3_can_do_it_too():
    with SimStation.make('stack_blocks', 3, 'fr3', cameras=()) as station:
        check(run_expert(station))


@pytest.mark.skipif(not LONG, reason='46 s of the expert at work: make walks')
def test_the_expert_succeeds_on_sixty_seeds_over_all_tasks(runs):
    sixty = [run for name, done in runs.items() if name != 'do_not_move' for run in done]
    assert len(sixty) >= 60
    failed = [(run.task, run.seed) for run in sixty if not run.succeeded]
    assert len(failed) <= 0.05 * len(sixty), failed
    for run in sixty:
        if run.succeeded:
            check(run)


def test_tasks_are_listed_with_their_wordings(capsys):
    assert main(['sim', 'tasks']) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(TASKS.built_in)
    assert main(['sim', 'tasks', '--wordings']) == 0
    assert 'set the mug down on the plate' in capsys.readouterr().out


def test_the_experts_table_counts_successes(capsys):
    assert main(['sim', 'expert', '--tasks', 'press_button,lift_cube', '--seeds', '1']) == 0
    out = capsys.readouterr().out
    assert 'press_button      1/1' in out
    assert '100.0%' in out


def test_too_few_successes_fail(capsys):
    assert main(['sim', 'expert', '--tasks', 'do_not_move', '--seeds', '1', '--at-least',
                 '1.1']) == 1
    capsys.readouterr()


def test_a_wrong_task_names_the_nearest(capsys):
    assert main(['sim', 'expert', '--tasks', 'lift_cubes']) == 2
    assert "Did you mean 'lift_cube'" in capsys.readouterr().err


def test_a_task_that_the_arm_does_not_reach_says_how_far_it_stays_away(capsys, monkeypatch):
    reach = PadKinematics.solve

    def shorter(kinematics, q, position, rotation):
        return reach(kinematics, q, np.minimum(position, (0.3, 9.0, 9.0)), rotation)
    monkeypatch.setattr(PadKinematics, 'solve', shorter)
    assert main(['sim', 'expert', '--tasks', 'lift_cube', '--seeds', '1', '--json']) == 1
    told = json.loads(capsys.readouterr().out)['tasks'][0]
    assert told['short_mm'] > 50.0
    assert main(['sim', 'expert', '--tasks', 'lift_cube', '--seeds', '1']) == 1
    words = f"the arm stays {told['short_mm']:.0f} mm away from a place of this task"
    assert words in capsys.readouterr().out


def test_the_contact_sheet_has_a_strip_for_each_task(tmp_path, capsys):
    out = tmp_path / 'sheet.png'
    assert main(['sim', 'contact-sheet', str(out), '--tasks', 'lift_cube,press_button',
                 '--width', '64', '--plain']) == 0
    assert '2 tasks' in capsys.readouterr().out
    height, width, _ = cv2.imread(str(out)).shape
    assert width == 2 * (3 * (64 + 6) + 6)
    assert height > 36 + 30


@pytest.mark.parametrize('name', ['sheet.txt', 'missing/sheet.png'])
def test_a_picture_that_cannot_be_written_says_why(tmp_path, capsys, name):
    assert main(['sim', 'contact-sheet', str(tmp_path / name), '--tasks', 'do_not_move',
                 '--width', '64', '--plain']) == 2
    assert 'cannot write' in capsys.readouterr().err


@pytest.fixture(scope='module')
def idle():
    with SimStation.make('lift_cube', 0, cameras=()) as idle:
        yield idle


def potentials(idle, task, kind, seed=3, steps=400):
    """Return the potential at every control step."""
    idle.reset(task, seed)
    phi = [idle.potential()]
    for step, _ in enumerate(script(idle, kind, seed)):
        idle.step(PERIOD_S)
        phi.append(idle.potential())
        if step >= steps:
            break
    return np.array(phi)


@pytest.mark.parametrize('task', list(TASKS.built_in))
def test_done_well_and_undone(idle, task):
    phi = potentials(idle, task, 'undo')
    assert phi[0] < 0.02
    assert phi.min() >= 0.0
    assert phi.max() == 1.0
    done = int(phi.argmax())
    # Up to success the way is straight, and without jumps but those of contact and success.
    table = measure([phi[:done + 1]])
    assert table.ppl[0] >= 0.95
    assert np.abs(np.diff(phi[:done + 1])).max() <= 0.55
    if task not in NOT_UNDONE:
        assert phi[-1] < 0.7
        assert idle.progress() >= phi[-1]


@pytest.mark.parametrize(('kind', 'low', 'high'), [
    ('home', 1.0, 1.0), ('placed', 1.0, 1.0), ('back', 0.0, 0.2), ('open', 0.0, 0.2),
    ('high', 0.0, 0.2), ('empty', 0.0, 0.2)])
def test_the_arm_and_the_objects_end_apart(idle, kind, low, high):
    idle.reset('cube_in_bowl', 3)
    start = idle.truth.tcp()
    phi = potentials(idle, 'cube_in_bowl', kind)
    assert low <= phi[-1] <= high
    assert (np.linalg.norm(idle.truth.tcp() - start) < 0.03) == (kind in ('home', 'placed'))
    if kind in ('open', 'high', 'empty'):
        assert phi.max() < 0.3, 'nothing was done on the way either'


def test_moving_after_keeping_still_is_zero_for_good(idle):
    phi = potentials(idle, 'do_not_move', 'undo')
    assert phi.max() == 1.0
    assert phi[-1] == 0.0
    assert idle.progress() > 0.9     # the best stage so far says nothing of now


def test_a_potential_does_not_depend_on_how_often_it_is_asked(idle):
    often = potentials(idle, 'cube_in_bowl', 'expert')
    idle.reset('cube_in_bowl', 3)
    for _ in script(idle, 'expert', 3):
        idle.step(PERIOD_S)
    assert idle.potential() == often[-1]


def test_a_restored_start_is_a_start(idle):
    idle.reset('stack_blocks', 1)
    saved = idle.save()
    for step, _ in enumerate(script(idle, 'expert', 1)):
        idle.step(PERIOD_S)
        if step > 60:
            break
    assert idle.potential() > 0.2
    idle.restore(saved)
    assert idle.potential() < 0.02


def moved(station, starts, part):
    """Return the potential when the goals' joints and objects are a part of the way there."""
    world, task = station.world, station.task.task
    for goal in task.goals:
        joint = isinstance(goal, JointGoal | PressGoal)
        at = world.joint(f'{goal.object}_{goal.joint}' if joint else goal.object)[0]
        end = starts[at:at + 3].copy()
        if joint:
            low, high = world.model.joint(f'{goal.object}_{goal.joint}').range
            end = low + (high - low) * (goal.target if isinstance(goal, JointGoal) else 0.0)
            world.data.qpos[at] = starts[at] + part * (end - starts[at])
            continue
        if isinstance(goal, PlaceGoal):
            end[:2] = station.truth.position(goal.target)[:2]
        if isinstance(goal, LiftGoal):
            end[2] += goal.height_m + 0.005
        world.data.qpos[at:at + 3] = starts[at:at + 3] + part * (end - starts[at:at + 3])
    world.rebind()
    station.task.watch(SceneLinks(world))
    return station.potential()


@pytest.mark.parametrize('name', list(SKILL_TASKS))
def test_the_potential_of_a_skill_task_is_the_way_to_its_goals(name):
    task = SKILL_TASKS[name]
    setup = scene_setup(task.spec, Solution(name, {}, ()), 4)
    with SimStation.make(SkillScene(task, setup), 4, cameras=()) as station:
        first = station.world.data.qpos.copy()
        assert station.potential() <= 0.1
        phi = [moved(station, first, part) for part in np.linspace(0.0, 1.0, 11)]
        assert phi[0] <= 0.1
        assert (np.diff(phi) >= 0.0).all(), phi
        assert phi[-1] == 1.0
        assert station.succeeded()
        assert any(0.05 < value < 0.95 for value in phi), 'a way and no step'
        if not any(isinstance(goal, PressGoal) for goal in task.goals):
            assert moved(station, first, 0.0) <= 0.1
        if task.untouched:
            away = task.untouched[0].replace('/', '_')
            _, high = station.world.model.joint(away).range
            station.world.data.qpos[station.world.joint(away)[0]] = high
            station.world.rebind()
            assert not station.succeeded()
            assert station.potential() <= 0.1


def test_a_skill_task_that_began_elsewhere_has_no_potential():
    task = SKILL_TASKS['Open Drawer']
    (key,) = (f'{goal.object}/{goal.joint}' for goal in task.goals)
    setup = scene_setup(task.spec, Solution('Open Drawer', {'joints': {key: 0.9}}, ()), 4)
    with SimStation.make(SkillScene(task, setup), 4, cameras=()) as station:
        assert station.potential() == 0.0
