"""Rectification from the calibration file that comes with each ZED."""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from arena_robot.core.errors import NotConnected
from arena_robot.core.observation import EYES, Floats, Pixels

# The file's word for a resolution, by the width of one eye.
SECTIONS = {2208: '2k', 1920: 'fhd', 1280: 'hd', 672: 'vga'}
FOLDERS = ('~/zed/settings', '/usr/local/zed/settings')
FILE_AT = 'https://calib.stereolabs.com/?SN='
MM = 1e-3


@dataclass(frozen=True)
class Rectification:
    """
    How both eyes are rectified to one geometry: ``k`` (3, 3) of both and the baseline.

    ``maps`` are OpenCV's, per eye.
    """

    k: Floats
    baseline_m: float
    maps: Mapping[str, tuple[Any, Any]]

    def apply(self, eye: str, pixels: Pixels) -> Pixels:
        """Return the rectified picture of an eye."""
        first, second = self.maps[eye]
        return np.asarray(cv2.remap(pixels, first, second, cv2.INTER_LINEAR), np.uint8)


def calibration_file(asked: str, serial: str) -> Path | None:
    """Return the file that was asked for, or the camera's where Stereolabs' programs keep it."""
    if asked:
        path = Path(asked).expanduser()
        if not path.is_file():
            raise NotConnected(f'uvc.calibration: there is no file {path}')
        return path
    places = [Path(folder).expanduser() / f'SN{serial}.conf' for folder in FOLDERS]
    return next((path for path in places if path.is_file()), None)


def rectification(path: Path, size: tuple[int, int]) -> Rectification:
    """
    Return the rectification for a size of one eye in pixels.

    Raises NotConnected for a file that lacks it.
    """
    file = configparser.ConfigParser(strict=False, inline_comment_prefixes=(';', '#'))
    try:
        file.read_string(path.read_text(encoding='utf-8'))
    except (OSError, ValueError, configparser.Error) as error:
        raise NotConnected(f'{path} is no calibration file of a ZED: {error}') from error
    word = SECTIONS.get(size[0])
    if word is None:
        raise NotConnected(f'{path} has no calibration for {size[0]} x {size[1]}; it has those of '
                           'HD2K, HD1080, HD720 and VGA')
    sections = {name.lower(): dict(file[name]) for name in file.sections()}
    try:
        return _rectification(sections, word, size)
    except (KeyError, ValueError, cv2.error) as error:
        raise NotConnected(f'{path} is no calibration file of a ZED: {error!r}; download it from '
                           f'{FILE_AT}SERIAL') from error


def _rectification(sections: Mapping[str, Mapping[str, str]], word: str,
                   size: tuple[int, int]) -> Rectification:
    eyes = {eye: _eye(sections[f'{eye}_cam_{word}']) for eye in EYES}
    both = sections['stereo']

    def number(*names: str) -> float:
        return next((float(both[name]) for name in names if name in both), 0.0)

    turn, _ = cv2.Rodrigues(np.array([number(f'rx_{word}'), number(f'cv_{word}', f'ry_{word}'),
                                      number(f'rz_{word}')]))
    # The file's baseline is positive; so P2[0, 3] is too, and ROS wants it negative.
    shift = np.array([[float(both['baseline'])], [number(f'ty_{word}', 'ty')],
                      [number(f'tz_{word}', 'tz')]])
    (k1, d1), (k2, d2) = eyes['left'], eyes['right']
    r1, r2, p1, p2 = cv2.stereoRectify(k1, d1, k2, d2, size, turn, shift,
                                       flags=cv2.CALIB_ZERO_DISPARITY, alpha=0)[:4]
    maps = {eye: cv2.initUndistortRectifyMap(k, d, r, p[:, :3], size, cv2.CV_16SC2)
            for eye, (k, d), r, p in (('left', eyes['left'], r1, p1),
                                      ('right', eyes['right'], r2, p2))}
    baseline_m = abs(float(p2[0, 3] / p2[0, 0])) * MM
    k = np.asarray(p1[:, :3], np.float64)
    if not np.all(np.isfinite(k)) or k[0, 0] <= 0.0 or not 0.01 < baseline_m < 1.0:
        raise ValueError(f'focal length {k[0, 0]} px, baseline {baseline_m} m')
    return Rectification(k, baseline_m, maps)


def _eye(section: Mapping[str, str]) -> tuple[Floats, Floats]:
    """Return camera matrix and distortion; configparser has made the keys lower case."""
    k = np.array([[float(section['fx']), 0.0, float(section['cx'])],
                  [0.0, float(section['fy']), float(section['cy'])], [0.0, 0.0, 1.0]])
    return k, np.array([float(section.get(name, 0.0)) for name in ('k1', 'k2', 'p1', 'p2', 'k3')])
