"""
kill -9 of the session node, and of recorder and page together, in states of a session.

`make test` kills them in both rollouts, while a score is typed, and while the session is sent;
`make walks` in every state. That a session node keeps what it has in every state is also shown
without ROS: test/session/test_session_killed.py.
"""

import json
import os
import socket
import threading
import time

import httpx
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from session_rig import Rig, until

from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import SessionError
from arena_robot.core.verdict import Verdict, scored
from arena_robot.nodes.lib.convert import stamp_of
from arena_robot.nodes.remote.robot import RemoteArm
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recover import is_complete
from arena_robot.records.episode_file import has_episode, read_episode
from arena_robot.session.protocol.states import State

# Beside other tests, nodes that were started again can look for each other longer than they wait.
pytestmark = pytest.mark.flaky(reruns=2, reruns_delay=1.0)
TASK = 'put the yellow cube in the bowl'
AT_REST = 0.05
KILLED_IN = set(State) if 'ARENA_TEST_WALKS' in os.environ else {State.SCORING_A}


class SessionNode:
    """The session node as the victim; the evaluator's desk finds the new one."""

    kept_steps = 25

    def __init__(self, rig, reports):
        self.rig = rig
        self.desk = rig.desk()
        self.desk.open()
        self.desk.take('tester')

    def close(self):
        self.desk.close()

    def start(self, slot):
        self.desk.start(slot)

    def told_of(self, slot):
        return 'interrupted'

    def die(self, slot=None):
        self.rig.kill()
        self.rig.again()
        self.desk._token = ''
        self.desk.close()
        time.sleep(0.5)
        self.desk = self.rig.desk()
        self.desk.open()

    def come_back(self, slot=None):
        until(self.desk, lambda s: 'interrupted' in s.notice, 'nobody is told', 40.0)
        try:
            self.desk.take('tester')
        except SessionError:    # DDS can lose the first answer of a node that was just found
            self.desk.take('tester', take_over=True)
        return self.desk.state()


class RecorderReports:
    """What recorders say of themselves, one report a second: when, and of how many topics."""

    def __init__(self, node):
        self._new = threading.Condition()
        self._reports = []
        node.create_subscription(DiagnosticArray, '/diagnostics', self._hear, 10)

    def _hear(self, message):
        for status in message.status:
            if status.name.endswith('/recorder_node: recording'):
                topics = next(int(v.value) for v in status.values if v.key == 'Topics')
                with self._new:
                    self._reports.append((stamp_of(message.header.stamp), topics))
                    self._new.notify_all()

    def wait_settled(self, since_ns, timeout_s=40.0):
        """Wait until a recorder started after ``since_ns`` has found what there is to record."""
        def settled():
            reports = [topics for stamp_ns, topics in self._reports if stamp_ns > since_ns]
            return len(reports) > 1 and reports[-1] == reports[-2] > 0
        with self._new:
            assert self._new.wait_for(settled, timeout_s), self._reports


class RecorderAndPage:
    """
    The recorder and the page as victims, together; in rollout A the recorder, in B the page.

    The evaluator's commands go through the page's own interface.
    """

    kept_steps = 10

    def __init__(self, rig, reports):
        self.rig, self.reports, self.recorder_ns = rig, reports, 0
        with socket.create_server(('127.0.0.1', 0)) as free:
            self.port = free.getsockname()[1]
        rig.commands['console'] = ('-m', 'arena_robot.cli.main', 'console', '--port',
                                   str(self.port), '--namespace', rig.namespace, '--wait', '60')
        self.watcher = rig.desk()
        self.watcher.open()
        self.desk = self
        self.open_page()

    def close(self):
        self.web.close()
        self.watcher.close()

    def told_of(self, slot):
        return 'recorder_node' if slot is Slot.A else 'nobody watched'

    def die(self, slot=None):
        if slot is not Slot.B:
            self.rig.kill('recorder_node')
        if slot is not Slot.A:
            self.rig.kill('console')
        if self.watcher.state().state.running:
            until(self.watcher, lambda s: not s.state.running, 'the arm moves on alone')

    def come_back(self, slot=None):
        if slot is not Slot.B:
            self.recorder_ns = time.time_ns()
            self.rig.again('recorder_node')
        if slot is not Slot.A:
            self.open_page()
        return self.state()

    def open_page(self):
        self.rig.again('console')
        self.web = httpx.Client(base_url=f'http://127.0.0.1:{self.port}/api/', timeout=60.0)
        end_s = time.monotonic() + 60.0
        while True:
            try:
                self.web.get('state').raise_for_status()
                break
            except httpx.TransportError:
                assert time.monotonic() < end_s, 'the page does not come back'
                time.sleep(0.2)
        self.take('tester')

    def _post(self, what, **words):
        answer = self.web.post(what, json=words)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def state(self):
        # The page and the watcher hear of a change one after the other.
        end_s = time.monotonic() + 20.0
        while True:
            page = self.web.get('state').json()
            state = self.watcher.state()
            shown = (page['session_id'], page['draft_instruction'])
            if shown == (state.session_id, state.draft_instruction):
                return state
            assert time.monotonic() < end_s, f'the page shows {shown}, the station is in {state}'
            time.sleep(0.02)

    def wait_change(self, seen, timeout_s):
        return self.watcher.wait_change(seen, timeout_s)

    def running(self):
        return self.watcher.running()

    def take(self, name):
        seat = self._post('sit', name=name, take_over=True)['seat']
        self.web.headers['X-Seat'] = seat

    def press(self, button):
        self._post('press', button=button)

    def open_session(self, evaluator, instruction):
        self._post('open', evaluator=evaluator, instruction=instruction)

    def start(self, slot):
        """Start a rollout once the recorder has found its many topics."""
        self.reports.wait_settled(self.recorder_ns)
        self._post('start', slot=slot.value)

    def draft(self, words):
        if 'progress_a' in words:
            self._post('draft', slot='A', progress=100 * words['progress_a'])
        else:
            self._post('draft', **words)

    def score(self, slot, verdict):
        self._post('score', slot=slot.value, progress=100 * verdict.of_slot('progress', slot))

    def judge(self, verdict):
        self._post('judge', preference=verdict.preference.value, explanation=verdict.explanation)

    def submit(self):
        self._post('submit')


@pytest.mark.parametrize('victim', [SessionNode, RecorderAndPage])
def test_killed_in_states_of_a_session(victim, processes, tmp_path, observer):
    reports = RecorderReports(observer)
    # Ended in order, so that no video is being made any more when the folder goes.
    with Rig(processes, tmp_path) as rig:
        target = victim(rig, reports)
        try:
            through_the_session(rig, target, observer)
        finally:
            target.close()


def test_a_recorder_killed_at_the_end_of_a_rollout_is_noticed(processes, tmp_path, observer):
    reports = RecorderReports(observer)
    with Rig(processes, tmp_path, max_steps=75) as rig, rig.desk() as desk:
        desk.take('tester')
        desk.press('check')
        desk.open_session('ada', TASK)
        desk.press('photograph')
        reports.wait_settled(0)
        desk.start(Slot.A)
        until(desk, lambda s: (r := desk.running()) and r.steps > 45, 'no steps')
        rig.kill('recorder_node')
        rig.again('recorder_node')
        state = until(desk, lambda s: s.state is State.SCORING_A, 'the rollout does not end')
        slot = state.slots[0]
        assert (slot.end, slot.again) == ('interrupted', 'fault')
        assert 'the recording of A is not whole' in slot.detail
        [folder] = (rig.data / 'sessions').glob('*/A')
        until(desk, lambda _: has_episode(folder), f'{folder} is not recovered', 60.0)
        numbers = read_episode(folder)
        assert (numbers.session_id, numbers.slot) == (state.session_id, 'A')
        assert 0 < numbers.steps < slot.steps
        desk.press('rerun')
        assert desk.state().state is State.RESET


def killed(victim, state):
    """Kill the victim in a state of those, and return what is shown when it has come back."""
    reached = until(victim.desk, lambda s: s.state is state, f'it never comes to {state}')
    if state not in KILLED_IN:
        return reached
    victim.die()
    victim.come_back()
    return until(victim.desk, lambda s: s.state is state, f'{state} was left')


def through_the_session(rig, victim, observer):
    victim.desk.press('check')
    killed(victim, State.PREFLIGHT)
    victim.desk.press('check')
    victim.desk.open_session('ada', TASK)
    state = killed(victim, State.ASSIGNED)
    assert (state.instruction, state.evaluator) == (TASK, 'ada')
    victim.desk.press('photograph')
    killed(victim, State.START_PHOTOGRAPHED)
    with RemoteArm(observer, f'/{rig.namespace}/arm_node', timeout_s=20.0) as arm:
        through_a_rollout(rig, victim, arm, Slot.A)
        victim.desk.draft({'progress_a': 0.4})
        assert killed(victim, State.SCORING_A).draft.progress_a == 0.4
        victim.desk.score(Slot.A, scored(Slot.A, 0.4))
        killed(victim, State.RESET)
        victim.desk.press('prepare_reset')
        victim.desk.press('confirm_reset')
        through_a_rollout(rig, victim, arm, Slot.B)
        victim.desk.score(Slot.B, scored(Slot.B, 0.4))
    to_the_end(rig, victim, state.commitment)


def through_a_rollout(rig, victim, arm, slot):
    """Kill the victim while a policy runs: the arm rests, and what was recorded is kept."""
    victim.start(slot)
    until(victim.desk, lambda s: (r := victim.desk.running()) and r.steps > 25, 'no steps')
    died_ns = time.time_ns()
    victim.die(slot)
    state = victim.come_back(slot)
    assert state.state is (State.SCORING_A if slot is Slot.A else State.SCORING_B)
    assert max(abs(arm.wait_state(10.0).dq)) < AT_REST
    shown = state.slots[0 if slot is Slot.A else 1]
    assert shown.end == 'interrupted'
    assert shown.steps > 1
    assert victim.told_of(slot) in state.notice + shown.detail
    check_recording(rig, slot, victim, died_ns)


def to_the_end(rig, victim, promise):
    """Kill the victim while the verdict is given and sent; the session is whole in the end."""
    victim.desk.draft({'explanation': 'A was fas'})
    killed(victim, State.PREFERENCE)    # where nobody is, the answer can precede the state
    until(victim.desk, lambda s: s.draft.explanation == 'A was fas', 'what was typed is lost')
    victim.desk.judge(Verdict(preference=Preference.A, explanation='A was faster than B'))
    assert killed(victim, State.REVIEW).verdict.explanation == 'A was faster than B'
    victim.desk.submit()
    victim.die()
    if isinstance(victim, RecorderAndPage):
        rig.again('recorder_node')
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
        assert len(steps) >= min(data['slots'][slot]['steps'], victim.kept_steps) > 0


def check_recording(rig, slot, victim, died_ns):
    """See that an episode is complete in the end, and reaches to a second before the kill."""
    [folder] = (rig.data / 'sessions').glob(f'*/{slot.value}')
    until(victim.desk, lambda _: is_complete(folder), f'{folder} is not mended')
    with BagReader(folder) as bag:
        last_ns = max(message.log_ns for message in bag.messages())
    assert last_ns > died_ns - 1_000_000_000, victim
