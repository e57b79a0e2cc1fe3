"""The session node over ROS: stopped, refused, and taken over."""

import time

import pytest
from session_rig import Rig, until

from arena_robot.core.episode import Slot
from arena_robot.core.errors import NotConnected, SessionError
from arena_robot.core.observation import RobotMode
from arena_robot.core.verdict import scored
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.simulation.node import compose
from arena_robot.records.session_file import read_session, session_paths
from arena_robot.session.evaluator.desk import Button
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

TASK = 'put the yellow cube in the bowl'


STILL = {'sleeper': 'example:frozen', 'rester': 'example:frozen'}


def test_stop_control_refusals_and_a_script(processes, tmp_path):
    with Rig(processes, tmp_path, STILL, record=False,
             session=('stagnation_end:=1.5',)) as rig, rig.desk() as desk, rig.desk() as other:
        before_the_start(desk, other)
        unwatched(desk)
        stopped_by_anybody(desk, other)
        ended_at_a_standstill(rig, desk)
        taken_over(desk, other)
        end = by_script(other)
    assert (end.state, end.verified) == (State.DONE, True)
    assert [slot.end for slot in end.slots] == ['done', 'done']


def before_the_start(desk, other):
    """See what is refused on the way to a rollout."""
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
    assert desk.state().state is State.ASSIGNED, 'a caller would ask for the task once more'
    with pytest.raises(SessionError, match='start_photographed'):
        desk.start(Slot.A)
    desk.press('photograph')
    with pytest.raises(SessionError, match='refused'):
        other.start(Slot.A)


def unwatched(desk):
    """See that a rollout ends when nobody is seen at the page."""
    desk.start(Slot.A, lambda: False)
    until(desk, lambda s: s.state is State.SCORING_A, 'the arm moves on unwatched')
    slot = desk.state().slots[0]
    assert (slot.end, slot.detail.partition(' for')[0]) == ('interrupted', 'nobody watched')
    desk.press('abort', 'a test')


def stopped_by_anybody(desk, other):
    """See that who does not control the session can stop the arm, within a second's steps."""
    desk.press('check')
    desk.open_session('ada', TASK)
    desk.press('photograph')
    desk.start(Slot.A)
    until(desk, lambda s: (desk.running() or s) and desk.running().steps > 5, 'no steps')
    steps = desk.running().steps
    other.stop()
    until(desk, lambda s: s.state is State.SCORING_A, 'it does not stop')
    assert desk.state().slots[0].end == 'stopped'
    assert desk.state().slots[0].steps < steps + 15


def ended_at_a_standstill(rig, desk):
    """
    See that a rollout in which a live judge sees no progress ends, and that its record says why.

    The rollout before stood as still; without a live judge nothing ended it.
    """
    rig.commands['audit_node'] = (
        '-m', 'arena_robot.nodes.audit', '--ros-args', '-r', f'__ns:=/{rig.namespace}', '-p',
        f'data_dir:={rig.data}', '-p', 'judge:=start_distance', '-p', 'live:=true')
    rig.again('audit_node')
    desk.press('abort', 'a test')
    desk.press('check')
    desk.open_session('ada', TASK)
    desk.press('photograph')
    desk.start(Slot.A)
    until(desk, lambda s: s.state is State.SCORING_A, 'the rollout does not end early', 60.0)
    shown = desk.state().slots[0]
    rig.running['audit_node'].end()
    kept = [read_session(path.parent).slots['A'] for path in session_paths(rig.data / 'sessions')]
    early = [slot for slot in kept if 'no progress for 1.5 s' in slot.detail]
    assert len(kept) == 3
    assert len(early) == 1, 'only this one ended early'
    for slot in (shown, *early):
        assert slot.end == 'timeout', slot
        assert 'this station ends such rollouts (stagnation_end)' in slot.detail
        assert slot.steps < 4000


def taken_over(desk, other):
    """See that control goes over, and that what was invalidated arrives as such."""
    with pytest.raises(SessionError, match='from 0 to 1'):
        desk.score(Slot.A, scored(Slot.A, 1.5))
    other.take('terminal', take_over=True)
    with pytest.raises(SessionError, match='take over first'):
        desk.score(Slot.A, scored(Slot.A, 0.5))
    until(desk, lambda s: s.control == 'terminal', 'control is not shown')
    other.press('invalidate', 'a test')
    assert not other.state().verdict.valid, 'submitting would count it again'
    other.submit()
    until(other, lambda s: s.state is State.DONE, 'no reveal', 60.0)
    assert other.today()[0].verdict.invalid_reason == 'a test'


def by_script(desk):
    """Let the scripted evaluator lead; the oracle says 1 after some looks."""
    desk.watch_oracle()
    looks = [0]

    def progress():
        looks[0] += 1
        return 1.0 if looks[0] > 12 else float(desk.oracle['progress'])
    return Scripted(desk, Script('ada', str(desk.oracle['instruction']), progress)).run()


def test_no_session_node_is_told():
    from arena_robot.nodes.remote.desk import RemoteDesk
    with pytest.raises(NotConnected, match='no session node'):
        RemoteDesk(namespace='nowhere', patience_s=0.5).open()


def press_on(desk, button, for_s=5.0):
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        desk.press(button)


def test_an_arm_in_a_reflex_is_recovered_at_the_desk(processes, tmp_path):
    rig = Rig(processes, tmp_path, STILL, record=False)
    words = rig.commands['sim_station']    # runs in this process, where an arm can be tripped
    rig.running.pop('sim_station').end()
    with Spin(['test', *words[words.index('--ros-args'):]]) as spin:
        station = compose(spin).station
        with rig, rig.desk() as desk:
            desk.take('page')
            desk.press('check')
            desk.open_session('ada', TASK)
            desk.press('photograph')
            station.arm.inject(RobotMode.REFLEX, 'joint_reflex')
            with pytest.raises(SessionError, match='REFLEX'):
                press_on(desk, 'photograph')    # the session node hears of it with a next state
            with pytest.raises(SessionError, match="type 'clear'"):
                desk.press(Button.RECOVER, 'yes')
            desk.press(Button.RECOVER, 'clear')
            assert station.world.arm.mode is RobotMode.IDLE
            station.gripper.inject(9)
            desk.press(Button.ACTIVATE_GRIPPER, 'clear')
            assert not station.world.gripper.fault
            desk.press('photograph')
            desk.press('abort', 'a test')
