"""Rendered pictures of a ChArUco board, with the camera's and the arm's poses known."""

import cv2
import numpy as np
from scipy.spatial.transform import Rotation

from arena_robot.drivers.calibration import CharucoBoard
from arena_robot.safety.urdf import matrix_of

K = np.array([[530.0, 0, 639.5], [0, 530.0, 359.5], [0, 0, 1]])
SIZE = (1280, 720)
BOARD = CharucoBoard()
TRUTH = {True: (0.07, 0.02, 0.05, 0.1, -0.2, 1.5),
         False: (0.4, -0.6, 0.5, -2.0, 0.1, 0.3)}
PER_SQUARE = 120


def rendered(board, picture, pose):
    """Draw the board at ``pose`` (4, 4) in the camera; noise and blur as of a camera."""
    scale = BOARD.square_m / PER_SQUARE
    to_board = np.array([[scale, 0, scale / 2], [0, scale, scale / 2], [0, 0, 1]])
    plane = K @ pose[:3][:, [0, 1, 3]] @ to_board
    out = cv2.warpPerspective(picture, plane, SIZE, flags=cv2.INTER_AREA, borderValue=128)
    out = cv2.GaussianBlur(out, (0, 0), 0.7).astype(float)
    out += np.random.default_rng(int(abs(pose[0, 3]) * 1e6)).normal(0, 3, out.shape)
    return np.repeat(np.clip(out, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def scene(on_flange, count, turn=0.45, seed=4):
    """Return (flange pose, picture) pairs of a camera at TRUTH, all seeing the board."""
    rng, picture = np.random.default_rng(seed), BOARD.picture(PER_SQUARE)
    camera = matrix_of(TRUTH[on_flange])
    fixed = matrix_of((0.45, 0.05, 0.02, np.pi, 0.0, 0.4) if on_flange
                      else (-0.1, -0.08, 0.03, 0.05, 0.0, 0.1))
    out = []
    for _ in range(count):
        seen = np.eye(4)
        seen[:3, :3] = Rotation.from_rotvec(rng.uniform(-turn, turn, 3)).as_matrix()
        middle = np.array([BOARD.columns, BOARD.rows, 0]) * BOARD.square_m / 2
        seen[:3, 3] = rng.uniform((-0.1, -0.05, 0.4), (0.1, 0.05, 0.6)) - seen[:3, :3] @ middle
        flange = fixed @ np.linalg.inv(camera @ seen) if on_flange \
            else camera @ seen @ np.linalg.inv(fixed)
        out.append((flange, rendered(BOARD, picture, seen)))
    return out
