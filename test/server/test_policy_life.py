"""Sessions that end badly, and what becomes of the policies in them."""

import time

import pytest
from arena_setting import STATION, episode

from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import (
    Conflict,
    DataError,
)
from arena_robot.server.base import PolicyState, Station
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import PROMPT, VERDICT


def test_silent_sessions_are_cancelled_and_their_episodes_kept(setting, folder):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.upload(session_id, episode(session_id, Slot.A), folder)
    assert setting.server.verdicts.cancel_overdue(1800.0) == []
    time.sleep(0.05)
    assert setting.server.verdicts.cancel_overdue(0.04) == [session_id]
    with pytest.raises(Conflict, match='cancelled'):
        arena.heartbeat(session_id, 'late')
    assert len(setting.server.uploads.list(session_id)) == 2


def test_a_policy_that_fails_again_and_again_is_suspended_with_the_reason(setting, folder):
    arena, policies = setting.arena(), setting.server.policies
    suspended = []
    while not suspended:
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        for slot in Slot:
            arena.upload(session_id, episode(session_id, slot, EndReason.POLICY_ERROR), folder)
        arena.abort(session_id, 'policy error')
        suspended = policies.list(PolicyState.SUSPENDED)
    assert '3 failures in a row; the last: policy_error' in suspended[0].reason
    seen = setting.calls('owner')('ListPolicies', pb.Empty()).policies
    assert any('3 failures' in p.reason for p in seen)


def test_probation_ends_after_clean_sessions_on_different_tasks(setting, folder, pool):
    server = setting.server
    new = server.policies.add(NewPolicy('newcomer', pool['azure-fast']), setting.owner.id)
    server.pool.review()
    assert server.policies.get('newcomer').state is PolicyState.PROBATION
    driver = server.accounts.add_station(Station(0, 'driver', 'nyu', 'fr3', test_driver=True))
    setting.tokens['station'] = server.accounts.issue(driver)
    arena, prompts = setting.arena(), iter(f'task {k // 2}' for k in range(100))
    while server.policies.get('newcomer').state is PolicyState.PROBATION:
        pair = arena.assign(STATION, 'ada', next(prompts))
        for slot in Slot:
            arena.upload(pair.session_id, episode(pair.session_id, slot), folder)
        arena.feedback(pair.session_id, VERDICT)
    assert server.policies.get('newcomer').state is PolicyState.POOL
    from sqlalchemy import select

    from arena_robot.server.store.schema import sessions as table
    with server.database.read() as connection:
        mine = connection.execute(select(table.c.prompt).where(
            (table.c.policy_a_id == new.id) | (table.c.policy_b_id == new.id))).scalars().all()
    assert len(set(mine)) >= 3
    assert all(new.name not in (c.a, c.b) for c in server.results.comparisons()), \
        'sessions on probation do not count in the ranking'


def test_ordinary_stations_never_get_policies_on_probation(setting, pool):
    setting.server.policies.add(NewPolicy('newcomer', pool['viridian']), setting.owner.id)
    setting.server.pool.review()
    number = setting.server.policies.get('newcomer').id
    arena = setting.arena()
    for _ in range(20):
        pair = arena.assign(STATION, 'ada', PROMPT)
        record = setting.server.sessions.get(pair.session_id)
        assert number not in (record.policy_a_id, record.policy_b_id)
        arena.abort(pair.session_id, 'only looking')


@pytest.mark.parametrize(('address', 'words'), [
    ('grpc://127.0.0.1:{port}', 'this server itself'),
    ('grpc://10.0.0.1:80', 'not public'),
    ('http://gpu.example.org:80', 'a policy address is'),
    ('grpc://no-such-host.invalid:80', 'cannot find the host'),
])
def test_addresses_that_the_server_will_not_call(setting, address, words):
    setting.server.pool._own = (('127.0.0.1', setting.server.port),)
    with pytest.raises(DataError, match=words):
        setting.calls('owner')('RegisterPolicy', pb.Policy(
            name='x', address=address.format(port=setting.server.port)))


def test_a_dead_policy_is_not_assigned(setting, tmp_path):
    setting.server.pool._probe = lambda address: 'nobody answers'
    setting.server.pool.probe()
    from arena_robot.server.base import NoPair
    with pytest.raises(NoPair, match='fewer than two'):
        setting.arena().assign(STATION, 'ada', PROMPT)


