"""Callers that lean on the server: wrong tokens, odd names and addresses, hanging policies."""

import contextlib
import ipaddress
import socket
import stat
import threading
import time

import pytest
from arena_setting import STATION, Setting

from arena_robot.core.clock import ManualClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError, PolicyError, Unauthorised
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi import wire
from arena_robot.records.roboarena import RoboArenaSession
from arena_robot.records.roboarena_files import read_folder, write_tables
from arena_robot.server.base import Role, Station, TooManyCalls
from arena_robot.server.config import ServerLimits
from arena_robot.server.pool.policy_pool import addresses
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.accounts import rescue_token
from arena_robot.session.arena.contract import PROMPT, observation


@pytest.fixture
def lite(tmp_path, pool):
    made = Setting(tmp_path / 'server', '', pool)
    yield made
    made.close()


def test_wrong_tokens_are_limited_by_address_and_right_ones_are_not(lite):
    good = lite.calls('owner')
    good('ListPolicies', pb.Empty())
    wrong = 0
    for k in range(60):
        try:
            lite.calls(f'arena_guess_{k}').once('ListPolicies', pb.Empty())
        except Unauthorised:
            wrong += 1
        except TooManyCalls:
            pass
    assert 20 <= wrong < 30
    assert len([line for line in lite.server.audit.lines(200) if line.actor == 'unknown']) == wrong
    for _ in range(5):
        good.once('ListPolicies', pb.Empty())


def test_a_valid_token_that_was_never_seen_is_taken_beside_wrong_ones(lite):
    """As after a restart, with a station behind the same address whose token was revoked."""
    for k in range(40):
        with contextlib.suppress(Unauthorised, TooManyCalls):
            lite.calls(f'arena_guess_{k}').once('ListPolicies', pb.Empty())
    with pytest.raises(TooManyCalls):
        lite.calls('arena_guess').once('ListPolicies', pb.Empty())
    lite.calls('owner').once('ListPolicies', pb.Empty())


def test_many_unknown_tokens_of_one_address_are_refused_without_a_look(tmp_path):
    made = Setting(tmp_path / 'server', '', {}, limits=ServerLimits(
        burst=8, unknown_tokens_per_s=1e-9))
    try:
        good = made.calls('owner')
        good('ListPolicies', pb.Empty())
        refused = []
        for k in range(12):
            with pytest.raises((Unauthorised, TooManyCalls)) as refusal:
                made.calls(f'arena_guess_{k}').once('ListPolicies', pb.Empty())
            refused.append(refusal.type)
        assert refused == [Unauthorised] * 7 + [TooManyCalls] * 5    # the owner's was the first
        assert made.server.counters.count('refused', 'wrong_token') == 7
        assert made.server.counters.count('refused', 'unknown_token') == 5
        good('ListPolicies', pb.Empty())
    finally:
        made.close()


@pytest.mark.parametrize('lifetime_s', [float('nan'), float('inf'), -1.0, 1e30])
def test_a_rotation_that_cannot_be_revokes_nothing(lite, lifetime_s):
    with pytest.raises(DataError, match='is valid for'):
        lite.calls('maintainer')('RotateToken', pb.HolderRequest(
            name='olga', lifetime_s=lifetime_s))
    lite.calls('owner')('ListPolicies', pb.Empty())


def test_the_only_maintainer_is_not_locked_out(lite):
    calls = lite.calls('maintainer')
    with pytest.raises(Conflict, match='only maintainer'):
        calls('RevokeTokens', pb.HolderRequest(name='maya'))
    fresh = calls('RotateToken', pb.HolderRequest(name='maya')).token
    with pytest.raises(Unauthorised, match='revoked'):
        calls('ListPolicies', pb.Empty())
    lite.calls(fresh)('ListPolicies', pb.Empty())


def test_tokens_expire_by_default(lite):
    token = lite.server.accounts.issue(lite.owner)
    lite.server.accounts._clock = ManualClock(time.time_ns() + 366 * 86400 * 10**9)
    with pytest.raises(Unauthorised, match='expired'):
        lite.server.accounts.caller(token)


def test_a_person_at_the_servers_machine_gets_a_token(lite):
    for name in ('maya', 'a new one'):
        token = rescue_token(lite.server.database, ManualClock(time.time_ns()), name)
        assert Role.MAINTAINER in lite.server.accounts.caller(token).roles
    with pytest.raises(Conflict, match='not a maintainer'):
        rescue_token(lite.server.database, ManualClock(1), 'ada')
    assert 'rescue' in {line.call for line in lite.server.audit.lines()}


@pytest.mark.parametrize('ip', [
    '::ffff:10.0.0.1', '::ffff:127.0.0.1', '::10.0.0.1', '::127.0.0.1', '64:ff9b::10.0.0.1',
    '64:ff9b::a9fe:a9fe', '64:ff9b:1::10.0.0.1', '2002:a00:1::', '2002:7f00:1::1', '224.0.0.1',
    'ff02::1', 'ff0e::1', '0.0.0.0', '::', '::1', 'fe80::1', 'fc00::1', '100.64.0.1',
    '169.254.169.254', '255.255.255.255', '240.0.0.1', '198.18.0.1', 'fec0::1',
    '::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8', '192.88.99.1', '2002:c058:6301::1', '192.0.0.9',
    '2001:0:a00:1::', '2001::1', '2001:20::1', '2001:db8::1', '3fff::1', '100::1', '5f00::1',
    '4000::1', '64:ff9b:1:808:8:800::', '::8.8.8.8', '2620:4f:8000::1'])
def test_addresses_that_lead_inside_are_not_public(ip):
    assert not addresses.is_public(ipaddress.ip_address(ip))


@pytest.mark.parametrize('ip', [
    '8.8.8.8', '2606:4700::1111', '64:ff9b::8.8.8.8', '::ffff:8.8.8.8', '2002:808:808::1',
    '192.0.78.9', '2001:4860:4860::8888'])
def test_public_addresses_are(ip):
    assert addresses.is_public(ipaddress.ip_address(ip))


def test_only_the_address_that_was_checked_is_connected_to(lite, monkeypatch):
    """The name leads to the policy when it is checked, and nowhere at any later look-up."""
    real, looked = socket.getaddrinfo, []

    def once(host, *args, **options):
        if host != 'policy.example':
            return real(host, *args, **options)
        looked.append(host)
        return real('127.0.0.1', *args, **options)
    monkeypatch.setattr('arena_robot.server.pool.addresses.socket.getaddrinfo', once)
    with GrpcPolicyServer(Echo()) as server:
        port = server.address.rpartition(':')[2]
        for name in ('crimson-7b', 'azure-fast', 'viridian'):
            lite.server.policies.update(name, address=f'grpc://policy.example:{port}')
        arena = lite.arena()
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        assert len(arena.policy(session_id, Slot.A).infer(observation(), 'a').actions)
        assert looked
    monkeypatch.setattr('arena_robot.server.pool.addresses.socket.getaddrinfo',
                        lambda host, *a, **k: real('10.9.8.7', *a, **k))
    arena = lite.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    with pytest.raises(PolicyError) as error:
        arena.policy(session_id, Slot.A).infer(observation(), 'a')
    assert '10.9.8.7' not in str(error.value)


def test_hanging_policies_do_not_hold_up_people(tmp_path):
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(('127.0.0.1', 0)))
                     for _ in range(40)]
        setting = Setting(tmp_path / 'server', '', {
            f'silent-{k}': f'openpi://127.0.0.1:{sock.getsockname()[1]}'
            for k, sock in enumerate(listeners)})
        stack.callback(setting.close)
        for name in ('bench', 'left', 'right'):
            if name != 'bench':
                station = setting.server.accounts.add_station(Station(0, name, 'nyu', 'fr3'))
                setting.tokens['station'] = setting.server.accounts.issue(station)
            for _ in range(8):
                arena = setting.arena()
                session_id = arena.assign(STATION, 'ada', PROMPT).session_id
                for slot in Slot:
                    threading.Thread(target=hang, args=(arena, session_id, slot),
                                     daemon=True).start()
        people = setting.calls('maintainer')
        for _ in range(10):
            begin = time.monotonic()
            people('ListPolicies', pb.Empty())
            assert time.monotonic() - begin < 4.0


def hang(arena, session_id, slot):
    try:
        arena.policy(session_id, slot).infer(observation(), 'a')
    except Exception:
        return


def test_everything_at_rest_is_the_servers_alone(lite, tmp_path):
    assert stat.S_IMODE((tmp_path / 'server').stat().st_mode) == 0o700
    files = list((tmp_path / 'server').glob('arena.db*'))
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_sql_errors_show_no_values(lite):
    import sqlalchemy as sa

    from arena_robot.server.store.schema import accounts
    with pytest.raises(sa.exc.IntegrityError) as error, \
            lite.server.database.write() as connection:
        connection.execute(sa.insert(accounts).values(
            name='ada', institution='a secret', roles='owner', created_ns=0))
    assert 'a secret' not in str(error.value)


def test_one_name_is_one_policy(lite):
    new = pb.Policy(name=' crimson-7b', address='grpc://127.0.0.1:9000', external_cameras=1)
    with pytest.raises(Conflict, match='exists'):
        lite.calls('owner')('RegisterPolicy', new)


def test_long_dtype_strings_cost_nothing():
    begin = time.process_time()
    for name in (b'(1,)' * 300_000 + b'f4', b'f4,' * 400_000):
        data = wire.msgpack.packb({b'__ndarray__': True, b'data': b'', b'dtype': name,
                                    b'shape': [0]})
        with pytest.raises(DataError, match='dtype'):
            wire.unpack(data)
    assert time.process_time() - begin < 1.0


@pytest.mark.parametrize('text', ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', "'=kept", 'plain',
                                  "it's"])
def test_exported_tables_hold_no_formulas_and_come_back_as_they_were(tmp_path, text):
    session = RoboArenaSession('s1', 'a', 'b', True, None, 'lab', text, '', '', text)
    paths = write_tables(tmp_path, [session])
    cells = paths[0].read_text().split(',')
    assert not any(cell.strip('"').startswith(('=', '+', '@', '\t')) for cell in cells)
    read = read_folder(tmp_path).sessions[0]
    assert (read.evaluator, read.explanation) == (text.strip(), text)
