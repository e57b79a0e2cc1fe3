"""Frames of an emulated ZED without its SDK: a file that the backend uvc plays in a loop."""

from pathlib import Path

import cv2
import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.files import write_bytes
from arena_robot.core.observation import EYES
from arena_robot.drivers.emulators.zed import EmulatedZed, picture


def make_frames(path: Path, camera: EmulatedZed, size: tuple[int, int]) -> None:
    """
    Write a YUYV frame of both eyes side by side; ``size`` (width, height) is one eye's.

    Raises ConfigError when ``path`` is a device, or the width is odd.
    """
    if path.exists() and not path.is_file():
        raise ConfigError(f'{path} is no file of frames; name a file that may be written')
    if size[0] % 2:
        raise ConfigError(f'a YUYV frame has an even width, found {size[0]}')
    path.parent.mkdir(parents=True, exist_ok=True)
    both = np.hstack([picture(camera, eye, size)[..., :3] for eye in EYES])
    write_bytes(path, cv2.cvtColor(both, cv2.COLOR_BGR2YUV_YUY2).tobytes())
