"""Whose fault each error of a driver is; how a person brings arm and gripper back."""

import importlib
import json
import pkgutil
from dataclasses import replace

import numpy as np
import pytest
from conducted_station import Station, go
from fake_desk import InProcessDesk
from test_rollout import Bench

from arena_robot import drivers
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import DriverError, SafetyError, SessionError
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka.wire import FciError
from arena_robot.records.session_file import Repair, SessionSlot, read_session
from arena_robot.robots.arms import PANDA, RESET_JOINTS
from arena_robot.safety.limits import move_duration_s
from arena_robot.safety.reflexes import BY_MOTION, BY_STATION, SIMULATED
from arena_robot.session.evaluator.desk import Button
from arena_robot.session.protocol.record import is_fault
from arena_robot.session.protocol.states import State

for module in pkgutil.walk_packages(drivers.__path__, f'{drivers.__name__}.'):
    importlib.import_module(module.name)    # so that the errors of all drivers are known


def subclasses(kind):
    return [kind, *(kind for child in kind.__subclasses__() for kind in subclasses(child))]


def ended(bench):
    """Run it, and return how it ended and whether that is the station's fault."""
    episode = bench.rollout.run()
    return episode.end, is_fault(SessionSlot(end=episode.end, detail=episode.detail))


@pytest.mark.parametrize('kind', subclasses(DriverError))
@pytest.mark.parametrize('part', ['arm', 'camera', 'gripper'])
def test_each_error_of_a_driver_is_the_stations_fault(kind, part):
    bench = Bench()

    def fails(*_):
        raise kind.__new__(kind, 'its cable is pulled')    # some take more than their words
    owner, name = {'arm': (bench.arm, 'act'), 'gripper': (bench.gripper, 'command'),
                   'camera': (bench.camera, 'frame')}[part]
    setattr(owner, name, fails)
    assert ended(bench) == (EndReason.DRIVER_ERROR, True)


@pytest.mark.parametrize('noticed_by', ['safety', 'driver'])
@pytest.mark.parametrize('error', sorted(BY_MOTION | BY_STATION))
def test_a_reflex_is_charged_by_its_cause_whoever_notices_it(error, noticed_by):
    bench = Bench()
    well, kind = bench.arm.state, {'safety': SafetyError, 'driver': DriverError}[noticed_by]
    bench.arm.state = lambda age_s=0.1: replace(well(age_s), mode=RobotMode.REFLEX,
                                                errors=(error,))

    def refused(*_):
        raise kind(f'the arm is in REFLEX ({error})')
    bench.arm.act = refused
    by_station = error in BY_STATION
    assert ended(bench) == (EndReason.DRIVER_ERROR if by_station else EndReason.SAFETY_STOP,
                            by_station)


def test_a_stop_by_a_person_and_an_unknown_reflex_stay_what_they_were():
    bench = Bench()
    well = bench.arm.state
    bench.arm.state = lambda age_s=0.1: replace(well(age_s), mode=RobotMode.USER_STOPPED,
                                                errors=('the user stop is pressed',))

    def refused(*_):
        raise SafetyError('the arm is in USER_STOPPED')
    bench.arm.act = refused
    assert ended(bench) == (EndReason.SAFETY_STOP, False)


def test_every_error_that_a_franka_has_is_on_one_side():
    assert not BY_MOTION & BY_STATION
    assert {error.name.lower() for error in FciError} <= BY_MOTION | BY_STATION
    errors = pytest.importorskip('pylibfranka', reason='pylibfranka is missing').Errors
    named = {name for name in dir(errors) if not name.startswith('_')}
    assert named == (BY_MOTION | BY_STATION) - SIMULATED


@pytest.fixture
def station(tmp_path):
    """A station before its photograph, whose arm is in a reflex until it is recovered."""
    station = Station(tmp_path)
    go(station.conductor, State.ASSIGNED)
    station.desk = InProcessDesk(station.conductor)
    station.desk.take('page')
    well, station.moves = station.arm.state, []
    station.arm.q = np.array(RESET_JOINTS) + 0.3

    def reflex(max_age_s=0.1):
        return replace(well(), mode=RobotMode.REFLEX, errors=('joint_reflex',))

    def move_to(q, duration_s=None):
        if station.arm.state is reflex:
            raise DriverError('the arm is in REFLEX (joint_reflex); recover it first')
        station.moves.append(duration_s)
        station.arm.q = q
        return duration_s or 1.0

    station.arm.state, station.arm.move_to = reflex, move_to
    station.arm.recover = lambda: setattr(station.arm, 'state', well)
    station.gripper.activate = lambda: station.gripper.log.append('activated')
    return station


def test_recovery_wants_the_typed_word_and_the_next_way_is_slow(station):
    desk, usual_s = station.desk, move_duration_s(
        station.arm.q, np.array(RESET_JOINTS), PANDA)
    with pytest.raises(DriverError, match='recover it first'):
        desk.press(Button.PHOTOGRAPH)
    for typed in ('', 'yes', 'clear?'):
        with pytest.raises(SessionError, match="type 'clear' when nobody and nothing is near"):
            desk.press(Button.RECOVER, typed)
    assert desk.state().repairs == (Button.RECOVER,)
    assert desk.press(Button.RECOVER, ' Clear ') == 'recover: done'
    assert desk.state().repairs == ()
    desk.press(Button.PHOTOGRAPH)
    assert desk.state().state is State.START_PHOTOGRAPHED
    station.arm.q = np.array(RESET_JOINTS) + 0.3
    desk.press(Button.PHOTOGRAPH)
    assert station.moves == [pytest.approx(3.0 * usual_s), None]


def test_the_gripper_is_activated_by_the_typed_word(station):
    with pytest.raises(SessionError, match="type 'clear'"):
        station.desk.press(Button.ACTIVATE_GRIPPER)
    assert 'activated' not in station.gripper.log
    station.desk.press(Button.ACTIVATE_GRIPPER, 'clear')
    assert 'activated' in station.gripper.log


def test_who_asked_for_a_repair_and_how_it_ended_are_in_the_journal(station):
    desk, asked_ns = station.desk, station.clock.now_ns()
    well = station.gripper.state
    station.gripper.state = lambda age_s=0.2: replace(well(age_s), fault=5)
    assert desk.state().repairs == (Button.RECOVER, Button.ACTIVATE_GRIPPER)

    def fail():
        entry = json.loads(journal(station)[-1])
        assert (entry['move'], entry['data']['what']) == ('repairing', 'activate_gripper')
        station.clock.now += 10**9
        raise DriverError('the fingers do not answer')
    station.gripper.activate = fail
    with pytest.raises(DriverError, match='do not answer'):
        desk.press(Button.ACTIVATE_GRIPPER, 'clear')
    desk.press(Button.RECOVER, 'clear')
    failed, done = read_session(next(station.store.root.glob('*/session.json')).parent).repairs
    assert failed == Repair('activate_gripper', 'ada, page', asked_ns, asked_ns + 10**9,
                            'the fingers do not answer')
    assert (done.what, done.result) == ('recover', 'done')
    moves = [json.loads(line)['move'] for line in journal(station)]
    assert moves[-4:] == ['repairing', 'repaired'] * 2


def journal(station):
    return next(station.store.root.glob('*/journal.jsonl')).read_text().splitlines()


def test_nothing_is_repaired_while_a_policy_runs(station):
    desk = station.desk
    desk.press(Button.RECOVER, 'clear')
    desk.press(Button.PHOTOGRAPH)
    refused = []

    def press():
        for button in (Button.RECOVER, Button.ACTIVATE_GRIPPER):
            with pytest.raises(SessionError, match='wait: A is running'):
                desk.press(button, 'clear')
            refused.append(button)
    station.hall.at[3] = press
    station.conductor.run(Slot.A)
    assert len(refused) == 2
