"""
Emulated ZED cameras for machines without the ZED SDK: a folder that stands in for ``pyzed``.

The folder holds a package ``pyzed`` and a file ``cameras.json``. Programs that have the folder on
PYTHONPATH see the cameras of the file as if they were plugged in. The file may be changed while
they run: a camera that is taken out of it is unplugged, and ``fault`` makes the SDK return that
ERROR_CODE. A camera is open in one program at a time. One that is lost while it is open, and comes
back, does so as ``when_lost`` and ``back_s`` say, by default as users have seen it. Without the
SDK, the backend uvc plays a file of such a camera's frames in a loop.
"""

import fcntl
import functools
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.core.files import write_bytes, write_json
from arena_robot.core.observation import EYES, ROLES, Pixels

CAMERAS = 'cameras.json'
SDK = Path(__file__).parent / 'zed_sdk' / 'pyzed'
RENDERED = (1280, 720)    # each resolution of the SDK is scaled from this one rendering


@dataclass(frozen=True)
class EmulatedZed:
    """
    A camera; ``role`` is its place in the simulated station, whose ``scene`` it sees.

    Without a scene it sees a test pattern. ``fault`` is the name of the ERROR_CODE that the SDK
    returns for it. ``when_lost`` is what the SDK's recovery does once the camera is unplugged:
    ``blocks`` for ever in grab (zed-sdk #714), ``crashes`` (#716) or ``reboots``, as documented;
    ``back_s`` is when it is listed again after it was plugged in (zed-gstreamer #98: 10 to 30).
    """

    role: str = 'left'
    scene: str = ''
    fault: str = ''
    when_lost: str = 'blocks'
    back_s: float = 10.0


def make_folder(folder: Path, cameras: Mapping[str, EmulatedZed]) -> None:
    """Make the folder for PYTHONPATH. ConfigError when ``folder`` holds something else."""
    for serial, camera in cameras.items():
        if not serial.isdigit():
            raise ConfigError(f"the serial number of a ZED is digits, found '{serial}'")
        if camera.role not in ROLES:
            raise ConfigError(f"no camera role '{camera.role}'.{nearest(camera.role, ROLES)}")
    link = folder / SDK.name
    if folder.exists() and any(folder.iterdir()) and not link.is_symlink():
        raise ConfigError(f'{folder} is not empty; name a new folder')
    folder.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(SDK, target_is_directory=True)
    plug_in(folder, cameras)


def plug_in(folder: Path, cameras: Mapping[str, EmulatedZed]) -> None:
    """Let these cameras be plugged in from now on, and no others."""
    write_json(folder / CAMERAS, {serial: asdict(camera) for serial, camera in cameras.items()})


class Cameras:
    """The cameras of a folder, as one program sees them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_ns = -1
        self._cameras: dict[str, EmulatedZed] = {}

    def plugged_in(self) -> Mapping[str, EmulatedZed]:
        """Return the cameras of the file, by serial number."""
        try:
            written_ns = (self._folder / CAMERAS).stat().st_mtime_ns
            if written_ns != self._read_ns:
                text = (self._folder / CAMERAS).read_text(encoding='utf-8')
                self._cameras = {serial: EmulatedZed(**values)
                                 for serial, values in json.loads(text).items()}
                self._read_ns = written_ns
        except (OSError, ValueError, TypeError):    # being edited by hand
            return self._here()
        return self._here()

    def lose(self, serial: str) -> None:
        """Note that a camera was unplugged while it was open."""
        (self._folder / f'{serial}.lost').touch()

    def _here(self) -> Mapping[str, EmulatedZed]:
        """Return the cameras without those that are still coming back."""
        return {serial: camera for serial, camera in self._cameras.items()
                if self._is_back(serial, camera.back_s)}

    def _is_back(self, serial: str, back_s: float) -> bool:
        lost = self._folder / f'{serial}.lost'
        try:
            since_s = max(lost.stat().st_mtime, (self._folder / CAMERAS).stat().st_mtime)
        except OSError:
            return True
        if time.time() - since_s < back_s:
            return False
        lost.unlink(missing_ok=True)
        return True

    def hold(self, serial: str) -> int:
        """Open a camera for this program; return its file descriptor, or -1: it is open."""
        handle = os.open(self._folder / f'{serial}.lock', os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return -1
        return handle

    def is_held(self, serial: str) -> bool:
        """Return whether a program has the camera open."""
        handle = self.hold(serial)
        if handle >= 0:
            os.close(handle)
        return handle < 0

    @contextmanager
    def holding(self, serial: str) -> Iterator[None]:
        """Have a camera open, as another program would."""
        handle = self.hold(serial)
        try:
            yield
        finally:
            os.close(handle)


@functools.lru_cache(maxsize=8)
def picture(camera: EmulatedZed, eye: str, size: tuple[int, int]) -> Pixels:
    """Return what an eye sees, (H, W, 4) BGRA; the scene stands still."""
    rgb = _rendered(camera.role, camera.scene)[eye] if camera.scene else _pattern(eye)
    shown = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(shown, cv2.COLOR_RGB2BGRA), np.uint8)


def _pattern(eye: str) -> Pixels:
    """Return a checkered ramp; the right eye sees it further to the left."""
    y, x = np.mgrid[:RENDERED[1], :RENDERED[0]]
    x = x + (24 if eye == 'right' else 0)
    squares = ((x // 80 + y // 80) % 2 * 80).astype(np.uint8)
    return np.dstack([(x % 256).astype(np.uint8) // 2 + squares, (y % 256).astype(np.uint8),
                      255 - squares])


@functools.lru_cache(maxsize=4)
def _rendered(role: str, scene: str) -> Mapping[str, Pixels]:
    from arena_robot.drivers.sim.station import SimStation
    with SimStation.make(scene, cameras=(role,), size=RENDERED) as station:
        frame = station.cameras[role].frame()
    return dict(zip(EYES, (frame.left.pixels, frame.right.pixels), strict=True))


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
