"""The demonstration's audits: made beside its sessions, and what is missing at the end."""

import time

import pytest

from arena_robot.core.episode import Slot
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import Verdict
from arena_robot.demo.audits import JUDGES, LAST_S, BackgroundAudits, audit_sessions
from arena_robot.recording.episode.sample import SampleEpisode, SampleMaker
from arena_robot.records.audit_file import audits_of
from arena_robot.records.session_file import SessionFile, write_session


@pytest.fixture
def sessions(tmp_path, message_folders):
    """Three sessions of short episodes; the last has no bags."""
    home = tmp_path / 'sessions'
    for name in ('one', 'two', 'three'):
        for slot in Slot:
            folder = home / name / slot.value
            if name == 'three':
                folder.mkdir(parents=True)
            else:
                SampleMaker(SampleEpisode(20, width=64, height=36, slot=slot.value,
                                          session_id=name, potential=True),
                            message_folders).write(folder)
            (tmp_path / 'uploaded' / name / slot.value).mkdir(parents=True)
        write_session(home / name, SessionFile(
            name, reveal=Reveal('00', 'fast', 'slow'), evaluator='eva', station='lab',
            verdict=Verdict(progress_a=1.0, progress_b=0.5)))
    return [home / name for name in ('one', 'two', 'three')]


def audited(folder):
    return {slot.value for slot in Slot
            if {path.stem for path in audits_of(folder / slot.value)} == set(JUDGES)}


def test_audits_beside_the_sessions_and_the_rest_at_the_end(sessions, tmp_path):
    uploaded, heard = tmp_path / 'uploaded', []
    with BackgroundAudits(uploaded, tmp_path / 'audits.log') as background:
        background(sessions[2])
        background(sessions[0])
        begin_s = time.monotonic()
        background.finish()
        assert time.monotonic() - begin_s < LAST_S, 'what cannot be audited is not waited for'
    assert [audited(one) for one in sessions] == [{'A', 'B'}, set(), set()]
    assert audited(uploaded / 'one') == {'A', 'B'}
    assert 'three/A was not audited' in (tmp_path / 'audits.log').read_text('utf-8')
    audit_sessions(sessions, heard.append, uploaded)
    assert [audited(one) for one in sessions] == [{'A', 'B'}, {'A', 'B'}, set()]
    assert heard[-1] == 'audit 4 of 4'
