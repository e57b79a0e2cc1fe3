"""
Hand-eye calibration: the pose of a camera that explains a board seen from several arm poses.

A camera on the flange sees a board that stands still; a camera that stands still sees a board on
the flange. In both, G_i X B_i = Y for every picture i: X is the camera in its parent (flange, or
base), B_i the board in the camera, G_i the flange in the base (or its inverse), and Y the board in
the base (or on the flange). X comes from pairs of pictures (Park and Martin 1994, AX = XB), then X
and Y from the least error of the corners in the pictures.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.safety.urdf import pose_of_matrix

MIN_VIEWS = 6
MIN_TURN_RAD = 0.1    # about a second axis; below it the place of the camera is not determined
MIN_CORNERS = 6       # a pose needs four; two more show a misread corner
DICTIONARIES = {name: value for name, value in vars(cv2.aruco).items()
                if name.startswith('DICT_')}


@dataclass(frozen=True)
class BoardView:
    """
    A board in one picture, and where the flange was.

    ``flange`` (4, 4) in the base; ``corners`` (N, 3) m on the board, ``pixels`` (N, 2).
    """

    flange: Floats
    corners: Floats
    pixels: Floats


@dataclass(frozen=True)
class Extrinsics:
    """
    The pose of a camera's optical frame in its parent, x y z (m) roll pitch yaw (rad).

    ``error_px`` is the root mean square distance of corners to where they should be, ``errors_px``
    that of each picture. ``place_mm`` and ``turn_deg`` are the standard deviations of the pose.
    """

    pose: tuple[float, ...]
    error_px: float
    errors_px: tuple[float, ...]
    place_mm: float
    turn_deg: float


def calibrate(views: Sequence[BoardView], k: Floats, on_flange: bool) -> Extrinsics:
    """
    Return where a camera is, from pictures of a board; ``k`` (3, 3) are its intrinsics in pixels.

    Raises DataError for too few pictures, or poses that do not differ enough.
    """
    if len(views) < MIN_VIEWS:
        raise DataError(f'the board was found in {len(views)} pictures, {MIN_VIEWS} are needed: '
                        'show more of it, from other poses')
    arms: list[Floats] = [view.flange if on_flange else np.asarray(np.linalg.inv(view.flange))
                          for view in views]
    boards = [_board_in_camera(view, k) for view in views]
    camera = _from_pairs(arms, boards)
    board = arms[0] @ camera @ boards[0]

    def errors(values: Floats) -> Floats:
        x, y = _matrix(values[:6]), _matrix(values[6:])
        return np.concatenate([
            (_project(np.linalg.inv(arm @ x) @ y, view.corners, k) - view.pixels).ravel()
            for arm, view in zip(arms, views, strict=True)])
    fit = least_squares(errors, np.concatenate([_vector(camera), _vector(board)]), loss='huber',
                        f_scale=1.0, x_scale='jac')
    left = errors(fit.x)
    ends = np.cumsum([2 * len(view.pixels) for view in views])[:-1]
    by_view = [_rms(part) for part in np.split(left, ends)]
    spread = _deviations(fit.jac, left)
    return Extrinsics(pose_of_matrix(_matrix(fit.x[:6])), _rms(left), tuple(by_view),
                      float(1e3 * np.linalg.norm(spread[3:6])),
                      float(np.degrees(np.linalg.norm(spread[:3]))))


def _board_in_camera(view: BoardView, k: Floats) -> Floats:
    solved, turn, place = cv2.solvePnP(view.corners, view.pixels, k, None)
    if not solved:
        raise DataError('the board in a picture has no pose; is the camera_info right?')
    return _matrix(np.concatenate([np.ravel(turn), np.ravel(place)]))


def _from_pairs(arms: Sequence[Floats], boards: Sequence[Floats]) -> Floats:
    """Return X of A X = X B for all pairs of pictures."""
    pairs = [(np.linalg.inv(arms[j]) @ arms[i], boards[j] @ np.linalg.inv(boards[i]))
             for i, j in itertools.combinations(range(len(arms)), 2)]
    a = np.array([_vector(hand)[:3] for hand, _ in pairs])
    b = np.array([_vector(eye)[:3] for _, eye in pairs])
    if np.linalg.svd(a, compute_uv=False)[1] / np.sqrt(len(a)) < MIN_TURN_RAD:
        raise DataError('the poses turn the hand about one axis at most: tilt it about two '
                        'axes, by 20 degrees and more')
    u, _, vt = np.linalg.svd(b.T @ a)
    turn = vt.T @ np.diag([1.0, 1.0, np.linalg.det(vt.T @ u.T)]) @ u.T
    out = np.eye(4)
    out[:3, :3] = turn
    left = np.concatenate([hand[:3, :3] - np.eye(3) for hand, _ in pairs])
    right = np.concatenate([turn @ eye[:3, 3] - hand[:3, 3] for hand, eye in pairs])
    out[:3, 3] = np.linalg.lstsq(left, right, rcond=None)[0]
    return out


def _project(board: Floats, corners: Floats, k: Floats) -> Floats:
    points = corners @ board[:3, :3].T + board[:3, 3]
    seen = points @ k.T
    # A corner behind the camera has no picture: a large error instead of a wrong small one.
    depth = np.maximum(seen[:, 2:], 1e-3)
    out: Floats = seen[:, :2] / depth
    return out


def _deviations(jac: Floats, left: Floats) -> Floats:
    """Return the standard deviations of the parameters from the Jacobian and what is left."""
    free = max(len(left) - jac.shape[1], 1)
    covariance = np.linalg.pinv(jac.T @ jac) * float(left @ left) / free
    return np.asarray(np.sqrt(np.diag(covariance)), np.float64)


def _matrix(values: Floats) -> Floats:
    """Return the (4, 4) of a rotation vector and a place."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = Rotation.from_rotvec(values[:3]).as_matrix(), values[3:]
    return out


def _vector(matrix: Floats) -> Floats:
    return np.concatenate([Rotation.from_matrix(matrix[:3, :3]).as_rotvec(), matrix[:3, 3]])


def _rms(left: Floats) -> float:
    """Return the root mean square distance of corners, from their differences in x and y."""
    return float(np.sqrt(np.mean(np.sum(left.reshape(-1, 2) ** 2, axis=1))))


@dataclass(frozen=True)
class CharucoBoard:
    """
    A board of ``columns`` by ``rows`` squares, black and white, with markers in the white ones.

    ``square_m`` and ``marker_m`` are the sides of a square and of a marker; ``dictionary`` is
    OpenCV's name of the markers.
    """

    columns: int = 7
    rows: int = 5
    square_m: float = 0.04
    marker_m: float = 0.03
    dictionary: str = 'DICT_5X5_100'

    def __post_init__(self) -> None:
        if min(self.columns, self.rows) < 3:
            raise ConfigError(f'a board needs 3 x 3 squares at least, found {self.columns} x '
                              f'{self.rows}')
        if not 0.0 < self.marker_m < self.square_m:
            raise ConfigError(f'markers are smaller than squares, found {self.marker_m:g} m and '
                              f'{self.square_m:g} m')
        if self.dictionary not in DICTIONARIES:
            raise ConfigError(f"no dictionary '{self.dictionary}'."
                              f'{nearest(self.dictionary, DICTIONARIES)}')

    def picture(self, pixels_per_square: int = 100) -> Pixels:
        """Return the board as (H, W) gray, to be printed at exactly its size."""
        size = (self.columns * pixels_per_square, self.rows * pixels_per_square)
        return np.asarray(self._board().generateImage(size), np.uint8)

    def save(self, path: Path) -> None:
        """Write the picture to print. Raises DataError."""
        if path.suffix.lower() != '.png' or not cv2.imwrite(str(path), self.picture()):
            raise DataError(f'cannot write {path}; give a name that ends in .png')

    def find(self, picture: Pixels) -> tuple[Floats, Floats] | None:
        """
        Return the board's corners in a picture (H, W, 3) RGB; None below MIN_CORNERS.

        First (N, 3) m on the board, then (N, 2) pixels in the picture.
        """
        gray = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
        corners, ids, _, _ = cv2.aruco.CharucoDetector(self._board()).detectBoard(gray)
        if ids is None or len(ids) < MIN_CORNERS:
            return None
        places = np.asarray(self._board().getChessboardCorners(), np.float64)
        names = np.asarray(ids).ravel()
        return places[names], np.asarray(corners, np.float64).reshape(-1, 2)

    def _board(self) -> 'cv2.aruco.CharucoBoard':
        return cv2.aruco.CharucoBoard(
            (self.columns, self.rows), self.square_m, self.marker_m,
            cv2.aruco.getPredefinedDictionary(DICTIONARIES[self.dictionary]))
