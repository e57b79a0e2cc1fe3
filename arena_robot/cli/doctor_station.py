"""Checks of `arena doctor --station`: what the parts of a station file need; nothing moves."""

import importlib.metadata
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from arena_robot.cli.doctor_checks import DoctorFinding, Wrong, verdict
from arena_robot.core.config import read_yaml
from arena_robot.core.errors import DriverError
from arena_robot.nodes.station.files import driver_params

SYS = Path('/sys')
# One second shows a habit of the machine; a control loop of 1 kHz has a millisecond per state.
SPIN_S, LATE_MS = 1.0, 1.0
# A Franka ends its motion after 20 ms without a command.
LONGEST_GAP_MS, MOST_LOST = 20.0, 0.01
SLOW_USB = 5000         # Mbit/s of USB 3
FRANKA = ('franka_rs', 'libfranka')
Section = Mapping[str, Any]
MOST_SHARE = 0.64       # of a controller's rate is left for pictures: coding, packets, reserve
BYTES, MJPEG_BYTES = 2, 0.4     # of a pixel: uncompressed (YUYV), and about
FRAME = {'zed': ('HD720', 60), 'uvc': ('HD720', 15)}    # a camera's resolution and fps unless set


def station_checks(path: Path) -> list[DoctorFinding]:
    """Return the results for the parts that a station file describes."""
    out, cameras = [], {}
    for key, section in read_yaml(path).items():
        name = str(key).rsplit('/', 1)[-1]
        values = section.get('ros__parameters', {}) if isinstance(section, dict) else {}
        backend = str(values.get('backend', 'sim'))
        if name.endswith('_camera') and backend in FRAME:
            cameras[name] = values
        for title, look in _checks(name, backend, values):
            out.append(verdict(f'{name}: {title}', look))
    if len(cameras) > 1:
        out.append(verdict('cameras: USB bandwidth', partial(usb_bandwidth, cameras, SYS)))
    return out


def _checks(name: str, backend: str,
            values: Section) -> list[tuple[str, Callable[[], str]]]:
    """Return the checks of one part."""
    if name == 'arm_node' and backend in FRANKA:
        driver_values = driver_params(values)
        real_time = bool(driver_values.get('realtime', False))
        # At real-time priority the states come sooner than they do here.
        torques = not real_time and (backend == 'franka_rs' or bool(driver_values.get('torques')))
        robot_type = str(values.get('robot_type', 'panda'))
        return [('library', partial(franka_library, backend, robot_type)),
                ('robot', partial(franka_robot, _ip(values), robot_type, torques=torques)),
                ('kernel', partial(kernel, real_time)), ('punctuality', punctuality)]
    if backend == 'droid_nuc':
        driver_values = driver_params(values)
        where = str(driver_values.get('robot_ip', _ip(values)))
        return [('NUC', partial(reachable, where, int(driver_values.get('port', 4242)),
                                "start DROID's server on the NUC"))]
    if name == 'gripper_node' and backend == 'robotiq':
        return [('serial port', partial(
            serial_port, str(driver_params(values).get('com_port', ''))))]
    if name.endswith('_camera') and backend in ('zed', 'uvc', 'realsense'):
        serial = str(values.get('serial_number', ''))
        looks: list[tuple[str, Callable[[], str]]] = [
            ('USB', partial(usb_speed, backend, serial))]
        if backend == 'zed':
            looks.insert(0, ('SDK', partial(zed_camera, serial)))
        return looks
    return []


def franka_library(backend: str, robot_type: str = 'fr3') -> str:
    """Check that the library of a backend is installed in the version that was tried."""
    from arena_robot.drivers.table import driver
    driver_class = driver('arm', backend)
    try:
        driver_class.require_library()
    except DriverError as error:
        raise Wrong('not installed', str(error)) from error
    if robot_type not in driver_class.ROBOTS:
        raise Wrong(f'{backend} drives {" and ".join(driver_class.ROBOTS)} only, robot_type is '
                    f'{robot_type}', 'correct robot_type, or set backend: franka_rs')
    name = str(driver_class.INSTALL).partition('==')[0]
    try:
        installed = f'{name}=={importlib.metadata.version(name)}'
    except importlib.metadata.PackageNotFoundError:
        installed = f'{name} of an unknown version'
    if installed != driver_class.INSTALL:
        raise Wrong(f'{installed} is installed, {driver_class.INSTALL} is what this package was '
                    'tried with', f'pip install {driver_class.INSTALL}')
    return installed


def franka_robot(address: str, robot_type: str, seconds: float = SPIN_S,
                 torques: bool = False) -> str:
    """
    Check a control box: versions, mode, lost and late states. Needs the robot for itself.

    ``torques``: whether each state is to be answered, at this program's priority.
    """
    from arena_robot.drivers.franka.client import (
        LATE_MS,
        MOST_LATE,
        PUNCTUAL,
        waits_for_commands,
    )
    from arena_robot.drivers.franka.probe import HINTS, RECOVER, look_at, misfit, system_of
    from arena_robot.drivers.franka.wire import VERSIONS
    try:
        look = look_at(address, seconds)
    except DriverError as error:
        problem, _, advice = str(error).partition(': ')
        raise Wrong(problem, advice or 'see the message') from error
    measured = (f'FCI version {look.version} ({system_of(look.version)}), {look.states} states in '
                f'{seconds:g} s, {look.lost} '
                f'lost, longest gap {look.gap_ms:.1f} ms')
    real = not waits_for_commands(address)
    measured += f', {100 * look.late:.1f} % lost or over {LATE_MS:g} ms late' if real else ''
    if advice := misfit(look.version, robot_type):
        raise Wrong(measured, f'robot_type is {robot_type}, which has version '
                    f'{VERSIONS.get(robot_type)}: {advice}')
    if advice := HINTS.get(look.mode, RECOVER.get(look.mode, '')):
        raise Wrong(f'the robot is in {look.mode.name}; {measured}', advice)
    if torques and real and look.late > MOST_LATE:
        raise Wrong(f'{measured}: no torques at 1 kHz', PUNCTUAL)
    if look.gap_ms > LONGEST_GAP_MS or look.lost > MOST_LOST * max(1, look.states):
        raise Wrong(measured, 'connect the robot by a cable of its own, without a switch, to a '
                    'network card of the machine itself; end other programs')
    return measured


def kernel(wanted: bool, sys: Path = SYS) -> str:
    """Check the kernel where real-time priority is asked for."""
    live = _text(sys / 'kernel' / 'realtime') == '1'
    if wanted and not live:
        raise Wrong('realtime is true and this kernel is not real-time',
                    'install a PREEMPT_RT kernel (Ubuntu: pro enable realtime-kernel), or set '
                    'realtime to false')
    return 'real-time' if live else 'not real-time; realtime is false, so it need not be'


def punctuality(seconds: float = SPIN_S, most_ms: float = LATE_MS) -> str:
    """Check how late this machine wakes a program that sleeps for a millisecond, 1000 times."""
    late, due = [], time.monotonic()
    for _ in range(round(seconds * 1000)):
        due += 0.001
        time.sleep(max(0.0, due - time.monotonic()))
        now = time.monotonic()
        late.append(1e3 * (now - due))
        due = max(due, now - 0.001)
    share = sum(wake_ms > most_ms for wake_ms in late) / len(late)
    measured = (f'{100 * share:.1f} % of wake-ups later than {most_ms:g} ms, latest '
                f'{max(late):.1f} ms')
    if share > MOST_LOST:
        raise Wrong(measured, 'end other programs, keep cameras and policies off this machine, '
                    "and set the processor's governor to performance")
    return measured


def reachable(host: str, port: int, advice: str, timeout_s: float = 2.0) -> str:
    """Check that something listens at an address."""
    began = time.monotonic()
    try:
        socket.create_connection((host, port), timeout_s).close()
    except OSError as error:
        raise Wrong(f'{host}:{port}: {error.strerror or error}', f'{advice}; check cable, power '
                    'and the addresses of both machines') from error
    return f'{host}:{port} answers in {1e3 * (time.monotonic() - began):.1f} ms'


def serial_port(path: str, sys: Path = SYS) -> str:
    """Check a serial port: there, permitted, answering at once."""
    port = Path(path)
    if not path or not port.exists():
        adapters = sorted(str(adapter) for adapter in Path('/dev/serial/by-id').glob('*'))
        raise Wrong(f"there is no port '{path}'", 'plug the adapter in, or correct '
                    f"driver.com_port; found: {', '.join(adapters) or 'none'}")
    if not os.access(port, os.R_OK | os.W_OK):
        raise Wrong(f'no permission for {path}', 'sudo usermod -aG dialout $USER, then log in '
                    'again')
    timer = _text(sys / 'bus/usb-serial/devices' / port.resolve().name / 'latency_timer')
    if timer and timer != '1':
        raise Wrong(f'the adapter collects for {timer} ms', 'add the udev rule of '
                    'docs/hardware.md (the gripper is read less often until then)')
    return f'{port.resolve()}' + (', latency timer 1 ms' if timer else '')


def zed_camera(serial: str) -> str:
    """Check that the ZED SDK loads and lists a camera."""
    from arena_robot.drivers.zed import load_sl
    try:
        sl = load_sl()
    except DriverError as error:
        problem, _, advice = str(error).partition(': ')
        raise Wrong(problem, advice or 'see the message') from error
    serials = [str(camera.serial_number) for camera in sl.Camera.get_device_list()]
    if serial not in serials:
        raise Wrong(f"no ZED {serial or 'without a number'}; found: "
                    f"{', '.join(serials) or 'none'}", 'plug it in, or correct serial_number')
    return f'{serial}, SDK {sl.Camera.get_sdk_version()}'


def usb_speed(backend: str, serial: str, sys: Path = SYS) -> str:
    """Check that a camera is plugged into USB 3."""
    from arena_robot.drivers.uvc import choose, video_devices
    try:
        camera = choose(video_devices(sys), serial)
    except DriverError as error:
        if backend == 'uvc':
            problem, _, advice = str(error).partition('; ')
            raise Wrong(problem, f'plug it in, or correct serial_number; {advice}') from error
        return 'its speed cannot be told here'      # its library finds it in another way
    usb = (sys / 'class/video4linux' / Path(camera.path).name / 'device').resolve().parent
    speed = _text(usb / 'speed')
    if speed.isdigit() and int(speed) < SLOW_USB:
        raise Wrong(f'{camera.serial} runs at {speed} Mbit/s', 'plug it into a USB 3 port of the '
                    'machine itself, with its own cable')
    return f'{camera.serial} at {camera.path}' + (f', {speed} Mbit/s' if speed else '')


def _ip(values: Section) -> str:
    return str(values.get('robot_ip', '172.16.0.2'))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding='utf-8', errors='replace').strip()
    except OSError:
        return ''


def usb_bandwidth(cameras: Mapping[str, Mapping[str, Any]], sys: Path) -> str:
    """
    Check the cameras (name to parameters) of ``zed`` and ``uvc`` that are plugged in.

    They share the rate of the controller, the ``usbN`` of their path in ``/sys``.
    """
    from arena_robot.drivers.uvc import video_devices
    videos = {camera.serial: Path(camera.path).name for camera in video_devices(sys)}
    needs: dict[Path, dict[str, float]] = defaultdict(dict)
    for name, values in cameras.items():
        if video := videos.get(str(values.get('serial_number', ''))):
            needs[_controller(sys / 'class/video4linux' / video)][name] = _mbit_s(values)
    loads = []
    for controller, shares in sorted(needs.items()):
        speed = (controller / 'speed').read_text(encoding='utf-8').strip()
        words = (f"{', '.join(sorted(shares))}: {sum(shares.values()):.0f} of "
                 f'{MOST_SHARE * float(speed):.0f} Mbit/s at {controller.name}')
        if sum(shares.values()) > MOST_SHARE * float(speed):
            raise Wrong(words, 'plug one of them into another USB controller (a port of another '
                        'card), or lower fps or resolution')
        loads.append(words)
    return '; '.join(loads) or 'none of the cameras is plugged in'


def _controller(video: Path) -> Path:
    """Return the folder of the USB controller that a camera hangs at."""
    device = (video / 'device').resolve()
    return next(folder for folder in reversed((device, *device.parents))
                if folder.name.startswith('usb') and folder.name[3:].isdigit())


def _mbit_s(values: Mapping[str, Any]) -> float:
    from arena_robot.drivers.uvc import eye_size
    backend = str(values['backend'])
    driver_values = driver_params(values)
    width, height = eye_size(str(driver_values.get('resolution', FRAME[backend][0])))
    eyes = 2 if driver_values.get('side_by_side', True) else 1
    size = MJPEG_BYTES if driver_values.get('pixel_format') == 'mjpeg' else BYTES
    fps = float(driver_values.get('fps', FRAME[backend][1]))
    return eyes * width * height * size * 8 * fps / 1e6
