"""The potential of every task: 0 at reset, 1 when done, and it falls when work is undone."""

import numpy as np
import pytest

from arena_robot.audit.opd import measure
from arena_robot.drivers.sim.expert import PERIOD_S
from arena_robot.drivers.sim.station import SimStation
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.trials.labelled import script

# By this script: the button stays pressed, the cube stays uncovered, nobody lifts the lid.
NOT_UNDONE = {'press_button', 'wipe_table', 'knock_over', 'close_box', 'find_cube'}


@pytest.fixture(scope='module')
def station():
    with SimStation.make('lift_cube', 0, cameras=()) as station:
        yield station


def run(station, task, kind, seed=3, steps=400):
    """Return the potential at every control step."""
    station.reset(task, seed)
    phi = [station.potential()]
    for step, _ in enumerate(script(station, kind, seed)):
        station.step(PERIOD_S)
        phi.append(station.potential())
        if step >= steps:
            break
    return np.array(phi)


@pytest.mark.parametrize('task', list(TASKS.built_in))
def test_done_well_and_undone(station, task):
    phi = run(station, task, 'undo')
    assert phi[0] < 0.02
    assert phi.min() >= 0.0
    assert phi.max() == 1.0
    done = int(phi.argmax())
    # Up to success the way is straight, and without jumps but those of contact and success.
    table = measure([phi[:done + 1]])
    assert table.ppl[0] >= 0.95
    assert np.abs(np.diff(phi[:done + 1])).max() <= 0.55
    if task not in NOT_UNDONE:
        assert phi[-1] < 0.7
        assert station.progress() >= phi[-1]


def test_moving_after_keeping_still_is_zero_for_good(station):
    phi = run(station, 'do_not_move', 'undo')
    assert phi.max() == 1.0
    assert phi[-1] == 0.0
    assert station.progress() > 0.9     # the best stage so far says nothing of now


def test_a_potential_does_not_depend_on_how_often_it_is_asked(station):
    often = run(station, 'cube_in_bowl', 'expert')
    station.reset('cube_in_bowl', 3)
    for _ in script(station, 'expert', 3):
        station.step(PERIOD_S)
    assert station.potential() == often[-1]


def test_a_restored_start_is_a_start(station):
    station.reset('stack_blocks', 1)
    saved = station.save()
    for step, _ in enumerate(script(station, 'expert', 1)):
        station.step(PERIOD_S)
        if step > 60:
            break
    assert station.potential() > 0.2
    station.restore(saved)
    assert station.potential() < 0.02
