"""
The model of DROID's arm whose joints libfranka's position handler is given.

Targets at 15 Hz settle through the real libraries as at the simulated station.
"""

import functools
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from franka_rig import LONG, needs

from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm
from arena_robot.drivers.franka.board import FrankaOrder
from arena_robot.drivers.franka.client import FrankaConfig
from arena_robot.drivers.franka.droid_model import LEAD_RAD, LONGEST_MS, DroidModel
from arena_robot.drivers.franka.libfranka import LibfrankaClient
from arena_robot.drivers.sim.station import SimStation
from arena_robot.robots.arms import DOF, FR3, ROBOTS

SPEC = importlib.util.spec_from_file_location(
    'bench_franka', Path(__file__).parents[2] / 'bench' / 'bench_franka.py')
bench = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bench)
JOINTS = (0, 2, 4, 6)
HOME, SPEED = np.array(FR3.reset_joints), np.array(FR3.limits.velocity)
FAR = np.array([0.5, -0.4, 0.5, -0.4, 0.5, 0.4, -0.5])


def model(q=HOME):
    model = DroidModel('fr3', SPEED, q)
    model.advance(q, q, 0)
    return model


def free(model, target, until_ms, step_ms=4):
    """Move a model on whose arm is where it is; return its (time in s, joints)."""
    return [(ms / 1e3, model.advance(target, model.q, ms).copy())
            for ms in range(step_ms, until_ms, step_ms)]


@pytest.mark.parametrize('robot', ROBOTS)
def test_its_inertia_is_the_simulated_stations(robot):
    with SimStation.make('do_not_move', robot=robot, cameras=()) as station:
        world = station.world
        drive, full = world.arm.impedance, np.zeros((world.model.nv,) * 2)
        mujoco.mj_fullM(world.model, world.data, full)
        q = world.data.qpos[drive.qpos].copy()
        inertia = DroidModel(robot, SPEED, q)._bodies.inertia(q)
        assert inertia == pytest.approx(full[drive.dofs, drive.dofs], rel=0.01, abs=1e-3)


def test_a_step_of_it_settles_as_at_the_simulated_station():
    joints = (1, 3, 6)
    station = [settled for _, settled in bench.simulated(joints)]
    seconds = []
    for joint in joints:
        goal = HOME + bench.STEP_RAD * np.eye(DOF)[joint]
        path = [(0.0, HOME), *free(model(), goal, 2000)]
        seconds.append(bench.settling(path, 0.0, joint, goal[joint])[1])
    assert seconds == pytest.approx(station, rel=0.03)


def test_it_begins_at_rest_where_the_arm_is_whatever_its_target():
    follower = DroidModel('fr3', SPEED, HOME)
    assert np.array_equal(follower.advance(HOME + FAR, HOME, 5000), HOME)
    assert np.max(np.abs(follower.advance(HOME + FAR, HOME, 5001) - HOME)) < 1e-3


def test_a_time_that_goes_back_changes_nothing_and_a_pause_counts_for_a_moment():
    follower, other = model(), model()
    free(follower, HOME + FAR, 100)
    free(other, HOME + FAR, 100)
    before = follower.q
    assert np.array_equal(follower.advance(HOME + FAR, follower.q, 66), before)
    follower.advance(HOME + FAR, follower.q, 60_000)
    other.advance(HOME + FAR, other.q, 96 + LONGEST_MS)
    assert np.array_equal(follower.q, other.q)


def test_it_keeps_to_the_speed_of_the_joints():
    path = np.array([HOME, *(q for _, q in free(model(), HOME + 4.0 * FAR, 400, 1))])
    fastest = np.max(np.abs(np.diff(path, axis=0)), axis=0) / 1e-3
    assert np.all(fastest <= SPEED + 1e-6)
    assert np.max(fastest / SPEED) > 0.99       # the limit was met


def test_it_does_not_leave_the_range_of_a_joint():
    upper = np.array(FR3.limits.hardware_upper)
    start = np.where(np.arange(DOF) == 0, upper - 0.05, HOME)
    follower = model(start)
    follower.dq[0] = SPEED[0]                # on its way, it would go beyond
    path = free(follower, np.where(np.arange(DOF) == 0, upper, HOME), 1000)
    assert max(q[0] for _, q in path) <= upper[0]


def test_it_does_not_go_on_without_an_arm_that_is_held():
    follower = model()
    for ms in range(4, 4000, 4):
        follower.advance(HOME + 2.0 * FAR, HOME, ms)
    assert np.max(np.abs(follower.q - HOME)) == pytest.approx(LEAD_RAD)
    assert np.all(follower.dq[np.abs(follower.q - HOME) >= LEAD_RAD] == 0.0)


class Handler:
    """What pylibfranka's handler is asked for."""

    def __init__(self):
        self.targets, self.stopped = [], False
        self.handler, self.error_message = self, ''

    def set_joint_position_target(self, target):
        assert not self.stopped
        self.targets.append(np.array(target))
        return SimpleNamespace(was_successful=True)

    def stop_control(self):
        self.stopped = True


@pytest.fixture
def client(monkeypatch):
    handlers = []

    def configure(robot, configuration):
        handlers.append(Handler())
        return handlers[-1]
    kind = SimpleNamespace(configure=configure, Configuration=lambda *_: None,
                           JointPositionTarget=list)
    monkeypatch.setitem(sys.modules, 'pylibfranka', SimpleNamespace(
        AsyncPositionControlHandler=kind, FrankaException=RuntimeError))
    seven, six = (40.0,) * 7, (40.0,) * 6
    client = LibfrankaClient(FrankaConfig('', 'fr3', False, seven, seven, six, six, 0.0, (), ()))
    monkeypatch.setattr(client, 'read', lambda: None)
    return client, handlers


def test_libfranka_is_given_the_models_joints_and_a_new_motion_begins_where_the_arm_is(client):
    libfranka, handlers = client
    for start in (HOME, HOME + 0.3 * FAR):
        libfranka.start(FrankaOrder.TRACK, start)
        libfranka.send(start + 0.2)
        assert not handlers[-1].targets          # nothing jumps to the target itself
        for ms in range(0, 40, 4):
            libfranka.follow(SimpleNamespace(q=start, robot_ms=ms))
        targets = np.array(handlers[-1].targets)
        assert np.array_equal(targets[0], start)
        assert np.all(targets[-1] > start)
        assert np.max(targets[-1] - start) < 0.1
        libfranka.end()
        libfranka.follow(SimpleNamespace(q=start, robot_ms=100))
        assert handlers[-1].stopped
    assert len(handlers) == 2


def test_libfranka_is_given_the_path_of_a_motion_itself(client):
    libfranka, handlers = client
    libfranka.start(FrankaOrder.TRACK, HOME)
    libfranka.end()
    libfranka.start(FrankaOrder.MOVE, HOME)
    libfranka.send(HOME + 0.01)
    assert np.array_equal(handlers[-1].targets, [HOME + 0.01])


@functools.cache
def station():
    return [settled for _, settled in bench.simulated(JOINTS)]


@LONG
@pytest.mark.parametrize(('arm_class', 'options'), [
    pytest.param(FrankaRsArm, {}, marks=needs('franka_rs'), id='franka_rs'),
    pytest.param(LibfrankaArm, {}, marks=needs('libfranka'), id='libfranka'),
    pytest.param(LibfrankaArm, {'torques': True}, marks=needs('libfranka'),
                 id='libfranka with torques'),
])
def test_a_step_settles_as_at_the_simulated_station(arm_class, options):
    seconds = [settled for _, settled in bench.driven(arm_class, JOINTS, **options)]
    assert seconds == pytest.approx(station(), rel=0.1)
