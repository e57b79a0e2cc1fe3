"""``session.json``: one file, three writers, every reader; and the files of version 1."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from roboarena_tables import SAMPLE

from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.errors import DataError
from arena_robot.core.pair import Reveal, commitment
from arena_robot.core.verdict import Verdict
from arena_robot.recording.formats.exporting import sources
from arena_robot.records.importing import read_evaluations
from arena_robot.records.importing import session_file as from_import
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
from arena_robot.server.session_folders import session_file as from_server
from arena_robot.server.store.browse import Evaluation, StoredRollout
from arena_robot.session.protocol.record import SessionRecord
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import session_file as from_station

OLD = Path(__file__).parents[1] / 'data' / 'session_json_1'
WRITERS = ('station', 'server', 'import')
ORIGINS = {Source.STATION: 'local', Source.SERVER: 'relayed', Source.IMPORT: 'imported'}
NONCE, PAIR = 'ab' * 16, ('pi0', 'azure')
VERDICT = Verdict(0.75, 0.25, 'slow', '', Preference.A, 'A was surer', 'a cable hung loose')
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


@pytest.fixture(params=[*WRITERS, *(f'{writer}, version 1' for writer in WRITERS)])
def folder(request, tmp_path):
    """Return a session's folder as each writer leaves it, now and before."""
    writer, _, old = request.param.partition(', ')
    home = tmp_path / 'sessions' / 's1'
    home.mkdir(parents=True)
    if old:
        shutil.copy(OLD / f'{writer}.json', home / SESSION_FILE)
    else:
        write_session(home, written_by(writer))
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
    assert data['version'] == 4
    assert set(data) == {'version', *SessionFile.__dataclass_fields__}


def test_version_1_becomes_version_4(home):
    found = {}
    for writer in WRITERS:
        shutil.copy(OLD / f'{writer}.json', home / SESSION_FILE)
        found[writer] = read_session(home)
        assert found[writer].source.value == writer
        write_session(home, found[writer])
        assert read_session(home) == found[writer]
    one = found['station']
    assert (one.verdict.progress_a, one.verdict.progress_b) == (0.2, 0.6)
    assert one.verdict.explanation == 'the oracle saw A at 20 and B at 60 of 100'
    assert one.slots['A'].end is EndReason.TIMEOUT
    assert (one.match, len(one.checks), one.delivered) == (1.0, 7, ('A', 'B', 'feedback'))
    assert (found['server'].verified, found['import'].verified) == (True, None)
    assert found['import'].origin == 'roboarena_sample'
    assert [r.policy for r in found['import'].other_rollouts] == ['paligemma_fast_droid',
                                                                  'pi0_fast']


def test_version_2_is_read_and_has_no_reruns(home):
    session = dataclasses.replace(written_by('station'), reruns=(Rerun(
        Slot.A, RerunCause.FAULT, '', SLOTS['A'], 'A_earlier', 10**18),))
    write_session(home, session)
    assert read_session(home) == session
    data = json.loads((home / SESSION_FILE).read_text())
    assert data.pop('reruns')[0]['rollout']['end'] == 'timeout'
    (home / SESSION_FILE).write_text(json.dumps({**data, 'version': 2}))
    assert read_session(home) == dataclasses.replace(session, reruns=())


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
    ('{"version": 5, "session_id": "x"}', 'version is 5 and this program reads up to 4'),
    ('{"version": 2}', 'missing session_id'),
    ('{"version": 2, "session_id": "x", "stat": "done"}', "unknown key 'stat'. Did you mean"),
    ('{"version": 2, "session_id": "x", "verdict": {"preference": "left"}}', 'preference'),
    ('{"version": 2, "session_id": "x", "match": "good"}', 'match: expected float')])
def test_a_file_that_is_none_is_named(text, match, home):
    (home / SESSION_FILE).write_text(text)
    with pytest.raises(DataError, match=match) as caught:
        read_session(home)
    assert str(home / SESSION_FILE) in str(caught.value)
    assert comparisons_below(home.parent) == []
