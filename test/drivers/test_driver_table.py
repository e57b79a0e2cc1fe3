"""Backends by name; and the table in faults.md: each row has its test, which reads its words."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from installed_package import install

from arena_robot.core.errors import ConfigError
from arena_robot.drivers.base import AdjustsPicture
from arena_robot.drivers.table import CLOCK, DRIVERS, arguments, driver

HERE = Path(__file__).parent
PAGE = HERE / 'faults.md'
FEWEST = 40
ROWS = [tuple(cell.strip() for cell in line.strip('|').split('|'))
        for line in PAGE.read_text(encoding='utf-8').split('<!-- faults -->')[-1].split(
            '<!-- end of faults -->')[0].splitlines()[3:] if line.startswith('|')]


@pytest.mark.parametrize(('part', 'backend'), [
    (part, backend) for part, backends in DRIVERS.items()
    for backend in backends.built_in])
def test_every_entry_is_a_class(part, backend):
    assert isinstance(driver(part, backend), type)


@pytest.mark.parametrize(('backend', 'heading'), [
    ('zed', '## ZED with the SDK'), ('uvc', '## A USB camera'), ('realsense', '## RealSense')])
def test_each_setting_of_a_camera_is_documented_and_says_whether_it_changes(backend, heading):
    text = (Path(__file__).parents[2] / 'docs' / 'hardware.md').read_text()
    rows = [line for line in text.partition(heading)[2].partition('\n## ')[0].splitlines()
            if line.startswith('| `driver.')]
    camera = driver('camera', backend)
    assert issubclass(camera, AdjustsPicture)
    for name in {argument.name for argument in arguments(camera)} - {CLOCK, 'serial_number'}:
        [row] = [row for row in rows if f'`driver.{name}`' in row]
        assert ('may change while running' in row) == (name in camera.settings()), row


def test_an_unknown_backend_names_the_nearest():
    with pytest.raises(ConfigError, match=r"no arm backend 'simm'. Did you mean 'sim'"):
        driver('arm', 'simm')
    with pytest.raises(ConfigError, match="Did you mean 'camera'"):
        driver('cameras', 'sim')


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(DRIVERS['arm'].built_in, 'ghost', 'no_such_library.arm:Arm')
    with pytest.raises(ConfigError, match=r"cannot import 'no_such_library"):
        driver('arm', 'ghost')


def test_the_table_itself_loads_no_simulator():
    code = ('import sys, arena_robot.drivers.table as t; t.driver("arm", "replay"); '
            'sys.exit("mujoco" in sys.modules)')
    assert subprocess.run([sys.executable, '-c', code], timeout=60, check=False).returncode == 0


CAMERA = """
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.part import Opened

class LabCamera(Opened):
    def __init__(self, clock, exposure_ms=4.0):
        self.serial, self.clock, self.exposure_ms = '1', clock, exposure_ms
    def info(self): return {}
    def frame(self, max_age_s=0.2): return None
    def wait_frame(self, timeout_s): return None
    def arrivals(self): return []

class HalfCamera(Opened):
    def info(self): return {}
    def frame(self): return None

def make(): return LabCamera(None)
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch, 'lab_cameras', {'lab_cameras.py': CAMERA},
                   '[arena_robot.drivers.camera]\nlab = lab_cameras:LabCamera\n'
                   'half = lab_cameras:HalfCamera\n')


def test_an_installed_package_adds_a_driver_by_name_and_by_address(lab):
    assert driver('camera', 'lab') is driver('camera', 'lab_cameras:LabCamera')
    with pytest.raises(ConfigError, match=r"no camera backend 'labb'. Did you mean 'lab'\? Known: "
                                          r'half, lab, .*replay, sim'):
        driver('camera', 'labb')
    with pytest.raises(ConfigError, match="no arm backend 'lab'"):
        driver('arm', 'lab')


def test_a_class_that_does_not_keep_the_protocol_is_refused(lab):
    with pytest.raises(ConfigError, match=r'HalfCamera does not keep the protocol Camera of '
                       r'arena_robot.drivers.base; it lacks arrivals\(\), frame\(max_age_s=0.2\) '
                       r'\(it takes \(self\)\), wait_frame\(timeout_s\)$'):
        driver('camera', 'half')
    with pytest.raises(ConfigError, match='is not a class'):
        driver('camera', 'lab_cameras:make')


@functools.cache
def read_by(name):
    """Return the text constants by function of a test file."""
    tree = ast.parse((HERE / f'{name}.py').read_text(encoding='utf-8'))
    return {function.name: [node.value for node in ast.walk(function)
                            if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            for function in tree.body if isinstance(function, ast.FunctionDef)}


def found(where):
    """Return what the test of a row says; it is named by its function, or by a parameter's id."""
    file, _, title = where.partition(': ')
    wanted = f"test_{title.replace(' ', '_')}"
    for name, texts in read_by(file).items():
        if name == wanted or (name.startswith('test_') and title in texts):
            return texts
    return None


@pytest.mark.parametrize('row', ROWS, ids=lambda row: row[0])
def test_the_words_of_a_row_are_those_that_its_test_reads(row):
    _, read, _, where = row
    texts = found(where)
    assert texts is not None, f'there is no test {where}'
    text = ' '.join(texts).replace('\\', '')
    for words in re.findall(r'`([^`]+)`', read):
        assert words in text, f'{where} does not read {words!r}'


def test_every_injected_fault_of_a_franka_has_its_row():
    file = 'test_franka_faults'
    titles = {row[3].partition(': ')[2] for row in ROWS if row[3].startswith(f'{file}:')}
    tree = ast.parse((HERE / f'{file}.py').read_text(encoding='utf-8'))
    named = {word.value.value for node in ast.walk(tree) if isinstance(node, ast.Call)
             for word in node.keywords if word.arg == 'id'}
    assert named - titles == set()
    assert len(ROWS) >= FEWEST
