from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

from arena_robot.core.config import build, load, nearest, read_yaml
from arena_robot.core.errors import ConfigError


class Robot(str, Enum):
    PANDA = 'panda'
    FR3 = 'fr3'


@dataclass(frozen=True)
class Camera:
    serial: str
    rate_hz: float = 15.0


@dataclass(frozen=True)
class Station:
    name: str
    robot: Robot = Robot.FR3
    home: tuple[float, ...] = ()
    cameras: dict[str, Camera] = field(default_factory=dict)
    folder: Path | None = None
    views: list[str] = field(default_factory=list)
    size: tuple[int, int] = (288, 512)


def test_everything_is_converted():
    station = build(Station, {
        'name': 'berkeley', 'robot': 'panda', 'home': [0, 1.5], 'folder': '/data',
        'cameras': {'left': {'serial': '123', 'rate_hz': 30}}, 'views': ['a'], 'size': [180, 320]})
    assert station == Station('berkeley', Robot.PANDA, (0.0, 1.5), {'left': Camera('123', 30.0)},
                              Path('/data'), ['a'], (180, 320))
    assert isinstance(station.home[0], float)


@pytest.mark.parametrize(('data', 'words'), [
    ({'nam': 'x'}, ["unknown key 'nam'", "Did you mean 'name'?", 'Known: cameras']),
    ({}, ['missing name']),
    ({'name': 3}, ['x.name: expected str, found int 3']),
    ({'name': 'a', 'robot': 'pand'}, ["unknown value 'pand'", "Did you mean 'panda'?"]),
    ({'name': 'a', 'home': 'far'}, ['x.home: expected a list']),
    ({'name': 'a', 'home': [1, 'b']}, ['x.home[1]: expected float']),
    ({'name': 'a', 'cameras': {'left': {}}}, ['x.cameras.left: missing serial']),
    ({'name': 'a', 'cameras': {'left': 3}}, ['x.cameras.left: expected a mapping']),
    ({'name': 'a', 'cameras': [1]}, ['x.cameras: expected a mapping']),
    ({'name': 'a', 'size': [1, 2, 3]}, ['x.size: expected a list of 2']),
    ({'name': 'a', 'size': [1, True]}, ['x.size[1]: expected int']),
    ({'name': 'a', 'folder': 3}, ['x.folder: expected Path, found int 3']),
])
def test_a_wrong_entry_names_itself_and_what_is_possible(data, words):
    with pytest.raises(ConfigError) as caught:
        build(Station, data, where='x')
    for word in words:
        assert word in str(caught.value)


def test_a_dataclass_that_refuses_its_values_is_a_config_error():
    @dataclass(frozen=True)
    class Positive:
        rate_hz: float

        def __post_init__(self) -> None:
            if self.rate_hz <= 0:
                raise ValueError(f'rate_hz must be positive, got {self.rate_hz}')

    with pytest.raises(ConfigError, match='here: rate_hz must be positive, got -1'):
        build(Positive, {'rate_hz': -1}, where='here')


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r'cannot read .*missing\.yaml'):
        read_yaml(tmp_path / 'missing.yaml')
    bad = tmp_path / 'bad.yaml'
    bad.write_text('a: [1,')
    with pytest.raises(ConfigError, match='not valid YAML'):
        read_yaml(bad)
    bad.write_bytes(b'\xff\xfe\x00a')
    with pytest.raises(ConfigError, match='not valid YAML'):
        read_yaml(bad)
    bad.write_text('- 1')
    with pytest.raises(ConfigError, match='must hold a mapping, found a list'):
        read_yaml(bad)
    bad.write_text('')
    assert read_yaml(bad) == {}


def test_load_names_the_file(tmp_path):
    path = tmp_path / 'station.yaml'
    path.write_text('name: lab\nrobott: fr3\n')
    with pytest.raises(ConfigError, match=r'station.yaml: unknown key .robott.'):
        load(Station, path)


def test_nearest_without_a_close_word_lists_what_is_known():
    assert nearest('zzz', ['sim', 'replay']) == ' Known: replay, sim.'
