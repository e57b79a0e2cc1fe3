"""``session.json`` and ``episode.json``: every writer, every reader."""

import dataclasses
import json

import pytest
from roboarena_tables import SAMPLE

from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.errors import DataError
from arena_robot.core.pair import Reveal, commitment
from arena_robot.core.verdict import Verdict
from arena_robot.recording.formats.exporting import sources
from arena_robot.records.episode_file import (
    EPISODE_FILE,
    BagReport,
    ClampReport,
    EpisodeFile,
    Spread,
    TopicNumbers,
    ViewReport,
    has_episode,
    read_episode,
    write_episode,
)
from arena_robot.records.roboarena_files import read_evaluations
from arena_robot.records.roboarena_files import session_file as from_import
from arena_robot.records.session_file import (
    SESSION_FILE,
    Rerun,
    RerunCause,
    SessionFile,
    SessionSlot,
    Source,
    comparisons_below,
    has_session,
    read_session,
    session_paths,
    write_session,
)
from arena_robot.reports.tournament import TournamentReport, write_report
from arena_robot.reports.tournament_records import read_record
from arena_robot.server.results.exports import session_file as from_server
from arena_robot.server.store.browse import Evaluation, StoredRollout
from arena_robot.session.protocol.record import SessionRecord
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import session_file as from_station

WRITERS = ('station', 'server', 'import')
ORIGINS = {Source.STATION: 'local', Source.SERVER: 'relayed', Source.IMPORT: 'imported'}
NONCE, PAIR = 'ab' * 16, ('pi0', 'azure')
VERDICT = Verdict(0.75, 0.25, 'slow', preference=Preference.A, explanation='A was surer',
                  notes='a cable hung loose')
SLOTS = {'A': SessionSlot(10**18, 10**18 + 10**10, 150, EndReason.TIMEOUT, '150 steps'),
         'B': SessionSlot(2 * 10**18, 2 * 10**18 + 10**9, 15, EndReason.DONE)}


def written_by(writer):
    """Return a finished session as one of the three writers says it."""
    promise = commitment(NONCE, *PAIR)
    if writer == 'station':
        return from_station(SessionRecord(
            State.DONE, 's1', 'bench', 'ada', 'stack', promise, 10**18, 3 * 10**18,
            slots={slot: SLOTS[slot.value] for slot in Slot}, match=0.98, verdict=VERDICT,
            reveal=Reveal(NONCE, *PAIR), verified=True))
    if writer == 'server':
        return from_server(
            Evaluation('s1', 10**18, 'bench', 'stack', 'Group', *PAIR, promise, NONCE, VERDICT),
            SLOTS, [StoredRollout('A', 'pi0', 150, 'timeout', 0.75),
                    StoredRollout(None, 'green', 10, 'done', 0.5)])
    session = next(s for s in read_evaluations(SAMPLE).sessions if s.counts and s.others())
    return from_import(session, 'roboarena_sample')


@pytest.fixture(params=WRITERS)
def folder(request, tmp_path):
    """Return a session's folder as each writer leaves it."""
    home = tmp_path / 'sessions' / 's1'
    home.mkdir(parents=True)
    write_session(home, written_by(request.param))
    for slot in 'AB':
        (home / slot).mkdir()
        (home / slot / 'x_0.mcap').touch()
    return home


def test_every_reader_reads_every_writer(folder, tmp_path):
    session = read_session(folder)
    verdict = session.comparison()
    assert verdict is not None
    assert {verdict.a, verdict.b} == {session.policy('A'), session.policy('B')}
    origin = ORIGINS[session.source]
    assert comparisons_below(folder.parent) == [dataclasses.replace(verdict, origin=origin)]
    assert [(s.slot, s.session) for s in sources(folder)] == [('A', session), ('B', session)]
    record = read_record(folder)
    assert record.comparison() == dataclasses.replace(verdict, origin=origin)
    assert record.verified is (None if session.source is Source.IMPORT else True)
    assert [r.progress for r in record.rollouts] == [verdict.progress_a, verdict.progress_b]


def test_the_report_shows_every_writer(folder, tmp_path):
    from arena_robot.ranking.base import Comparisons
    from arena_robot.ranking.methods import METHODS, rank
    record = read_record(folder)
    comparisons = Comparisons.from_words([record.comparison()])
    standings = rank(comparisons, 'bt', intervals=0, l2=0.1)
    page = write_report(TournamentReport('T', [record], comparisons, standings,
                                         METHODS.find('bt').unit),
                        tmp_path / 'report').read_text()
    assert record.session.prompt in page
    assert ('✓ verified' in page) == (record.verified is True)
    assert '✗' not in page
    assert ('class="tag other"' in page) == (ORIGINS[record.session.source] != 'relayed')


@pytest.fixture
def home(tmp_path):
    """Return an empty folder for one session."""
    path = tmp_path / 'sessions' / 's1'
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize('writer', WRITERS)
def test_what_is_written_is_read(writer, home):
    session = written_by(writer)
    assert session.source.value == writer
    write_session(home, session)
    assert has_session(home)
    assert session_paths(home.parent) == [home / SESSION_FILE]
    assert read_session(home) == session
    data = json.loads((home / SESSION_FILE).read_text())
    assert data['version'] == 1
    assert set(data) == {'version', *SessionFile.__dataclass_fields__}


def test_reruns_are_kept(home):
    session = dataclasses.replace(written_by('station'), reruns=(Rerun(
        Slot.A, RerunCause.FAULT, '', SLOTS['A'], 'A_earlier', 10**18),))
    write_session(home, session)
    assert read_session(home) == session


@pytest.mark.parametrize('changes', [
    {'state': 'aborted'}, {'reveal': None}, {'verified': False},
    {'verdict': {'preference': 'A', 'valid': False}}, {'verdict': {'progress_a': 0.5}},
    {'reveal': {'nonce': '00', 'policy_a': 'p', 'policy_b': 'p'}}])
def test_sessions_that_do_not_count(changes, home):
    write_session(home, written_by('station'))
    assert read_session(home).comparison() is not None
    data = json.loads((home / SESSION_FILE).read_text())
    (home / SESSION_FILE).write_text(json.dumps({**data, **changes}))
    assert read_session(home).comparison() is None


@pytest.mark.parametrize(('text', 'match'), [
    ('[1]', 'expected a mapping, found a list'), ('{', 'is not the record of a session'),
    ('{"version": 2, "session_id": "x"}', 'version is 2, this program reads 1'),
    ('{"session_id": "x"}', 'version is None, this program reads 1'),
    ('{"version": 1}', 'missing session_id'),
    ('{"version": 1, "session_id": "x", "stat": "done"}', "unknown key 'stat'. Did you mean"),
    ('{"version": 1, "session_id": "x", "verdict": {"preference": "left"}}', 'preference'),
    ('{"version": 1, "session_id": "x", "match": "good"}', 'match: expected float')])
def test_a_file_that_is_none_is_named(text, match, home):
    (home / SESSION_FILE).write_text(text)
    with pytest.raises(DataError, match=match) as caught:
        read_session(home)
    assert str(home / SESSION_FILE) in str(caught.value)
    assert comparisons_below(home.parent) == []


def test_an_episode_that_is_written_is_read(tmp_path):
    assert not has_episode(tmp_path)
    episode = EpisodeFile(
        's1', 'A', 'stack', end_reason='done', steps=30, skew_s=Spread(0.01, 0.02, 0.03),
        clamps=ClampReport(3, {'step_limit': 3}), bag=BagReport(('A_0.mcap',), 12, 10**18, 2.5),
        views={'left_left': ViewReport('/left', 30, 15.0, latency_s=Spread(0.1, 0.2, 0.3),
                                       role='left', eye='left', frame_id='zed_a_left')},
        topics={'/left': TopicNumbers('sensor_msgs/msg/Image', 30, 1000)})
    write_episode(tmp_path, episode)
    assert has_episode(tmp_path)
    assert read_episode(tmp_path) == episode
    assert json.loads((tmp_path / EPISODE_FILE).read_text())['version'] == 1


@pytest.mark.parametrize(('text', 'match'), [
    ('{}', 'version is None'), ('[]', 'expected a mapping'), ('', 'holds no numbers'),
    ('{"version": 9}', 'version is 9, this program reads 1'),
    ('{"version": 1, "step": 3}', "unknown key 'step'. Did you mean 'steps'")])
def test_an_episode_file_that_is_none_is_named(text, match, tmp_path):
    (tmp_path / EPISODE_FILE).write_text(text)
    with pytest.raises(DataError, match=match):
        read_episode(tmp_path)
