"""Damaged journals: every readable line is kept, and no session blocks a station."""

import json
import random

import pytest
from conducted_station import TASK, WHY, Station, go

from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.verdict import Verdict, scored
from arena_robot.session.protocol.salvage import mend_journal, mended, read_record
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


@pytest.mark.parametrize('content', [b'nonsense\n', bytes(4096), b'{"n": 0, "t"'])
def test_a_journal_without_a_readable_line_is_told(tmp_path, content):
    folder = folder_with(tmp_path, [content])
    assert f'no line of {folder}' in Station(tmp_path).conductor.problem
    (folder / 'journal.jsonl').write_bytes(b'')
    assert Station(tmp_path / 'other').conductor.problem == ''


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
        'session_id': 's9', 'commitment': 'ff', 'equal_latency': False, 'driver': 'simulation'}}))
    path.write_text('\n'.join(lines) + '\n')
    (store.root / 's9' / 'A').mkdir(parents=True)
    (store.root / 's9' / 'A' / 'A_0.mcap').write_bytes(b'x')
    again = store.resume(session.folder)
    assert again.folder == store.root / 's9'
    assert (again.folder / 'A' / 'A_0.mcap').exists()
    assert not session.folder.exists() or session.folder == again.folder
    again.close()


def test_a_journal_of_a_newer_version_is_left_as_it_is(tmp_path, lines):
    entry = json.loads(lines[4])
    newer = [*lines[:4], (json.dumps({**entry, 'move': 'weighed'}) + '\n').encode(), *lines[5:]]
    folder = folder_with(tmp_path, newer)
    with pytest.raises(DataError, match="'weighed', which this version does not know"):
        mend_journal(folder / 'journal.jsonl')
    conductor = Station(tmp_path).conductor
    assert "says 'weighed'" in conductor.problem
    assert (folder / 'journal.jsonl').read_bytes() == b''.join(newer)
    assert [path.name for path in folder.glob('journal*')] == ['journal.jsonl']


def test_a_letter_of_a_move_that_was_damaged_is_no_newer_version(tmp_path, lines):
    place = next(k for k, line in enumerate(lines) if b'"scored_a"' in line)
    folder = folder_with(tmp_path, [*lines[:place], lines[place].replace(b'scored_a', b'scorrd_a'),
                                    *lines[place + 1:]])
    assert mend_journal(folder / 'journal.jsonl')


def journal_with_rerun(tmp_path, slot):
    """Return the lines of a session in review in which a slot was run again."""
    station = Station(tmp_path / 'whole')
    conductor = go(station.conductor, State.SCORING_A if slot is Slot.A else State.SCORING_B)
    conductor.rerun('I bumped the table with my elbow')
    conductor.prepare_reset()
    conductor.confirm_reset()
    conductor.run(slot)
    go_on(conductor, slot)
    conductor.close()
    return (station.store.root / conductor.record.session_id / 'journal.jsonl'
            ).read_bytes().splitlines(keepends=True), conductor.record


def go_on(conductor, slot):
    """Score what ran and judge."""
    if slot is Slot.A:
        conductor.score(Slot.A, scored(Slot.A, 0.75))
        conductor.prepare_reset()
        conductor.confirm_reset()
        conductor.run(Slot.B)
    conductor.score(Slot.B, scored(Slot.B, 0.25))
    conductor.judge(Verdict(preference=Preference.A, explanation=WHY))


@pytest.mark.parametrize('slot', list(Slot))
@pytest.mark.parametrize('gone', [('rerun',), ('rerun', 'matched'), ('rerun', 'matched', 'reset'),
                                  ('rerun', 'matched', 'reset', 'started'),
                                  ('ended', 'rerun', 'matched')])
def test_a_lost_rerun_is_recognised_by_what_follows(tmp_path, slot, gone):
    lines, whole = journal_with_rerun(tmp_path, slot)
    moves = [json.loads(line)['move'] for line in lines]
    place = moves.index('rerun') - (gone[0] == 'ended')
    assert [moves[place + k].removesuffix(f'_{slot.value.lower()}')
            for k in range(len(gone))] == list(gone)
    kept = [b'gone\n' if place <= k < place + len(gone) else line for k, line in enumerate(lines)]
    record = read_record(folder_with(tmp_path, kept) / 'journal.jsonl')
    assert record.state is State.REVIEW
    assert record.verdict == whole.verdict
    (rerun,) = record.reruns
    assert rerun.slot is slot
    assert 'lost' in rerun.reason
    for each in Slot:
        assert record.slots[each].end is EndReason.TIMEOUT
        assert record.slots[each].steps == whole.slots[each].steps
    if 'started' not in gone:
        assert record.slots[slot] == whole.slots[slot]
    if gone[0] == 'rerun':
        assert rerun.rollout == whole.reruns[0].rollout
    assert f'(line {place + 1}' in record.notice


def test_a_lost_score_of_a_is_no_rerun(tmp_path, lines):
    moves = [json.loads(line)['move'] for line in lines]
    place = moves.index('scored_a')
    for count in (1, 2, 3, 4):
        kept = [b'gone\n' if place <= k < place + count else line for k, line in enumerate(lines)]
        record = read_record(folder_with(tmp_path / str(count), kept) / 'journal.jsonl')
        assert record.reruns == ()
        assert record.state is State.REVIEW
        assert record.verdict.progress_a is None
        assert record.verdict.progress_b == 0.25


@pytest.mark.parametrize('summary', [True, False])
def test_a_lost_assignment_accuses_nobody(tmp_path, summary):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SUBMITTING)
    session_id, commitment = conductor.record.session_id, conductor.record.commitment
    conductor.close()
    folder = station.store.root / session_id
    lines = (folder / 'journal.jsonl').read_bytes().splitlines(keepends=True)
    place = next(k for k, line in enumerate(lines) if b'"assigned"' in line)
    (folder / 'journal.jsonl').write_bytes(b''.join([*lines[:place], b'gone\n',
                                                     *lines[place + 1:]]))
    if not summary:
        (folder / 'session.json').unlink()
    station.arena.arena.feedback(session_id, conductor.record.final_verdict())
    reveal = station.arena.arena.reveal(session_id)
    session = SessionStore(tmp_path / 'sessions', station.clock).resume(folder)
    record = session.revealed(reveal)
    session.close()
    assert record.commitment == (commitment if summary else '')
    assert record.verified is (True if summary else None)
    assert ('cannot be checked' in record.notice) is not summary
    assert 'changed' not in record.notice


def test_an_unknown_word_does_not_take_the_place_of_a_line_with_its_number(tmp_path, lines):
    stray = b'{"n": 1, "t": 2, "move": "tisk", "data": {}}\n'
    folder = folder_with(tmp_path, [*lines[:2], stray, *lines[3:]])
    assert read_record(folder / 'journal.jsonl').prompt == TASK
