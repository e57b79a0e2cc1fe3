"""What somebody who cheats can do: it changes no rank, no credit and no policy's state."""

import dataclasses
import json

import pytest
from arena_setting import NAMES, STATION, Setting, episode, query, recorded, roll, run

from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.episode import MAX_RERUNS, EndReason, Preference, Slot
from arena_robot.core.errors import Conflict, DataError, NotRevealed, PolicyError
from arena_robot.server.base import NoPair, PolicyState, Role, Station
from arena_robot.server.files import Manifest
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.sessions.evidence import missing
from arena_robot.server.store.files import manifests_of, store_manifest
from arena_robot.server.store.ledger import MINT, Ledger, Transfer
from arena_robot.server.store.policies import NewPolicy
from arena_robot.server.store.sessions import episodes_of
from arena_robot.session.arena.contract import INVALID, PROMPT, VERDICT, observation


def standing(setting):
    """Return what no cheat may change: verdicts, credits, states of the policies."""
    server = setting.server
    ledger = Ledger(server.database, SystemClock())
    ledger.check()
    return (server.results.comparisons(), ledger.balance('account:ada'),
            {p.name: (p.state, p.failures) for p in server.policies.list()})


def assigned(arena):
    return arena.assign(STATION, 'ada', PROMPT).session_id


def why_not(arena, session_id):
    counts, why = arena.standing(session_id)
    assert counts is False
    return why


def test_wins_without_an_inference_an_episode_or_a_file_count_for_nothing(setting):
    before, arena = standing(setting), setting.arena()
    for _ in range(5):
        session_id = assigned(arena)
        arena.feedback(session_id, VERDICT)
        assert 'not called through this server' in why_not(arena, session_id)
        with pytest.raises(NotRevealed, match='does not count'):
            arena.reveal(session_id)
    setting.server.acceptance.consider_all()
    assert standing(setting) == before


def test_rollouts_that_did_not_take_place_count_for_nothing(setting, folder):
    """Files and words without inference; inference without the steps; the steps of another."""
    before, arena = standing(setting), setting.arena()
    session_id = assigned(arena)
    for slot in Slot:
        arena.upload(session_id, episode(session_id, slot),
                     recorded(folder / session_id / slot.value, session_id, slot))
    arena.feedback(session_id, VERDICT)
    assert 'not called through' in why_not(arena, session_id)
    # One answer of 8 actions.
    for steps, said, words in ((40, 10, 'the station said 10'),
                               (24, 24, 'what passed the relay makes 1 to 8')):
        session_id = assigned(arena)
        for slot in Slot:
            arena.policy(session_id, slot).infer(observation(), session_id)
            ending = dataclasses.replace(episode(session_id, slot), steps=said)
            arena.upload(session_id, ending, recorded(
                folder / session_id / slot.value, session_id, slot, steps))
        arena.feedback(session_id, VERDICT)
        assert words in why_not(arena, session_id)
    session_id, elsewhere = assigned(arena), assigned(arena)
    for slot in Slot:
        for step in (0, 8):
            arena.policy(session_id, slot).infer(
                dataclasses.replace(observation(), step=step), session_id)
        arena.upload(session_id, episode(session_id, slot), recorded(
            folder / 'other' / slot.value, elsewhere, slot))
    arena.feedback(session_id, VERDICT)
    assert 'is of another rollout' in why_not(arena, session_id)
    assert standing(setting) == before


def test_a_session_without_hope_is_not_looked_at_for_ever(setting, folder, monkeypatch):
    arena, acceptance = setting.arena(), setting.server.acceptance
    hopeless, waits = assigned(arena), assigned(arena)
    arena.feedback(hopeless, VERDICT)
    roll(arena, waits, Slot.A, folder)
    query(arena, waits, Slot.B)
    arena.feedback(waits, VERDICT)
    later = ManualClock(SystemClock().now_ns() + 2 * 3600 * 10**9)
    monkeypatch.setattr(acceptance, '_clock', later)
    acceptance.consider_all()
    looked = []
    monkeypatch.setattr(acceptance, 'consider', looked.append)
    acceptance.consider_all()
    assert looked == []
    monkeypatch.undo()
    arena.upload(waits, episode(waits, Slot.B), recorded(folder / waits / 'B', waits, Slot.B))
    assert arena.standing(waits) == (True, ''), 'what arrives late still counts'


def test_a_rollout_begun_again_until_it_succeeds_does_not_count(setting, folder):
    before, arena = standing(setting), setting.arena()
    session_id = assigned(arena)
    roll(arena, session_id, Slot.A, folder)
    for slot in Slot:
        roll(arena, session_id, slot, folder)
    arena.feedback(session_id, VERDICT)
    assert 'A: the rollout was begun 2 times' in why_not(arena, session_id)
    assert standing(setting) == before


def run_again(arena, folder, reruns, declared):
    """Judge a session whose slot B ran again so often; return its id."""
    session_id = assigned(arena)
    roll(arena, session_id, Slot.A, folder)
    for _ in range(reruns):
        query(arena, session_id, Slot.B)
    query(arena, session_id, Slot.B)
    arena.upload(session_id, dataclasses.replace(episode(session_id, Slot.B), reruns=declared),
                 recorded(folder / session_id / 'B', session_id, Slot.B))
    arena.feedback(session_id, VERDICT)
    return session_id


@pytest.mark.parametrize('reruns', [1, MAX_RERUNS])
def test_a_session_with_a_permitted_rerun_counts(setting, folder, reruns):
    arena = setting.arena()
    session_id = run_again(arena, folder, reruns, reruns)
    assert arena.standing(session_id) == (True, '')
    assert arena.reveal(session_id).policy_a
    with setting.server.database.read() as connection:
        stored = episodes_of(connection, session_id)
        assert {slot: stored[slot].reruns for slot in stored} == {'A': 0, 'B': reruns}


def test_more_reruns_than_said_or_permitted_do_not_count(setting, folder):
    before, arena = standing(setting), setting.arena()
    for reruns, declared in ((2, 1), (MAX_RERUNS + 1, MAX_RERUNS)):
        session_id = run_again(arena, folder, reruns, declared)
        assert f'B: the rollout was begun {1 + reruns} times' in why_not(arena, session_id)
    with pytest.raises(DataError, match='run again at most 2 times, not 3'):
        run_again(arena, folder, MAX_RERUNS + 1, MAX_RERUNS + 1)
    assert standing(setting) == before


def test_a_rollout_faster_than_time_does_not_count(tmp_path, pool, folder):
    setting = Setting(tmp_path / 'server', '', pool, max_pace=1.25)
    try:
        arena = setting.arena()
        session_id = run(arena, folder)
        assert '8 steps passed the relay within' in why_not(arena, session_id)
    finally:
        setting.close()


def test_a_session_is_incomplete_until_its_last_file_and_then_counts_by_itself(setting, folder):
    arena, server = setting.arena(), setting.server
    session_id = assigned(arena)
    roll(arena, session_id, Slot.A, folder)
    for step in (0, 8):
        arena.policy(session_id, Slot.B).infer(
            dataclasses.replace(observation(), step=step), session_id)
    arena.feedback(session_id, VERDICT)
    assert 'B: the station has not said how the rollout ended' in why_not(arena, session_id)
    with pytest.raises(Conflict, match='everything has arrived'):
        arena.reveal(session_id)
    assert server.results.comparisons() == []
    home = recorded(folder / session_id / 'B', session_id, Slot.B)
    arena.upload(session_id, episode(session_id, Slot.B), home)
    assert arena.standing(session_id) == (True, '')
    assert len(server.results.comparisons()) == 1
    assert standing(setting)[1] == 1
    assert {arena.reveal(session_id).policy_a} < set(NAMES)


def test_after_the_reveal_nothing_is_added_or_changed(setting, folder):
    arena = setting.arena()
    session_id = run(arena, folder)
    arena.reveal(session_id)
    before = standing(setting)
    calls = setting.calls('station')
    with pytest.raises(Conflict, match='nothing is added'):
        calls('BeginUpload', pb.FileRequest(session_id=session_id, slot='A', path='more.txt',
                                            size=1, sha256='0' * 64))
    (folder / session_id / 'A' / 'more.mp4').write_text('better')
    with pytest.raises(Conflict, match='nothing is added'):
        arena.upload(session_id, episode(session_id, Slot.A), folder / session_id / 'A')
    with pytest.raises(Conflict):
        arena.feedback(session_id, dataclasses.replace(VERDICT, preference=Preference.B))
    with pytest.raises(Conflict):
        arena.upload(session_id, dataclasses.replace(episode(session_id, Slot.A), steps=11),
                     folder / session_id / 'B')
    assert standing(setting) == before


def report_both(setting, arena, session_id, folder):
    for slot, end in ((Slot.A, EndReason.POLICY_ERROR), (Slot.B, EndReason.SAFETY_STOP)):
        arena.upload(session_id, episode(session_id, slot, end), folder)


def cut_the_line(setting, arena, session_id, folder):
    arena.policy(session_id, Slot.A).infer(observation(), session_id)
    setting.server.record.cut((session_id, 'A'))
    arena.upload(session_id, episode(session_id, Slot.A, EndReason.POLICY_ERROR), folder)
    with setting.server.database.read() as connection:
        assert episodes_of(connection, session_id)['A'].fault == 'network'


def send_what_nobody_can_read(setting, arena, session_id, folder):
    nothing = dataclasses.replace(observation(), prompt='\x00' * 9, step=3, images={})
    with pytest.raises(PolicyError):
        arena.policy(session_id, Slot.A)._policy.infer(nothing, session_id)
    arena.upload(session_id, episode(session_id, Slot.A, EndReason.POLICY_ERROR), folder)


@pytest.mark.parametrize(('fail', 'times', 'is_counted'), [
    (report_both, 3, False), (cut_the_line, 6, False), (send_what_nobody_can_read, 4, True)])
def test_failures_that_a_station_makes_suspend_nobody(setting, folder, fail, times, is_counted):
    before = standing(setting)
    for _ in range(times):
        arena = setting.arena()
        session_id = assigned(arena)
        fail(setting, arena, session_id, folder)
        arena.abort(session_id, 'it does not work')
    if is_counted:    # until the server has checked the policy
        setting.server.pool.review()
    assert standing(setting) == before


def test_a_pair_that_is_given_up_comes_again_and_costs(setting, folder):
    ledger = Ledger(setting.server.database, SystemClock())
    ledger.transfer(Transfer('gift', MINT, 'account:ada', 5, 'gift'))
    arena, seen = setting.arena(), set()
    for number in range(4):
        session_id = assigned(arena)
        record = setting.server.sessions.get(session_id)
        seen.add((record.policy_a_id, record.policy_b_id))
        if number % 2:
            arena.policy(session_id, Slot.A).infer(observation(), session_id)
            arena.feedback(session_id, INVALID)
            with pytest.raises(NotRevealed, match='when both are retired'):
                arena.reveal(session_id)
        else:
            arena.abort(session_id, 'not this one')
    assert len(seen) == 1, 'fishing draws the same pair'
    assert ledger.balance('account:ada') == 1, 'each costs a credit'
    session_id = run(arena, folder)
    record = setting.server.sessions.get(session_id)
    assert {(record.policy_a_id, record.policy_b_id)} == seen
    for name in NAMES:
        setting.server.policies.move(name, PolicyState.RETIRED)
    invalid = setting.server.sessions.get(record.repeats)
    assert arena.reveal(invalid.id).policy_a == arena.reveal(session_id).policy_a


def test_giving_up_is_limited(tmp_path, pool):
    setting = Setting(tmp_path / 'server', '', pool, redraws_per_day=3)
    try:
        arena = setting.arena()
        for _ in range(3):
            arena.abort(assigned(arena), 'no')
        with pytest.raises(Conflict, match='3 sessions of ada were aborted, invalid'):
            assigned(arena)
    finally:
        setting.close()


def colluding(setting, person='', institution='upenn'):
    """Return an arena for an evaluator 'eve' with a station of her institution."""
    accounts = setting.server.accounts
    eve = accounts.add_account('eve', institution, [Role.EVALUATOR], person)
    setting.tokens['eve'] = accounts.issue(eve)
    setting.tokens['hers'] = accounts.issue(accounts.add_station(
        Station(0, 'hers', institution, 'fr3')))
    return setting.arena('hers', 'eve')


@pytest.mark.parametrize(('person', 'institution', 'rule'), [
    ('', 'UPenn ', 'institution'), ('olga', 'mit', 'person')])
def test_nobody_judges_policies_of_her_own(setting, person, institution, rule):
    arena = colluding(setting, person, institution.strip())
    with pytest.raises(NoPair, match=f'conflict of interest.*{rule}'):
        arena.assign(STATION, 'eve', PROMPT)
    setting.server.policies.add(NewPolicy('foreign', 'grpc://127.0.0.1:9'),
                                setting.server.accounts.account('maya').id, PolicyState.POOL)
    with pytest.raises(NoPair):
        arena.assign(STATION, 'eve', PROMPT)


def test_a_verdict_on_a_policy_of_ones_own_that_slips_through_is_not_counted(setting, folder):
    before, arena = standing(setting), setting.arena()
    session_id = assigned(arena)
    with setting.server.database.write() as connection:
        connection.exec_driver_sql("UPDATE accounts SET person = 'olga' WHERE name = 'ada'")
    for slot in Slot:
        roll(arena, session_id, slot, folder)
    arena.feedback(session_id, VERDICT)
    assert 'conflict of interest: person' in why_not(arena, session_id)
    assert standing(setting) == before


def test_the_log_names_the_files_of_the_database_though_they_change_while_it_is_checked(
        setting, folder, monkeypatch):
    """A second StoreEpisode is stored between the check of a session and its acceptance."""
    arena, database = setting.arena(), setting.server.database
    session_id = assigned(arena)
    for slot in Slot:
        query(arena, session_id, slot)
        home = recorded(folder / session_id / slot.value, session_id, slot)
        (home / 'steps.npz').write_bytes(b'made of the recording')
        arena.upload(session_id, episode(session_id, slot), home)

    def changed_meanwhile(*arguments):
        lacks = missing(*arguments)
        with database.write() as connection:
            files = manifests_of(connection, session_id)['A'].files
            store_manifest(connection, session_id, 'A', Manifest(tuple(
                file for file in files if file.path != 'steps.npz')), 1)
        return lacks
    monkeypatch.setattr('arena_robot.server.sessions.acceptance.missing', changed_meanwhile)
    arena.feedback(session_id, VERDICT)
    assert arena.standing(session_id) == (True, '')
    with database.read() as connection:
        kept = {slot: file.sha256 for slot, file in manifests_of(
            connection, session_id).items()}
    assert json.loads(setting.server.log.entries(0)[0])['manifests'] == kept
