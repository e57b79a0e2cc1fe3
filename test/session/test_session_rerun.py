"""A rollout that the station or the evaluator spoiled: run again, kept, limited, in the record."""

import json

import pytest
from conducted_station import NAMES, TASK, Station, go
from fake_desk import InProcessDesk
from test_session_machine import episode, until

from arena_robot.core.episode import MAX_RERUNS, EndReason, Episode, Preference, Slot
from arena_robot.core.errors import PolicyTimeout, PolicyUnavailable, SessionError, StaleData
from arena_robot.core.verdict import Verdict, scored
from arena_robot.recording.episode.check import journal_findings
from arena_robot.records.episode_file import EpisodeFile
from arena_robot.records.session_file import RerunCause, SessionSlot, read_session
from arena_robot.session.evaluator.desk import shown
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.record import is_fault, replay
from arena_robot.session.protocol.states import State

BUMPED = 'I bumped the table with my elbow'
UNREACHED = 'the policy of slot A cannot be reached'


def ended(state, end, detail=''):
    """Return a session whose running rollout has just ended in some way."""
    session = until(State.RUNNING_A if state is State.SCORING_A else State.RUNNING_B)
    slot = session.state.running
    session.ended(Episode('s1', slot, TASK, 12, end, 100, 200, detail))
    return session


def again(session, end=EndReason.DRIVER_ERROR, reason=''):
    """Repeat the slot that has just ended; its new rollout ends in some way."""
    session.rerun(reason)
    session.matched(0.9, {'left_left': 0.9})
    session.confirm_reset()
    session.started(session.record.next_slot)
    session.ended(episode(session.state.running, end))


@pytest.mark.parametrize(('end', 'detail', 'fault'), [
    (EndReason.DRIVER_ERROR, 'left camera: no frame', True),
    (EndReason.INTERRUPTED, 'recorder_node has sent no status', True),
    (EndReason.POLICY_ERROR, UNREACHED, True),
    (EndReason.POLICY_ERROR, 'the policy of slot A did not answer in time', False),
    (EndReason.SAFETY_STOP, 'not finite', False), (EndReason.TIMEOUT, '', False),
    (EndReason.DONE, '', False), (EndReason.STOPPED, '', False)])
def test_what_the_station_did_is_not_the_policys(end, detail, fault):
    assert is_fault(SessionSlot(end=end, detail=detail)) is fault
    for state, slot in ((State.SCORING_A, Slot.A), (State.SCORING_B, Slot.B)):
        session = ended(state, end, detail)
        view = shown(session.record).slots[list(Slot).index(slot)]
        assert view.again == ('fault' if fault else 'mistake')
        if not fault:
            with pytest.raises(SessionError, match='say what your mistake was'):
                session.rerun(' oops ')
        session.rerun('' if fault else BUMPED)
        assert session.state is State.RESET
        assert session.record.next_slot is slot
        assert session.record.reruns[0].cause.value == view.again


def test_the_rollout_is_kept_and_the_scene_is_matched_again():
    session = ended(State.SCORING_B, EndReason.DRIVER_ERROR, 'no frame')
    assert session.record.reset_confirmed
    record = session.rerun(folder='B_earlier')
    rerun = record.reruns[0]
    assert (rerun.slot, rerun.cause, rerun.folder) == (Slot.B, RerunCause.FAULT, 'B_earlier')
    assert (rerun.rollout.end, rerun.rollout.steps) == (EndReason.DRIVER_ERROR, 12)
    assert (record.reset_confirmed, record.match, record.slots[Slot.B].end) == (False, None, None)
    with pytest.raises(SessionError, match='B starts only after the scene was reset'):
        session.started(Slot.B)
    session.confirm_reset()
    with pytest.raises(SessionError, match='B is run next, not A'):
        session.started(Slot.A)
    session.started(Slot.B)
    assert replay(session.journal.entries) == session.record


def test_b_is_not_run_before_a():
    session = ended(State.SCORING_A, EndReason.DRIVER_ERROR)
    session.rerun()
    assert shown(session.record).message.endswith('then start A again.')
    session.confirm_reset()
    with pytest.raises(SessionError, match='A is run next, not B'):
        session.started(Slot.B)
    with pytest.raises(SessionError, match='A did not run'):
        session.score(Slot.A, scored(Slot.A, 0.5))
    session.started(Slot.A)
    session.ended(episode(Slot.A))
    session.score(Slot.A, scored(Slot.A, 0.5))
    assert not session.record.reset_confirmed, 'B needs its own reset'


def test_faults_are_limited():
    session = ended(State.SCORING_A, EndReason.DRIVER_ERROR)
    for _ in range(MAX_RERUNS):
        again(session)
    assert shown(session.record).slots[0].again == ''
    assert session.record.episode(Slot.A).reruns == MAX_RERUNS
    with pytest.raises(SessionError, match='cannot be run again: at most 2 times'):
        session.rerun(BUMPED)
    session.score(Slot.A, scored(Slot.A, 0.5))


def test_a_second_mistake_is_not_repeated():
    """A result that one dislikes cannot be tried again until it fits."""
    session = ended(State.SCORING_A, EndReason.TIMEOUT)
    again(session, EndReason.TIMEOUT, BUMPED)
    with pytest.raises(SessionError, match='cannot be run again'):
        session.rerun(BUMPED)


def test_a_scored_rollout_is_not_repeated():
    session = until(State.PREFERENCE)
    for _ in range(2):
        with pytest.raises(SessionError, match="'rerun' is not possible"):
            session.rerun(BUMPED)
        if session.state is State.PREFERENCE:
            session.judge(Verdict(preference=Preference.B, explanation='B closed the gripper'))


def test_the_arena_is_told():
    session = ended(State.SCORING_A, EndReason.DRIVER_ERROR, 'left camera: no frame')
    session.rerun('the cable hung loose')
    assert session.record.episode(Slot.A).end is EndReason.DRIVER_ERROR, 'until it is run again'
    session.confirm_reset()
    session.started(Slot.A)
    session.ended(Episode('s1', Slot.A, TASK, 9, EndReason.DONE, 300, 400, 'done'))
    assert session.record.episode(Slot.A).detail == (
        'done; run again 1 time: fault (driver_error after 12 steps: the cable hung loose)')


# -- a whole station ----------------------------------------------------------------------------

def fail_at(station, step, error):
    """Let the left camera fail once, after a step of the next rollout."""
    camera, hall = station.cameras['left'], station.hall

    def look(of, seen):
        camera.fail = error if of.index == step else None

    def over(job, episode):
        if episode is not None:
            camera.fail = None
            del hall.step, hall.episode
    hall.step, hall.episode = look, over


def test_a_camera_that_fails_costs_a_minute_and_not_the_policy(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.START_PHOTOGRAPHED)
    fail_at(station, 5, StaleData('left camera: no frame for 0.2 s; check its cable'))
    assert conductor.run(Slot.A).end is EndReason.DRIVER_ERROR
    folder = tmp_path / 'sessions' / conductor.record.session_id
    (folder / 'A' / 'A_0.mcap').touch()
    assert shown(conductor.record).message == 'The station failed while A was running.'
    conductor.rerun()
    conductor.prepare_reset()
    with pytest.raises(SessionError, match='A starts only after the scene was reset'):
        conductor.run(Slot.A)
    conductor.confirm_reset()
    assert conductor.run(Slot.A).end is EndReason.TIMEOUT
    conductor.score(Slot.A, scored(Slot.A, 0.75))
    conductor.prepare_reset()
    conductor.confirm_reset()
    go_on(conductor)
    written = read_session(folder)
    assert [(rerun.slot, rerun.cause.value, rerun.folder) for rerun in written.reruns] == [
        (Slot.A, 'fault', 'A_earlier')]
    assert 'check its cable' in written.reruns[0].rollout.detail
    assert written.verified
    assert written.comparison() is not None


def go_on(conductor):
    conductor.run(Slot.B)
    conductor.score(Slot.B, scored(Slot.B, 0.25))
    conductor.judge(Verdict(preference=Preference.A, explanation='A was quicker than B'))
    conductor.submit()
    conductor.deliver()
    assert conductor.record.state is State.DONE


@pytest.mark.parametrize(('error', 'again'), [
    (PolicyUnavailable('crimson-7b at 10.0.0.1 refused'), 'fault'),
    (PolicyTimeout('crimson-7b is slow'), 'mistake')])
def test_a_network_failure_is_told_from_a_slow_policy(tmp_path, error, again):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.START_PHOTOGRAPHED)
    station.arena.policy(conductor.record.session_id, Slot.A)

    def infer(observation, episode=''):
        raise error
    for policy in station.policies:
        policy.infer = infer
    assert conductor.run(Slot.A).end is EndReason.POLICY_ERROR
    assert shown(conductor.record).slots[0].again == again
    assert not any(name in repr(conductor.record) for name in NAMES), 'the pair stays blind'


def test_a_session_that_is_restarted_or_given_up_between_two_runs(tmp_path):
    station = Station(tmp_path)
    conductor = go(station.conductor, State.SCORING_A)
    conductor.rerun(BUMPED)
    conductor.close()
    conductor = Station(tmp_path).conductor
    assert (conductor.record.state, conductor.record.next_slot) == (State.RESET, Slot.A)
    conductor.invalidate('I must leave')
    conductor.submit()
    conductor.deliver()
    assert conductor.record.state is State.DONE


def test_a_script_runs_a_slot_again(tmp_path):
    station = Station(tmp_path)
    fail_at(station, 5, StaleData('left camera: no frame'))
    desk = InProcessDesk(station.conductor)
    desk.take('script')
    end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
    assert end.state is State.DONE
    assert [word for word, _ in station.recorder.log if word == 'start'] == ['start'] * 3
    assert [slot.reruns for slot in end.slots] == [1, 0]


def test_each_recording_is_compared_with_its_own_rollout(tmp_path):
    lines = [('started_a', 1000, {}), ('ended', 2000, {'end': 'driver_error', 'steps': 12,
                                                       'started_ns': 1000}),
             ('rerun', 2100, {}), ('started_a', 3000, {}),
             ('ended', 4000, {'end': 'done', 'steps': 40, 'started_ns': 3000})]
    (tmp_path / 'journal.jsonl').write_text(''.join(json.dumps(
        {'n': n, 't': t, 'move': move, 'data': data}) + '\n'
        for n, (move, t, data) in enumerate(lines)))
    for begin_ns, steps, end in ((1010, 12, 'driver_error'), (3010, 40, 'done')):
        summary = EpisodeFile(slot='A', steps=steps, end_reason=end, started_ns=begin_ns)
        findings = list(journal_findings(tmp_path / 'A', summary))
        assert [finding.level for finding in findings] == ['ok', 'ok'], findings
