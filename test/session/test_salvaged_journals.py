"""Damaged journals: every readable line is kept, and no session blocks a station."""

import json
import random

import pytest
from conducted_station import TASK, Station, go

from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError
from arena_robot.session.protocol.salvage import mended, read_record
from arena_robot.session.protocol.states import State
from arena_robot.session.protocol.store import SessionStore


@pytest.fixture(scope='module')
def lines(tmp_path_factory):
    """Return the lines of the journal of a session in review."""
    station = Station(tmp_path_factory.mktemp('whole'))
    go(station.conductor, State.REVIEW)
    station.conductor.close()
    return (station.store.root / station.conductor.record.session_id / 'journal.jsonl'
            ).read_bytes().splitlines(keepends=True)


def folder_with(tmp_path, lines, name='5e551011-0000-4000-8000-000000000000'):
    folder = tmp_path / 'sessions' / name
    folder.mkdir(parents=True)
    (folder / 'journal.jsonl').write_bytes(b''.join(lines))
    return folder


@pytest.mark.parametrize('bad', [
    b'{"n": 3, "t": 17, "move": "photo\n', b'\xff\xfe\x00\n', b'[]\n', b'\n',
    b'{"n": 3, "t": 1e999, "move": "checked", "data": {}}\n',
    b'{"n": 3, "t": 3, "move": "ticked", "data": {"steps": 1e999}}\n',
    b'{"n": 3, "t": 3, "move": "dance", "data": {}}\n', b'[' * 100_000 + b'\n'],
    ids=['torn', 'no text', 'a list', 'empty', 'infinite', 'infinite steps', 'unknown', 'deep'])
def test_any_line_may_be_damaged_and_the_others_are_kept(tmp_path, lines, bad):
    for place in range(len(lines)):
        folder = folder_with(tmp_path / str(place), [*lines[:place], bad, *lines[place + 1:]])
        record = read_record(folder / 'journal.jsonl')
        assert record.state in (State.REVIEW, State.PREFERENCE)
        assert record.session_id
        if place < len(lines) - 1:
            assert record.verdict.explanation
        assert 'journal was damaged' in record.notice


def test_a_station_starts_and_goes_on_with_a_damaged_session(tmp_path, lines):
    folder = folder_with(tmp_path, [*lines[:4], b'gone\n', *lines[5:]])
    damaged = (folder / 'journal.jsonl').read_bytes()
    conductor = Station(tmp_path).conductor
    assert conductor.record.state is State.REVIEW
    assert conductor.record.prompt == TASK
    assert 'line 5' in conductor.record.notice
    kept = folder / 'journal.damaged-1.jsonl'
    assert kept.read_bytes() == damaged
    conductor.submit()
    conductor.close()
    again = Station(tmp_path).conductor
    assert again.waiting == 1
    assert len(list(folder.glob('journal.damaged-*'))) == 1


def test_random_damage_never_stops_a_station(tmp_path, lines):
    rng, whole = random.Random(3), b''.join(lines)
    for k in range(150):
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 3, 40])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        folder_with(tmp_path, [bytes(changed)], f'{k:08}-0000-4000-8000-000000000000')
    store = SessionStore(tmp_path / 'sessions', ManualClock(1_790_000_000 * 10**9))
    unfinished = store.unfinished()
    assert len(unfinished) > 140
    for folder in unfinished:
        session = store.resume(folder)
        assert session.state is not State.IDLE
        session.close()


def test_one_bad_session_never_keeps_a_station_from_starting(tmp_path, lines, monkeypatch):
    folder_with(tmp_path, lines)
    bad = folder_with(tmp_path, lines, '00000000-0000-4000-8000-000000000000')

    def fails(self, folder, resume=SessionStore.resume):
        if folder == bad:
            raise OverflowError('cannot convert float infinity to integer')
        return resume(self, folder)
    monkeypatch.setattr(SessionStore, 'resume', fails)
    conductor = Station(tmp_path).conductor
    assert conductor.record.state is State.REVIEW
    assert str(bad) in conductor.problem


def test_nothing_readable_is_left_as_it_is(tmp_path):
    folder = folder_with(tmp_path, [b'nonsense\n'])
    assert mended(folder / 'journal.jsonl') == []
    assert Station(tmp_path).conductor.record.state is State.IDLE
    assert (folder / 'journal.jsonl').read_bytes() == b'nonsense\n'


def test_a_full_disk_at_the_start_is_told_and_settled_once_there_is_room(tmp_path, monkeypatch):
    first = Station(tmp_path)
    go(first.conductor, State.START_PHOTOGRAPHED)
    first.conductor._session.started(Slot.A)
    first.conductor.close()

    def full(handle):
        raise OSError(28, 'No space left on device')
    monkeypatch.setattr('os.fsync', full)
    conductor = Station(tmp_path).conductor
    assert conductor.record.state is State.RUNNING_A
    with pytest.raises(SessionError, match='free some disk space'):
        conductor.upkeep()
    monkeypatch.undo()
    conductor.upkeep()
    assert conductor.record.state is State.SCORING_A
    assert 'interrupted' in conductor.record.notice


def test_two_session_nodes_on_one_folder(tmp_path):
    first = Station(tmp_path)
    go(first.conductor, State.ASSIGNED)
    with pytest.raises(SessionError, match='another session node'):
        Station(tmp_path)
    assert first.conductor.photograph().state is State.START_PHOTOGRAPHED
    first.conductor.close()
    assert Station(tmp_path).conductor.record.state is State.START_PHOTOGRAPHED


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    def refused(*args, **options):
        raise PermissionError(30, 'Read-only file system')
    station = Station(tmp_path)
    station.conductor.close()
    monkeypatch.setattr('arena_robot.session.protocol.store.os.open', refused)
    monkeypatch.setattr('pathlib.Path.mkdir', refused)
    conductor = station.conductor
    conductor.open()
    assert 'Read-only file system' in conductor.problem
    with pytest.raises(SessionError, match='Read-only file system'):
        conductor.check()


def test_a_killed_rename_is_finished_when_the_recorder_was_there_first(tmp_path):
    store = SessionStore(tmp_path / 'sessions', ManualClock(1_790_000_000 * 10**9))
    session = store.begin()
    session.checked('lab', [{'name': 'arm', 'ok': True, 'detail': ''}])
    session.enter_task('ada', TASK)
    session.close()
    path = session.folder / 'journal.jsonl'
    lines = path.read_text().splitlines()
    lines.append(json.dumps({'n': len(lines), 't': 1, 'move': 'assigned', 'data': {
        'session_id': 's9', 'commitment': 'ff'}}))
    path.write_text('\n'.join(lines) + '\n')
    (store.root / 's9' / 'A').mkdir(parents=True)
    (store.root / 's9' / 'A' / 'A_0.mcap').write_bytes(b'x')
    again = store.resume(session.folder)
    assert again.folder == store.root / 's9'
    assert (again.folder / 'A' / 'A_0.mcap').exists()
    assert not session.folder.exists() or session.folder == again.folder
    again.close()
