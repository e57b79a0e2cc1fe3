import json

import pytest

from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import DataError, SessionError
from arena_robot.core.files import write_text
from arena_robot.records.session_file import read_journal
from arena_robot.session.protocol.journal import Journal

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
