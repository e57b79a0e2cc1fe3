"""Sessions that end badly, and what becomes of the policies in them."""

import contextlib
import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc
import numpy as np
import pytest
from arena_setting import STATION, Setting, episode, fine, roll, run

from arena_robot.cli.main import main
from arena_robot.core.action import ActionSpace
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import (
    BadReply,
    Conflict,
    DataError,
    PolicyEnded,
    PolicyError,
    Unauthorised,
)
from arena_robot.core.observation import ArmState
from arena_robot.core.pair import StationInfo
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.proto import arena_policy_pb2 as policy_pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc
from arena_robot.records.session_file import SessionSlot, read_session
from arena_robot.server.base import NoPair, PolicyState, Station
from arena_robot.server.pool.policy_pool import PolicyChecks
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.results.exports import materialise
from arena_robot.server.store.browse import Browse
from arena_robot.server.store.evaluations import finished_evaluations
from arena_robot.server.store.policies import NewPolicy, clean_prompts
from arena_robot.server.store.sessions import episodes_of
from arena_robot.server.store.tallies import TallyBy
from arena_robot.server.store.verdicts import Selection, mark_withdrawn, tally_of_verdicts
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation
from arena_robot.session.base import blinded
from arena_robot.session.protocol.record import is_fault


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


@pytest.fixture
def dead(tmp_path, database_url):
    """A server whose policies do not answer, with two stations."""
    made = Setting(tmp_path / 'server', database_url,
                   {'p': 'grpc://127.0.0.1:9', 'q': 'grpc://127.0.0.1:9'})
    neighbour = made.server.accounts.add_station(Station(0, 'other', 'nyu', 'fr3'))
    made.tokens['other'] = made.server.accounts.issue(neighbour)
    yield made
    made.close()


def test_another_arm_has_policies_and_standings_of_its_own(setting, folder, pool, tmp_path):
    server, calls = setting.server, setting.calls('owner')
    new = pb.Policy(name='lifter', address=pool['azure-fast'], robot='lift')
    with pytest.raises(DataError, match="unknown 'lift'"):
        calls('RegisterPolicy', new)
    tower = server.accounts.add_station(Station(0, 'tower', 'nyu', 'lift'))
    setting.tokens['tower'] = server.accounts.issue(tower)
    arena, here = setting.arena('tower'), StationInfo('tower', 'lift')
    by_name = {record.name: record for record in server.policies.list()}
    server.policies.admit(by_name['crimson-7b'].id, PolicySpec(joints=0))
    with pytest.raises(NoPair, match='fewer than two'):
        arena.assign(here, 'ada', PROMPT)
    calls('RegisterPolicy', new)
    lifter = server.policies.get('lifter')
    server.policies.admit(lifter.id, PolicySpec(ActionSpace.JOINT_VELOCITY, joints=3))
    server.policies.move('lifter', PolicyState.POOL)
    server.policies.set_health(lifter.id, True)

    arena.abort(arena.assign(here, 'ada', PROMPT).session_id, 'that there is a pair is enough')
    # The rollouts below are those of a Franka.
    server.policies.admit(lifter.id, PolicySpec(ActionSpace.JOINT_VELOCITY, joints=0))
    pair, seen = arena.assign(here, 'ada', PROMPT), observation()
    short = np.zeros(3)
    seen = replace(seen, arm=ArmState(0, short, short, short, short, np.zeros(6), short))
    assert [arena.policy(pair.session_id, slot).infer(seen, 'e').actions.shape[1]
            for slot in Slot] == [4, 4]
    arena.abort(pair.session_id, 'the query is enough')
    droid, lift = run(setting.arena(), folder), run(arena, folder)
    assert [row.session_id for row in server.results.comparisons()] == [droid]
    assert {row.session_id: row.robot for row in finished_evaluations(server.database)} == {
        droid: 'fr3', lift: 'lift'}
    on_lift = server.results.comparisons(Selection(robot='lift'))
    assert [row.session_id for row in on_lift] == [lift]
    assert sum(row.count for row in server.results.tallies(TallyBy.CATEGORY)) == 1
    assert 'no policies with 5 comparisons on each of two' in server.results.pooling()
    folders = materialise(Browse(server.database), server.uploads, server.blobs, tmp_path / 'got')
    assert {read_session(path).comparison().robot for path in folders} == {'fr3', 'lift'}
    with server.database.read() as connection:
        assert sum(tally_of_verdicts(connection).values()) == 1


def test_a_policy_in_a_layout_goes_to_the_robot_that_has_it(setting):
    server = setting.server
    tower = server.accounts.add_station(Station(0, 'tower', 'nyu', 'lift'))
    setting.tokens['tower'] = server.accounts.issue(tower)
    arena, here = setting.arena('tower'), StationInfo('tower', 'lift')
    first, second = [record.id for record in server.policies.list()][:2]
    server.policies.admit(first, PolicySpec(joints=0))
    for layout in ('so101/degrees', 'lift/degrees'):
        server.policies.admit(second, PolicySpec(joints=3, layout=layout))
        if layout.startswith('so101'):
            with pytest.raises(NoPair, match='fewer than two'):
                arena.assign(here, 'ada', PROMPT)
    pair = arena.assign(here, 'ada', PROMPT)
    assert {arena.policy(pair.session_id, slot).spec.layout for slot in Slot} == {
        '', 'lift/degrees'}, 'the station is told it'
    arena.abort(pair.session_id, 'the specs are enough')


def test_a_station_is_added_with_an_arm_that_is_known(setting, tmp_path, capsys):
    token = tmp_path / 'token'
    token.write_text(setting.tokens['maintainer'])
    words = ['admin', 'station', 'bench-2', '--institution', 'nyu', '--server', setting.target,
             '--token-file', str(token), '--robot']
    assert main([*words, 'pnda']) == 2
    assert "unknown robot_type 'pnda'. Did you mean 'panda'?" in capsys.readouterr().err
    assert main([*words, 'droid']) == 0
    assert setting.server.accounts.station('bench-2').robot == 'panda'
    for robot in ('any', '', 'a' * 51):
        with pytest.raises(DataError, match=r'a robot has a name|a name has'):
            setting.server.accounts.add_station(Station(0, 'odd', 'nyu', robot))


def fail(arena, folder):
    """Run a session in which the policy of A does not answer the relay."""
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    with contextlib.suppress(PolicyError):
        arena.policy(session_id, Slot.A).infer(observation(), session_id)
    arena.upload(session_id, episode(session_id, Slot.A, EndReason.POLICY_ERROR), folder)
    arena.abort(session_id, 'the policy does not answer')
    return session_id


def test_a_policy_that_fails_at_several_stations_is_suspended_with_the_reason(dead, folder):
    policies = dead.server.policies
    arenas = itertools.cycle([dead.arena('station'), dead.arena('other')])
    while not policies.list(PolicyState.SUSPENDED):
        session_id = fail(next(arenas), folder)
        with dead.server.database.read() as connection:
            assert episodes_of(connection, session_id)['A'].fault == 'policy'
    reason = policies.list(PolicyState.SUSPENDED)[0].reason
    assert '3 rollouts in a row failed at the relay' in reason
    seen = dead.calls('owner')('ListPolicies', pb.Empty()).policies
    assert any('3 rollouts in a row' in p.reason for p in seen)


class NotANumber(pb_grpc.PolicyServiceServicer):
    """A policy's server that checks nothing of what its policy answers."""

    reply = policy_pb.InferReply(actions=[float('nan')] * 8, rows=1, columns=8,
                                 action_space=policy_pb.ACTION_SPACE_JOINT_POSITION)

    def GetSpec(self, request, context):  # noqa: N802
        return wire.spec_to_wire(PolicySpec())

    def Infer(self, request, context):  # noqa: N802
        return self.reply

    def Reset(self, request, context):  # noqa: N802
        return policy_pb.ResetReply()


def test_a_policy_that_answers_no_numbers_has_failed_and_not_the_station(tmp_path, folder):
    bare = grpc.server(ThreadPoolExecutor(4))
    pb_grpc.add_PolicyServiceServicer_to_server(NotANumber(), bare)
    address = f"grpc://127.0.0.1:{bare.add_insecure_port('127.0.0.1:0')}"
    bare.start()
    made = Setting(tmp_path / 'server', '', {'p': address, 'q': address})
    try:
        arena = made.arena()
        session_id = arena.assign(STATION, 'ada', PROMPT).session_id
        with pytest.raises(BadReply) as raised:
            arena.policy(session_id, Slot.A).infer(observation(), session_id)
        assert not is_fault(SessionSlot(end=EndReason.POLICY_ERROR,
                                        detail=str(blinded(raised.value, Slot.A))))
        arena.upload(session_id, episode(session_id, Slot.A, EndReason.POLICY_ERROR), folder)
        with made.server.database.read() as connection:
            assert episodes_of(connection, session_id)['A'].fault == 'policy'
    finally:
        made.close()
        bare.stop(None)


def test_a_policy_that_ended_is_not_the_stations_fault(dead):
    arena = dead.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    with pytest.raises(PolicyEnded) as raised:
        arena.policy(session_id, Slot.A).infer(observation(), session_id)
    detail = str(blinded(raised.value, Slot.A))
    assert detail == 'the policy of slot A is not running any more'
    assert not is_fault(SessionSlot(end=EndReason.POLICY_ERROR, detail=detail))


def test_failures_at_one_station_make_the_server_check_the_policy_itself(dead, folder):
    policies = dead.server.policies
    while all(p.failures < 3 for p in policies.list()):
        fail(dead.arena(), folder)
    assert policies.list(PolicyState.SUSPENDED) == []
    dead.server.pool.review()
    assert all(p.failures < 3 for p in policies.list()), 'its own check found nothing'
    while all(p.failures < 3 for p in policies.list()):
        fail(dead.arena(), folder)
    dead.server.pool.checks = PolicyChecks(lambda target: 'it answers nobody', fine)
    dead.server.pool.review()
    suspended, = policies.list(PolicyState.SUSPENDED)
    assert 'it answers nobody' in suspended.reason


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
            roll(arena, pair.session_id, slot, folder)
        arena.feedback(pair.session_id, VERDICT)
    assert server.policies.get('newcomer').state is PolicyState.POOL
    from sqlalchemy import select

    from arena_robot.server.store.schema import sessions as table
    from arena_robot.server.store.sealed_pairs import pair_of
    with server.database.read() as connection:
        mine = [row.prompt for row in connection.execute(select(table))
                if new.id in pair_of(row)]
    assert len(set(mine)) >= 3
    assert all(new.name not in (c.a, c.b) for c in server.results.comparisons()), \
        'sessions on probation do not count in the ranking'
    exported = finished_evaluations(server.database)
    of_newcomer = [session for session in exported
                   if new.name in (session.policy_a, session.policy_b)]
    assert len(of_newcomer) >= 3
    assert {(session.valid, session.origin) for session in of_newcomer} == {(False, 'probation')}
    assert {(session.valid, session.origin) for session in exported} <= {
        (False, 'probation'), (True, 'relayed')}
    with server.database.write() as connection:
        assert clean_prompts(connection, new.id) >= 3
        for number in connection.execute(select(table.c.id)).scalars().all():
            mark_withdrawn(connection, number, 1)
        assert clean_prompts(connection, new.id) == 0, 'withdrawn sessions prove nothing'


def test_ordinary_stations_never_get_policies_on_probation(setting, pool):
    setting.server.policies.add(NewPolicy('newcomer', pool['viridian']), setting.owner.id)
    setting.server.pool.review()
    number = setting.server.policies.get('newcomer').id
    accounts = setting.server.accounts
    allowed = setting.server.matching._allowed(accounts.station('bench'),
                                               accounts.account('ada'))
    assert len(allowed) == 3
    assert number not in {policy.id for policy in allowed}


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


def test_a_policy_that_a_maintainer_suspends_comes_back_by_a_maintainer_alone(setting):
    owner, maintainer = setting.calls('owner'), setting.calls('maintainer')
    with pytest.raises(Unauthorised, match='only a maintainer suspends'):
        owner('DecidePolicy', pb.DecideRequest(name='viridian', suspend_why='it is mine'))
    shown = maintainer('DecidePolicy', pb.DecideRequest(name='viridian', suspend_why='the table'))
    assert (shown.state, shown.reason) == ('suspended', 'by the maintainer maya: the table')
    with pytest.raises(Conflict, match='only a maintainer lets it be checked again'):
        owner('ResubmitPolicy', pb.NameRequest(name='viridian'))
    assert maintainer('ResubmitPolicy', pb.NameRequest(name='viridian')).state == 'submitted'


def test_an_owner_sees_latency_and_newest_failures(setting, folder, tmp_path, capsys):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        roll(arena, session_id, slot, folder, EndReason.STOPPED)
    arena.feedback(session_id, VERDICT)
    names = arena.reveal(session_id)
    shown = {p.name: p for p in setting.calls('owner')('ListPolicies', pb.Empty()).policies}
    failed = shown[names.policy_b]
    assert [(row.session_id, row.slot, row.end, row.has_page) for row in failed.failures] == [
        (session_id, 'B', 'stopped', True)]
    assert 0.0 < failed.latency_s < 10.0
    other, = set(shown) - {names.policy_a, names.policy_b}
    assert (shown[other].last_ns, shown[other].HasField('latency_s')) == (0, False)
    token = tmp_path / 'olga.token'
    token.write_text(setting.tokens['owner'])
    words = ['policy', 'mine', '--server', setting.target, '--token-file', str(token)]
    assert main(words) == 0
    assert f'as B of /evaluations/{session_id}' in capsys.readouterr().out
    assert main([*words, '--json']) == 0
    rows = {row['name']: row for row in json.loads(capsys.readouterr().out)}
    assert rows[names.policy_a]['failures'][0]['end'] == 'stopped'
    assert rows[other]['latency_s'] is None


def test_where_a_policy_comes_from_is_on_its_card_and_stays(setting, pool):
    calls, browse = setting.calls('owner'), Browse(setting.server.database)
    said = {'paper': 'https://arxiv.org/abs/2410.24164', 'licence': 'Apache-2.0'}
    policy = pb.Policy(name='pi0', address=pool['viridian'], provenance=said)
    for wrong in ({'papr': 'x'}, {'paper': 'x' * 501}, {'data': 'a\nb'}):
        with pytest.raises(DataError, match=r"'paper'|up to 500 printable characters"):
            calls('RegisterPolicy', pb.Policy(name='pi0', address=policy.address,
                                              provenance=wrong))
    assert dict(calls('RegisterPolicy', policy).provenance) == said
    calls('UpdatePolicy', pb.Policy(name='pi0', address=pool['azure-fast']))
    with pytest.raises(DataError, match='to show'):
        browse.card('pi0')
    setting.server.policies.move('pi0', PolicyState.PROBATION)
    assert (browse.card('pi0').provenance, browse.card('pi0').state) == (said, 'probation')
    assert 'pi0' not in {card.name for card in browse.cards()}, 'no list has it before the pool'


@pytest.mark.parametrize('name', ['', 'a/b', '..', '<b>pi0</b>', 'a\nb', 'what?', '--update'])
def test_names_that_no_page_or_address_could_carry(setting, pool, name):
    with pytest.raises(DataError, match='a policy name has 1 to 200 printable characters'):
        setting.calls('owner')('RegisterPolicy', pb.Policy(name=name, address=pool['viridian']))


def test_a_taken_name_says_how_to_change_ones_own_policy(setting, pool):
    with pytest.raises(Conflict, match='policy submit NAME ADDRESS --update'):
        setting.calls('owner')('RegisterPolicy', pb.Policy(name='viridian',
                                                           address=pool['viridian']))


def test_a_dead_policy_is_not_assigned(setting, tmp_path):
    setting.server.pool.checks = PolicyChecks(fine, lambda target: 'nobody answers')
    setting.server.pool.probe()
    with pytest.raises(NoPair, match='fewer than two'):
        setting.arena().assign(STATION, 'ada', PROMPT)
