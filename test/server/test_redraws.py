"""What bounds and repeats draws; what is asked for and kept with them."""

import csv
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from arena_setting import STATION, Setting, episode, query, recorded, roll, run

from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError
from arena_robot.records.session_file import read_session
from arena_robot.server.base import PolicyState
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.results.exports import export_tables, materialise
from arena_robot.server.sessions.acceptance import CORRECTIONS
from arena_robot.server.store import redraws
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.ledger import MINT, Transfer
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.schema import sessions as table
from arena_robot.server.store.sealed_pairs import pair_of, pair_text
from arena_robot.session.arena.contract import PROMPT, VERDICT


def test_pairs_of_retired_policies_do_not_crowd_out_others(setting):
    arena, database = setting.arena(), setting.server.database
    first = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.abort(first, 'not this one')
    gone = setting.server.policies.add(NewPolicy('gone', 'grpc://127.0.0.1:9'),
                                       setting.owner.id, PolicyState.RETIRED).id
    with database.write() as connection:
        row = dict(connection.execute(sa.select(table).where(
            table.c.id == first)).mappings().one())
        pair = pair_of(SimpleNamespace(**row))
        for k in range(100):
            connection.execute(sa.insert(table).values(row | {
                'id': f'old-{k}', 'request': f'old-{k}', 'token_a': f'a{k}', 'token_b': f'b{k}',
                'created_ns': k, 'sealed_pair': pair_text((gone, pair[1]))}))
    with database.write() as connection:
        assert [session_id for session_id, *_ in redraws.pairs_to_repeat(
            connection, row['evaluator_id'])] == [first]


def test_a_verdict_without_rollouts_is_a_draw_given_up(tmp_path, pool):
    """Draws until a pair suits: six a day, each for a credit, and always the same pair."""
    setting = Setting(tmp_path, '', pool, redraws_per_day=6)
    try:
        arena, server = setting.arena(), setting.server
        server.ledger.transfer(Transfer('gift', MINT, 'account:ada', 10, 'for this test'))
        pairs = []
        for _ in range(6):
            session_id = arena.assign(STATION, 'ada', PROMPT).session_id
            session = server.sessions.get(session_id)
            pairs.append((session.policy_a_id, session.policy_b_id))
            arena.feedback(session_id, VERDICT)
        with pytest.raises(Conflict, match='6 sessions of ada were aborted, invalid, or judged'):
            arena.assign(STATION, 'ada', PROMPT)
        assert len(set(pairs)) == 1
        assert server.ledger.balance('account:ada') == 4
        server.ledger.check()
    finally:
        setting.close()


def test_files_that_do_not_arrive_in_time_are_a_draw_given_up_until_they_do(
        setting, folder, monkeypatch):
    arena, server = setting.arena(), setting.server
    server.ledger.transfer(Transfer('gift', MINT, 'account:ada', 10, 'for this test'))
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        query(arena, session_id, slot)
    arena.feedback(session_id, VERDICT)
    evaluator = server.sessions.get(session_id).evaluator_id

    def given_up():
        with server.database.write() as connection:
            return (redraws.count_since(connection, evaluator, 0),
                    [session for session, *_ in redraws.pairs_to_repeat(connection, evaluator)],
                    redraws.count_waiting(connection, evaluator),
                    server.ledger.balance('account:ada'))
    assert given_up() == (0, [], 1, 10), 'the station may be sending them'
    monkeypatch.setattr('arena_robot.server.sessions.matching.WAITING_SESSIONS', 1)
    with pytest.raises(Conflict, match='1 judged sessions of ada wait for their files'):
        arena.assign(STATION, 'ada', PROMPT)
    later = ManualClock(SystemClock().now_ns() + 2 * 3600 * 10**9)
    monkeypatch.setattr(server.acceptance, '_clock', later)
    server.acceptance.consider_all()
    server.acceptance.consider_all()
    assert given_up() == (1, [session_id], 0, 9)
    for slot in Slot:
        arena.upload(session_id, episode(session_id, slot), recorded(
            folder / slot.value, session_id, slot))
    assert arena.standing(session_id) == (True, '')
    assert given_up() == (0, [], 0, 11), 'the credit came back, and the session earned one'
    server.ledger.check()


def test_corrections_are_few_and_short(setting, folder):
    arena = setting.arena()
    session_id = run(arena, folder)
    setting.arenas.append(calls := setting.calls('ada'))

    def correct(text, who=calls, withdraw=False):
        who('Correct', pb.CorrectionRequest(session_id=session_id, text=text, withdraw=withdraw))
    with pytest.raises(DataError, match='1 to 500 characters'):
        correct('x' * 501)
    for _ in range(CORRECTIONS):
        correct('x' * 500)
    with pytest.raises(Conflict, match='takes no more'):
        correct('one more')
    maintainer = setting.calls('maintainer')
    correct('wrong robot', maintainer, withdraw=True)
    with pytest.raises(Conflict, match='takes no more'):
        correct('wrong robot', maintainer, withdraw=True)
    assert setting.server.log.size() == 1 + CORRECTIONS + 1


def test_a_person_and_a_station_run_as_many_sessions_as_a_day_has_room_for(tmp_path, pool):
    folder = tmp_path / 'station'
    for most, words in (({'evaluator_sessions_per_day': 2}, 'evaluator ada began 2 sessions'),
                        ({'station_sessions_per_day': 2}, 'station bench began 2 sessions')):
        setting = Setting(tmp_path / words[:4], '', pool, **most)
        try:
            arena = setting.arena()
            arena.abort(arena.assign(STATION, 'ada', PROMPT).session_id, 'does not count')
            run(arena, folder)
            arena.assign(STATION, 'ada', PROMPT)
            with pytest.raises(Conflict, match=words):
                arena.assign(STATION, 'ada', PROMPT)
        finally:
            setting.close()


def test_camera_and_code_of_a_session_are_kept_and_exported(tmp_path, pool):
    setting = Setting(tmp_path / 'server', '', pool, photo_code_share=1.0)
    try:
        arena, server = setting.arena(), setting.server
        pair = arena.assign(STATION, 'ada', PROMPT, 'right')
        assert len(pair.photo_code) == 4
        for slot in Slot:
            roll(arena, pair.session_id, slot, tmp_path)
        arena.feedback(pair.session_id, VERDICT)
        with pytest.raises(DataError, match="an outside camera is left or right, found 'top'"):
            arena.assign(STATION, 'ada', PROMPT, 'top')
        place, = materialise(Browse(server.database), server.uploads, server.blobs,
                             tmp_path / 'out')
        kept = read_session(place)
        assert (kept.third_person, kept.photo_code) == ('right', pair.photo_code)
        _, episodes = export_tables(server.database, tmp_path / 'tables')
        with episodes.open() as table_file:
            assert {row['camera'] for row in csv.DictReader(table_file)} == {'right'}
    finally:
        setting.close()
