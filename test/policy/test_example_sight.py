"""What the example policies see: solids by their outline, paints, heights; how they reach them."""


import numpy as np
import pytest

from arena_robot.policy.examples.vision_hands import WristEye, downward, joints_for, pads
from arena_robot.policy.examples.vision_sight import (
    BOTTLE,
    COLOURS,
    CUBE,
    CUP,
    PAINTS,
    PANEL,
    TRAY,
    Sighting,
    blobs,
    fitted,
    height_of,
    labelled,
    tilt_error,
)
from arena_robot.robots.arms import RESET_JOINTS
from arena_robot.safety.kinematics import FLANGE, frames

BLACK = np.zeros((180, 320, 3), np.uint8)


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
        sighting = fitted(eye, patches[0], solid)
        assert sighting.away(np.array(foot)) < 0.005
        assert sighting.sure > 0.85
        assert abs(sighting.position[2] - solid.height / 2) < 1e-9
        if solid is not BOTTLE:
            turn = (sighting.yaw - yaw + np.pi) % (2 * np.pi) - np.pi
            assert abs(turn) < 0.3 or solid in (CUBE, TRAY), (solid, sighting.yaw, yaw)


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


@pytest.mark.parametrize('height', [0.022, 0.066, 0.11])
def test_two_views_tell_the_height(height, eye):
    hover = WristEye.at(joints_for(np.array(RESET_JOINTS), np.array([0.5, 0.1, 0.16]),
                                   downward(0.0), 60))
    block = np.array([0.5, 0.1, height])
    seen = [Sighting('red', np.array([*view.on_plane(view.project(block), 0.022)[0], 0.022]), 0.0,
                     1.0, view.position) for view in (eye, hover)]
    assert height_of(*seen) == pytest.approx(height, abs=1e-9)
    assert height_of(seen[0], seen[0]) == np.inf
