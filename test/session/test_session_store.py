import json

import pytest

from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.files import write_text
from arena_robot.core.verdict import scored
from arena_robot.records.session_file import read_journal
from arena_robot.session.base import Assignment, Reveal, commitment
from arena_robot.session.protocol import store as sessions
from arena_robot.session.protocol.journal import Journal
from arena_robot.session.protocol.salvage import read_record
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore

OK = [{'name': 'arm', 'ok': True, 'detail': ''}]


@pytest.fixture
def clock():
    return ManualClock(1_700_000_000_000_000_000)


@pytest.fixture
def store(tmp_path, clock):
    return SessionStore(tmp_path / 'sessions', clock)


def assigned(store, name='s1'):
    session = store.begin()
    session.checked('lab', OK)
    session.enter_task('ada', f'put cube {name} in the bowl')
    session.assigned(Assignment(name, commitment('00', 'crimson-7b', 'azure')))
    session.adopt_id()
    return session


def test_a_folder_gets_the_sessions_name_once_it_has_one(store):
    session = store.begin()
    assert session.folder.name.startswith('pending-')
    session.close()
    session = assigned(store)
    assert session.folder == store.root / 's1'
    session.photographed(['left_left'])
    session.write_summary()
    data = json.loads((store.root / 's1' / 'session.json').read_text())
    assert data['state'] == 'start_photographed'
    assert data['created'].startswith('2023-11-14T22:13:20')
    assert data['verdict']['progress_a'] is None
    session.close()


def test_a_kill_between_the_assignment_and_the_new_name(store):
    session = store.begin()
    session.checked('lab', OK)
    session.enter_task('ada', 'put the cube in the bowl')
    session.assigned(Assignment('s2', 'ff'))
    session.close()
    [folder] = store.unfinished()
    assert folder.name.startswith('pending-')
    again = store.resume(folder)
    assert again.folder == store.root / 's2'
    assert again.state is State.ASSIGNED
    again.close()


def test_only_sessions_that_began_and_did_not_end_are_unfinished(store):
    store.begin().close()
    done = assigned(store, 'done')
    done.abort('enough')
    done.close()
    opened = assigned(store, 'open')
    opened.close()
    (store.root / 'broken').mkdir()
    (store.root / 'broken' / 'journal.jsonl').write_text('nonsense\n')
    assert store.unfinished() == [store.root / 'open']
    assert {r.session_id for r in store.today()} == {'done', 'open'}


def test_an_open_session_is_not_resumed_twice(store):
    session = assigned(store)
    with pytest.raises(SessionError, match='in use'):
        store.resume(store.root / 's1')
    session.close()


def test_yesterday_is_not_in_todays_history(store, clock):
    assigned(store).close()
    clock.advance_ns(49 * 3600 * 10**9)
    assert store.today() == []


def test_sessions_of_other_days_are_read_once(store, clock, monkeypatch):
    read = []
    monkeypatch.setattr(sessions, 'read_record',
                        lambda path: read.append(path.parent.name) or read_record(path))
    old = assigned(store, 'old')
    clock.advance_ns(49 * 3600 * 10**9)
    for name in ('one', 'two'):
        assigned(store, name).close()
    for _ in range(3):
        assert {r.session_id for r in store.today()} == {'one', 'two'}
    assert read.count('old') == 1
    assert read.count('one') == 3
    old.abort('enough')     # its journal has changed
    old.close()
    store.today()
    store.today()
    assert read.count('old') == 2


def test_the_summary_holds_the_reveal_only_after_it(store):
    session = assigned(store)
    session.invalidate('the drawer broke')
    session.submit()
    session.write_summary()
    text = (session.folder / 'session.json').read_text()
    assert 'crimson-7b' not in text
    session.revealed(Reveal('00', 'crimson-7b', 'azure'))
    session.write_summary()
    data = json.loads((session.folder / 'session.json').read_text())
    assert data['reveal'] == {
        'nonce': '00', 'policy_a': 'crimson-7b', 'policy_b': 'azure', 'receipt': '',
        'probation': False, 'objection': '', 'chosen': None}
    assert data['verified'] is True
    assert (data['verdict']['valid'], data['verdict']['preference']) == (False, None)
    session.close()


def test_enums_in_the_summary_are_words(store):
    session = assigned(store)
    session.photographed(['left_left'])
    session.started(Slot.A)
    session.recovered('restarted')
    session.score(Slot.A, scored(Slot.A, 1.0))
    session.draft({'preference': 'A', 'notes': ''})
    session.write_summary()
    data = json.loads((session.folder / 'session.json').read_text())
    assert data['slots']['A']['end'] == 'interrupted'
    assert data['draft'] == {'preference': 'A', 'notes': ''}
    session.close()


CLOCK = ManualClock(1_700_000_000_000_000_000)


def written(path, count=3):
    with Journal(path, CLOCK) as journal:
        for n in range(count):
            journal.append('drafted', {'notes': f'größer {n}'})
    return path


def test_what_was_appended_is_read_back(tmp_path):
    path = written(tmp_path / 'journal.jsonl')
    entries = list(read_journal(path))
    assert [e.n for e in entries] == [0, 1, 2]
    assert entries[2].data == {'notes': 'größer 2'}
    assert entries[0].stamp_ns == CLOCK.now_ns()
    with Journal(path, CLOCK) as journal:
        assert journal.append('drafted', {}).n == 3


def test_a_torn_last_line_is_cut_off_at_every_byte(tmp_path):
    whole = written(tmp_path / 'whole.jsonl').read_bytes()
    second = whole.index(b'\n', whole.index(b'\n') + 1) + 1
    for cut in range(second, len(whole)):
        path = tmp_path / 'torn.jsonl'
        path.write_bytes(whole[:cut])
        assert len(list(read_journal(path))) == 2
        with Journal(path, CLOCK) as journal:
            assert journal.append('drafted', {'notes': 'after'}).n == 2
        assert [e.n for e in read_journal(path)] == [0, 1, 2]


@pytest.mark.parametrize(('line', 'message'), [
    (b'{"n": 1, "t": 0\n', 'line 2 is damaged'),
    (b'{"n": 5, "t": 0, "move": "x", "data": {}}\n', 'lines are missing'),
    (b'[]\n', 'line 2 is damaged')])
def test_damage_in_the_middle_is_named(tmp_path, line, message):
    path = written(tmp_path / 'journal.jsonl')
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + line + lines[2])
    with pytest.raises(DataError, match=message):
        list(read_journal(path))


def test_one_process_at_a_time(tmp_path):
    with Journal(tmp_path / 'journal.jsonl', CLOCK), \
            pytest.raises(SessionError, match='in use by another'):
        Journal(tmp_path / 'journal.jsonl', CLOCK).open()
    with Journal(tmp_path / 'journal.jsonl', CLOCK) as journal:
        journal.append('drafted', {})


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    path = written(tmp_path / 'journal.jsonl')
    before = path.read_bytes()
    with Journal(path, CLOCK) as journal:
        monkeypatch.setattr('os.fsync', _no_space)
        with pytest.raises(SessionError, match='free some disk space'):
            journal.append('drafted', {'notes': 'lost'})
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert journal.append('drafted', {'notes': 'kept'}).n == 3


def _no_space(file):
    raise OSError(28, 'No space left on device')


def test_a_closed_journal_says_so(tmp_path):
    journal = Journal(tmp_path / 'journal.jsonl', CLOCK)
    with pytest.raises(SessionError, match='not open'):
        journal.append('drafted', {})
    journal.close()


def test_numbers_that_json_cannot_hold_are_refused(tmp_path):
    with Journal(tmp_path / 'journal.jsonl', CLOCK) as journal:
        with pytest.raises(ValueError, match='JSON'):
            journal.append('drafted', {'progress_a': float('nan')})
        assert journal.append('drafted', {}).n == 0


def test_a_summary_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / 'session.json'
    write_text(path, '{"a": 1}')
    write_text(path, '{"a": 2}')
    assert json.loads(path.read_text()) == {'a': 2}
    assert list(tmp_path.iterdir()) == [path]
