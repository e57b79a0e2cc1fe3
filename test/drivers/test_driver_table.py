"""Backends by name."""

import subprocess
import sys

import pytest

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.table import DRIVERS, driver


@pytest.mark.parametrize(('part', 'backend'), [
    (part, backend) for part, backends in DRIVERS.items() for backend in backends])
def test_every_entry_is_a_class(part, backend):
    assert isinstance(driver(part, backend), type)


def test_an_unknown_backend_names_the_nearest():
    with pytest.raises(ConfigError, match=r"no arm backend 'simm'. Did you mean 'sim'"):
        driver('arm', 'simm')
    with pytest.raises(ConfigError, match="Did you mean 'camera'"):
        driver('cameras', 'sim')


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(DRIVERS['arm'], 'ghost', 'no_such_library.arm:Arm')
    with pytest.raises(ConfigError, match=r'needs a library.*no_such_library'):
        driver('arm', 'ghost')


def test_the_table_itself_loads_no_simulator():
    code = ('import sys, arena_robot.drivers.table as t; t.driver("arm", "replay"); '
            'sys.exit("mujoco" in sys.modules)')
    assert subprocess.run([sys.executable, '-c', code], timeout=60, check=False).returncode == 0
