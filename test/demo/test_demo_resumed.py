"""The demonstration goes on with a session that was interrupted."""

from types import SimpleNamespace

import pytest

from arena_robot.demo import tournament
from arena_robot.demo.plan import SessionPlan
from arena_robot.session.evaluator.desk import DeskState
from arena_robot.session.protocol.states import State


@pytest.mark.parametrize(('state', 'kept'), [
    (State.ASSIGNED, 0), (State.START_PHOTOGRAPHED, 1), (State.RESET, 1), (State.REVIEW, 0)])
def test_a_session_goes_on_in_a_simulation_that_knows_its_start(state, kept):
    done = []
    scene = SimpleNamespace(set_up=lambda task, seed: done.append((task, seed)),
                            keep=lambda: done.append('kept'))
    desk = SimpleNamespace(state=lambda: DeskState(state))
    one = tournament.DemoTournament(desk, scene, 'ada', lambda: None, lambda _: None)
    assert one.pick_up(SessionPlan('lift_cube', 7))
    assert done == [('lift_cube', 7), *kept * ['kept']]
