"""What the system must have, and a browser for the tests: install it where one may, or name it."""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from progress import Failed, say

RENDER_S, INSTALL_S = 120.0, 900.0
TOOK_TOO_LONG = 124     # as of the command `timeout`

EGL = ('libegl1', 'libgl1', 'libopengl0', 'libegl-mesa0', 'libgl1-mesa-dri')
# Chromium and its driver, by the ID or ID_LIKE of /etc/os-release.
BROWSER = {'debian': ('chromium', 'chromium-driver'),
           'ubuntu': ('chromium-browser', 'chromium-chromedriver'),
           'fedora': ('chromium', 'chromedriver'), 'arch': ('chromium', 'chromium'),
           'suse': ('chromium', 'chromedriver')}
BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
RENDER = ("import mujoco; context = mujoco.GLContext(64, 64); context.make_current(); "
          "mujoco.MjrContext(mujoco.MjModel.from_xml_string('<mujoco/>'), 150)")


def missing_build_tools() -> list[str]:
    """Return the Debian packages that are missing for the build."""
    version = f'python{sys.version_info[0]}.{sys.version_info[1]}'
    wanted = []
    if not (shutil.which('c++') and shutil.which('cc')):
        wanted.append('g++')
    if not shutil.which('make'):
        wanted.append('make')
    if not Path(sysconfig.get_path('include'), 'Python.h').exists():
        wanted.append(f'{version}-dev')
    if importlib.util.find_spec('ensurepip') is None:
        wanted.append(f'{version}-venv')
    return wanted


def need_build_tools() -> None:
    """Install compiler, make, Python's headers and venv if missing, or raise Failed."""
    wanted = missing_build_tools()
    if wanted:
        install(wanted, 'to build the message package')
        if missing_build_tools():
            raise Failed(f'still missing after their installation: {missing_build_tools()}')


def system_names() -> list[str]:
    """Return ID and ID_LIKE of this system, the nearest first; Debian where nothing is said."""
    try:
        known = platform.freedesktop_os_release()
    except OSError:
        known = {}
    return [known.get('ID', ''), *known.get('ID_LIKE', '').split(), 'debian']


def renders(python: Path) -> str:
    """Return '' when MuJoCo can render off screen, else the reason why not."""
    try:
        done = subprocess.run([python, '-c', RENDER], capture_output=True, text=True,
                              timeout=RENDER_S, env={**os.environ, 'MUJOCO_GL': 'egl'},
                              check=False)
    except subprocess.TimeoutExpired:
        return f'no picture within {RENDER_S:g} s'
    return (done.stderr.strip() or f'code {done.returncode}') if done.returncode else ''


def need_egl(python: Path) -> None:
    """Install EGL if missing, check that MuJoCo renders off screen, or raise Failed."""
    if renders(python):
        install(EGL, 'to draw the simulated cameras')
        reason = renders(python)
        if reason:
            raise Failed(f'MuJoCo cannot render through EGL. Its message:\n{reason}')


def missing_for_browser_tests() -> list[str]:
    """Return this system's packages that tests in a browser need and that are not there."""
    chromium, driver = next(BROWSER[name] for name in system_names() if name in BROWSER)
    missing = [] if any(shutil.which(name) for name in BROWSERS) else [chromium]
    return missing if shutil.which('chromedriver') else [*missing, driver]


def need_browser() -> None:
    """Install Chromium and its driver if missing, or raise Failed."""
    wanted = missing_for_browser_tests()
    if wanted:
        install(wanted, 'to test the pages in a browser')
        if missing_for_browser_tests():
            raise Failed(f'still missing after their installation: {missing_for_browser_tests()}')


def install(packages: Sequence[str], why: str) -> None:
    """Install packages by apt when the user is allowed to, else raise Failed with the command."""
    command = ['apt-get', 'install', '-y', '--no-install-recommends', *packages]
    asked = f'sudo apt-get update && sudo {shlex.join(command)}'
    if not shutil.which('apt-get'):
        raise Failed(f'missing {why}: {", ".join(packages)} (names may differ here). '
                     'Install it with the package tool of this system, then try again.')
    sudo = [] if os.geteuid() == 0 else ['sudo', '-n']
    if sudo and (not shutil.which('sudo') or run_quietly(['sudo', '-n', 'true'])):
        raise Failed(f'missing {why}: {", ".join(packages)}. Run this, then try again:\n  {asked}')
    say(f'installing {", ".join(packages)} {why}')
    run_quietly([*sudo, 'apt-get', 'update'])
    if run_quietly([*sudo, *command]):
        raise Failed(f'could not install {", ".join(packages)} {why}. To see why, run:\n  {asked}')


def run_quietly(command: Sequence[str]) -> int:
    """Run ``command`` without output; return its exit code, 124 when it took too long."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=INSTALL_S, check=False,
                              env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive'}).returncode
    except subprocess.TimeoutExpired:
        return TOOK_TOO_LONG
