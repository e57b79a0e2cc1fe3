"""Verdicts are never too late, sending files counts as life, and odd files block nothing."""

import hashlib
import threading
import time

import pytest
from arena_setting import STATION, episode, query, recorded

from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, DataError, NotRevealed, ServerUnavailable
from arena_robot.server.base import SessionState
from arena_robot.server.config import ServerLimits
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation


def silent(setting, session_id):
    """Cancel a session because its station fell silent."""
    time.sleep(0.03)
    assert setting.server.verdicts.cancel_overdue(0.02) == [session_id]
    assert setting.server.sessions.get(session_id).state is SessionState.CANCELLED


def ran(setting, folder):
    """Return an arena and the id of a session in which A ran."""
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.policy(session_id, Slot.A).infer(observation(), 'a')
    return arena, session_id


def test_a_verdict_is_taken_from_a_session_that_was_cancelled(setting, folder):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        query(arena, session_id, slot)
    silent(setting, session_id)
    arena.feedback(session_id, VERDICT)
    arena.feedback(session_id, VERDICT)
    for slot in Slot:
        arena.upload(session_id, episode(session_id, slot),
                     recorded(folder / slot.value, session_id, slot))
    assert setting.server.sessions.get(session_id).verdict == VERDICT
    assert arena.reveal(session_id).policy_a
    setting.server.ledger.check()


def test_a_station_that_comes_back_goes_on(setting, folder):
    arena, session_id = ran(setting, folder)
    silent(setting, session_id)
    arena.heartbeat(session_id, 'scoring_a')
    assert setting.server.sessions.get(session_id).state is SessionState.RUNNING
    arena.policy(session_id, Slot.B).infer(observation(), 'b')
    arena.feedback(session_id, VERDICT)


def test_before_any_rollout_a_cancelled_session_is_over(setting):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    silent(setting, session_id)
    with pytest.raises(Conflict, match='cancelled'):
        arena.heartbeat(session_id, 'assigned')


def test_an_aborted_session_takes_no_verdict(setting):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    arena.abort(session_id, 'the robot broke')
    with pytest.raises(Conflict, match='aborted'):
        arena.feedback(session_id, VERDICT)


def test_episodes_after_the_verdict_get_its_scores(setting, folder):
    arena, session_id = ran(setting, folder)
    arena.feedback(session_id, VERDICT)
    for slot in Slot:
        arena.upload(session_id, episode(session_id, slot), folder)
    with setting.server.database.read() as connection:
        from arena_robot.server.store.schema import episodes
        progress = {row.slot: row.progress for row in connection.execute(episodes.select())
                 if row.session_id == session_id}
    assert progress == {'A': VERDICT.progress_a, 'B': VERDICT.progress_b}


def test_an_upload_is_a_sign_of_life(setting, folder, monkeypatch):
    monkeypatch.setattr('arena_robot.server.service.SEEN_S', 0.02)
    _, session_id = ran(setting, folder)
    data = bytes(3 << 20)
    calls = setting.calls('station')
    file = pb.FileRequest(session_id=session_id, slot='A', path='A_0.mcap', size=len(data),
                          sha256=hashlib.sha256(data).hexdigest())
    calls('BeginUpload', file)
    seen, go_on = [], threading.Event()

    def parts():
        for k in range(3):
            yield pb.UploadPart(file=file if k == 0 else None, offset=k << 20,
                                data=data[k << 20:(k + 1) << 20])
            seen.append(setting.server.sessions.get(session_id).seen_ns)
            go_on.wait(0.1)
        yield pb.UploadPart(offset=len(data), data=b'')
        seen.append(setting.server.sessions.get(session_id).seen_ns)
    calls('Upload', parts)
    assert seen[-1] > seen[0]


@pytest.mark.parametrize('name', ['.steps.npz.tmp', '.DS_Store', 'notes of Jörg.txt', 'left 2.mp4',
                                  '.left.mp4.1234-abcdef.tmp', 'core', 'Übersicht.mp4'])
def test_only_the_files_of_the_episode_are_sent(setting, folder, name):
    (folder / name).write_bytes(b'stray')
    (folder / 'frames').mkdir()
    (folder / 'frames' / 'one.mp4').write_bytes(b'stray')
    arena, session_id = ran(setting, folder)
    arena.upload(session_id, episode(session_id, Slot.A), folder)
    assert [r.file.path for r in setting.server.uploads.list(session_id)] == [
        'A_0.mcap', 'metadata.yaml']


def test_one_refused_file_does_not_hold_back_the_others(setting, folder):
    arena, session_id = ran(setting, folder)
    arena.upload(session_id, episode(session_id, Slot.A), folder)
    (folder / 'A_0.mcap').write_bytes(b'another recording')
    (folder / 'steps.npz').write_bytes(b'steps')
    with pytest.raises(Conflict, match='another content'):
        arena.upload(session_id, episode(session_id, Slot.A), folder)
    assert [r.file.path for r in setting.server.uploads.list(session_id) if r.complete] == [
        'A_0.mcap', 'metadata.yaml', 'steps.npz']


def test_the_servers_clock_set_forward_cancels_nobody(setting, monkeypatch):
    arena = setting.arena()
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    clock = setting.server._clock
    hour_ns = 3600 * 10**9
    monkeypatch.setattr(clock, 'now_ns', lambda: time.time_ns() + hour_ns, raising=False)
    assert setting.server.verdicts.cancel_overdue(1800.0) == []
    arena.heartbeat(session_id, 'assigned')


def test_eight_assignments_of_one_request_are_one(setting):
    calls = [setting.calls('station') for _ in range(8)]
    request = pb.AssignRequest(request='r' * 32, prompt=PROMPT,
                               evaluator_token=setting.tokens['ada'])
    replies, errors = [], []

    def ask(call):
        try:
            replies.append(call('Assign', request))
        except Exception as error:
            errors.append(error)
    run_at_once([lambda call=call: ask(call) for call in calls])
    assert not errors
    assert len({(r.session_id, r.token_a, r.commitment) for r in replies}) == 1
    with setting.server.database.read() as connection:
        assert setting.server.sessions.open_at(connection, 1) == 1


def test_two_streams_of_one_file_end_with_that_file(setting, folder):
    _, session_id = ran(setting, folder)
    data = bytes(range(256)) * 20_000
    (folder / 'A_0.mcap').write_bytes(data)
    errors = []

    def send(arena):
        for _ in range(3):
            try:
                arena.upload(session_id, episode(session_id, Slot.A), folder)
                return
            except DataError as error:
                last = error
        errors.append(last)
    run_at_once([lambda arena=arena: send(arena) for arena in [setting.arena() for _ in range(4)]])
    assert not errors
    key = f'{session_id}/A/A_0.mcap'
    assert b''.join(setting.server.blobs.read(key)) == data


def run_at_once(works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert not any(thread.is_alive() for thread in threads)


def test_names_are_refused_finally_only_when_no_other_server_may_know_more(
        setting, folder, monkeypatch):
    """On PostgreSQL the relay of another server may still have to store what it saw."""
    arena, server = setting.arena(), setting.server
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        arena.upload(session_id, episode(session_id, slot), recorded(
            folder / slot.value, session_id, slot))
    arena.feedback(session_id, VERDICT)
    if not server.database.is_sqlite:
        with pytest.raises(Conflict, match='is incomplete: A: the policy was not called'):
            arena.reveal(session_id)
        later = ManualClock(SystemClock().now_ns() + 2 * 3600 * 10**9)
        monkeypatch.setattr(server.acceptance, '_clock', later)
        server.acceptance.consider_all()
    with pytest.raises(NotRevealed, match='does not count'):
        arena.reveal(session_id)


def test_a_verdict_is_taken_when_the_disk_has_only_its_reserve_left(setting, folder):
    arena, server = setting.arena(), setting.server
    session_id = arena.assign(STATION, 'ada', PROMPT).session_id
    for slot in Slot:
        query(arena, session_id, slot)
    limits, server.uploads._limits = server.uploads._limits, ServerLimits(reserve_bytes=1 << 60)
    arena.feedback(session_id, VERDICT)
    paths = {slot: recorded(folder / slot.value, session_id, slot) for slot in Slot}
    with pytest.raises(ServerUnavailable, match="the server's disk has"):
        arena.upload(session_id, episode(session_id, Slot.A), paths[Slot.A])
    assert server.sessions.get(session_id).verdict == VERDICT
    server.uploads._limits = limits
    for slot, path in paths.items():
        arena.upload(session_id, episode(session_id, slot), path)
    assert arena.standing(session_id) == (True, '')
