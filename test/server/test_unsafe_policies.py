"""A policy that is stopped or unsafe stays out of the pool; one evaluator keeps none out."""

import dataclasses

import pytest
from arena_setting import STATION, Setting, episode, query, recorded, roll

from arena_robot.cli.main import main
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import Conflict, Unauthorised
from arena_robot.server.base import NoPair, PolicyState, Role, Station
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import INVALID, VERDICT

SLAMMED = 'slammed the arm into the table'


def driven(setting):
    """Return an arena at a test driver's station."""
    driver = setting.server.accounts.add_station(
        Station(0, 'driver', 'nyu', 'fr3', test_driver=True))
    setting.tokens['driver'] = setting.server.accounts.issue(driver)
    return setting.arena('driver')


def newcomer(setting, pool):
    """Return a policy on probation that every pair of this server has: another is retired."""
    server = setting.server
    server.policies.add(NewPolicy('newcomer', pool['azure-fast']), setting.owner.id)
    server.pool.review()
    for name in ('crimson-7b', 'azure-fast'):
        server.policies.move(name, PolicyState.RETIRED)
    assert server.policies.get('newcomer').state is PolicyState.PROBATION


def session(setting, arena, folder, prompt, end=EndReason.DONE, unsafe='newcomer', **words):
    """Run a session; the verdict says of the slot of ``unsafe`` that it was so."""
    session_id = arena.assign(STATION, 'ada', prompt).session_id
    row = setting.server.sessions.get(session_id)
    slots = {setting.server.policies.by_id(number).name: slot for slot, number in
             zip(Slot, (row.policy_a_id, row.policy_b_id), strict=True)}
    for name, slot in slots.items():
        roll(arena, session_id, slot, folder, end if name == 'newcomer' else EndReason.DONE)
    if unsafe in slots:
        letter = slots[unsafe].value.lower()
        words |= {f'unsafe_{letter}': True, f'notes_{letter}': SLAMMED}
    arena.feedback(session_id, dataclasses.replace(VERDICT, **words))
    return session_id


def test_a_policy_that_is_stopped_every_time_stays_on_probation(setting, pool, folder):
    newcomer(setting, pool)
    arena = driven(setting)
    for k in range(4):
        session_id = session(setting, arena, folder, f'task {k}', EndReason.STOPPED, unsafe='',
                             explanation=SLAMMED)
        assert arena.standing(session_id) == (False, 'a policy is on probation')
    assert setting.server.policies.get('newcomer').state is PolicyState.PROBATION
    for k in range(3):
        session(setting, arena, folder, f'clean task {k}', unsafe='')
    assert setting.server.policies.get('newcomer').state is PolicyState.POOL


def test_a_report_of_a_test_driver_suspends_until_a_maintainer_looked(
        setting, pool, folder, monkeypatch, capsys):
    newcomer(setting, pool)
    session(setting, driven(setting), folder, 'push the cup')
    policy = setting.server.policies.get('newcomer')
    assert policy.state is PolicyState.SUSPENDED
    assert 'reported as unsafe by a test driver: slammed' in policy.reason
    owner = setting.calls('owner')
    with pytest.raises(Conflict, match='a maintainer has to look'):
        owner('ResubmitPolicy', pb.NameRequest(name='newcomer'))
    with pytest.raises(Unauthorised):
        owner('DecidePolicy', pb.DecideRequest(name='newcomer', clear_why='it is fine'))

    def arena(verb, who, *words):
        monkeypatch.setenv('ARENA_TOKEN', setting.tokens[who])
        assert main([*verb.split(), *words, '--server', setting.target]) in (0, 1)
        return capsys.readouterr().out

    arena('policy submit', 'owner', 'newcomer', '--appeal', 'the gripper is slower now')
    seen = arena('policy mine', 'owner')
    assert '1 reports that it was unsafe, 1 of them stand' in seen
    assert f'unsafe: {SLAMMED}' in seen, 'the owner is not told who said so'
    seen = arena('policy mine', 'maintainer')
    assert f'unsafe by ada at driver: {SLAMMED}' in seen
    assert 'appeal: the gripper is slower now' in seen
    printed = arena('admin policy', 'maintainer', 'newcomer', '--clear-unsafe', 'watched it: fine')
    assert printed.startswith('newcomer: submitted')
    assert '0 of them stand' in printed
    assert 'cleared by maya: watched it: fine' in printed
    from arena_robot.server.store.audit import Audit
    called = [(line.call, line.actor) for line in Audit(
        setting.server.database, None).lines(200)]
    assert ('decide_policy', 'account:maya') in called
    assert ('appeal_policy', 'account:olga') in called


def other_lab(setting, name, person):
    """Return an arena of another lab's station and evaluator."""
    accounts = setting.server.accounts
    account = accounts.add_account(name, name, [Role.EVALUATOR], person)
    setting.tokens[name] = accounts.issue(account)
    setting.tokens[f'{name}-1'] = accounts.issue(accounts.add_station(
        Station(0, f'{name}-1', name, 'fr3')))
    arena = setting.arena(f'{name}-1', name)
    assign = arena.assign
    arena.assign = lambda station, evaluator, prompt: assign(station, name, prompt)
    return arena


def pooled(setting, pool):
    server = setting.server
    record = server.policies.add(NewPolicy('newcomer', pool['azure-fast']), setting.owner.id,
                                 PolicyState.POOL)
    server.policies.set_health(record.id, True)
    for name in ('crimson-7b', 'azure-fast'):
        server.policies.move(name, PolicyState.RETIRED)


def test_reports_of_one_person_keep_a_policy_from_their_stations_alone(setting, pool, folder):
    pooled(setting, pool)
    policies, here = setting.server.policies, setting.arena()
    session(setting, here, folder, 'push the cup')
    assert policies.get('newcomer').state is PolicyState.POOL
    with pytest.raises(NoPair):
        here.assign(STATION, 'ada', 'push the cup')
    same_person = other_lab(setting, 'mit', 'ada')
    session(setting, same_person, folder, 'push the cup')
    assert policies.get('newcomer').state is PolicyState.POOL, 'one person, two accounts'
    elsewhere = other_lab(setting, 'cmu', '')
    session(setting, elsewhere, folder, 'push the cup', unsafe='')
    session(setting, elsewhere, folder, 'push the cup')
    assert policies.get('newcomer').state is PolicyState.SUSPENDED
    assert '3 stations' in policies.get('newcomer').reason


def test_reports_without_a_rollout_suspend_nobody(setting, pool, folder):
    pooled(setting, pool)
    for name in ('mit', 'cmu', 'eth'):
        arena = other_lab(setting, name, '')
        session_id = arena.assign(STATION, name, 'push the cup').session_id
        arena.feedback(session_id, dataclasses.replace(
            INVALID, unsafe_a=True, unsafe_b=True, notes_a=SLAMMED))
    assert all(p.state is not PolicyState.SUSPENDED for p in setting.server.policies.list())


def test_a_stop_before_the_first_step_is_no_clean_session_and_its_report_stands(
        setting, pool, folder):
    newcomer(setting, pool)
    arena = driven(setting)
    for k in range(3):
        session_id = arena.assign(STATION, 'ada', f'task {k}').session_id
        for slot in Slot:
            query(arena, session_id, slot)
            ending = dataclasses.replace(episode(session_id, slot, EndReason.STOPPED), steps=0)
            arena.upload(session_id, ending, recorded(
                folder / session_id / slot.value, session_id, slot, 0))
        arena.feedback(session_id, dataclasses.replace(VERDICT, unsafe_a=k == 2, unsafe_b=k == 2))
        assert arena.standing(session_id)[0] is False
    assert setting.server.policies.get('newcomer').state is PolicyState.SUSPENDED


def test_the_first_policy_of_an_owner_waits_for_a_maintainer(tmp_path, pool, folder):
    setting = Setting(tmp_path / 'server', '', {'viridian': pool['viridian']},
                      probation_sessions=1)
    try:
        server, arena = setting.server, driven(setting)
        oskar = server.accounts.add_account('oskar', 'eth', [Role.OWNER])
        setting.tokens['oskar'] = server.accounts.issue(oskar)
        server.policies.add(NewPolicy('newcomer', pool['azure-fast']), oskar.id)
        server.pool.review()
        session(setting, arena, folder, 'push the cup', unsafe='')
        assert server.policies.get('newcomer').state is PolicyState.PROBATION
        mine, = setting.calls('oskar')('ListPolicies', pb.Empty()).policies
        assert mine.waits_for_approval
        decided = setting.calls('maintainer')('DecidePolicy', pb.DecideRequest(
            name='newcomer', approve=True))
        assert decided.state == 'pool'
        # His second needs no approval, unless a report stands on a policy of his.
        server.policies.add(NewPolicy('second', pool['crimson-7b']), oskar.id)
        server.pool.review()
        waits = {p.name: p.waits_for_approval for p in
                 setting.calls('oskar')('ListPolicies', pb.Empty()).policies}
        assert waits == {'newcomer': False, 'second': False}
        while server.policies.get('newcomer').state is PolicyState.POOL:
            session(setting, arena, folder, 'push the cup')
        waits = {p.name: p.waits_for_approval for p in
                 setting.calls('oskar')('ListPolicies', pb.Empty()).policies}
        assert waits == {'newcomer': False, 'second': server.policies.get('second').state
                         is PolicyState.PROBATION}
    finally:
        setting.close()
