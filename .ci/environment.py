"""
Set up this checkout: ``.venv`` with ROS 2 from wheels, both packages built, ``.venv/bin/arena``.

Each step keeps a stamp over what it depends on and is skipped while nothing changed. Only the
standard library is used, so that any Python from 3.10 to 3.13 can start it.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import system_parts
from progress import Failed, run, say

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / '.venv'
PYTHON = VENV / 'bin' / 'python'
VERSION = f'{sys.version_info[0]}.{sys.version_info[1]}'
SITE = VENV / 'lib' / f'python{VERSION}' / 'site-packages'
STAMPS = VENV / 'stamps'
WHEELS = ('requirements-ros.txt', 'requirements.txt', 'requirements-dev.txt')
BENCH = 'requirements-bench.txt'
DOCS = '.ci/requirements-docs.txt'
FRANKA = 'requirements-franka.txt'
TF = '.ci/tf2_msgs'
PACKAGE_FILES = ('pyproject.toml', 'setup.py', 'setup.cfg', 'package.xml', 'resource', 'launch',
                 'config', 'arena_robot/__init__.py', 'arena_robot/nodes')

ARENA = """#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import sys

from arena_robot.cli.main import main

sys.exit(main())
"""


def files(*names: str) -> Iterator[Path]:
    """Yield the files of ``names`` (files or folders in the checkout) in order."""
    for name in names:
        path = ROOT / name
        found = sorted(path.rglob('*')) if path.is_dir() else [path]
        yield from (p for p in found if p.is_file() and '__pycache__' not in p.parts)


def pin(name: str, where: str = 'requirements.txt') -> str:
    """Return the lines of a requirements file that pin ``name``."""
    lines = (ROOT / where).read_text().splitlines()
    return '\n'.join(line for line in lines if line.startswith(f'{name}=='))


def digest(paths: Iterable[Path], *words: str) -> str:
    """Return a hash over the names and bytes of ``paths``, ``words``, Python's version, folder."""
    total = hashlib.sha256('\0'.join((sys.version, str(ROOT), *words)).encode())
    for path in paths:
        total.update(str(path.relative_to(ROOT)).encode() + b'\0')
        total.update(path.read_bytes() if path.exists() else b'')
    return total.hexdigest()


def step(title: str, stamp: str, value: str, work: Callable[[], None]) -> bool:
    """Do ``work`` unless ``stamp`` already holds ``value``; return whether it was done."""
    path = STAMPS / stamp
    if path.exists() and path.read_text() == value:
        return False
    started = time.monotonic()
    say(f'{title} ...')
    path.unlink(missing_ok=True)
    work()
    STAMPS.mkdir(parents=True, exist_ok=True)
    path.write_text(value)
    say(f'{title}: done in {time.monotonic() - started:.0f} s')
    return True


def make_venv() -> None:
    """Make an empty virtual environment; an existing one is replaced."""
    system_parts.need_build_tools()
    for folder in (VENV, ROOT / 'build', ROOT / 'install', ROOT / 'log'):
        if folder.exists():
            shutil.rmtree(folder)
    run([sys.executable, '-m', 'venv', VENV], 'venv')


def install_wheels(*what: object) -> None:
    """
    Install with pip's arguments; pip's output goes to a log.

    The files are not compiled here: most are never used; :func:`compile_used` compiles the others.
    """
    run([PYTHON, '-m', 'pip', 'install', '--prefer-binary', '--disable-pip-version-check',
         '--progress-bar', 'off', '--no-compile', *what],
        'pip', environment={**os.environ, 'PYTHONPATH': ''})


def install_ros_and_the_rest() -> None:
    """Install everything, then correct the paths in the ROS wheels."""
    install_wheels(pin('pip', 'requirements-ros.txt'))
    install_wheels(*(word for name in WHEELS for word in ('-r', name)))
    mend_cmake_files()


def mend_cmake_files() -> None:
    """Point exported CMake files, which name their build machine's Python, to this one."""
    code = ('import numpy, sysconfig\n'
            'print(sysconfig.get_path("include"), numpy.get_include(), sep="\\n")')
    python, numpy = subprocess.run([PYTHON, '-c', code], check=True, capture_output=True,
                                   text=True, timeout=60).stdout.split('\n')[:2]
    built = f'/opt/python/cp{VERSION.replace(".", "")}-cp{VERSION.replace(".", "")}'
    for path in (VENV / 'share').rglob('*.cmake'):
        old = path.read_text(encoding='utf-8')
        new = old.replace(f'{built}/lib/python{VERSION}/site-packages/numpy/_core/include', numpy)
        new = new.replace(f'{built}/include/python{VERSION}', python)
        if new != old:
            path.write_text(new, encoding='utf-8')
        if '/opt/python/' in new:
            raise Failed(f'{path} still names the Python it was built with. The ROS wheels have '
                         'changed: adapt mend_cmake_files in .ci/environment.py.')


def for_cpp() -> bool:
    """Whether somebody here reads messages in C++, as rosbag2 does: that doubles the build."""
    return bool(os.environ.get('ARENA_ROS_TOOLS') or shutil.which('ros2'))


def build(*packages: str) -> None:
    """Build packages with colcon, as in a lab's workspace."""
    system_parts.need_build_tools()
    environment = {
        **os.environ, 'AMENT_PREFIX_PATH': str(VENV), 'CMAKE_PREFIX_PATH': str(VENV),
        'PATH': os.pathsep.join((str(VENV / 'bin'), os.environ.get('PATH', os.defpath))),
        'PYTHONPATH': '', 'COLCON_LOG_LEVEL': '40'}
    run([PYTHON, VENV / 'bin' / 'colcon', 'build', '--base-paths', '.', 'arena_msgs', TF,
         '--packages-select', *packages, '--event-handlers', 'console_direct+', '--cmake-args',
         '-DBUILD_TESTING=OFF', '-DCMAKE_BUILD_TYPE=Release', f'-DPython3_EXECUTABLE={PYTHON}',
         f'-DWITHOUT_CPP={"OFF" if for_cpp() else "ON"}',
         f'-DPYTHON_INSTALL_DIR=lib/python{VERSION}/site-packages'],
        'colcon', environment=environment)


def build_robot() -> None:
    """Build arena_robot from scratch, so that renamed files do not remain."""
    for folder in ('build', 'install'):
        shutil.rmtree(ROOT / folder / 'arena_robot', ignore_errors=True)
    build('arena_robot')


def install_start_up() -> None:
    """Install the start-up file and the ``arena`` command, and check that they work."""
    shutil.copy(ROOT / '.ci' / 'arena_start.py', SITE / 'arena_start.py')
    (SITE / '_arena_start.pth').write_text('import arena_start\n')
    command = VENV / 'bin' / 'arena'
    command.write_text(ARENA.format(python=shlex.quote(str(PYTHON))))
    command.chmod(0o755)
    run([PYTHON, '-c', 'import rclpy, arena_msgs.action, arena_msgs.msg, arena_msgs.srv'], 'check')
    run([command, '--version'], 'check')


def compile_used() -> None:
    """
    Import every module of arena_robot, so that Python stores it and its imports compiled.

    Where PYTHONDONTWRITEBYTECODE is set, as in many containers, compiled files would otherwise
    never be written, and every process would compile for a second or two at its start.
    """
    code = ('import importlib, pkgutil, arena_robot\n'
            'for module in pkgutil.walk_packages(arena_robot.__path__, "arena_robot."):\n'
            '    importlib.import_module(module.name)\n')
    run([PYTHON, '-c', code], 'compile', environment={**os.environ, 'PYTHONDONTWRITEBYTECODE': ''})


def browser() -> bool:
    """Have a browser for the tests; what fails is said and tried again the next time."""
    try:
        return step('Browser for the tests', 'browser', digest((), *system_parts.BROWSERS),
                    system_parts.need_browser)
    except Failed as failure:
        say(f'{failure}\nsetup: tests in a browser are skipped until then')
        return False


def robot_libraries() -> None:
    """Install the robots' own libraries that exist for this machine, one by one."""
    missing = []
    for line in (ROOT / FRANKA).read_text().splitlines():
        if not line.startswith('#'):
            try:
                install_wheels('--only-binary', ':all:', '--no-deps', line)
            except Failed:
                missing.append(line)
    if missing:
        raise Failed(f'{" and ".join(missing)}: not to be had for this machine, see '
                     '.venv/logs/pip.log; the tests with it are skipped')


def robots() -> bool:
    """Have the robots' libraries; what is missing is said and tried again the next time."""
    try:
        return step('Libraries of robots', 'franka', digest(files(FRANKA)), robot_libraries)
    except Failed as failure:
        say(str(failure))
        return False


def steps() -> list[tuple[str, str, str, Callable[[], None]]]:
    """Return title, stamp, dependencies and function of every step, in order."""
    wheels = digest(files(*WHEELS))
    messages = digest(files('arena_msgs', TF, 'requirements-ros.txt'), pin('numpy'),
                      str(for_cpp()))
    package = digest(files(*PACKAGE_FILES), messages)
    return [
        ('Virtual environment', 'venv', digest(()), make_venv),
        ('ROS 2 and other wheels', 'wheels', wheels, install_ros_and_the_rest),
        ('Pictures of the simulation (EGL)', 'egl', digest((), pin('mujoco')),
         lambda: system_parts.need_egl(PYTHON)),
        ('Build of arena_msgs', 'arena_msgs', messages, lambda: build('arena_msgs', 'tf2_msgs')),
        ('Build of arena_robot', 'arena_robot', package, build_robot),
        ('The arena command', 'command', digest(files('.ci/arena_start.py'), package, ARENA),
         install_start_up),
        ('Compilation of what is used', 'compiled', digest((), wheels, messages), compile_used),
    ]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other set-up of this checkout runs."""
    with open(__file__, 'rb') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say('waiting for another set-up of this checkout ...')
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Set up what is missing or out of date; with options what other targets need."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('--bench', action='store_true', help='also the peers of `make bench`')
    parser.add_argument('--docs', action='store_true', help='also the programs of `make docs`')
    parser.add_argument('--test', action='store_true', help='also the browser of `make test`')
    args = parser.parse_args()
    started = time.monotonic()
    try:
        with alone():
            done = [*(step(*each) for each in steps()), robots()]
            if args.bench:
                done.append(step('Peers to compare with', 'bench', digest(files(BENCH)),
                                 lambda: install_wheels('-r', BENCH)))
            if args.docs:
                done.append(step('Programs of the documentation', 'docs', digest(files(DOCS)),
                                 lambda: install_wheels('-r', DOCS)))
            if args.test:
                done.append(browser())
    except Failed as failure:
        print(f'setup: {failure}', file=sys.stderr)
        return 1
    if any(done):
        say(f'ready in {time.monotonic() - started:.0f} s. Try: .venv/bin/arena --help')
    return 0


if __name__ == '__main__':
    sys.exit(main())
