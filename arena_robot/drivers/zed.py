"""
A ZED camera through Stereolabs' SDK, the library ``pyzed.sl``, in a process of its own.

The SDK can block in ``grab`` for ever, or crash, while it connects a camera again by itself.
"""

import importlib
import importlib.util
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from arena_robot.core.clock import Clock
from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, DriverError, NotConnected
from arena_robot.core.observation import DEPTH, EYES, NO_EYE, CameraInfo, Millimetres, Pixels
from arena_robot.drivers.base import Setting
from arena_robot.drivers.grabbing import AUTO, Grab, GrabbingCamera, SourceProcess

log = logging.getLogger(__name__)

# Frame rates by resolution, of ZED, ZED Mini, ZED 2 and ZED 2i.
RATES = {'HD2K': (15,), 'HD1080': (15, 30), 'HD720': (15, 30, 60), 'VGA': (15, 30, 60, 100)}
STEREO = 'stereo'
PERCENT = (0, 100)
WHITE_K = (2800, 6500)
# While only one of exposure and gain is automatic, it keeps what the camera had chosen.
KEEPS = 'automatic together; alone it keeps its value'
SETTINGS = {
    'exposure': Setting(f'share of the frame time, 0 to 100; -1: {KEEPS}', AUTO, PERCENT[1], '%'),
    'gain': Setting(f'amplification, 0 to 100; -1: {KEEPS}', AUTO, PERCENT[1], '%'),
    'white_balance': Setting('colour of the light, 2800 to 6500 in steps of 100; -1: automatic',
                             AUTO, WHITE_K[1], 'K'),
}
RETRY_S = 0.02
LOST_S = 0.5        # so long the SDK may connect a camera again by itself
# As its users measured; the process is killed and the camera looked for meanwhile.
LASTS = 'a ZED takes 10 to 30 s to come back; is its cable plugged in?'
OLDEST = 4      # the first version with camera_configuration and get_camera_settings' pair
INSTALL = ('install the ZED SDK from https://www.stereolabs.com/developers, then its Python API '
           'into this environment: python /usr/local/zed/get_python_api.py')
NO_SDK = 'without the SDK, or without an NVIDIA GPU, use backend: uvc'
REPLUG = 'plug the camera out and in again, into a USB 3 port of the machine itself'
# What to do about an error of the SDK, by the name of its ERROR_CODE.
ADVICE = {
    'CAMERA_NOT_DETECTED': 'is the cable plugged in at both ends, into a USB 3 port?',
    'CAMERA_DETECTION_ISSUE': f'{REPLUG}; turn the USB-C plug round',
    'CAMERA_FAILED_TO_SETUP': f'try another resolution; {REPLUG}',
    'CANNOT_START_CAMERA_STREAM': 'another program may use the camera (ZED_Explorer, '
                                  'zed_wrapper, another station): end it',
    'LOW_USB_BANDWIDTH': 'give each camera a USB 3 controller of its own, or set a smaller '
                         'resolution or fps',
    'INVALID_RESOLUTION': 'this camera does not have this resolution and fps',
    'NO_GPU_COMPATIBLE': f'the SDK needs an NVIDIA GPU; {NO_SDK}',
    'NO_GPU_DETECTED': f'nvidia-smi must show the GPU: restart the machine; {NO_SDK}',
    'NOT_ENOUGH_GPU_MEMORY': 'end other programs on the GPU',
    'NVIDIA_DRIVER_OUT_OF_DATE': 'update the NVIDIA driver',
    'CUDA_ERROR': 'restart the node; if it comes again, restart the machine',
    'CORRUPTED_SDK_INSTALLATION': INSTALL,
    'INCOMPATIBLE_SDK_VERSION': f'pyzed is of another SDK than the installed one; {INSTALL}',
    'CALIBRATION_FILE_NOT_AVAILABLE': "download the camera's calibration with ZED_Explorer",
    'INVALID_CALIBRATION_FILE': "download the camera's calibration again with ZED_Explorer",
    'INVALID_FIRMWARE': "update the camera's firmware with ZED_Explorer",
    'SENSORS_NOT_AVAILABLE': REPLUG,
    'SENSORS_NOT_INITIALIZED': 'run ZED_Diagnostic -r',
    'INVALID_SVO_FILE': 'is svo the path of an SVO file, of this SDK version or older?',
    'SVO_UNSUPPORTED_COMPRESSION': 'this GPU cannot decode the file: convert it on another one',
    'CAMERA_REBOOTING': 'the SDK is connecting it again; is the cable plugged in?',
    'CORRUPTED_FRAME': f'the cable or the port is bad: {REPLUG}',
}


@dataclass(frozen=True)
class ZedSettings:
    """How a ZED is opened; see :class:`ZedCamera`."""

    resolution: str
    fps: int
    exposure: int
    gain: int
    white_balance: int
    svo: str
    open_timeout_s: float
    stream: str = STEREO

    def check(self) -> None:
        """Raise ConfigError for what no ZED has."""
        if self.stream not in (STEREO, DEPTH):
            raise ConfigError(f"no driver.stream '{self.stream}'."
                              f'{nearest(self.stream, [STEREO, DEPTH])}')
        if self.resolution not in RATES:
            raise ConfigError(f"a ZED has no resolution '{self.resolution}'."
                              f'{nearest(self.resolution, list(RATES))}')
        if self.fps not in RATES[self.resolution]:
            raise ConfigError(f'a ZED in {self.resolution} has {RATES[self.resolution]} frames a '
                              f'second, found fps {self.fps}')
        for name, value, (low, high) in (('exposure', self.exposure, PERCENT),
                                         ('gain', self.gain, PERCENT),
                                         ('white_balance', self.white_balance, WHITE_K)):
            if value != AUTO and not low <= value <= high:
                raise ConfigError(f'{name} {value}: a ZED has {low} to {high}, or {AUTO} for '
                                  'automatic')
        if (self.exposure == AUTO) != (self.gain == AUTO):
            raise ConfigError('exposure and gain are automatic together: set both, or none')
        if self.white_balance != AUTO and self.white_balance % 100:
            raise ConfigError(f'white_balance {self.white_balance}: in steps of 100 K')


class ZedSource:
    """One ZED in the SDK; a :class:`arena_robot.drivers.grabbing.FrameSource`."""

    def __init__(self, serial: str, settings: ZedSettings) -> None:
        self.serial, self._asked, self._settings = serial, serial, settings
        self._sl: Any = None
        self._camera: Any = None
        self._mats: tuple[Any, Any] = (None, None)
        self._size: Any = None
        self.into: tuple[Pixels, Pixels, Any] | None = None

    def connect(self) -> Mapping[str, CameraInfo]:
        """Open the camera with the serial number, or the only one; set its picture."""
        self._settings.check()
        self._sl = load_sl()
        try:
            return self._connect()
        except DriverError:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        """Close the camera."""
        camera, self._camera = self._camera, None
        if camera is not None:
            camera.close()

    def grab(self) -> Grab:
        """Return the next frame that is whole."""
        sl, camera = self._sl, self._camera
        end_s = time.monotonic() + LOST_S
        while (code := camera.grab(sl.RuntimeParameters())) != sl.ERROR_CODE.SUCCESS:
            if code.name == 'END_OF_SVOFILE_REACHED':
                camera.set_svo_position(0)
            elif failed(sl, code) or time.monotonic() > end_s:
                raise DriverError(f'ZED {self.serial} has stopped: {words(code)}')
            elif code.name not in ('CORRUPTED_FRAME', 'CAMERA_REBOOTING'):
                break               # a warning about something else; the picture is good
            else:
                time.sleep(RETRY_S)
        into = self.into or (None, None)
        left, right, depth = self._picture('left', self._mats[0], into[0]), NO_EYE, None
        if self._settings.stream == DEPTH:
            depth = self._depth(self._mats[1])
        else:
            right = self._picture('right', self._mats[1], into[1])
        age_ns = (0 if self._settings.svo else
                  camera.get_timestamp(sl.TIME_REFERENCE.CURRENT).get_nanoseconds()
                  - camera.get_timestamp(sl.TIME_REFERENCE.IMAGE).get_nanoseconds())
        return Grab(left, right, age_ns * 1e-9, int(camera.get_frame_dropped_count()), depth)

    def set_picture(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Change exposure, gain and white balance."""
        if self._settings.svo:
            raise ConfigError('an SVO file has no settings of the picture: it is a recording')
        asked = {name: int(value) for name, value in values.items()}
        if (asked['exposure'] == AUTO) != (asked['gain'] == AUTO):
            kept = 'gain' if asked['gain'] == AUTO else 'exposure'
            code, value = self._camera.get_camera_settings(
                getattr(self._sl.VIDEO_SETTINGS, kept.upper()))
            if failed(self._sl, code):
                raise ConfigError(f'ZED {self.serial} does not say its {kept}: {words(code)}')
            asked[kept] = value
        wanted = replace(self._settings, **asked)   # type: ignore[arg-type]    # all are numbers
        wanted.check()
        self._settings = wanted
        self._set_picture()
        return asked

    # -- inside --------------------------------------------------------------------------------

    def _connect(self) -> Mapping[str, CameraInfo]:
        sl, wanted = self._sl, self._settings
        params = sl.InitParameters(
            camera_resolution=getattr(sl.RESOLUTION, wanted.resolution), camera_fps=wanted.fps,
            camera_image_flip=sl.FLIP_MODE.OFF,
            depth_mode=sl.DEPTH_MODE.NEURAL if wanted.stream == DEPTH else sl.DEPTH_MODE.NONE,
            coordinate_units=sl.UNIT.METER, sdk_verbose=0,
            open_timeout_sec=wanted.open_timeout_s, async_grab_camera_recovery=True)
        if wanted.svo:
            if not Path(wanted.svo).is_file():
                raise NotConnected(f'svo: there is no file {wanted.svo}')
            params.set_from_svo_file(wanted.svo)
            params.svo_real_time_mode = True
        else:
            found = self._found()
            params.set_from_serial_number(int(found))
        self._camera = sl.Camera()
        code = self._camera.open(params)
        name = wanted.svo or f'ZED {found}'
        if failed(sl, code):
            raise NotConnected(f'{name} cannot be opened: {words(code)}')
        if code != sl.ERROR_CODE.SUCCESS:
            log.warning('%s: %s', name, words(code))
        about = self._camera.get_camera_information()
        self.serial = str(about.serial_number)
        if self._asked and self.serial != self._asked:
            raise NotConnected(f'{name} has serial number {self.serial}, asked for was '
                               f'{self._asked}')
        self._mats = (sl.Mat(), sl.Mat())
        # Without a size newer SDKs may hand over smaller pictures.
        self._size = about.camera_configuration.resolution
        if not wanted.svo:
            self._set_picture()
        return _geometry(about, EYES[:1] if wanted.stream == DEPTH else EYES)

    def _found(self) -> str:
        """Return the serial number of the camera to open. Raises NotConnected."""
        sl = self._sl
        cameras = {str(device.serial_number): device for device in sl.Camera.get_device_list()}
        known = ', '.join(sorted(cameras)) or 'none'
        if self._asked and not self._asked.isdigit():
            raise NotConnected(f"serial_number '{self._asked}' is no ZED's; found: {known}")
        if self._asked not in cameras and (self._asked or len(cameras) != 1):
            raise NotConnected(
                f'no ZED with serial number {self._asked} is plugged in; found: {known}'
                if self._asked else f'ZEDs found: {known}; set serial_number to one of them'
                if cameras else 'no ZED is plugged in, or not into a USB 3 port')
        serial = self._asked or next(iter(cameras))
        if cameras[serial].camera_state != sl.CAMERA_STATE.AVAILABLE:
            raise NotConnected(f'ZED {serial} is already open in another program (ZED_Explorer, '
                               'zed_wrapper, another station): end it; or two cameras of the '
                               'station file have this serial number')
        return serial

    def _set_picture(self) -> None:
        """Set exposure, gain and white balance; the camera keeps those of other programs."""
        settings, wanted = self._sl.VIDEO_SETTINGS, self._settings
        if wanted.exposure == AUTO:
            self._set(settings.AEC_AGC, 1)
        else:
            self._set(settings.EXPOSURE, wanted.exposure)
            self._set(settings.GAIN, wanted.gain)
        if wanted.white_balance == AUTO:
            self._set(settings.WHITEBALANCE_AUTO, 1)
        else:
            self._set(settings.WHITEBALANCE_TEMPERATURE, wanted.white_balance)

    def _set(self, setting: Any, value: int) -> None:
        code = self._camera.set_camera_settings(setting, value)
        if failed(self._sl, code):
            raise NotConnected(f'ZED {self.serial} does not take {setting.name} {value}: '
                               f'{words(code)}')
        code, value_now = self._camera.get_camera_settings(setting)
        if not failed(self._sl, code) and value_now != value:
            log.warning('ZED %s: %s was set to %s and reads %s', self.serial, setting.name, value,
                        value_now)

    def _picture(self, eye: str, mat: Any, into: Pixels | None) -> Pixels:
        sl = self._sl
        code = self._camera.retrieve_image(
            mat, sl.VIEW.LEFT if eye == 'left' else sl.VIEW.RIGHT, sl.MEM.CPU, self._size)
        if failed(sl, code):
            raise DriverError(f'ZED {self.serial} gives no {eye} picture: {words(code)}')
        # The data is a view of the SDK's memory; the conversion is the copy.
        return np.asarray(cv2.cvtColor(mat.get_data(), cv2.COLOR_BGRA2RGB, into), np.uint8)

    def _depth(self, mat: Any) -> Millimetres:
        """Return depth in mm of the left picture's pixels, 0 where the SDK found none."""
        sl = self._sl
        code = self._camera.retrieve_measure(mat, sl.MEASURE.DEPTH_U16_MM, sl.MEM.CPU, self._size)
        if failed(sl, code):
            raise DriverError(f'ZED {self.serial} gives no depth: {words(code)}')
        return np.array(mat.get_data(), np.uint16)


def _geometry(about: Any, eyes: Sequence[str]) -> Mapping[str, CameraInfo]:
    """Return the rectified eyes."""
    configuration = about.camera_configuration
    size, both = configuration.resolution, configuration.calibration_parameters
    baseline_m = float(both.get_camera_baseline())
    extras = {'model': about.camera_model.name, 'serial': str(about.serial_number),
              'firmware': str(configuration.firmware_version)}
    return {eye: CameraInfo(size.width, size.height, np.array(
        [[lens.fx, 0.0, lens.cx], [0.0, lens.fy, lens.cy], [0.0, 0.0, 1.0]]), away_m, '', extras)
        for eye, lens, away_m in (('left', both.left_cam, 0.0),
                                  ('right', both.right_cam, baseline_m)) if eye in eyes}


class ZedCamera(GrabbingCamera):
    """
    A ZED, ZED Mini, ZED 2 or 2i on USB; both eyes rectified, with one stamp.

    ``stream`` is ``stereo``, both eyes, or ``depth``, the left one and the depth of its pixels.
    ``serial_number`` may be empty where only one ZED is plugged in. ``exposure`` and ``gain`` are
    0 to 100, ``white_balance`` 2800 to 6500 K, each -1 for automatic. ``svo`` is a recording to
    play in a loop instead of a camera; its frames get the present time. ``open_timeout_s`` is
    the SDK's own limit for starting a camera that is plugged in and free.
    """

    adjustable = SETTINGS

    def __init__(self, serial_number: str = '', clock: Clock | None = None,
                 resolution: str = 'HD720', fps: int = 60, exposure: int = AUTO,
                 gain: int = AUTO, white_balance: int = AUTO, svo: str = '',
                 open_timeout_s: float = 5.0, stream: str = STEREO) -> None:
        settings = ZedSettings(resolution, fps, exposure, gain, white_balance, svo,
                               open_timeout_s, stream)
        what = f'ZED {serial_number}' if serial_number else 'the ZED'
        super().__init__(
            SourceProcess(f'{__name__}:source_of', {'serial': serial_number, **asdict(settings)},
                          serial_number, what, open_timeout_s, LASTS), clock, what)


def source_of(serial: str, **settings: Any) -> ZedSource:
    """Return the source that a ZED's process reads."""
    return ZedSource(serial, ZedSettings(**settings))


def load_sl() -> Any:
    """Return the module ``pyzed.sl``. Raises NotConnected that says what to install."""
    spec = importlib.util.find_spec('pyzed')
    if spec is None:
        raise NotConnected(f"the backend zed needs Stereolabs' SDK, and there is no pyzed: "
                           f'{INSTALL} (never pip install pyzed); {NO_SDK}')
    if spec.submodule_search_locations is None:
        raise NotConnected(f"{spec.origin} is not Stereolabs' pyzed: `pip install pyzed` installs "
                           f"another author's package of that name. pip uninstall pyzed, then "
                           f'{INSTALL}')
    try:
        sl: Any = importlib.import_module('pyzed.sl')
        version = str(sl.Camera.get_sdk_version())
    except Exception as error:  # a missing libsl_zed.so, another numpy, another Python
        raise NotConnected(f'pyzed cannot be loaded ({error}): it has to fit the SDK, this '
                           f'Python and numpy; {INSTALL}') from error
    major = version.split('.')[0]
    if not major.isdigit() or int(major) < OLDEST:
        raise NotConnected(f'the ZED SDK is {version}, needed is {OLDEST}.0 or newer; {INSTALL}')
    return sl


def failed(sl: Any, code: Any) -> bool:
    """Return whether a code is an error; those below SUCCESS are warnings."""
    return bool(code.value > sl.ERROR_CODE.SUCCESS.value)


def words(code: Any) -> str:
    """Return an error of the SDK with its name and what to do about it."""
    advice = ADVICE.get(code.name)
    return f'{code.name} ({code})' + (f': {advice}' if advice else '')
