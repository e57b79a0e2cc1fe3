"""The session node over ROS: killed at every state, stopped, refused, and taken over."""

import json
import time

import pytest
from session_rig import Rig, until

from arena_robot.core.episode import Slot
from arena_robot.core.errors import NotConnected, SessionError
from arena_robot.nodes.remote import RemoteArm
from arena_robot.recording.reader import BagReader
from arena_robot.session.desk import Verdict
from arena_robot.session.scripted import Script, Scripted
from arena_robot.session.states import State

TASK = 'put the yellow cube in the bowl'


class Killed:
    """An evaluator's desk at a session node that is killed and started again."""

    def __init__(self, rig):
        self.rig = rig
        self.desk = rig.desk()
        self.desk.open()
        self.desk.take('tester')

    def kill(self):
        self.rig.kill()
        self.rig.again()
        self.desk._token = ''
        self.desk.close()
        time.sleep(0.5)
        self.desk = self.rig.desk()
        self.desk.open()
        until(self.desk, lambda s: 'interrupted' in s.notice, 'nobody is told', 40.0)
        self.desk.take('tester')
        return self.desk.state()


def test_killed_at_every_state(processes, tmp_path, client):
    # Ended in order, so that no video is being made any more when the folder goes.
    with Rig(processes, tmp_path) as rig:
        go_through_kills(rig, client)


def go_through_kills(rig, client):
    killed = Killed(rig)
    killed.desk.press('check')
    assert killed.kill().state is State.PREFLIGHT
    killed.desk.press('check')
    killed.desk.open_session('ada', TASK)
    state = killed.kill()
    assert (state.state, state.instruction, state.evaluator) == (State.ASSIGNED, TASK, 'ada')
    promise = state.commitment
    killed.desk.press('photograph')
    assert killed.kill().state is State.START_PHOTOGRAPHED
    killed.desk.watch_views()
    with RemoteArm(client, f'/{rig.namespace}/arm_node') as arm:
        for slot, after in ((Slot.A, State.SCORING_A), (Slot.B, State.SCORING_B)):
            killed.desk.start(slot)
            until(killed.desk, lambda s: (r := killed.desk.running()) and r.steps > 25, 'no steps')
            state = killed.kill()
            assert state.state is after
            assert max(abs(arm.state(1.0).dq)) < 0.05
            one = state.slots[0 if slot is Slot.A else 1]
            assert one.end == 'interrupted'
            assert one.steps >= 1
            if slot is Slot.A:
                killed.desk.draft(Verdict(progress={slot: 0.4}))
                assert killed.kill().draft.progress == {slot: pytest.approx(0.4)}
            killed.desk.score(slot, 0.4)
            if slot is Slot.A:
                assert killed.kill().state is State.RESET
                killed.desk.press('prepare_reset')
                killed.desk.press('confirm_reset')
    killed.desk.draft(Verdict(explanation='A was fas'))
    state = killed.kill()
    assert (state.state, state.draft.explanation) == (State.PREFERENCE, 'A was fas')
    killed.desk.judge('A', 'A was faster than B')
    state = killed.kill()
    assert (state.state, state.verdict.explanation) == (State.REVIEW, 'A was faster than B')
    killed.desk.submit()
    killed.rig.kill()
    killed.rig.again()
    killed.desk._token = ''
    killed.desk.close()
    # It is sent once the videos are made; the next session may begin.
    with rig.desk() as desk:
        until(desk, lambda s: s.state is State.DONE or s.waiting == 1, 'the session is lost')
        assert desk.today()[0].commitment == promise
    [folder] = (rig.data / 'sessions').glob('*/session.json')
    data = json.loads(folder.read_text())
    assert data['state'] in ('submitting', 'done')
    for slot in 'AB':
        with BagReader(folder.parent / slot) as bag:
            steps = list(bag.messages([f'/{rig.namespace}/session_node/step']))
        assert len(steps) >= data['slots'][slot]['steps'] > 0


def test_stop_control_refusals_and_a_script(processes, client, tmp_path):
    with Rig(processes, tmp_path, record=False) as rig, rig.desk() as desk, rig.desk() as other:
        desk.take('page')
        with pytest.raises(SessionError, match="'page' controls"):
            other.take('terminal')
        with pytest.raises(SessionError, match='take over first'):
            other.press('check')
        desk.press('check')
        with pytest.raises(SessionError, match='one word'):
            desk.open_session('ada', 'grasp')
        with pytest.raises(SessionError, match="no button 'chek'"):
            desk.press('chek')
        desk.open_session('ada', TASK)
        with pytest.raises(SessionError, match='start_photographed'):
            desk.start(Slot.A)
        desk.press('photograph')
        with pytest.raises(SessionError, match='refused'):
            other.start(Slot.A)
        desk.start(Slot.A)
        until(desk, lambda s: (desk.running() or s) and desk.running().steps > 5, 'no steps')
        begin_s = time.monotonic()
        other.stop()
        until(desk, lambda s: s.state is State.SCORING_A, 'it does not stop')
        assert time.monotonic() - begin_s < 1.0
        assert desk.state().slots[0].end == 'stopped'
        with pytest.raises(SessionError, match='from 0 to 1'):
            desk.score(Slot.A, 1.5)
        other.take('terminal', take_over=True)
        with pytest.raises(SessionError, match='take over first'):
            desk.score(Slot.A, 0.5)
        until(desk, lambda s: s.control == 'terminal', 'control is not shown')
        other.press('invalidate', 'a test')
        other.submit()
        until(other, lambda s: s.state is State.DONE, 'no reveal', 60.0)
        assert other.today()[0].verdict.invalid_reason == 'a test'
        end = by_script(other)
    assert (end.state, end.verified) == (State.DONE, True)
    assert [slot.end for slot in end.slots] == ['done', 'done']


def by_script(desk):
    """Let the scripted evaluator lead; the oracle says 1 after some looks."""
    desk.watch_oracle()
    looks = [0]

    def progress():
        looks[0] += 1
        return 1.0 if looks[0] > 12 else float(desk.oracle['progress'])
    return Scripted(desk, Script('ada', str(desk.oracle['instruction']), progress)).run()


def test_no_session_node_is_told():
    from arena_robot.nodes.session_client import SessionClient
    with pytest.raises(NotConnected, match='no session node'):
        SessionClient(namespace='nowhere', patience_s=0.5).open()
