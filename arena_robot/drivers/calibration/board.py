"""A ChArUco board and its corners in a picture."""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.observation import Floats, Pixels

MIN_CORNERS = 6
DICTIONARIES = {name: value for name, value in vars(cv2.aruco).items()
                if name.startswith('DICT_')}


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
        found = np.asarray(ids).ravel()
        return places[found], np.asarray(corners, np.float64).reshape(-1, 2)

    def _board(self) -> 'cv2.aruco.CharucoBoard':
        return cv2.aruco.CharucoBoard(
            (self.columns, self.rows), self.square_m, self.marker_m,
            cv2.aruco.getPredefinedDictionary(DICTIONARIES[self.dictionary]))
