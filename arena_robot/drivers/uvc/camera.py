"""A USB camera through V4L2: a ZED without its SDK, or a camera with one eye."""

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from arena_robot.core.camera import CameraInfo
from arena_robot.core.clock import Clock
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DriverError, NotConnected
from arena_robot.core.observation import EYES, Pixels
from arena_robot.drivers.grabbing import Grab, GrabbingCamera
from arena_robot.drivers.uvc.stereo import (
    FILE_AT,
    FOLDERS,
    Rectification,
    calibration_file,
    rectification,
)
from arena_robot.drivers.uvc.usb import VideoDevice, choose, video_devices

# Sizes of one eye.
SIZES = {'HD2K': (2208, 1242), 'HD1080': (1920, 1080), 'HD720': (1280, 720), 'VGA': (672, 376)}
YUYV, MJPEG = 'yuyv422', 'mjpeg'
NO_EYE: Pixels = np.zeros((0, 0, 3), np.uint8)
OLDEST_S = 5.0          # a stamp further away than this is of another clock
WHY = {
    errno.EBUSY: 'another program uses it: end it',
    errno.EACCES: 'no permission: sudo usermod -aG video $USER, then log in again',
    errno.ENOENT: 'there is no such device; is the camera plugged in?',
    errno.ENODEV: 'the device is gone; is the camera plugged in?',
    errno.EINVAL: 'it does not have this resolution, fps or pixel_format',
    errno.ENOSPC: 'the USB controller has no bandwidth left: smaller resolution or fps, or '
                  'another USB controller',
}


@dataclass(frozen=True)
class UvcSettings:
    """How a USB camera is read; see :class:`UvcCamera`."""

    device: str
    resolution: str
    fps: int
    side_by_side: bool
    pixel_format: str
    calibration: str
    focal: float
    baseline_m: float

    def check(self) -> None:
        """Raise ConfigError for what cannot be read."""
        if self.pixel_format not in (YUYV, MJPEG):
            raise ConfigError(f"no uvc.pixel_format '{self.pixel_format}'."
                              f'{nearest(self.pixel_format, (YUYV, MJPEG))}')
        if not 1 <= self.fps <= 240:
            raise ConfigError(f'uvc.fps {self.fps}: 1 to 240')


def eye_size(resolution: str) -> tuple[int, int]:
    """Return the width and height of one eye. Raises ConfigError."""
    if resolution in SIZES:
        return SIZES[resolution]
    words = resolution.split('x')
    if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
        raise ConfigError(f"uvc.resolution '{resolution}' is neither WIDTHxHEIGHT nor a ZED's."
                          f'{nearest(resolution, list(SIZES))}')
    return int(words[0]), int(words[1])


class UvcSource:
    """One V4L2 device, or a file of its frames; a FrameSource."""

    def __init__(self, serial: str, settings: UvcSettings) -> None:
        self.serial, self._asked, self._settings = serial, serial, settings
        self._size = (0, 0)
        self._input: Any = None
        self._packets: Iterator[Any] = iter(())
        self._stereo: Rectification | None = None
        self._begun_s, self._count, self._last_s, self._dropped = 0.0, 0, 0.0, 0
        self._plays = self._is_live = False

    def connect(self) -> Mapping[str, CameraInfo]:
        """Find the camera, read its calibration, start it."""
        wanted = self._settings
        wanted.check()
        self._size = eye_size(wanted.resolution)
        path, found = self._device()
        if found is not None:
            self.serial = found.serial
        else:
            self.serial = self._asked or Path(path).name
        file = calibration_file(wanted.calibration, self.serial) if wanted.side_by_side else None
        self._stereo = rectification(file, self._size) if file else None
        infos = self._geometry(found)
        self._begin(path)
        return infos

    def disconnect(self) -> None:
        """Release the device."""
        self._packets = iter(())
        source, self._input = self._input, None
        if source is not None:
            source.close()

    def grab(self) -> Grab:
        """Return the next frame."""
        rgb, age_s = self._next()
        width = self._size[0]
        if not self._settings.side_by_side:
            return Grab(rgb, NO_EYE, age_s, self._dropped)
        halves = {'left': rgb[:, :width], 'right': rgb[:, width:]}
        left, right = (self._stereo.apply(eye, halves[eye]) if self._stereo else
                       np.ascontiguousarray(halves[eye]) for eye in EYES)
        return Grab(left, right, age_s, self._dropped)

    # -- inside --------------------------------------------------------------------------------

    def _device(self) -> tuple[str, VideoDevice | None]:
        """Return the path to read from, and what is known of the camera behind it."""
        devices, path = video_devices(), self._settings.device
        if not path:
            found = choose(devices, self._asked)
            return found.path, found
        real = str(Path(path).resolve())
        behind = next((one for one in devices if one.path == real), None)
        if behind is not None and self._asked and behind.serial != self._asked:
            raise NotConnected(f'{path} is the camera {behind.serial} ({behind.name}), asked for '
                               f'was {self._asked}; are two cameras exchanged?')
        return path, behind

    def _geometry(self, found: VideoDevice | None) -> Mapping[str, CameraInfo]:
        wanted, (width, height) = self._settings, self._size
        extras = {'serial': self.serial, 'model': found.name if found else 'UVC'}
        if self._stereo is not None:
            k, baseline_m = self._stereo.k, self._stereo.baseline_m
        elif wanted.focal > 0.0 and (wanted.baseline_m > 0.0 or not wanted.side_by_side):
            f, baseline_m = wanted.focal * width, wanted.baseline_m
            k = np.array([[f, 0.0, (width - 1) / 2], [0.0, f, (height - 1) / 2], [0.0, 0.0, 1.0]])
        elif wanted.side_by_side:
            raise NotConnected(
                f'no calibration of camera {self.serial}: save {FILE_AT}{self.serial} as '
                f'{FOLDERS[0]}/SN{self.serial}.conf, or set uvc.calibration; for another camera '
                'set uvc.focal and uvc.baseline_m, its pictures are not rectified then')
        else:
            raise NotConnected(f'set uvc.focal of camera {self.serial}: its focal length in '
                               'widths of the picture')
        eyes = EYES if wanted.side_by_side else EYES[:1]
        return {eye: CameraInfo(width, height, k, baseline_m if eye == 'right' else 0.0, '',
                                extras) for eye in eyes}

    def _begin(self, path: str) -> None:
        import av
        wanted, (width, height) = self._settings, self._size
        width *= 2 if wanted.side_by_side else 1
        options = {'video_size': f'{width}x{height}', 'framerate': str(wanted.fps)}
        try:
            mode = os.stat(path).st_mode
            self._is_live, self._plays = stat.S_ISCHR(mode), stat.S_ISREG(mode)
            if self._is_live:
                self._input = av.open(path, format='v4l2', options={
                    **options, 'input_format': wanted.pixel_format, 'timestamps': 'abs'})
            elif wanted.pixel_format == MJPEG:
                self._input = av.open(path, format='mjpeg')
            else:
                self._input = av.open(path, format='rawvideo',
                                      options={**options, 'pixel_format': YUYV})
            stream = self._input.streams.video[0]
            got = (stream.codec_context.width, stream.codec_context.height)
            self._packets = self._input.demux(stream)
        except (OSError, av.error.FFmpegError, IndexError) as error:
            self.disconnect()
            raise NotConnected(f'{path} cannot be opened: {_why(error)}') from error
        if got != (width, height):
            self.disconnect()
            raise NotConnected(f'{path} has no {width} x {height}; it gave {got[0]} x {got[1]}; '
                               'is side_by_side right for this camera?')
        self._path = path
        self._begun_s, self._count, self._last_s, self._dropped = time.monotonic(), 0, 0.0, 0

    def _next(self) -> tuple[Pixels, float]:
        """Return the next whole picture and its age."""
        import av
        try:
            packet = next(self._packets, None)
            if packet is None or packet.size == 0:
                if not (self._plays and self._count):
                    raise DriverError(f'{self._path}: the pictures have ended; is the camera '
                                      'plugged in?')
                packet = self._again()
            pixels = self._pixels(packet)
        except (OSError, av.error.FFmpegError) as error:
            raise DriverError(f'{self._path}: no more pictures: {_why(error)}') from error
        self._count += 1
        if self._plays:         # a file is read at the rate of a camera
            time.sleep(max(0.0, self._begun_s + self._count / self._settings.fps
                           - time.monotonic()))
        return pixels, self._age_s(packet)

    def _again(self) -> Any:
        """Play a file from its beginning; return its first packet."""
        begun_s, count, dropped = self._begun_s, self._count, self._dropped
        self.disconnect()
        self._begin(self._path)
        self._begun_s, self._count, self._dropped = begun_s, count, dropped
        return next(self._packets)

    def _pixels(self, packet: Any) -> Pixels:
        width = self._size[0] * (2 if self._settings.side_by_side else 1)
        shape = (self._size[1], width, 2)
        if self._settings.pixel_format == MJPEG:
            [frame] = packet.decode()
            return np.asarray(frame.to_ndarray(format='rgb24'), np.uint8)
        data = np.frombuffer(packet, np.uint8)
        if data.size != shape[0] * shape[1] * shape[2]:
            raise DriverError(f'{self._path}: a frame of {data.size} bytes, expected '
                              f'{shape[0] * shape[1] * shape[2]}; is the USB cable good?')
        return np.asarray(cv2.cvtColor(data.reshape(shape), cv2.COLOR_YUV2RGB_YUY2), np.uint8)

    def _age_s(self, packet: Any) -> float:
        """Return how long ago the kernel stamped the frame; count those lost before it."""
        if not self._is_live or packet.pts is None:
            return 0.0
        taken_s = float(packet.pts * packet.time_base)
        if self._last_s:
            missed = round((taken_s - self._last_s) * self._settings.fps) - 1
            self._dropped += max(0, missed)
        self._last_s = taken_s
        age_s = time.time() - taken_s
        return age_s if 0.0 <= age_s < OLDEST_S else 0.0


def _why(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return WHY.get(number or 0, str(error))


class UvcCamera(GrabbingCamera):
    """
    A camera on USB, named by ``serial_number`` or by the path ``device``.

    ``resolution`` is one eye's: HD2K, HD1080, HD720, VGA or WIDTHxHEIGHT. A ZED sends both eyes
    ``side_by_side`` and is rectified with its file ``calibration``, SN<serial>.conf, which is
    looked for in Stereolabs' folders. Pictures without it are left as they are; then ``focal`` in
    widths of the picture and ``baseline_m`` are told. ``device`` may be a file or a pipe of frames
    in ``pixel_format``, yuyv422 or mjpeg.
    """

    def __init__(self, serial_number: str = '', clock: Clock | None = None, device: str = '',
                 resolution: str = 'HD720', fps: int = 15, side_by_side: bool = True,
                 pixel_format: str = YUYV, calibration: str = '', focal: float = 0.0,
                 baseline_m: float = 0.0) -> None:
        name = serial_number or device
        super().__init__(
            UvcSource(serial_number, UvcSettings(device, resolution, fps, side_by_side,
                                                 pixel_format, calibration, focal, baseline_m)),
            clock, f'camera {name}' if name else 'the USB camera')
