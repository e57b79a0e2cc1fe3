"""What is worth a warning and does not keep a session from beginning."""

import dataclasses

from fake_desk import InProcessDesk
from test_conductor import Station, go

from arena_robot.core.errors import ServerUnavailable
from arena_robot.session.base import Check
from arena_robot.session.evaluator.desk import HINTS
from arena_robot.session.loop.match import ViewMatch
from arena_robot.session.loop.preflight import SERVER_CLOCK_S, server_check
from arena_robot.session.protocol.states import State


def test_a_clock_that_is_off_is_a_warning():
    assert server_check(lambda: 0.004) == Check('arena', True, 'clock offset +4 ms')
    for offset_s in (SERVER_CLOCK_S, -2.5):
        check = server_check(lambda offset_s=offset_s: offset_s)
        assert (check.ok, check.warning) == (True, True)
        assert f'{-offset_s:+.1f} s off' in check.detail
        assert 'NTP' in check.detail


def test_a_server_that_does_not_answer_is_no_warning():
    def gone():
        raise ServerUnavailable('no route')
    assert server_check(gone) == Check('arena', False, 'arena: no route')


def test_a_warning_reaches_the_evaluator_and_a_session_may_begin(tmp_path):
    station = Station(tmp_path)
    desk = InProcessDesk(station.conductor)
    station.more_checks = [server_check(lambda: 7.0)]
    station.conductor.check()
    assert [c.name for c in desk.state().checks if c.warning] == ['arena']
    assert desk.state().ready
    desk.open_session('ada', 'put the cube in the bowl')
    assert desk.state().state is State.ASSIGNED


def test_a_failed_check_is_what_the_evaluator_reads_first(tmp_path):
    station = Station(tmp_path)
    desk = InProcessDesk(station.conductor)
    station.more_checks = [Check('arm', False, 'arm: no state')]
    station.conductor.check()
    assert desk.state().message.startswith('A check failed')
    station.more_checks = [Check('arm', True, 'idle')]
    station.conductor.check()
    assert desk.state().message == HINTS[State.PREFLIGHT]


def test_a_camera_that_moved_is_named_until_it_is_back(tmp_path):
    station = Station(tmp_path)
    desk = InProcessDesk(station.conductor)
    go(station.conductor, State.RESET)
    still = ViewMatch(0.9, 0.0, (0.001, 0.0))
    moved = dataclasses.replace(still, shift=(0.0, -0.02))
    station.conductor.live = {'left_left': moved, 'left_right': moved, 'wrist_left': still}
    assert desk.state().moved_cameras == ('left',)
    assert desk.state().matches == {'left_left': 0.9, 'left_right': 0.9, 'wrist_left': 0.9}
    station.conductor.live = {'left_left': still}
    assert desk.state().moved_cameras == ()
