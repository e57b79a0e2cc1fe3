"""Sessions over an emulated Franka whose nodes are killed, and whose arm has a reflex."""

import os
import sys
import time
from pathlib import Path

import pytest
from franka_station import FrankaStation

sys.path.insert(0, str(Path(__file__).parents[1] / 'drivers'))

from franka_rig import needs, rest_after, until

from arena_robot.core.episode import Slot
from arena_robot.core.errors import SessionError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka.wire import FciError
from arena_robot.records.session_file import read_session
from arena_robot.session.evaluator.checks import CLEAR
from arena_robot.session.evaluator.desk import Button
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

TASK = 'put the yellow cube in the bowl'
TOLD_S = 2.0
REST_MS = 150
HEARTBEAT_MS, COMMAND_MS = 500, 500     # of the control process; of commands to arm_node
pytestmark = pytest.mark.skipif(
    'ARENA_TEST_WALKS' not in os.environ, reason='takes minutes with the others: make walks')
FILES = [pytest.param('franka_rs', marks=needs('franka_rs')),
         pytest.param('libfranka_uvc', marks=needs('libfranka'))]


def ready(station):
    """Take control and open a session, once the station's parts answer."""
    desk = station.desk
    desk.take('tester', take_over=True)
    end_s = time.monotonic() + 120.0
    while True:
        desk.press(Button.CHECK)
        state = desk.wait_change(desk.state(), 1.0)
        if state.state is State.PREFLIGHT and state.ready:
            break
        assert time.monotonic() < end_s, state
    desk.open_session('ada', TASK, repeat=True)
    station.told(lambda s: s.state is State.ASSIGNED)
    desk.press(Button.PHOTOGRAPH)
    station.told(lambda s: s.state is State.START_PHOTOGRAPHED)


def walking(station):
    """Start A, and return once its policy moves the arm."""
    station.desk.start(Slot.A)
    until(lambda: (r := station.desk.running()) and r.steps > 15 and station.box._moving,
          'a moving arm')


# A person is told within two seconds, which a busy machine delays.
@pytest.mark.flaky(reruns=2, reruns_delay=1.0)
@pytest.mark.parametrize('name', FILES)
def test_killed_nodes_leave_the_arm_at_rest_and_are_told(name, processes, tmp_path):
    with FrankaStation(processes, tmp_path, name) as station:
        ready(station)
        walking(station)
        session = station.desk.state().session_id
        begin, begin_s = station.kill('arm_node')
        station.told(lambda s: 'The arm has sent nothing new' in s.notice)
        took_s = time.monotonic() - begin_s
        assert station.rested(begin) <= HEARTBEAT_MS + REST_MS
        slot = station.told(lambda s: s.state is State.SCORING_A).slots[0]
        assert (slot.end, slot.again) == ('driver_error', 'fault')
        assert 'arm_node' in slot.detail
        assert took_s < TOLD_S
        again(station)
        begin, begin_s = station.kill('session_node')
        station.told(lambda s: 'The session node does not answer' in s.notice)
        took_s = time.monotonic() - begin_s
        assert station.rested(begin) <= COMMAND_MS + REST_MS
        assert took_s < TOLD_S
        state = station.told(lambda s: 'interrupted' in s.notice and 'answer' not in s.notice)
        assert (state.session_id, state.state) == (session, State.SCORING_A)
        assert 'session_node ended with -9; starting it again' in station.running.log


def again(station):
    """Run A again, once the new arm_node holds the arm."""
    pressed(station, Button.RECOVER, CLEAR)
    station.desk.press(Button.RERUN)
    pressed(station, Button.PREPARE_RESET)
    pressed(station, Button.CONFIRM_RESET)
    walking(station)


def pressed(station, button, text=''):
    """Press a button, again while the parts that were started anew do not answer."""
    end_s = time.monotonic() + 60.0
    while True:
        try:
            return station.desk.press(button, text)
        except SessionError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.5)


class Reflex:
    """A reflex in the first rollout; a person at the desk recovers the arm when it has ended."""

    def __init__(self, station, error):
        self.station, self.error = station, error
        self.rest_ms, self.ended = None, None

    def __call__(self, state):
        box, run = self.station.box, self.station.desk.running()
        if state.state is State.RUNNING_A and self.rest_ms is None and run and run.steps > 15:
            begin = box.ticks
            box.reflex(self.error)
            self.rest_ms = rest_after(box, begin, 'reflex')
        elif state.state is State.SCORING_A and self.ended is None:
            self.ended = state.slots[0]
            assert box.mode is RobotMode.REFLEX
            self.station.told(lambda s: s.repairs == (Button.RECOVER,))
            pressed(self.station, Button.RECOVER, CLEAR)
            assert box.mode is RobotMode.IDLE
            self.station.told(lambda s: not s.repairs)


@pytest.mark.parametrize(('error', 'ends'), [
    (FciError.joint_reflex, ('safety_stop', 'timeout')),
    (FciError.communication_constraints_violation, ('driver_error', 'timeout'))])
@pytest.mark.parametrize('name', FILES)
def test_a_reflex_its_recovery_and_the_next_episode_are_one_session(name, error, ends, processes,
                                                                    tmp_path):
    with FrankaStation(processes, tmp_path, name, max_steps=45) as station:
        reflex = Reflex(station, error)
        end = Scripted(station.desk, Script('ada', TASK, lambda: 0.5), reflex).run()
        assert reflex.rest_ms <= REST_MS
        assert error.name in reflex.ended.detail
        assert reflex.ended.end == ends[0]
        assert (end.state, end.verified) == (State.DONE, True)
        # what the station failed at is run again
        assert end.slots[0].end == ('timeout' if ends[0] == 'driver_error' else ends[0])
        assert end.slots[1].end == ends[1]
        kept = read_session(station.data / 'sessions' / end.session_id)
        assert [(repair.what, repair.result) for repair in kept.repairs][-1] == ('recover', 'done')
