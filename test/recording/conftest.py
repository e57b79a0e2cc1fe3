"""A made-up episode, written once and copied for each test that changes it."""

import shutil
from pathlib import Path

import pytest
from sample_episodes import SampleEpisode, SampleMaker


@pytest.fixture(scope='session')
def maker(message_folders) -> SampleMaker:
    return SampleMaker(SampleEpisode(), message_folders)


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
