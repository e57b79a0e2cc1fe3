"""Checks of `arena doctor`; each is a function that raises Wrong with advice."""

import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from arena_robot.core.errors import ArenaError

OLDEST, NEWEST = (3, 10), (3, 13)
COMPILERS = ('g++', 'c++', 'clang++')
# Libraries that can be missing separately, and their use.
LIBRARIES = ('numpy', 'scipy', 'yaml', 'grpc', 'websockets', 'msgpack', 'mujoco', 'mcap', 'cv2',
             'av', 'sqlalchemy', 'fastapi', 'uvicorn', 'jinja2', 'matplotlib')
ROS = ('rclpy', 'sensor_msgs', 'std_srvs')
EGL_S = 60.0
DRAW = """
import mujoco
model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><light pos="0 0 2"/>'
                                       '<geom size=".1" rgba="1 0 0 1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 32, 32) as renderer:
    renderer.update_scene(data)
    print(int(renderer.render().max()))
"""
NTP_SERVER, NTP_S, NTP_EPOCH_S = 'pool.ntp.org', 2.0, 2_208_988_800
MOST_SKEW_S = 1.0
OLDEST_DATE_S = 1_760_000_000    # October 2025: before the first version of this program


class Wrong(ArenaError):
    """A check failed: what was found, and what to do."""

    code = 'wrong'

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f'{found}; {advice}')
        self.found = found
        self.advice = advice


@dataclass(frozen=True)
class DoctorFinding:
    """Result of one check: name, whether it passed, what was found, what to do if not."""

    name: str
    ok: bool
    found: str
    advice: str = ''


def verdict(name: str, look: Callable[[], str]) -> DoctorFinding:
    """Return the result of ``look``; an exception in the check is a failed result."""
    try:
        return DoctorFinding(name, True, look())
    except Wrong as wrong:
        return DoctorFinding(name, False, wrong.found, wrong.advice)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return DoctorFinding(name, False, f'{type(error).__name__}: {error}',
                       'this check could not be carried out; see the message')


def all_checks(data: Path, min_free_gb: float, ports: Sequence[int]) -> list[DoctorFinding]:
    """Return every result, in the order in which failures should be fixed."""
    return [
        verdict('Python', python),
        verdict('libraries', libraries),
        verdict('C++ compiler', compiler),
        verdict('ROS 2', ros),
        verdict('arena_msgs', messages),
        verdict('drawing (EGL)', egl),
        *(verdict(f'port {port}', partial(free_port, port)) for port in ports),
        verdict('disk', lambda: disk(data, min_free_gb)),
        verdict('clock', clock),
    ]


def python(version: tuple[int, int] | None = None) -> str:
    """Check that wheels of ROS 2 Jazzy exist for this Python."""
    running = version or sys.version_info[:2]
    text = '.'.join(map(str, running))
    if not OLDEST <= running <= NEWEST:
        raise Wrong(text, 'ROS 2 Jazzy has wheels for 3.10 to 3.13: '
                    'make setup PYTHON=/path/to/python3.12')
    return f'{text} at {sys.executable}'


def libraries(names: Sequence[str] = LIBRARIES) -> str:
    """Check that everything in requirements.txt can be imported."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise Wrong(f"missing: {', '.join(missing)}",
                    'make setup, or: pip install -r requirements.txt')
    return f'{len(names)} of {len(names)}'


def compiler(path: str | None = None) -> str:
    """Check for a C++ compiler; the message package is built with it."""
    for name in COMPILERS:
        program = shutil.which(name, path=path)
        if program:
            return program
    raise Wrong('none', 'sudo apt-get install g++ (needed once, to build arena_msgs)')


def ros(names: Sequence[str] = ROS) -> str:
    """Check that rclpy can be loaded, from a ROS installation or from wheels."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise Wrong(f'{name} cannot be loaded: {error}', 'make setup installs ROS 2 from '
                        'wheels; or: source /opt/ros/jazzy/setup.bash') from error
    where = Path(str(importlib.import_module(names[0]).__file__)).parent
    sort = f"ROS {os.environ['ROS_DISTRO']}" if 'ROS_DISTRO' in os.environ else 'wheels'
    return f'{sort}, {where}'


def messages(name: str = 'arena_msgs') -> str:
    """Check that the message package was built and its libraries load."""
    try:
        module = importlib.import_module(f'{name}.msg')
        type_support = getattr(module.SessionState, '__import_type_support__', None)
        if type_support is not None:
            type_support()
    except (ImportError, AttributeError) as error:
        raise Wrong(f'cannot be loaded: {error}', 'make setup builds it; in a workspace of your '
                    'own: colcon build, then source install/setup.bash') from error
    return str(Path(str(module.__file__)).parent.parent)


def egl(environment: Mapping[str, str] | None = None) -> str:
    """Check that an image can be rendered without a display, in a separate process."""
    surroundings = {**os.environ, 'MUJOCO_GL': 'egl', **(environment or {})}
    try:
        done = subprocess.run([sys.executable, '-c', DRAW], env=surroundings, text=True,
                              capture_output=True, timeout=EGL_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Wrong(f'no picture within {EGL_S:g} s', 'does the graphics driver hang? Try '
                    'EGL_PLATFORM=surfaceless') from error
    brightest = done.stdout.strip()
    if done.returncode or not brightest.isdigit() or int(brightest) < 100:
        last = (done.stderr.strip().splitlines() or ['an empty picture'])[-1]
        raise Wrong(f'no picture: {last[:200]}', 'sudo apt-get install libegl1 libgl1-mesa-dri '
                    '(simulated cameras need it; a real station does not)')
    return 'renders without a display'


def free_port(port: int, host: str = '127.0.0.1') -> str:
    """Check that a port is free."""
    try:
        with socket.create_server((host, port)):
            return 'free'
    except (OSError, OverflowError) as error:
        reason = (error.strerror if isinstance(error, OSError) else '') or str(error)
        raise Wrong(f'cannot be listened on: {reason}', f'find the process that uses it: '
                    f'ss -ltnp "sport = :{port}"; or choose another with --port or '
                    '--site-port') from error


def disk(folder: Path, min_free_gb: float) -> str:
    """Check that there is space for sessions, and that the folder is writable."""
    folder = folder.absolute()
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        raise Wrong(f'{existing} cannot be written to', 'choose another folder with --data')
    free_gb = shutil.disk_usage(existing).free / 1e9
    if free_gb < min_free_gb:
        raise Wrong(f'{free_gb:.1f} GB free at {existing}', f'a day of sessions needs '
                    f'{min_free_gb:g} GB: free some space, or choose another folder with --data')
    return f'{free_gb:.0f} GB free at {existing}'


def clock(now: Callable[[], float] = time.time,
          server_time: Callable[[], float | None] | None = None) -> str:
    """Check that the clock is plausible, without jumps, and near a time server's."""
    today_s = now()
    if today_s < OLDEST_DATE_S:
        raise Wrong(f"it says {time.strftime('%Y-%m-%d', time.gmtime(today_s))}",
                    'set the date: sudo timedatectl set-ntp true')
    before, wall_before = time.monotonic(), now()
    time.sleep(0.05)
    drift_s = abs((now() - wall_before) - (time.monotonic() - before))
    if drift_s > 0.02:
        raise Wrong(f'wall time jumped by {1e3 * drift_s:.0f} ms in 50 ms', 'a program keeps '
                    'setting the clock; run only one of chrony, ntpd and systemd-timesyncd')
    told_s = (server_time or ntp_time)()
    if told_s is None:
        return 'runs evenly; no time server answered, so its offset is unknown'
    offset_s = now() - told_s
    if abs(offset_s) > MOST_SKEW_S:
        raise Wrong(f'{offset_s:+.1f} s off {NTP_SERVER}', 'synchronise it: sudo apt-get install '
                    'chrony, or sudo timedatectl set-ntp true')
    return f'{1e3 * offset_s:+.0f} ms off {NTP_SERVER}'


def ntp_time(server: str = NTP_SERVER, timeout_s: float = NTP_S) -> float | None:
    """Return a time server's time in seconds since 1970, None when it does not answer."""
    question = b'\x1b' + 47 * b'\0'
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.settimeout(timeout_s)
            line.sendto(question, (server, 123))
            sent_s = time.monotonic()
            answer = line.recvfrom(48)[0]
            way_s = (time.monotonic() - sent_s) / 2
    except OSError:
        return None
    if len(answer) < 48:
        return None
    seconds, fraction = struct.unpack('!II', answer[40:48])
    return float(seconds - NTP_EPOCH_S + fraction / 2**32 + way_s)
