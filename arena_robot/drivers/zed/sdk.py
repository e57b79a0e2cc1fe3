"""Stereolabs' ``pyzed.sl``: found, checked, and its errors in words."""

import importlib
import importlib.util
from typing import Any

from arena_robot.core.errors import NotConnected

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
