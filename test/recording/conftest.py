"""A made-up episode, written once and copied for each test that changes it."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from arena_robot.recording.episode.sample import SampleEpisode, SampleMaker

ROOT = Path(__file__).parents[2]


def share() -> tuple[Path, ...]:
    """Return folders with the .msg files of arena_msgs and of the standard packages."""
    spec = importlib.util.find_spec('std_msgs')
    if spec is None or spec.origin is None:
        pytest.skip('std_msgs is not installed: run make setup')
    found = next((p / 'share' for p in Path(spec.origin).parents
                  if (p / 'share' / 'std_msgs' / 'msg' / 'Header.msg').is_file()), None)
    if found is None:
        pytest.skip('the .msg files of std_msgs are not installed: run make setup')
    return (ROOT, found)


@pytest.fixture(scope='session')
def folders() -> tuple[Path, ...]:
    return share()


@pytest.fixture(scope='session')
def maker(folders) -> SampleMaker:
    return SampleMaker(SampleEpisode(), folders)


@pytest.fixture(scope='session')
def pristine(maker, tmp_path_factory) -> Path:
    """Return the folder of a sample bag that nobody may change."""
    folder = tmp_path_factory.mktemp('pristine') / 'A'
    maker.write(folder)
    return folder


@pytest.fixture
def episode(pristine, tmp_path) -> Path:
    """Return a copy of the sample bag."""
    return Path(shutil.copytree(pristine, tmp_path / 'session' / 'A'))
