"""Check of `arena doctor --station`: whether cameras on one USB controller get their bandwidth."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_robot.cli.doctor_checks import Wrong
from arena_robot.nodes.station_file import driver_params

MOST_SHARE = 0.64       # of a controller's rate is left for pictures: coding, packets, reserve
BYTES, MJPEG_BYTES = 2, 0.4     # of a pixel: uncompressed (YUYV), and about
FRAME = {'zed': ('HD720', 60), 'uvc': ('HD720', 15)}    # a camera's resolution and fps unless set


def usb_bandwidth(cameras: Mapping[str, Mapping[str, Any]], sys: Path) -> str:
    """
    Check the cameras (name to parameters) of ``zed`` and ``uvc`` that are plugged in.

    They share the rate of the controller, the ``usbN`` of their path in ``/sys``.
    """
    from arena_robot.drivers.uvc.usb import video_devices
    found = {one.serial: Path(one.path).name for one in video_devices(sys)}
    needs: dict[Path, dict[str, float]] = defaultdict(dict)
    for name, values in cameras.items():
        if video := found.get(str(values.get('serial_number', ''))):
            needs[_controller(sys / 'class/video4linux' / video)][name] = _mbit_s(values)
    said = []
    for controller, shares in sorted(needs.items()):
        speed = (controller / 'speed').read_text(encoding='utf-8').strip()
        words = (f"{', '.join(sorted(shares))}: {sum(shares.values()):.0f} of "
                 f'{MOST_SHARE * float(speed):.0f} Mbit/s at {controller.name}')
        if sum(shares.values()) > MOST_SHARE * float(speed):
            raise Wrong(words, 'plug one of them into another USB controller (a port of another '
                        'card), or lower fps or resolution')
        said.append(words)
    return '; '.join(said) or 'none of the cameras is plugged in'


def _controller(video: Path) -> Path:
    """Return the folder of the USB controller that a camera hangs at."""
    device = (video / 'device').resolve()
    return next(one for one in reversed((device, *device.parents))
                if one.name.startswith('usb') and one.name[3:].isdigit())


def _mbit_s(values: Mapping[str, Any]) -> float:
    from arena_robot.drivers.uvc.camera import eye_size
    backend = str(values['backend'])
    own = driver_params(values)
    width, height = eye_size(str(own.get('resolution', FRAME[backend][0])))
    eyes = 2 if own.get('side_by_side', True) else 1
    size = MJPEG_BYTES if own.get('pixel_format') == 'mjpeg' else BYTES
    return eyes * width * height * size * 8 * float(own.get('fps', FRAME[backend][1])) / 1e6
