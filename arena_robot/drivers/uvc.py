"""
A USB camera through V4L2: a ZED without its SDK, or a camera with one eye.

It is found by its serial number in ``/sys``; a ZED's pictures are rectified by the calibration
file that comes with each.
"""

import configparser
import errno
import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from arena_robot.core.clock import Clock
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DriverError, NotConnected
from arena_robot.core.observation import EYES, NO_EYE, CameraInfo, Floats, Pixels
from arena_robot.drivers.base import Setting
from arena_robot.drivers.grabbing import AUTO, Grab, GrabbingCamera

# Sizes of one eye.
SIZES = {'HD2K': (2208, 1242), 'HD1080': (1920, 1080), 'HD720': (1280, 720), 'VGA': (672, 376)}
YUYV, MJPEG = 'yuyv422', 'mjpeg'
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
# The file's word for a resolution, by the width of one eye.
SECTIONS = {2208: '2k', 1920: 'fhd', 1280: 'hd', 672: 'vga'}
FOLDERS = ('~/zed/settings', '/usr/local/zed/settings')
FILE_AT = 'https://calib.stereolabs.com/?SN='
MM = 1e-3
STEREOLABS = '2b03'
# The sensors of a ZED are a USB device of their own beside the camera; only they have the serial
# number.
ZED_SENSORS = ('f681', 'f781', 'f881')
SETTINGS = {    # wider than any camera's; what a camera has is asked of the camera
    'exposure_us': Setting('exposure time, in steps of 100; -1: automatic', AUTO, 1_000_000, 'us'),
    'gain': Setting('amplification; -1: automatic', AUTO, 65_535),
}
# V4L2's controls by setting: the control and its unit; its switch with the value for manual and
# those for automatic (exposure: by aperture, as most cameras have it, or altogether).
CONTROLS = {'exposure_us': (0x009A0902, 100, 0x009A0901, 1, (3, 0)),
            'gain': (0x00980913, 1, 0x00980912, 0, (1,))}
QUERYCTRL, S_CTRL, DISABLED = 0xC0445624, 0xC008561C, 0x1      # of linux/videodev2.h
QUERY, VALUE = '=II32siiiiI8x', '=Ii'


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


@dataclass(frozen=True)
class VideoDevice:
    """
    A camera on USB: the path of its pictures, its name and serial number.

    A camera without a serial number has the name of its USB port instead, such as
    ``usb-1-2.1``, which stays the same as long as it is plugged in there.
    """

    path: str
    name: str
    vendor: str
    serial: str


def video_devices(sys: Path = Path('/sys')) -> list[VideoDevice]:
    """Return the USB cameras that are plugged in, each once."""
    devices = []
    for node in sorted((sys / 'class/video4linux').glob('video*')):
        if _text(node / 'index') not in ('', '0'):
            continue            # the second node of a camera has its metadata
        interface = (node / 'device').resolve()
        usb = interface.parent
        if not (usb / 'idVendor').is_file():
            continue            # not on USB
        vendor = _text(usb / 'idVendor')
        serial = _zed_serial(usb) if vendor == STEREOLABS else _text(usb / 'serial')
        devices.append(VideoDevice(f'/dev/{node.name}', _text(node / 'name') or node.name, vendor,
                                   serial or f'usb-{usb.name}'))
    return devices


def choose(devices: Sequence[VideoDevice], serial: str) -> VideoDevice:
    """Return the camera with a serial number, or the only one. Raises NotConnected."""
    known = ', '.join(f'{device.serial} ({device.name}, {device.path})'
                      for device in devices) or 'none'
    right = [device for device in devices if device.serial == serial] if serial else list(devices)
    if len(right) == 1:
        return right[0]
    if not right:
        raise NotConnected((f'no USB camera with serial number {serial} is plugged in'
                            if serial else 'no USB camera is plugged in') + f'; found: {known}')
    raise NotConnected(f'USB cameras found: {known}; set ' + (
        'driver.device: these have one serial number' if serial else
        'serial_number to one of them'))


def _zed_serial(usb: Path) -> str:
    """Return the serial number that the sensors tell, on the hub that is in the camera."""
    for beside in sorted(usb.parent.glob(f'{usb.name.rpartition(".")[0]}.*')):
        if _text(beside / 'idVendor') == STEREOLABS and _text(beside / 'idProduct') in ZED_SENSORS:
            return _text(beside / 'serial')
    return ''


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8', errors='replace').strip()
    except OSError:
        return ''


def set_controls(path: str, settings: Mapping[str, int]) -> None:
    """
    Set the CONTROLS of a V4L2 device; -1 is automatic, where it can be.

    ConfigError, and nothing has changed, for a number that the device does not have.
    NotConnected when it takes nothing.
    """
    values = list[tuple[int, tuple[int, ...]]]()
    try:
        with open(path, 'r+b', buffering=0) as device:
            for name, asked in settings.items():
                control, unit, switch, manual, automatic = CONTROLS[name]
                if _range(device, switch):
                    values.append((switch, automatic if asked == AUTO else (manual,)))
                if asked != AUTO:
                    low, high = (end * unit for end in _range(device, control) or (0, -1))
                    if not low <= asked <= high:
                        known = f'{low} to {high}' if high >= low else 'no such control'
                        raise ConfigError(f'{name} {asked}: {path} has {known}; {AUTO}: automatic')
                    values.append((control, (asked // unit,)))
            for control, choices in values:
                _set(device, control, choices)
    except OSError as error:
        raise NotConnected(f'{path} does not take {settings}: {_why(error)}') from error


def _set(device: FileIO, control: int, choices: Sequence[int]) -> None:
    """Set the first of ``choices`` that the device takes. OSError when it takes none."""
    for value in choices:
        try:
            fcntl.ioctl(device, S_CTRL, bytearray(struct.pack(VALUE, control, value)))
            return
        except OSError:
            if value == choices[-1]:
                raise


def _range(device: FileIO, control: int) -> tuple[int, int] | None:
    """Return the smallest and largest value of a control; None where the device lacks it."""
    query = bytearray(struct.pack(QUERY, control, 0, b'', 0, 0, 0, 0, 0))
    try:
        fcntl.ioctl(device, QUERYCTRL, query)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTTY):
            return None
        raise
    *_, low, high, _, _, flags = struct.unpack(QUERY, query)
    return None if flags & DISABLED else (low, high)


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
    exposure_us: int
    gain: int

    def check(self) -> None:
        """Raise ConfigError for what cannot be read."""
        if self.pixel_format not in (YUYV, MJPEG):
            raise ConfigError(f"no uvc.pixel_format '{self.pixel_format}'."
                              f'{nearest(self.pixel_format, (YUYV, MJPEG))}')
        if not 1 <= self.fps <= 240:
            raise ConfigError(f'driver.fps {self.fps}: 1 to 240')


def eye_size(resolution: str) -> tuple[int, int]:
    """Return the width and height of one eye. Raises ConfigError."""
    if resolution in SIZES:
        return SIZES[resolution]
    words = resolution.split('x')
    if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
        raise ConfigError(f"driver.resolution '{resolution}' is neither WIDTHxHEIGHT nor a ZED's."
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
        path, device = self._device()
        self.serial = device.serial if device else self._asked or Path(path).name
        file = calibration_file(wanted.calibration, self.serial) if wanted.side_by_side else None
        self._stereo = rectification(file, self._size) if file else None
        infos = self._geometry(device)
        self._begin(path)
        try:
            self.set_picture({name: getattr(wanted, name) for name in SETTINGS})
        except (ConfigError, NotConnected):
            self.disconnect()
            raise
        return infos

    def set_picture(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Change exposure and gain."""
        asked = {name: int(value) for name, value in values.items()}
        if self._is_live:
            set_controls(self._path, asked)
        elif set(asked.values()) != {AUTO}:
            raise ConfigError(f'{self._path} is no camera: it has neither exposure_us nor gain')
        self._settings = replace(self._settings, **asked)   # type: ignore[arg-type]
        return asked

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
            device = choose(devices, self._asked)
            return device.path, device
        real = str(Path(path).resolve())
        behind = next((device for device in devices if device.path == real), None)
        if behind is not None and self._asked and behind.serial != self._asked:
            raise NotConnected(f'{path} is the camera {behind.serial} ({behind.name}), asked for '
                               f'was {self._asked}; are two cameras exchanged?')
        return path, behind

    def _geometry(self, device: VideoDevice | None) -> Mapping[str, CameraInfo]:
        wanted, (width, height) = self._settings, self._size
        extras = {'serial': self.serial, 'model': device.name if device else 'UVC'}
        if self._stereo is not None:
            k, baseline_m = self._stereo.k, self._stereo.baseline_m
        elif wanted.focal > 0.0 and (wanted.baseline_m > 0.0 or not wanted.side_by_side):
            f, baseline_m = wanted.focal * width, wanted.baseline_m
            k = np.array([[f, 0.0, (width - 1) / 2], [0.0, f, (height - 1) / 2], [0.0, 0.0, 1.0]])
        elif wanted.side_by_side:
            raise NotConnected(
                f'no calibration of camera {self.serial}: save {FILE_AT}{self.serial} as '
                f'{FOLDERS[0]}/SN{self.serial}.conf, or set driver.calibration; for another '
                'camera set driver.focal and driver.baseline_m, its pictures are not rectified '
                'then')
        else:
            raise NotConnected(f'set driver.focal of camera {self.serial}: its focal length in '
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
            size = (stream.codec_context.width, stream.codec_context.height)
            self._packets = self._input.demux(stream)
        except (OSError, av.error.FFmpegError, IndexError) as error:
            self.disconnect()
            raise NotConnected(f'{path} cannot be opened: {_why(error)}') from error
        if size != (width, height):
            self.disconnect()
            raise NotConnected(f'{path} has no {width} x {height}; it gave {size[0]} x {size[1]}; '
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
    in ``pixel_format``, yuyv422 or mjpeg. ``exposure_us`` and ``gain`` are -1 for automatic.
    """

    adjustable = SETTINGS

    def __init__(self, serial_number: str = '', clock: Clock | None = None, device: str = '',
                 resolution: str = 'HD720', fps: int = 15, side_by_side: bool = True,
                 pixel_format: str = YUYV, calibration: str = '', focal: float = 0.0,
                 baseline_m: float = 0.0, exposure_us: int = AUTO, gain: int = AUTO) -> None:
        name = serial_number or device
        super().__init__(
            UvcSource(serial_number, UvcSettings(device, resolution, fps, side_by_side,
                                                 pixel_format, calibration, focal, baseline_m,
                                                 exposure_us, gain)),
            clock, f'camera {name}' if name else 'the USB camera')
