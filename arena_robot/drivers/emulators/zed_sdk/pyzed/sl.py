"""
What the ZED SDK's ``pyzed.sl`` offers to a program that reads pictures, on emulated cameras.

Names, arguments, units, errors and their order are those of SDK 5's Python API: warnings are below
SUCCESS, ``get_data`` is a view of memory that the next picture overwrites, a grab blocks until the
next frame.
"""

import enum
import json
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np

from arena_robot.core.observation import EYES, Picture
from arena_robot.drivers.emulators.zed import Cameras, EmulatedZed, picture
from arena_robot.drivers.sim.room_model import camera_info
from arena_robot.robots.cameras import MODELS

SDK_VERSION = '5.1.0'
LATENCY_S = 0.012           # from the exposure's stamp to the end of grab
RECOVERY_S = 0.05
SIZES = {'HD2K': (2208, 1242), 'HD1080': (1920, 1080), 'HD720': (1280, 720), 'VGA': (672, 376)}
DEFAULT_FPS = {'HD2K': 15, 'HD1080': 30, 'HD720': 60, 'VGA': 100}
NEAREST_MM, HOLE = 300, 8       # depth grows by 1 mm a column from here; pixels of a hole
AUTO = -1
AT = 50             # exposure and gain of a camera by itself

_cameras = Cameras(Path(__file__).parent.parent)
_lock = threading.Lock()

_enum: Any = enum.Enum      # made from lists; a type checker wants literals
ERROR_CODE = _enum('ERROR_CODE', [
    'SENSOR_CONFIGURATION_CHANGED', 'POTENTIAL_CALIBRATION_ISSUE', 'CONFIGURATION_FALLBACK',
    'SENSORS_DATA_REQUIRED', 'CORRUPTED_FRAME', 'CAMERA_REBOOTING', 'SUCCESS', 'FAILURE',
    'NO_GPU_COMPATIBLE', 'NOT_ENOUGH_GPU_MEMORY', 'CAMERA_NOT_DETECTED',
    'SENSORS_NOT_INITIALIZED', 'SENSORS_NOT_AVAILABLE', 'INVALID_RESOLUTION', 'LOW_USB_BANDWIDTH',
    'CALIBRATION_FILE_NOT_AVAILABLE', 'INVALID_CALIBRATION_FILE', 'INVALID_SVO_FILE',
    'SVO_RECORDING_ERROR', 'END_OF_SVOFILE_REACHED', 'SVO_UNSUPPORTED_COMPRESSION',
    'INVALID_FIRMWARE', 'INVALID_FUNCTION_PARAMETERS', 'CUDA_ERROR', 'CAMERA_NOT_INITIALIZED',
    'NVIDIA_DRIVER_OUT_OF_DATE', 'INVALID_FUNCTION_CALL', 'CORRUPTED_SDK_INSTALLATION',
    'INCOMPATIBLE_SDK_VERSION', 'CAMERA_FAILED_TO_SETUP', 'CAMERA_DETECTION_ISSUE',
    'CANNOT_START_CAMERA_STREAM', 'NO_GPU_DETECTED'], start=-6)
RESOLUTION = _enum('RESOLUTION', list(SIZES))
VIEW = _enum('VIEW', ['LEFT', 'RIGHT'])
TIME_REFERENCE = _enum('TIME_REFERENCE', ['IMAGE', 'CURRENT'])
FLIP_MODE = _enum('FLIP_MODE', ['OFF', 'ON', 'AUTO'])
DEPTH_MODE = _enum('DEPTH_MODE', ['NONE', 'PERFORMANCE', 'NEURAL'])
UNIT = _enum('UNIT', {'MILLIMETER': 1000.0, 'CENTIMETER': 100.0, 'METER': 1.0})
CAMERA_STATE = _enum('CAMERA_STATE', ['AVAILABLE', 'NOT_AVAILABLE'])
MODEL = _enum('MODEL', ['ZED', 'ZED_M', 'ZED2', 'ZED2i'])
MEM = _enum('MEM', ['CPU', 'GPU'])
MEASURE = _enum('MEASURE', ['DEPTH', 'DEPTH_U16_MM'])
VIDEO_SETTINGS = _enum('VIDEO_SETTINGS', [
    'GAIN', 'EXPOSURE', 'AEC_AGC', 'WHITEBALANCE_TEMPERATURE', 'WHITEBALANCE_AUTO'])
_RANGES = {'GAIN': (0, 100), 'EXPOSURE': (0, 100), 'WHITEBALANCE_TEMPERATURE': (2800, 6500)}
_MANUAL = {'GAIN': 'AEC_AGC', 'EXPOSURE': 'AEC_AGC',
           'WHITEBALANCE_TEMPERATURE': 'WHITEBALANCE_AUTO'}
_settings: dict[str, dict[str, int]] = {}       # a camera keeps them when it is closed


class Resolution:
    """A size in pixels."""

    def __init__(self, width: int = 0, height: int = 0) -> None:
        self.width, self.height = width, height


class InitParameters:
    """How a camera is opened, with the SDK's defaults."""

    def __init__(self, camera_resolution: Any = RESOLUTION['HD720'], camera_fps: int = 0,
                 camera_image_flip: Any = FLIP_MODE['AUTO'],
                 depth_mode: Any = DEPTH_MODE['NEURAL'],
                 coordinate_units: Any = UNIT['MILLIMETER'], sdk_verbose: int = 1,
                 svo_real_time_mode: bool = False, open_timeout_sec: float = 5.0,
                 async_grab_camera_recovery: bool = False) -> None:
        self.camera_resolution, self.camera_fps = camera_resolution, camera_fps
        self.camera_image_flip, self.depth_mode = camera_image_flip, depth_mode
        self.coordinate_units, self.sdk_verbose = coordinate_units, sdk_verbose
        self.svo_real_time_mode, self.open_timeout_sec = svo_real_time_mode, open_timeout_sec
        self.async_grab_camera_recovery = async_grab_camera_recovery
        self.serial, self.svo = '', ''

    def set_from_serial_number(self, serial_number: int) -> None:
        """Take the camera with this number."""
        self.serial = str(int(serial_number))

    def set_from_svo_file(self, svo_input_filename: str) -> None:
        """Take a recording: here a JSON file with ``serial_number`` and ``frames``."""
        self.svo = svo_input_filename


class RuntimeParameters:
    """What a grab computes besides the pictures; nothing."""


class Mat:
    """A picture in the SDK's memory."""

    def __init__(self) -> None:
        self.memory: Picture = np.zeros((0, 0, 4), np.uint8)

    def get_data(self, memory_type: Any = MEM['CPU'], deep_copy: bool = False) -> Picture:
        """Return the memory itself, (H, W, 4) BGRA, or (H, W) depth."""
        return self.memory.copy() if deep_copy else self.memory


class Timestamp:
    """Nanoseconds since 1970."""

    def __init__(self, nanoseconds: int) -> None:
        self._nanoseconds = nanoseconds

    def get_nanoseconds(self) -> int:
        """Return them."""
        return self._nanoseconds


class EmulatedCamera:
    """A camera that is opened, grabbed from and closed."""

    def __init__(self) -> None:
        self._handle = -1
        self._camera: EmulatedZed | None = None
        self.serial, self._frames = '', 0
        self._init = InitParameters()

    @staticmethod
    def get_sdk_version() -> str:
        """Return the version of the SDK."""
        return SDK_VERSION

    @staticmethod
    def get_device_list() -> list[Any]:
        """Return what is plugged in, in use or not."""
        with _lock:
            return [SimpleNamespace(
                serial_number=int(serial), id=number, path=f'/dev/video{2 * number}',
                camera_model=_model(camera),
                camera_state=CAMERA_STATE['NOT_AVAILABLE' if _cameras.is_held(serial) else
                                          'AVAILABLE'])
                for number, (serial, camera) in enumerate(_cameras.plugged_in().items())]

    def open(self, py_init: InitParameters) -> Any:
        """Open; returns an ERROR_CODE."""
        self._init = py_init
        if py_init.svo:
            try:
                about = json.loads(Path(py_init.svo).read_text(encoding='utf-8'))
                self.serial, self._frames = str(about['serial_number']), int(about['frames'])
            except (OSError, ValueError, KeyError):
                return ERROR_CODE['INVALID_SVO_FILE']
            self._camera = EmulatedZed()
        else:
            camera = _cameras.plugged_in().get(py_init.serial)
            if camera is None:
                return ERROR_CODE['CAMERA_NOT_DETECTED']
            code = ERROR_CODE[camera.fault or 'SUCCESS']
            if code.value > ERROR_CODE['SUCCESS'].value:
                return code
            with _lock:
                self._handle = _cameras.hold(py_init.serial)
            if self._handle < 0:
                return ERROR_CODE['CAMERA_NOT_DETECTED']
            self.serial, self._camera = py_init.serial, camera
        name = py_init.camera_resolution.name
        self._size, self._fps = SIZES[name], py_init.camera_fps or DEFAULT_FPS[name]
        for eye in EYES:
            picture(self._camera, eye, self._size)      # rendered now, and then kept
        self._start_ns, self._count, self._dropped, self._stamp_ns = time.time_ns(), 0, 0, 0
        return ERROR_CODE['SUCCESS']

    def is_opened(self) -> bool:
        """Return whether it is open."""
        return self._camera is not None

    def close(self) -> None:
        """Release the camera."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._camera = -1, None

    def grab(self, py_runtime: RuntimeParameters | None = None) -> Any:
        """Wait for the next frame; returns an ERROR_CODE."""
        if self._camera is None:
            return ERROR_CODE['CAMERA_NOT_INITIALIZED']
        if self._init.svo:
            if self._count >= self._frames:
                return ERROR_CODE['END_OF_SVOFILE_REACHED']
        else:
            camera = _cameras.plugged_in().get(self.serial)
            if camera is None:
                return self._recover(self._camera.when_lost)
            if camera.fault:
                time.sleep(1.0 / self._fps)
                return ERROR_CODE[camera.fault]
        period_ns = round(1e9 / self._fps)
        newest = (time.time_ns() - self._start_ns) // period_ns
        self._dropped += max(0, newest - self._count - 1)
        self._count = max(self._count + 1, newest)
        self._stamp_ns = self._start_ns + self._count * period_ns
        time.sleep(max(0.0, (self._stamp_ns - time.time_ns()) * 1e-9 + LATENCY_S))
        return ERROR_CODE['SUCCESS']

    def _recover(self, when_lost: str) -> Any:
        """Do what the SDK does about a camera that was unplugged while it was open."""
        _cameras.lose(self.serial)
        time.sleep(RECOVERY_S)
        if not self._init.async_grab_camera_recovery:
            return ERROR_CODE['CAMERA_NOT_DETECTED']
        if when_lost == 'crashes':
            os.abort()
        while when_lost == 'blocks':
            time.sleep(1.0)
        return ERROR_CODE['CAMERA_REBOOTING']

    def retrieve_image(self, py_mat: Mat, view: Any = VIEW['LEFT'], mem_type: Any = MEM['CPU'],
                       resolution: Resolution | None = None) -> Any:
        """Write the rectified picture of an eye into ``py_mat``."""
        if self._camera is None:
            return ERROR_CODE['CAMERA_NOT_INITIALIZED']
        size = (resolution.width, resolution.height) if resolution else self._size
        if size[0] > self._size[0] or size[1] > self._size[1]:
            return ERROR_CODE['INVALID_RESOLUTION']
        still = picture(self._camera, view.name.lower(), size)
        if py_mat.memory.shape != still.shape:
            py_mat.memory = np.empty_like(still)
        kept = _settings.get(self.serial, {})
        if kept.get('AEC_AGC', 1):
            np.copyto(py_mat.memory, still)
        else:
            cv2.convertScaleAbs(still, py_mat.memory,
                                kept.get('EXPOSURE', AT) * kept.get('GAIN', AT) / AT**2)
        x = self._count * 4 % size[0]
        py_mat.memory[:8, x:x + 16] = 255       # runs along the upper edge: the frame's number
        return ERROR_CODE['SUCCESS']

    def retrieve_measure(self, py_mat: Mat, measure: Any = MEASURE['DEPTH'],
                         mem_type: Any = MEM['CPU'],
                         resolution: Resolution | None = None) -> Any:
        """Write depth of the left picture's pixels into ``py_mat``: mm, and a hole of 0."""
        if self._camera is None:
            return ERROR_CODE['CAMERA_NOT_INITIALIZED']
        if self._init.depth_mode is DEPTH_MODE['NONE']:
            return ERROR_CODE['INVALID_FUNCTION_CALL']
        assert measure is MEASURE['DEPTH_U16_MM'], 'the stand-in has no other measure'
        width, height = (resolution.width, resolution.height) if resolution else self._size
        if py_mat.memory.shape != (height, width):
            py_mat.memory = np.empty((height, width), np.uint16)
        py_mat.memory[:] = NEAREST_MM + np.arange(width)
        py_mat.memory[:HOLE, :HOLE] = 0
        return ERROR_CODE['SUCCESS']

    def get_timestamp(self, time_reference: Any) -> Timestamp:
        """Return when the newest frame came, or the present time."""
        return Timestamp(self._stamp_ns if time_reference is TIME_REFERENCE['IMAGE'] else
                         time.time_ns())

    def get_frame_dropped_count(self) -> int:
        """Return how many frames were not grabbed in time since open."""
        return self._dropped

    def set_svo_position(self, position: int) -> Any:
        """Continue a recording from a frame."""
        self._start_ns, self._count = time.time_ns(), position
        return ERROR_CODE['SUCCESS']

    def set_camera_settings(self, settings: Any, value: int = AUTO) -> Any:
        """Set exposure, gain or white balance."""
        if self._camera is None or self._init.svo:
            return ERROR_CODE['INVALID_FUNCTION_CALL']
        low, high = _RANGES.get(settings.name, (0, 1))
        if not low <= value <= high:
            return ERROR_CODE['INVALID_FUNCTION_PARAMETERS']
        kept = _settings.setdefault(self.serial, {})
        kept[settings.name] = value
        if settings.name in _MANUAL:
            kept[_MANUAL[settings.name]] = 0
        return ERROR_CODE['SUCCESS']

    def get_camera_settings(self, setting: Any) -> tuple[Any, int]:
        """Return (ERROR_CODE, value)."""
        kept = _settings.get(self.serial, {})
        return ERROR_CODE['SUCCESS'], kept.get(setting.name, 1 if setting.name in (
            'AEC_AGC', 'WHITEBALANCE_AUTO') else AT)

    def get_camera_information(self, resizer: Resolution | None = None) -> Any:
        """Return serial number, model and calibration."""
        assert self._camera is not None
        unit = self._init.coordinate_units.value
        geometry = camera_info(self._camera.role, *self._size)
        left, right = (SimpleNamespace(
            fx=float(info.k[0, 0]), fy=float(info.k[1, 1]), cx=float(info.k[0, 2]),
            cy=float(info.k[1, 2]), disto=[0.0] * 12, image_size=Resolution(*self._size))
            for info in (geometry[eye] for eye in EYES))
        baseline = geometry['right'].baseline_m * unit
        both = SimpleNamespace(left_cam=left, right_cam=right,
                               get_camera_baseline=lambda: baseline)
        return SimpleNamespace(
            serial_number=int(self.serial), camera_model=_model(self._camera),
            camera_configuration=SimpleNamespace(
                resolution=Resolution(*self._size), fps=float(self._fps), firmware_version=1523,
                calibration_parameters=both, calibration_parameters_raw=both))


Camera = EmulatedCamera     # the SDK's name


def _model(camera: EmulatedZed) -> Any:
    return MODEL['ZED_M' if MODELS[camera.role].name == 'ZED Mini' else 'ZED2']
