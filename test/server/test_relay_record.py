"""The relay's journal: what a restart finds in it, also with another database."""

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa
from arena_setting import STATION, Setting, query, run

from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.episode import Slot
from arena_robot.server.base import PolicyTarget
from arena_robot.server.relay.record import DROP_NS, IDLE_NS, RelayRecord
from arena_robot.server.relay.upstreams import IDLE_S, OpenUpstreams
from arena_robot.server.store import relayed
from arena_robot.server.store.schema import relay_notes
from arena_robot.session.arena.contract import PROMPT


@pytest.fixture
def lite(tmp_path, pool):
    made = Setting(tmp_path / 'server', '', pool)
    yield made
    made.close()


def line(session_id: str, step: int) -> bytes:
    return json.dumps({'what': 'answered', 'step': step, 'took_s': 0.1, 'actions': 8,
                       'proof': [], 'session': session_id, 'slot': 'A', 'now_ns': 10 + step,
                       'n': step // 8 + 1}).encode() + b'\n'


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


class Killed(BaseException):
    pass


@pytest.mark.parametrize('more', [0, 1])
def test_a_note_counts_once_after_a_kill_between_commit_and_truncation(
        lite, tmp_path, monkeypatch, more):
    """The kill leaves the journal as it was; what was noted after the commit is still new."""
    session_id = lite.arena().assign(STATION, 'ada', PROMPT).session_id
    journal, key = tmp_path / 'relayed.jsonl', (session_id, Slot.A.value)
    record = record_of(lite, journal)
    record.open()
    for step in (0, 8, 0, 8):    # begun again once
        record.answered(key, step, 0.1, 8)

    def killed():
        raise Killed

    monkeypatch.setattr(record, '_set_aside', killed)
    with pytest.raises(Killed):
        record.flush()
    for _ in range(more):
        record.answered(key, 16, 0.1, 8)
    assert len(journal.read_bytes().splitlines()) == 5 + more, 'nothing was truncated'
    for _ in range(2):
        again = record_of(lite, journal)
        again.open()
        with lite.server.database.read() as connection:
            rollout = relayed.of_session(connection, session_id)[Slot.A.value]
        assert (rollout.queries, rollout.actions, rollout.begun) == (2 + more, 8 * (2 + more), 2)
        assert [query.step for query in rollout.inferences()] == [0, 8, 16][:2 + more]
        again.close()
    assert journal.read_bytes() == b''


def test_a_journal_goes_on_after_a_kill_in_the_middle(lite, tmp_path):
    session_id = lite.arena().assign(STATION, 'ada', PROMPT).session_id
    journal, key = tmp_path / 'relayed.jsonl', (session_id, Slot.A.value)
    record = record_of(lite, journal)
    record.open()
    record.answered(('elsewhere', 'B'), 0, 0.1, 8)    # keeps the journal from being emptied
    for step in (0, 8):
        record.answered(key, step, 0.1, 8)
        record.flush(session_id)
    assert seen(lite, session_id) == 2
    again = record_of(lite, journal)
    again.open()
    again.answered(key, 16, 0.1, 8)
    again.close()
    assert seen(lite, session_id) == 3


def test_nothing_is_held_in_memory_of_sessions_that_are_over(lite, tmp_path):
    arena = lite.arena()
    for session_id in [run(arena, tmp_path / 'station') for _ in range(2)]:
        arena.reveal(session_id)
    assert not arena._policies, 'a station keeps the connections of sessions that are over'
    pair = arena.assign(STATION, 'ada', PROMPT)
    query(arena, pair.session_id, Slot.A)
    assert lite.server.record.held() == 1
    arena.abort(pair.session_id, 'the cable broke')
    assert not arena._policies
    assert lite.server.record.held() == 0
    assert seen(lite, pair.session_id) == 2


def test_ways_to_policies_that_nobody_uses_are_closed():
    class Way:
        closed = False

        async def close(self):
            self.closed = True

    async def use():
        ways = [await upstreams.find(target) for target in (gone, used)]
        now_s[0] = 0.6 * IDLE_S
        assert await upstreams.find(used) is ways[1]
        now_s[0] = 1.2 * IDLE_S
        await upstreams.find(PolicyTarget('grpc://new:1'))
        assert [way.closed for way in ways] == [True, False]
        assert await upstreams.find(gone) is not ways[0]
        await upstreams.close()
        assert ways[1].closed

    now_s, gone, used = [0.0], PolicyTarget('grpc://gone:1'), PolicyTarget('grpc://used:1')
    upstreams = OpenUpstreams(lambda target: Way(), lambda: now_s[0])
    asyncio.run(use())


def test_a_session_that_fell_silent_is_held_for_a_day(lite, tmp_path):
    clock = ManualClock(1_790_000_000 * 10**9)
    session_id = lite.arena().assign(STATION, 'ada', PROMPT).session_id
    record = RelayRecord(lite.server.database, clock, tmp_path / 'relayed.jsonl')
    record.open()
    record.answered((session_id, Slot.A.value), 0, 0.1, 8)
    clock.advance_ns(IDLE_NS // 2)
    record.answered((session_id, Slot.B.value), 0, 0.1, 8)
    record.flush()
    assert record.held() == 2
    clock.advance_ns(IDLE_NS // 2 + 1)
    record.flush()
    assert record.held() == 1
    record.answered((session_id, Slot.A.value), 8, 0.1, 8)
    record.close()
    assert seen(lite, session_id) == 2


def test_journals_that_were_emptied_long_ago_are_forgotten(lite, tmp_path):
    clock, session_id = ManualClock(10**18), lite.arena().assign(STATION, 'ada', PROMPT).session_id
    database, names = lite.server.database, []
    record = RelayRecord(database, clock, tmp_path / 'relayed.jsonl')
    record.open()
    for after_ns in (0, relayed.KEPT_NS - 1, DROP_NS):
        clock.advance_ns(after_ns)
        record.answered((session_id, 'A'), 0, 0.1, 8)
        record.flush()
        with database.read() as connection:
            names.append(set(connection.execute(sa.select(
                relay_notes.c.journal).where(relay_notes.c.written_ns >= 10**18)).scalars()))
    record.close()
    assert [len(journals) for journals in names] == [1, 2, 2], 'the first is older than is kept'
    assert not names[0] & names[2]


@pytest.mark.parametrize('before', [(0, 8), (0, 8, 0, 8)])
def test_notes_that_are_replayed_late_never_set_the_last_step_back(lite, tmp_path, before):
    """A server is killed with notes that it has not written; the rollout goes on at another."""
    session_id = lite.arena().assign(STATION, 'ada', PROMPT).session_id
    key = session_id, Slot.A.value
    clock = ManualClock(1_000_000_000)
    killed, running = (RelayRecord(lite.server.database, clock, tmp_path / f'{name}.jsonl')
                     for name in ('killed', 'other'))
    killed.open()
    running.open()
    for record, steps in ((killed, before), (running, (16, 24))):
        for step in steps:
            clock.advance_ns(500_000_000)
            record.answered(key, step, 0.1, 8)
    running.failed(key, 32, 'it did not answer')
    running.flush()
    late = RelayRecord(lite.server.database, clock, tmp_path / 'killed.jsonl')
    late.open()
    with lite.server.database.read() as connection:
        rollout = relayed.of_session(connection, session_id)[Slot.A.value]
    assert (rollout.last_step, rollout.queries, rollout.failure) == (24, 4, 'it did not answer')
    assert [query.step for query in rollout.inferences()] == [0, 8, 16, 24]
    assert rollout.begun == len(before) // 2
    assert rollout.seconds == pytest.approx(1.5)
    for record in (late, running):
        record.close()
