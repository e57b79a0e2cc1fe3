"""The relay's journal: what a restart finds in it, also with another database."""

import json
from pathlib import Path

import pytest
from arena_setting import STATION, Setting

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.server.relay_record import RelayRecord
from arena_robot.server.store import relayed
from arena_robot.session.arena.contract import PROMPT


@pytest.fixture
def lite(tmp_path, pool):
    made = Setting(tmp_path / 'server', '', pool)
    yield made
    made.close()


def line(session_id: str, step: int) -> bytes:
    return json.dumps({'what': 'answered', 'step': step, 'took_s': 0.1, 'actions': 8,
                       'session': session_id, 'slot': 'A', 'now_ns': 10 + step}).encode() + b'\n'


def seen(lite, session_id: str) -> int:
    with lite.server.database.read() as connection:
        return relayed.of_session(connection, session_id)[Slot.A.value].queries


def record_of(lite, journal: Path) -> RelayRecord:
    return RelayRecord(lite.server.database, SystemClock(), journal)


def test_notes_of_sessions_that_the_database_lacks_are_set_aside(lite, tmp_path):
    session_id = lite.arena().assign(STATION, 'ada', PROMPT).session_id
    journal, aside = tmp_path / 'relayed.jsonl', tmp_path / 'relayed.jsonl.aside'
    journal.write_bytes(line('of-another-database', 0) + line(session_id, 0) + b'damaged\n'
                        + line('of-another-database', 8) + line(session_id, 8) + b'{"cut')
    record = record_of(lite, journal)
    record.open()
    assert seen(lite, session_id) == 2
    assert sorted(aside.read_bytes().splitlines(True)) == sorted((
        line('of-another-database', 0), line('of-another-database', 8), b'damaged\n',
        b'{"cut\n'))
    assert journal.read_bytes() == b''
    record.close()
    assert len(aside.read_bytes().splitlines()) == 4


def test_a_session_that_vanishes_while_the_server_runs_stops_no_other(lite, tmp_path):
    session_id = lite.arena().assign(STATION, 'ada', PROMPT).session_id
    journal = tmp_path / 'relayed.jsonl'
    record = record_of(lite, journal)
    record.open()
    for key in ((session_id, 'A'), ('vanished', 'B')):
        record.answered(key, 0, 0.1, 8)
    record.flush(session_id)
    assert seen(lite, session_id) == 1
    assert b'vanished' in journal.read_bytes(), 'not truncated before it is set aside'
    record.flush()
    record.close()
    (kept,) = (tmp_path / 'relayed.jsonl.aside').read_bytes().splitlines()
    assert json.loads(kept)['session'] == 'vanished'
    assert journal.read_bytes() == b''
