"""The environment that `make setup` makes, and what it says when it cannot."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / '.venv' / 'bin' / 'python'
SEEN = ('import os, sys, rclpy, arena_msgs.msg, arena_robot\n'
        'print(rclpy.__file__, arena_msgs.__file__, arena_robot.__file__)\n'
        'print(os.environ["AMENT_PREFIX_PATH"])\n'
        'print(os.environ["LD_LIBRARY_PATH"])\n'
        'print(os.environ.get("RMW_IMPLEMENTATION"))')
needs_setup = pytest.mark.skipif(not (ROOT / '.venv' / 'stamps' / 'command').exists(),
                                 reason='.venv of `make setup` is missing')


def look(folder: Path, **environment: str) -> list[str]:
    done = subprocess.run([PYTHON, '-c', SEEN], capture_output=True, text=True, timeout=60,
                          cwd=folder, env={'PATH': '/usr/bin:/bin', **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@needs_setup
def test_python_finds_everything_with_nothing_sourced(tmp_path):
    modules, prefixes, libraries, _ = look(tmp_path)
    assert modules.split()[2] == str(ROOT / 'arena_robot' / '__init__.py')
    assert str(ROOT / 'install' / 'arena_robot') in prefixes.split(':')
    assert str(ROOT / 'install' / 'arena_msgs' / 'lib') in libraries.split(':')


@needs_setup
def test_another_ros_in_the_shell_is_left_out_and_overlays_stay(tmp_path):
    other_ros, overlay = tmp_path / 'ros' / 'jazzy', tmp_path / 'overlay'
    (other_ros / 'share' / 'rclpy').mkdir(parents=True)
    (other_ros / 'share' / 'rclpy' / 'package.xml').touch()
    (other_ros / 'lib' / 'python' / 'rclpy').mkdir(parents=True)
    (other_ros / 'lib' / 'python' / 'rclpy' / '__init__.py').write_text(
        'raise ImportError("other")')
    overlay.mkdir()
    modules, prefixes, libraries, middleware = look(
        tmp_path, AMENT_PREFIX_PATH=f'{overlay}:{other_ros}', PYTHONPATH=f'{other_ros}/lib/python',
        LD_LIBRARY_PATH=f'{other_ros}/lib', RMW_IMPLEMENTATION='rmw_cyclonedds_cpp')
    assert modules.startswith(str(ROOT / '.venv'))
    assert str(overlay) in prefixes.split(':')
    assert str(other_ros) not in prefixes + libraries
    assert middleware == 'None'


@needs_setup
def test_child_of_another_environment_finds_its_own_libraries(tmp_path):
    _, _, libraries, _ = look(tmp_path, _ROS_WHEELS_BOOTSTRAP_COMPLETE='1',
                              LD_LIBRARY_PATH='/somewhere/else')
    assert str(ROOT / 'install' / 'arena_msgs' / 'lib') in libraries.split(':')
    assert '/somewhere/else' in libraries.split(':')


@needs_setup
def test_the_command_runs_from_anywhere(tmp_path):
    (tmp_path / 'numpy.py').write_text('raise ImportError("not this one")')
    done = subprocess.run([ROOT / '.venv' / 'bin' / 'arena', '--version'], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60, env={}, check=True)
    assert done.stdout.startswith('arena ')


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / '.ci'))
    return importlib.import_module('system_parts')


def test_missing_compiler_is_named_with_its_command(parts, monkeypatch):
    monkeypatch.setattr(parts.shutil, 'which',
                        lambda name: None if name in ('c++', 'sudo') else f'/usr/bin/{name}')
    monkeypatch.setattr(parts.os, 'geteuid', lambda: 1000)
    with pytest.raises(Exception, match=r'sudo apt-get install -y .*g\+\+') as caught:
        parts.need_build_tools()
    assert type(caught.value).__name__ == 'Failed'


def test_missing_compiler_is_installed_by_root(parts, monkeypatch):
    installed, calls = [], []

    def run_quietly(command):
        calls.append(command)
        installed.append('g++')
        return 0

    monkeypatch.setattr(parts, 'missing_build_tools', lambda: [] if installed else ['g++'])
    monkeypatch.setattr(parts, 'run_quietly', run_quietly)
    monkeypatch.setattr(parts.os, 'geteuid', lambda: 0)
    monkeypatch.setattr(parts.shutil, 'which', lambda name: f'/usr/bin/{name}')
    parts.need_build_tools()
    assert calls[0] == ['apt-get', 'update']
    assert calls[1][:2] == ['apt-get', 'install']
    assert calls[1][-1] == 'g++'


def test_a_system_without_apt_is_told_what_is_missing(parts, monkeypatch):
    monkeypatch.setattr(parts.shutil, 'which', lambda name: None)
    with pytest.raises(Exception, match=r'missing to draw: libegl1.*names may differ'):
        parts.install(parts.EGL, 'to draw')


@pytest.fixture
def environment(parts, monkeypatch, tmp_path):
    module = importlib.import_module('environment')
    monkeypatch.setattr(module, 'STAMPS', tmp_path / 'stamps')
    return module


def test_a_step_is_done_once_and_again_after_a_change_or_a_failure(environment):
    done = []
    assert environment.step('One', 'one', 'value', lambda: done.append(1))
    assert not environment.step('One', 'one', 'value', lambda: done.append(2))
    assert environment.step('One', 'one', 'other', lambda: done.append(3))

    def fail():
        raise environment.Failed('no')

    with pytest.raises(environment.Failed):
        environment.step('One', 'one', 'third', fail)
    assert environment.step('One', 'one', 'other', lambda: done.append(4))
    assert done == [1, 3, 4]


def test_what_a_step_depends_on_is_told_by_bytes_and_names(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(environment, 'ROOT', tmp_path)
    (tmp_path / 'a').write_text('1')
    first = environment.digest(environment.files('a'))
    assert first == environment.digest(environment.files('a'))
    (tmp_path / 'a').write_text('2')
    assert first != environment.digest(environment.files('a'))
    (tmp_path / 'a').rename(tmp_path / 'b')
    assert environment.digest(environment.files('a')) != environment.digest(
        environment.files('b'))


def test_a_failing_command_shows_the_end_of_its_log(parts, monkeypatch, tmp_path):
    progress = importlib.import_module('progress')
    monkeypatch.setattr(progress, 'LOGS', tmp_path / '.venv' / 'logs')
    code = 'print("the reason"); raise SystemExit(3)'
    with pytest.raises(progress.Failed, match=r'(?s)thing ended with code 3.*the reason'):
        progress.run([sys.executable, '-c', code], 'thing', dict(os.environ))


def test_a_browser_that_may_not_be_installed_is_named_and_the_rest_goes_on(
        parts, environment, monkeypatch, capsys):
    monkeypatch.setattr(parts.shutil, 'which',
                        lambda name: '/usr/bin/apt-get' if name == 'apt-get' else None)
    monkeypatch.setattr(parts.os, 'geteuid', lambda: 1000)
    monkeypatch.setattr(parts, 'system_names', lambda: ['debian'])
    for _ in range(2):  # what failed is tried again
        assert not environment.browser()
        printed = capsys.readouterr().out
        assert ('sudo apt-get install -y --no-install-recommends chromium chromium-driver'
                in printed)
        assert 'tests in a browser are skipped' in printed
    monkeypatch.setattr(parts.shutil, 'which', lambda name: f'/usr/bin/{name}')
    assert environment.browser()


@pytest.mark.parametrize(('system', 'wanted'), [
    (['ubuntu', 'debian'], ['chromium-browser', 'chromium-chromedriver']),
    (['raspbian', 'debian'], ['chromium', 'chromium-driver']),
    (['fedora', 'debian'], ['chromium', 'chromedriver'])])
def test_a_browser_has_the_names_of_the_system(parts, monkeypatch, system, wanted):
    monkeypatch.setattr(parts.shutil, 'which', lambda name: None)
    monkeypatch.setattr(parts, 'system_names', lambda: system)
    assert parts.missing_for_browser_tests() == wanted


def test_a_command_that_takes_too_long_has_failed(parts, monkeypatch):
    monkeypatch.setattr(parts, 'INSTALL_S', 0.01)
    assert parts.run_quietly(['sleep', '5']) == 124


def test_a_browser_of_another_name_is_enough(parts, monkeypatch):
    monkeypatch.setattr(parts.shutil, 'which', lambda name: f'/usr/bin/{name}' if name in (
        'google-chrome', 'chromedriver') else None)
    assert parts.missing_for_browser_tests() == []
