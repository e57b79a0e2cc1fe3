"""A RealSense camera through librealsense, the library ``pyrealsense2``."""

import importlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from arena_robot.core.clock import Clock
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DriverError, NotConnected
from arena_robot.core.observation import EYES, NO_EYE, CameraInfo, Millimetres
from arena_robot.drivers.base import Setting
from arena_robot.drivers.grabbing import AUTO, Grab, GrabbingCamera

COLOR, INFRARED, DEPTH = STREAMS = 'color', 'infrared', 'depth'
# While only one of exposure and gain is automatic, it keeps what the camera had chosen.
KEEPS = 'automatic together; alone it keeps its value'
SETTINGS = {    # the largest of all models; what the camera has is asked of the camera
    'exposure_us': Setting(f'exposure time; -1: {KEEPS}', AUTO, 1e6, 'us'),
    'gain': Setting(f'amplification; -1: {KEEPS}', AUTO, 248.0),
    'white_balance': Setting('colour of the light, of the color stream; -1: automatic', AUTO,
                             6500.0, 'K'),
}
RGB_US = 100.0    # a sensor for color alone counts its exposure in these (librealsense #8243)
WAIT_MS = 500     # several frames at every rate; longer: the cable is out
OLDEST_S = 5.0    # a stamp further away than this is none of this clock's
ADVICE = {
    'busy': 'another program uses it (realsense-viewer, realsense2_camera, another station): '
            'end it',
    'resolve requests': 'it does not have this stream, resolution and fps on this port; on a '
                        'USB 2 port it has few: plug it into a USB 3 port',
    'power state': "install librealsense's udev rules, then plug it in again",
    'permission': "install librealsense's udev rules, then plug it in again",
    'arrive within': 'is the cable plugged in?',
    'disconnected': 'is the cable plugged in?',
}


@dataclass(frozen=True)
class RealsenseSettings:
    """How a RealSense is opened; see :class:`RealsenseCamera`."""

    stream: str
    resolution: str
    fps: int
    exposure_us: float
    gain: float
    white_balance: float

    def size(self) -> tuple[int, int]:
        """Return the size of a picture. Raises ConfigError for what cannot be."""
        if self.stream not in STREAMS:
            raise ConfigError(f"no driver.stream '{self.stream}'."
                              f'{nearest(self.stream, STREAMS)}')
        words = self.resolution.split('x')
        if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
            raise ConfigError(f"driver.resolution '{self.resolution}' is not WIDTHxHEIGHT")
        if (self.exposure_us == AUTO) != (self.gain == AUTO):
            raise ConfigError('exposure_us and gain are automatic together: set both, or none')
        return int(words[0]), int(words[1])


class RealsenseSource:
    """One RealSense in librealsense; a FrameSource."""

    def __init__(self, serial: str, settings: RealsenseSettings) -> None:
        self.serial, self._asked, self._settings = serial, serial, settings
        self._rs: Any = None
        self._pipeline: Any = None
        self._sensor: Any = None
        self._align: Any = None
        self._unit_mm = 1.0
        self._last, self._dropped = 0, 0
        self._was_lost = False

    def connect(self) -> Mapping[str, CameraInfo]:
        """Start the camera with the serial number, or the only one."""
        size = self._settings.size()
        try:
            self._rs = importlib.import_module('pyrealsense2')
        except ImportError as error:
            raise NotConnected(f'the backend realsense needs librealsense ({error}): '
                               'pip install pyrealsense2') from error
        device = self._found()
        info = self._rs.camera_info
        self.serial, model = device.get_info(info.serial_number), device.get_info(info.name)
        try:
            if self._was_lost:
                # Without it, a camera that was lost opens and sends nothing (librealsense #14242).
                self._was_lost = False
                device.hardware_reset()
                raise NotConnected(f'RealSense {self.serial} is reset, because it was lost; it '
                                   'comes back within seconds')
            profile = self._start(size)
            self._sensor = self._sensor_of(profile.get_device())
            self._set_picture(self._settings)
            return self._geometry(profile, model)
        except ConfigError:
            self.disconnect()
            raise
        except RuntimeError as error:
            self.disconnect()
            raise NotConnected(f'RealSense {self.serial} cannot be opened: {_why(error)}'
                               ) from error

    def disconnect(self) -> None:
        """Stop the camera."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            try:
                pipeline.stop()
            except RuntimeError:        # it has gone already
                return

    def grab(self) -> Grab:
        """Return the next frame."""
        try:
            frames = self._pipeline.wait_for_frames(WAIT_MS)
        except RuntimeError as error:
            self._was_lost = True
            raise DriverError(f'RealSense {self.serial} has stopped: {_why(error)}') from error
        depth = None
        if self._settings.stream != INFRARED:
            if self._settings.stream == DEPTH:
                frames = self._align.process(frames)
                depth = self._depth_of(frames.get_depth_frame())
            first = frames.get_color_frame()
            left, right = np.array(first.get_data(), np.uint8), NO_EYE
        else:
            first = frames.get_infrared_frame(1)
            left, right = (np.asarray(cv2.cvtColor(np.asanyarray(eye.get_data()),
                                                   cv2.COLOR_GRAY2RGB), np.uint8)
                           for eye in (first, frames.get_infrared_frame(2)))
        number = int(first.get_frame_number())
        if self._last:
            self._dropped += max(0, number - self._last - 1)
        self._last = number
        return Grab(left, right, self._age_s(first), self._dropped, depth)

    def set_picture(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Change exposure, gain and white balance."""
        asked, option = dict(values), self._rs.option
        try:
            if (asked['exposure_us'] == AUTO) != (asked['gain'] == AUTO):
                if asked['gain'] == AUTO:
                    asked['gain'] = self._sensor.get_option(option.gain)
                else:
                    exposure = self._sensor.get_option(option.exposure)
                    asked['exposure_us'] = exposure * self._unit_us()
            wanted = replace(self._settings, **asked)   # type: ignore[arg-type]    # all numbers
            self._set_picture(wanted)
        except RuntimeError as error:
            raise DriverError(f'RealSense {self.serial} has stopped: {_why(error)}') from error
        self._settings = wanted
        return asked

    # -- inside --------------------------------------------------------------------------------

    def _depth_of(self, frame: Any) -> Millimetres | None:
        """Return depth in mm, copied out of the library's memory; None where it was lost."""
        if not frame:
            return None
        raw: Millimetres = np.array(frame.get_data(), np.uint16)
        if math.isclose(self._unit_mm, 1.0, rel_tol=1e-3):
            return raw
        most = np.iinfo(np.uint16).max
        out: Millimetres = np.minimum(np.rint(raw * self._unit_mm), most).astype(np.uint16)
        return out

    def _found(self) -> Any:
        """Return the device to open. Raises NotConnected."""
        info = self._rs.camera_info
        cameras = {camera.get_info(info.serial_number): camera
                   for camera in self._rs.context().query_devices()}
        known = ', '.join(f'{serial} ({camera.get_info(info.name)})'
                          for serial, camera in sorted(cameras.items()))
        if self._asked in cameras:
            return cameras[self._asked]
        if self._asked:
            raise NotConnected(f'no RealSense with serial number {self._asked} is plugged in; '
                               f'found: {known or "none"}')
        if len(cameras) != 1:
            raise NotConnected(f'RealSense cameras found: {known}; set serial_number to one of '
                               'them' if cameras else 'no RealSense is plugged in')
        return next(iter(cameras.values()))

    def _start(self, size: tuple[int, int]) -> Any:
        rs, fps = self._rs, self._settings.fps
        config = rs.config()
        config.enable_device(self.serial)
        if self._settings.stream != INFRARED:
            config.enable_stream(rs.stream.color, *size, rs.format.rgb8, fps)
            if self._settings.stream == DEPTH:    # in the size that the camera prefers
                config.enable_stream(rs.stream.depth, rs.format.z16, fps)
        else:
            for index in (1, 2):
                config.enable_stream(rs.stream.infrared, index, *size, rs.format.y8, fps)
        pipeline = rs.pipeline()
        profile = pipeline.start(config)
        self._pipeline, self._last, self._dropped = pipeline, 0, 0
        if self._settings.stream == DEPTH:
            self._align = rs.align(rs.stream.color)
            scale = profile.get_device().first_depth_sensor().get_depth_scale()
            self._unit_mm = 1e3 * float(scale)
        return profile

    def _set_picture(self, wanted: RealsenseSettings) -> None:
        """Set exposure, gain, white balance; infrared without the projector's dots."""
        option = self._rs.option
        auto = wanted.exposure_us == AUTO
        values = [(option.enable_auto_exposure, float(auto))]
        if not auto:
            values += [(option.exposure, wanted.exposure_us / self._unit_us()),
                       (option.gain, wanted.gain)]
        if wanted.stream == INFRARED:
            values.append((option.emitter_enabled, 0.0))
        else:
            values.append((option.enable_auto_white_balance, float(wanted.white_balance == AUTO)))
            if wanted.white_balance != AUTO:
                values.append((option.white_balance, wanted.white_balance))
        known = [(name, value) for name, value in values if self._sensor.supports(name)]
        for name, value in known:
            self._require_range(name, value)
        for name, value in known:
            self._sensor.set_option(name, value)

    def _require_range(self, name: Any, value: float) -> None:
        """Raise ConfigError for a value that the sensor does not have."""
        has = self._sensor.get_option_range(name)
        if not has.min <= value <= has.max:
            unit = self._unit_us() if name == self._rs.option.exposure else 1.0
            word = str(name).rpartition('.')[2]
            raise ConfigError(f'{word} {value * unit:.9g}: RealSense {self.serial} has '
                              f'{has.min * unit:.9g} to {has.max * unit:.9g}, or {AUTO} for '
                              'automatic')

    def _unit_us(self) -> float:
        """Return the unit of the sensor's exposure: 1 in a Stereo Module, also for its color."""
        is_stereo = any(each.stream_type() == self._rs.stream.depth
                        for each in self._sensor.get_stream_profiles())
        return 1.0 if is_stereo else RGB_US

    def _sensor_of(self, device: Any) -> Any:
        """Return the sensor with the stream: a D405's color is one of its Stereo Module."""
        streams = self._rs.stream
        kind = streams.infrared if self._settings.stream == INFRARED else streams.color
        return next(sensor for sensor in device.query_sensors() if any(
            each.stream_type() == kind for each in sensor.get_stream_profiles()))

    def _geometry(self, profile: Any, model: str) -> Mapping[str, CameraInfo]:
        rs = self._rs
        streams = [profile.get_stream(rs.stream.color)] if self._settings.stream != INFRARED \
            else [profile.get_stream(rs.stream.infrared, index) for index in (1, 2)]
        videos = [stream.as_video_stream_profile() for stream in streams]
        extras = {'model': model, 'serial': self.serial}
        infos = {}
        for eye, video in zip(EYES, videos, strict=False):
            lens = video.get_intrinsics()
            k = np.array([[lens.fx, 0.0, lens.ppx], [0.0, lens.fy, lens.ppy], [0.0, 0.0, 1.0]])
            away_m = abs(float(videos[0].get_extrinsics_to(video).translation[0]))
            infos[eye] = CameraInfo(lens.width, lens.height, k,
                                    0.0 if eye == EYES[0] else away_m, '', extras)
        return infos

    def _age_s(self, frame: Any) -> float:
        """Return how long ago the frame was stamped; 0 where it is of the camera's own clock."""
        if frame.get_frame_timestamp_domain() == self._rs.timestamp_domain.hardware_clock:
            return 0.0
        age_s = time.time() - float(frame.get_timestamp()) * 1e-3
        return age_s if 0.0 <= age_s < OLDEST_S else 0.0


def _why(error: Exception) -> str:
    text = str(error)
    advice = next((advice for word, advice in ADVICE.items() if word in text.lower()), '')
    return f'{text}: {advice}' if advice else text


class RealsenseCamera(GrabbingCamera):
    """
    A RealSense D400 camera.

    ``stream`` is ``color``, one eye, ``depth``, that eye and the depth of its pixels, or
    ``infrared``, both eyes in grey, rectified by the camera, with its projector off.
    ``exposure_us`` with ``gain``, and ``white_balance`` in K, are -1 for automatic.
    """

    adjustable = SETTINGS

    def __init__(self, serial_number: str = '', clock: Clock | None = None, stream: str = COLOR,
                 resolution: str = '1280x720', fps: int = 30, exposure_us: float = float(AUTO),
                 gain: float = float(AUTO), white_balance: float = float(AUTO)) -> None:
        super().__init__(
            RealsenseSource(serial_number, RealsenseSettings(stream, resolution, fps, exposure_us,
                                                             gain, white_balance)),
            clock, f'RealSense {serial_number}' if serial_number else 'the RealSense')
