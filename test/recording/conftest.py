"""Made-up episodes, written once and copied for each test that changes them."""

import shutil
from pathlib import Path

import pytest
from sample_episodes import SampleEpisode, SampleMaker

from arena_robot.core.episode import Preference
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.records.session_file import SessionFile, write_session


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


@pytest.fixture(scope='session')
def session(message_folders, pristine, tmp_path_factory):
    """Return a session with both episodes, scored and revealed."""
    session_id = SampleEpisode().session_id
    folder = tmp_path_factory.mktemp('sessions') / session_id
    shutil.copytree(pristine, folder / 'A')
    SampleMaker(SampleEpisode(slot='B', steps=20), message_folders).write(folder / 'B')
    write_session(folder, SessionFile(
        session_id, station='lab', evaluator='e1', prompt='from the session',
        created='2026-01-02T03:04:05.000+00:00', updated='2026-01-02T03:14:05.000+00:00',
        verdict=Verdict(0.25, 1.0, preference=Preference.B, explanation='B was surer'),
        reveal=Reveal('00', 'first policy', 'second')))
    return folder
