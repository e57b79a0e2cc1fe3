"""Secrets at rest: sealed or digested in the database, opened only with the key file."""

import json
import logging
import stat

import pytest
import sqlalchemy as sa
from arena_setting import STATION, Setting, roll, run

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ConfigError, Conflict, DataError, PolicyError
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.server.base import PolicyTarget
from arena_robot.server.config import Credits
from arena_robot.server.pool.policy_pool import probe
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.sealing import is_sealed, random_seal, seal_of
from arena_robot.server.store.ledger import MINT, Transfer
from arena_robot.server.store.schema import metadata, policies
from arena_robot.session.arena.contract import INVALID, PROMPT, VERDICT, observation

TOKEN = 'a-token-of-a-policy'
NUMBERS = (1_987_654_321, 1_987_654_322)


@pytest.fixture
def guarded_pool():
    options = ServeOptions(token=TOKEN)
    with GrpcPolicyServer(Echo(), options) as first, OpenpiPolicyServer(Echo(), options) as second:
        yield {'crimson-7b': first.address, 'azure-fast': second.address}


@pytest.fixture
def guarded(tmp_path, guarded_pool):
    made = Setting(tmp_path / 'server', '', guarded_pool)
    for name in guarded_pool:
        made.server.policies.update(name, token=TOKEN)
    yield made
    made.close()


def bytes_of(folder):
    return b''.join(path.read_bytes() for path in folder.glob('arena.db*'))


def test_no_secret_of_an_open_session_is_in_the_database(guarded, tmp_path):
    arena = guarded.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    tokens = arena._tokens.find(session_id)
    nonce = guarded.server.sessions.get(session_id).nonce
    assert len(nonce) == 64
    stored = bytes_of(tmp_path / 'server')
    assert session_id.encode() in stored
    for secret in (*tokens.values(), nonce, TOKEN):
        assert secret.encode() not in stored


@pytest.fixture
def findable(database_url, tmp_path, guarded_pool):
    """Return a server whose policies have numbers and owners that a search finds."""
    made = Setting(tmp_path / 'server', database_url, guarded_pool, credits=Credits(weekly_base=0))
    made.server.ledger.transfer(Transfer('gift', MINT, 'account:olga', 9, 'gift'))
    for number, name in zip(NUMBERS, guarded_pool, strict=True):
        made.server.policies.update(name, token=TOKEN)
        with made.server.database.write() as connection:
            connection.execute(sa.update(policies).where(policies.c.name == name).values(
                id=number))
    yield made
    made.close()


def rows_of(server):
    """Return every row as text, by table, without the times of probes: they come by themselves."""
    with server.database.own_connection() as connection:
        return {name: sorted(str(tuple(row)) for row in connection.execute(
            sa.text(f'SELECT {columns_of(table)} FROM {name}')))
            for name, table in metadata.tables.items()}


def columns_of(table):
    return ', '.join(f'"{column.name}"' for column in table.c if column.name != 'checked_ns')


def test_a_dump_tells_no_pair_before_it_is_public(findable, tmp_path):
    server, before = findable.server, rows_of(findable.server)
    arena = findable.arena()
    for end in ('abort', 'invalid', 'open'):
        session_id = arena.assign(STATION, 'ada', f'{PROMPT} {end}').session_id
        for slot in Slot:
            roll(arena, session_id, slot, tmp_path / 'station')
        server.record.flush()
        if end == 'abort':
            arena.abort(session_id, 'a rope')
        elif end == 'invalid':
            arena.feedback(session_id, INVALID)
    now = rows_of(server)
    for table in ('policies', 'accounts', 'balances', 'entries'):
        assert [row for row in now.pop(table) if 'ada' not in row] \
            == [row for row in before[table] if 'ada' not in row], table
    text = json.dumps(now)
    assert 12 * 'A' not in text, 'actions are in the database'
    assert text.count(session_id) >= 5
    for secret in (*map(str, NUMBERS), 'crimson-7b', 'azure-fast', 'olga'):
        assert secret not in text, f'{secret} is in the database'
    arena.feedback(session_id, VERDICT)
    rows = [row for row in rows_of(server)['sessions'] if str(NUMBERS[0]) in row]
    assert len(rows) == 1
    assert session_id in rows[0], 'the session that counts is public'
    names = {server.policies.by_id(number).name for number in NUMBERS}
    reveal = arena.reveal(session_id)
    assert {reveal.policy_a, reveal.policy_b} == names


def test_the_nonce_of_a_session_that_counts_is_public(guarded, tmp_path):
    arena = guarded.arena()
    session_id = run(arena, tmp_path / 'station')
    reveal = arena.reveal(session_id)
    with guarded.server.database.read() as connection:
        row = connection.execute(sa.text('SELECT nonce, sealed_nonce FROM sessions')).one()
    assert tuple(row) == (reveal.nonce, '')


def test_the_relay_shows_each_policy_its_token(guarded, guarded_pool, caplog):
    caplog.set_level(logging.DEBUG)
    arena = guarded.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        assert len(arena.policy(session_id, slot).infer(observation(), 'a').actions)
    for name, address in guarded_pool.items():
        assert probe(PolicyTarget(address, TOKEN)) == '', name
        assert 'refused' in probe(PolicyTarget(address, 'wrong'))
        assert 'refused' in probe(PolicyTarget(address))
    shown = [repr(policy) for policy in guarded.server.policies.list()]
    assert TOKEN not in caplog.text + ''.join(shown) + repr(PolicyTarget('a', TOKEN))
    assert all(policy.has_token for policy in guarded.server.policies.list())


def test_an_owner_changes_the_token_and_never_reads_it(guarded, guarded_pool):
    calls, changed = guarded.calls('owner'), []
    for name, address in guarded_pool.items():
        changed.append(calls('UpdatePolicy', pb.Policy(
            name=name, address=address, external_cameras=1, wrist_camera=True, token='another',
            action_space='joint_position')))
    assert all(policy.has_token and not policy.token for policy in changed)
    arena = guarded.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        with pytest.raises(PolicyError):
            arena.policy(session_id, slot).infer(observation(), 'a')
    listed = calls('ListPolicies', pb.Empty()).policies
    assert all(policy.has_token and not policy.token for policy in listed)
    same = pb.Policy(name=name, address=address, external_cameras=1, wrist_camera=True,
                     action_space='joint_position')
    assert calls('UpdatePolicy', same).has_token
    same.token = ''
    assert not calls('UpdatePolicy', same).has_token
    same.token = 'two words'
    with pytest.raises(DataError, match='token'):
        calls('UpdatePolicy', same)


@pytest.mark.parametrize('serve', [GrpcPolicyServer, OpenpiPolicyServer])
def test_a_token_is_exchanged_without_a_break(serve):
    with serve(Echo(), ServeOptions(token='new', old_tokens=('old',))) as server:
        assert [probe(PolicyTarget(server.address, token)) for token in ('new', 'old')] == ['', '']
        assert 'refused' in probe(PolicyTarget(server.address, 'older'))


def test_a_repeated_assignment_has_the_same_tokens(guarded):
    request = pb.AssignRequest(request='r' * 32, evaluator='ada', prompt=PROMPT,
                               evaluator_token=guarded.tokens['ada'])
    calls = guarded.calls('station')
    first, second = (calls('Assign', request) for _ in range(2))
    assert (first.token_a, first.token_b) == (second.token_a, second.token_b)
    assert first.token_a != first.token_b
    guarded.server.matching._seal = random_seal()
    with pytest.raises(Conflict, match='another key'):
        calls('Assign', request)


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / 'keys' / 'secrets.key'
    seal = seal_of(path)
    sealed = seal.seal('text', 'a')
    assert is_sealed(sealed)
    assert 'text' not in sealed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert seal_of(path).open(sealed, 'a') == 'text'
    with pytest.raises(ConfigError):
        seal.open(sealed, 'b')
    old = path.read_text()
    path.write_text('ab' * 32 + '\n' + old)
    both = seal_of(path)
    assert both.open(sealed, 'a') == 'text'
    assert both.seal('text', 'a').split(':')[1] != sealed.split(':')[1]
    path.write_text('ab' * 32)
    with pytest.raises(ConfigError, match='restore the key file'):
        seal_of(path).open(sealed, 'a')
    path.write_text('no key')
    with pytest.raises(ConfigError, match='not a key file'):
        seal_of(path).load()
