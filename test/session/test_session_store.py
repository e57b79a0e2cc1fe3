import json

import pytest

from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import scored
from arena_robot.session.base import Assignment, Reveal, commitment
from arena_robot.session.protocol import store as sessions
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
