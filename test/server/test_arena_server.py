"""The whole server over real sockets: policies on both protocols, the relay, one station."""

import threading

import numpy as np
import pytest
from arena_setting import NAMES, STATION, VERDICT, NotingArena, Setting, episode, recorded, run

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import (
    Conflict,
    DataError,
    PolicyError,
    ServerUnavailable,
    Unauthorised,
)
from arena_robot.core.verdict import Verdict
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.server.base import Station
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.files import FileId
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.database import MIGRATIONS
from arena_robot.session.arena.contract import PROMPT, ArenaContract, observation


class TestRemoteArena(ArenaContract):
    @pytest.fixture(autouse=True)
    def _set_up(self, setting, folder):
        self.setting = setting
        self._folder = folder

    def arena(self):
        return self.setting.arena()

    def folder(self, slot, session_id=''):
        return recorded(self._folder / session_id / slot.value, session_id, slot)

    def names(self):
        return NAMES


def test_a_session_is_kept_whole(setting, folder):
    arena = setting.arena()
    session_id = run(arena, folder)
    record = setting.server.sessions.get(session_id)
    assert record.verdict == VERDICT
    assert record.verdict.progress_a == 0.75
    assert record.rollouts == 2
    files = setting.server.uploads.list(session_id)
    assert [(f.file.slot, f.file.path, f.complete) for f in files] == [
        (slot, name, True) for slot in 'AB' for name in ('A_0.mcap', 'episode.json',
                                                         'metadata.yaml')]
    kept = b''.join(setting.server.blobs.read(f'{session_id}/A/A_0.mcap'))
    assert kept == (folder / session_id / 'A' / 'A_0.mcap').read_bytes()
    verdict, = setting.server.results.comparisons()
    assert {verdict.a, verdict.b} < set(NAMES)
    newest = max(path.name[:4] for path in (MIGRATIONS / 'versions').glob('0*.py'))
    assert setting.server.database.version() == newest


def test_a_session_comes_out_of_the_server_as_a_station_keeps_it(setting, folder, tmp_path):
    from arena_robot.records.session_file import read_session
    from arena_robot.server.results.exports import materialise
    from arena_robot.server.store.browse import Browse
    session_id = run(setting.arena(), folder)
    server = setting.server
    browse = Browse(server.database)
    written, = materialise(browse, server.uploads, server.blobs, tmp_path / 'out')
    assert written.name == session_id
    for slot in 'AB':
        assert (written / slot / 'A_0.mcap').read_bytes() == (
            folder / session_id / slot / 'A_0.mcap').read_bytes()
    verdict = read_session(written).comparison()
    assert (verdict.preference.value, verdict.progress_a) == ('A', 0.75)
    assert {verdict.a, verdict.b} < set(NAMES)
    assert list(materialise(browse, server.uploads, server.blobs, tmp_path / 'out')) == []


def test_a_valid_session_earns_and_costs_a_credit(setting, folder):
    from arena_robot.server.store.ledger import MINT, SPENT, Ledger, Transfer
    ledger = Ledger(setting.server.database, SystemClock())
    ledger.transfer(Transfer('start', MINT, 'account:olga', 3, 'start'))
    run(setting.arena(), folder)
    assert ledger.balances()['account:ada'] == 1
    before = ledger.balance('account:olga')
    assert ledger.balance(SPENT) == 2
    session_id = setting.arena().assign(STATION, 'ada', PROMPT).session_id
    setting.arena().abort(session_id, 'the lights went out')
    assert ledger.balance('account:olga') == before, 'only what counts costs the owner'
    ledger.check()


def test_the_relay_gives_what_the_policy_gives(setting, pool):
    from arena_robot.policy.connect import connect
    from arena_robot.policy.resizing import Resizing
    arena = setting.arena()
    pair = arena.assign(STATION, 'ada', PROMPT)
    record = setting.server.sessions.get(pair.session_id)
    for slot, number in ((Slot.A, record.policy_a_id), (Slot.B, record.policy_b_id)):
        with connect(setting.server.policies.by_id(number).address) as direct:
            wanted = Resizing(direct).infer(observation(), 'x').actions
        got = arena.policy(pair.session_id, slot).infer(observation(), 'x').actions
        assert np.array_equal(got, wanted)


def test_a_session_without_the_right_to_it(setting, folder):
    session_id = setting.arena().assign(STATION, 'ada', PROMPT).session_id
    neighbour = setting.server.accounts.add_station(Station(0, 'other', 'nyu', 'fr3'))
    setting.tokens['other'] = setting.server.accounts.issue(neighbour)
    for who, name, message in (
            ('other', 'Heartbeat', pb.HeartbeatRequest(session_id=session_id)),
            ('other', 'Reveal', pb.SessionRequest(session_id=session_id)),
            ('other', 'Abort', pb.AbortRequest(session_id=session_id)),
            ('ada', 'Assign', pb.AssignRequest(request='x' * 32, evaluator='ada', prompt='y')),
            ('station', 'AddAccount', pb.Account(name='x', institution='y', roles=['owner'])),
            ('owner', 'AddStation', pb.Station(name='x')),
            ('arena_guess', 'Heartbeat', pb.HeartbeatRequest(session_id=session_id)),
            ('', 'ListPolicies', pb.Empty())):
        with pytest.raises(Unauthorised):
            setting.calls(who)(name, message)
    outcomes = [line.outcome for line in setting.server.audit.lines(8)]
    assert outcomes == ['unauthorised'] * 8


def test_expired_and_revoked_tokens(setting):
    accounts = setting.server.accounts
    short = accounts.issue(setting.owner, lifetime_s=0.0)
    revoked = accounts.issue(setting.owner)
    accounts.revoke(revoked)
    for token, words in ((short, 'expired'), (revoked, 'revoked')):
        with pytest.raises(Unauthorised, match=words):
            setting.calls(token)('ListPolicies', pb.Empty())


def test_tokens_are_not_stored(setting, tmp_path):
    from sqlalchemy import text
    with setting.server.database.read() as connection:
        rows = str(connection.execute(text('SELECT * FROM tokens')).all())
    for token in setting.tokens.values():
        assert token not in rows


def test_a_lost_reply_does_not_make_a_second_session(setting):
    calls = setting.calls('station')
    request = pb.AssignRequest(request='r' * 32, prompt=PROMPT,
                               evaluator_token=setting.tokens['ada'])
    assert calls('Assign', request) == calls('Assign', request)
    with pytest.raises(Conflict, match='another instruction'):
        calls('Assign', pb.AssignRequest(request='r' * 32, prompt='other',
                                         evaluator_token=setting.tokens['ada']))


@pytest.mark.parametrize('prompt', ['', '   ', 'x' * 501, 'two\nlines', 'a\x00b'])
def test_instructions_that_are_none(setting, prompt):
    with pytest.raises(DataError, match='an instruction has'):
        setting.arena().assign(STATION, 'ada', prompt)


def test_markup_and_sql_are_only_text(setting, folder):
    nasty = "'); DROP TABLE sessions;-- <script>alert(1)</script> {{7*7}}"
    session_id = run(setting.arena(), folder, Verdict(
        progress_a=0.5, progress_b=0.5, preference=Preference.TIE, explanation=nasty, notes=nasty))
    assert setting.server.sessions.get(session_id).verdict.explanation == nasty


@pytest.mark.parametrize(('feedback', 'words'), [
    (Verdict(progress_a=0.5, preference=Preference.A, explanation='x'), 'progress of B'),
    (Verdict(progress_a=0.5, progress_b=0.1, preference=None, explanation='x'), 'preference'),
    (Verdict(progress_a=0.5, progress_b=0.1, preference=Preference.A, explanation='  '),
     'explanation'),
    (Verdict(progress_a=1.5, progress_b=0.1, preference=Preference.A, explanation='x'), '0 to 1'),
    (Verdict(progress_a=float('nan'), progress_b=0.1, preference=Preference.A, explanation='x'),
     '0 to 1'),
    (Verdict(valid=False), 'needs its reason'),
])
def test_incomplete_verdicts_change_nothing(setting, feedback, words):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    with pytest.raises(DataError, match=words):
        arena.feedback(session_id, feedback)
    arena.heartbeat(session_id, 'still running')


def test_too_many_calls_are_refused(tmp_path, pool):
    from arena_robot.server.base import TooManyCalls
    from arena_robot.server.config import ServerLimits
    setting = Setting(tmp_path / 's', '', pool, limits=ServerLimits(calls_per_s=1.0, burst=5))
    calls = setting.calls('owner')
    try:
        def hurry():
            for _ in range(40):
                calls.once('ListPolicies', pb.Empty())

        with pytest.raises(TooManyCalls, match='slow down'):
            hurry()
        # The client gives the server time by itself.
        calls('ListPolicies', pb.Empty())
    finally:
        setting.close()


def test_the_clock_of_a_station_must_be_about_right(setting):
    class Fast(SystemClock):
        def now_ns(self):
            return super().now_ns() + 3600 * 10**9

    from arena_robot.core.errors import ServerError
    arena = RemoteArena(ServerAddress(setting.target, setting.tokens['station']), Fast())
    setting.arenas.append(arena)
    with pytest.raises(ServerError, match=r'\+3600 s off'):
        arena.assign(STATION, 'ada', PROMPT)


def test_nobody_there():
    arena = RemoteArena(ServerAddress('127.0.0.1:1', 'x', timeout_s=1.0), SystemClock())
    with pytest.raises(ServerUnavailable, match='does not answer'):
        arena.check()
    arena.close()


def test_a_policy_that_dies_looks_like_any_other(tmp_path, folder):
    servers = [GrpcPolicyServer(Echo()), OpenpiPolicyServer(Echo())]
    for server in servers:
        server.open()
    setting = Setting(tmp_path / 's', '', {f'p{k}': s.address for k, s in enumerate(servers)})
    try:
        arena = setting.arena()
        pair = arena.assign(STATION, 'ada', PROMPT)
        for slot in Slot:
            arena.policy(pair.session_id, slot).infer(observation(), 'x')
        for server in servers:
            server.close()
        texts = set()
        for slot in Slot:
            with pytest.raises(PolicyError) as caught:
                arena.policy(pair.session_id, slot).infer(observation(), 'x')
            texts.add(f'{caught.value.code} {caught.value}')
        assert len(texts) == 1, 'two protocols, one sentence'
        for server in servers:
            assert server.address.split('://')[1] not in texts.pop()
            break
    finally:
        setting.close()


def test_two_stations_at_once(setting, folder):
    neighbour = setting.server.accounts.add_station(Station(0, 'other', 'nyu', 'fr3'))
    tokens = [setting.tokens['station'], setting.server.accounts.issue(neighbour)]
    failures = []

    def work(token):
        arena = NotingArena(ServerAddress(setting.target, token), SystemClock())
        arena.sign_in(setting.tokens['ada'])
        try:
            for _ in range(3):
                run(arena, folder)
        except Exception as error:
            failures.append(error)
        finally:
            arena.close()

    threads = [threading.Thread(target=work, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not failures
    assert len(setting.server.results.comparisons()) == 6


def assigned(arena):
    return arena.assign(STATION, 'ada', PROMPT).session_id


def test_a_station_cannot_state_who_evaluates(setting):
    calls = setting.calls('station')
    for words in ({'evaluator': 'ada'}, {'evaluator_token': setting.tokens['owner']},
                  {'evaluator_token': 'arena_guess'},
                  {'evaluator_token': setting.tokens['station']}):
        with pytest.raises(Unauthorised):
            calls('Assign', pb.AssignRequest(request='q' * 32, prompt=PROMPT, **words))
    assert setting.arena().sign_in(setting.tokens['ada']) == 'ada'
    with pytest.raises(Unauthorised):
        setting.arena().sign_in(setting.tokens['owner'])


def test_a_manifest_cannot_name_what_is_no_file_of_an_episode(setting, folder):
    arena, calls = setting.arena(), setting.calls('station')
    session_id = assigned(arena)
    for path in ('../x', '/etc/passwd', 'a b', ''):
        with pytest.raises(DataError):
            calls('StoreEpisode', pb.EpisodeRequest(
                session_id=session_id, slot='A', steps=1, end_reason='done',
                files=[pb.ManifestFile(path=path, size=1, sha256='0' * 64)]))
    home = recorded(folder / session_id, session_id, Slot.A)
    for stray in ('.DS_Store', '.steps.npz.tmp', 'Bild ä.png'):
        (home / stray).write_text('x')
    arena.upload(session_id, episode(session_id, Slot.A), home)
    assert not setting.server.blobs.exists(FileId(session_id, 'A', 'steps').key)
