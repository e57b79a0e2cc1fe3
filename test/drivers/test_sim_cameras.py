"""The simulated cameras: geometry that fits the pictures, stamps, faults, rates."""

import numpy as np
import pytest

from arena_robot.core.errors import ConfigError, ReadTimeout, StaleData
from arena_robot.core.observation import view
from arena_robot.drivers.sim.camera import SimCamera
from arena_robot.drivers.sim.props import COLOURS
from arena_robot.drivers.sim.station import SimStation
from arena_robot.drivers.sim.tasks import TASKS

SIZE = (640, 360)


@pytest.fixture(scope='module')
def station():
    with SimStation.make('lift_cube', 5, size=SIZE) as station:
        yield station


def coloured(pixels, name):
    """Return a mask of the pixels whose hue is that of a colour."""
    wanted = np.array(COLOURS[name]) / np.linalg.norm(COLOURS[name])
    rgb = pixels.astype(float)
    length = np.linalg.norm(rgb, axis=2)
    return ((rgb @ wanted) / np.maximum(length, 1.0) > 0.985) & (length > 50)


@pytest.mark.parametrize('role', ['left', 'right'])
@pytest.mark.parametrize('eye', ['left', 'right'])
def test_a_cube_is_seen_where_the_intrinsics_say(station, role, eye):
    camera = station.cameras[role]
    frame, info = camera.frame(), camera.info()[eye]
    data = station.world.data.camera(view(role, eye))
    turn = data.xmat.reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])   # optical: z forward, y down
    seen = 0
    for name in (prop.name for prop in station.task.setup.props):
        point = turn.T @ (station.truth.position(name) - data.xpos)
        u, v, w = info.k @ point
        mask = coloured(getattr(frame, eye).pixels, name.removesuffix('_cube'))
        rows, columns = np.nonzero(mask)
        near = (np.abs(columns - u / w) < 25) & (np.abs(rows - v / w) < 25)
        if near.sum() > 60:
            seen += 1
            assert np.hypot(columns[near].mean() - u / w, rows[near].mean() - v / w) < 4.0
    assert seen >= 2


@pytest.mark.parametrize(('role', 'baseline'), [('left', 0.12), ('right', 0.12), ('wrist', 0.063)])
def test_eyes_are_a_baseline_apart_along_x(station, role, baseline):
    left, right = (station.world.data.camera(view(role, eye)) for eye in ('left', 'right'))
    offset = left.xmat.reshape(3, 3).T @ (right.xpos - left.xpos)
    np.testing.assert_allclose(offset, [baseline, 0, 0], atol=1e-9)
    assert station.cameras[role].info()['right'].baseline_m == baseline


def test_focal_lengths_are_those_of_the_zeds(station):
    assert station.cameras['left'].info()['left'].k[0, 0] == pytest.approx(530 * 360 / 720)
    assert station.cameras['wrist'].info()['left'].k[1, 1] == pytest.approx(700 * 360 / 720)


def test_the_wrist_camera_sees_both_fingers(station):
    pixels = station.cameras['wrist'].frame().left.pixels
    dark = pixels[SIZE[1] // 2:].max(axis=2) < 60
    assert dark[:, :SIZE[0] // 2].mean() > 0.1
    assert dark[:, SIZE[0] // 2:].mean() > 0.1


def test_same_seed_same_picture_other_seed_another_look():
    def picture(seed):
        with SimStation.make('lift_cube', seed, cameras=('left',), eyes=('left',)) as station:
            return station.cameras['left'].frame().left.pixels

    np.testing.assert_array_equal(picture(1), picture(1))
    assert np.mean(picture(1) != picture(2)) > 0.5


def test_pictures_are_neither_black_nor_blown_out(station):
    for role, camera in station.cameras.items():
        pixels = camera.frame().left.pixels
        assert 40 < pixels.mean() < 220, role
        assert (pixels.min(axis=2) == 255).mean() < 0.1, role


def test_an_eye_that_is_not_wanted_is_empty():
    with SimStation.make(cameras=('left',), eyes=('right',)) as station:
        frame = station.cameras['left'].frame()
    assert frame.left.pixels.shape == (0, 0, 3)
    assert frame.right.pixels.shape == (180, 320, 3)
    assert frame.left.stamp_ns == frame.right.stamp_ns


def test_an_embodiment_says_which_cameras_there_are_and_which_have_one_eye(tmp_path):
    path = tmp_path / 'one.yaml'
    path.write_text("""{name: one, title: one eye, grippers: {}, layouts: {},
        arms: {arm: {robot: panda}}, cameras: {
            front: {kind: mono, role: left}, hand: {kind: stereo, role: wrist}, top: {}}}""")
    with SimStation.make(robot=str(path), size=(64, 36)) as station:
        eyes = {role: [eye for eye in camera.info() if getattr(camera.frame(), eye).pixels.size]
                for role, camera in station.cameras.items()}
        assert {camera.frame().depth for camera in station.cameras.values()} == {None}
    assert eyes == {'left': ['left'], 'wrist': ['left', 'right']}


@pytest.mark.parametrize(('role', 'points_of_a_thing'), [('left', 5), ('wrist', 0)])
def test_depth_is_the_distance_of_what_the_left_eye_shows(tmp_path, role, points_of_a_thing):
    path = tmp_path / 'deep.yaml'
    path.write_text(f"""{{name: deep, title: depth, grippers: {{}}, layouts: {{}},
        arms: {{arm: {{robot: panda}}}}, cameras: {{it: {{kind: depth, role: {role}}}}}}}""")
    with SimStation.make('lift_cube', 5, str(path), size=SIZE) as station:
        camera = station.cameras[role]
        frame, k = camera.frame(), camera.info()['left'].k
        eye = station.world.data.camera(view(role))
        props = [station.truth.position(prop.name) for prop in station.task.setup.props]
        origin, turn = eye.xpos.copy(), eye.xmat.reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
    depth = frame.depth.millimetres
    assert (depth.shape, depth.dtype) == (frame.left.pixels.shape[:2], np.uint16)
    assert (frame.right.pixels.size, frame.depth.stamp_ns) == (0, frame.left.stamp_ns)
    v, u = np.indices(depth.shape)
    rays = np.stack([u.ravel(), v.ravel(), np.ones(depth.size)])
    points = ((np.linalg.inv(k) @ rays) * depth.ravel() * 1e-3).T @ turn.T + origin
    points = points[depth.ravel() > 0]
    assert np.mean(np.abs(points[:, 2]) < 0.003) > 0.2, 'the table is at z = 0'
    near = min((np.linalg.norm(points - prop, axis=1) for prop in props), key=np.min)
    assert np.sum(near < 0.03) >= points_of_a_thing, 'a thing is where it is'


def test_frames_come_once_a_period_when_stepped(station):
    camera = station.cameras['left']
    first = camera.frame()
    assert camera.frame() is first
    station.step(0.03)
    assert camera.frame() is first
    station.step(0.04)
    assert camera.frame().sequence == first.sequence + 1


def test_a_control_loop_never_sees_an_old_frame():
    with SimStation.make(cameras=('left',), size=(32, 18), eyes=('left',)) as station:
        camera, due_ns = station.cameras['left'], station.clock.now_ns()
        for k in range(30):
            assert camera.frame().left.stamp_ns == station.clock.now_ns()
            if k % 2:
                station.step(1 / 15)
            else:
                due_ns = station.clock.now_ns() + 66_666_667
                station.clock.sleep_until_ns(due_ns)


def test_a_restored_scene_is_drawn_anew(station):
    before, start = station.cameras['left'].frame(), station.save()
    station.restore(start, moved_mm=40, seed=3)
    assert np.any(station.cameras['left'].frame().left.pixels != before.left.pixels)
    station.restore(start)


def test_runs_at_its_rate_with_all_eyes_of_one_instant():
    with SimStation.make(size=(160, 90)) as station:
        station.world.start()
        camera = station.cameras['wrist']
        frames = [camera.wait_frame(2.0) for _ in range(46)]
    # Over all, because a busy machine may take a picture late, and the next one in time.
    first, last = frames[0], frames[-1]
    spent_s = (last.left.stamp_ns - first.left.stamp_ns) * 1e-9
    grabs = last.sequence + last.dropped - first.sequence - first.dropped
    assert spent_s / grabs == pytest.approx(1 / 15, rel=0.03)
    assert all(frame.left.stamp_ns == frame.right.stamp_ns for frame in frames)


def test_a_dead_camera_leaves_the_others_alive():
    with SimStation.make(size=(96, 54), eyes=('left',)) as station:
        station.world.start()
        station.world.faults.dead.add('left')
        station.cameras['right'].wait_frame(2.0)
        with pytest.raises(ReadTimeout, match=r'left camera \(20000001\).*plugged'):
            station.cameras['left'].wait_frame(0.3)
        with pytest.raises(StaleData, match='20000001'):
            station.cameras['left'].frame(0.2)
        station.cameras['right'].wait_frame(2.0)
        station.world.faults.dead.clear()
        station.cameras['left'].wait_frame(2.0)


@pytest.mark.parametrize(('options', 'message'), [
    ({'role': 'wirst'}, "Did you mean 'wrist'"), ({'size': (4000, 10)}, '4000x10'),
    ({'eyes': ('middle',)}, 'middle'), ({'eyes': ()}, 'eye'),
    ({'kind': 'stero'}, "Did you mean 'stereo'")])
def test_wrong_options_are_named(station, options, message):
    wanted = {'role': 'left', **options}
    role = wanted.pop('role')
    with pytest.raises(ConfigError, match=message):
        SimCamera(station.world, station.studio, role, **wanted)


def test_leaving_out_what_is_out_of_sight_changes_no_picture(station, monkeypatch):
    with_culling = {role: camera.wait_frame(1.0) for role, camera in station.cameras.items()}
    monkeypatch.setattr('arena_robot.drivers.sim.render._Sight.hide', lambda *_: None)
    start = station.save()
    station.restore(start)
    for role, before in with_culling.items():
        now = station.cameras[role].frame()
        assert now.sequence > before.sequence
        apart = np.abs(now.left.pixels.astype(int) - before.left.pixels)
        assert (apart.max(axis=2) > 8).mean() < 2e-3, role


@pytest.mark.parametrize('task', TASKS.built_in)
def test_a_backdrop_drawn_once_changes_no_picture(task, monkeypatch):
    with SimStation.make(task, 3, cameras=('left', 'right')) as station:
        first = {role: camera.wait_frame(1.0) for role, camera in station.cameras.items()}
        world = station.world
        world.data.qpos[world.joint('joint1')[0]] += 0.6  # an arm's length to the side
        world.rebind()
        filled = {role: camera.wait_frame(1.0) for role, camera in station.cameras.items()}
        monkeypatch.setattr('arena_robot.drivers.sim.render.Canvas._backdrop', lambda *_: None)
        station.restore(station.save())
        for role, camera in station.cameras.items():
            assert _apart(filled[role], first[role]) > 500, 'the arm moved'
            assert _apart(filled[role], camera.frame()) <= 3, role


def _apart(frame, other):
    """Count the pixels of the left eyes that differ."""
    return int((frame.left.pixels != other.left.pixels).any(axis=2).sum())
