"""Which cameras are on USB, by serial number, from ``/sys``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.errors import NotConnected

STEREOLABS = '2b03'
# The sensors of a ZED are a USB device of their own beside the camera; only they have the serial
# number.
ZED_SENSORS = ('f681', 'f781', 'f881')


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

    @property
    def is_zed(self) -> bool:
        """Return whether Stereolabs made it."""
        return self.vendor == STEREOLABS


def video_devices(sys: Path = Path('/sys')) -> list[VideoDevice]:
    """Return the USB cameras that are plugged in, each once."""
    found = []
    for node in sorted((sys / 'class/video4linux').glob('video*')):
        if _text(node / 'index') not in ('', '0'):
            continue            # the second node of a camera has its metadata
        interface = (node / 'device').resolve()
        usb = interface.parent
        if not (usb / 'idVendor').is_file():
            continue            # not on USB
        vendor = _text(usb / 'idVendor')
        serial = _zed_serial(usb) if vendor == STEREOLABS else _text(usb / 'serial')
        found.append(VideoDevice(f'/dev/{node.name}', _text(node / 'name') or node.name, vendor,
                                 serial or f'usb-{usb.name}'))
    return found


def choose(devices: Sequence[VideoDevice], serial: str) -> VideoDevice:
    """Return the camera with a serial number, or the only one. Raises NotConnected."""
    known = ', '.join(f'{one.serial} ({one.name}, {one.path})' for one in devices) or 'none'
    right = [one for one in devices if one.serial == serial] if serial else list(devices)
    if len(right) == 1:
        return right[0]
    if not right:
        raise NotConnected((f'no USB camera with serial number {serial} is plugged in'
                            if serial else 'no USB camera is plugged in') + f'; found: {known}')
    raise NotConnected(f'USB cameras found: {known}; set ' + (
        'uvc.device: these have one serial number' if serial else 'serial_number to one of them'))


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
