"""The checks hold for a driver that keeps its promises, and find each promise that is broken."""

import threading

import numpy as np
import pytest
from broken_drivers import BROKEN, FinishesFirst
from lab_drivers import LabArm, LabCamera, LabGripper

from arena_robot.core.conformance import FAIL, PASS, SKIP
from arena_robot.drivers.conformance.rig import ArmRig, CameraRig, GripperRig
from arena_robot.drivers.conformance.suite import SUITES, run_moving, run_still

RIGS = {LabArm: ('arm', ArmRig), LabGripper: ('gripper', GripperRig),
        LabCamera: ('camera', CameraRig)}


class QuickClock:
    """Its sleeps take no time."""

    def __init__(self):
        self._now_ns, self._lock = 10 ** 18 + 3_000_000, threading.Lock()

    def now_ns(self):
        return self._now_ns

    def sleep_until_ns(self, stamp_ns):
        with self._lock:
            self._now_ns = max(self._now_ns, stamp_ns)

    steady_ns, sleep_until_steady_ns = now_ns, sleep_until_ns


def rig_of(made, **options):
    kind, rig = next(RIGS[base] for base in made.__mro__ if base in RIGS)
    part = made(QuickClock())
    options = {'harmless': True, **options}
    return kind, rig(part, part.clock, silence=part.silence, mend=part.mend,
                     trip=getattr(part, 'trip', None), **options)


def results_of(made, **options):
    kind, rig = rig_of(made, **options)
    found = []
    run_still(SUITES[kind], rig, found.append)
    run_moving(SUITES[kind], rig, found.append)
    return found


@pytest.mark.parametrize('made', RIGS)
def test_a_driver_that_keeps_its_promises_passes(made):
    results = results_of(made)
    assert [r for r in results if r.outcome != PASS] == []
    assert len({r.check for r in results}) == len(results)


@pytest.mark.parametrize(('made', 'check'), BROKEN)
def test_each_broken_promise_is_found(made, check):
    results = {r.check: r for r in results_of(made)}
    found = results[check]
    assert found.outcome == FAIL, found
    assert found.sent
    assert found.received
    assert found.change


def test_every_check_has_a_driver_that_fails_it():
    known = {check.__name__ for suite in SUITES.values()
             for check in (*suite.still, *suite.moving)}
    assert {param.values[1] for param in BROKEN} == known


def test_on_a_real_arm_nothing_more_moves_after_a_failure():
    results = {r.check: r for r in results_of(FinishesFirst, harmless=False, joints=(6,))}
    assert results['stop_ends_a_motion'].outcome == FAIL
    assert results['tracks_a_stream'].outcome == SKIP
    assert results['tracks_a_stream'].detail == 'not run after stop_ends_a_motion failed'


def test_one_joint_moves_a_little_and_comes_back():
    kind, rig = rig_of(LabArm, harmless=False, joints=(6,),
                       withheld={'far_target_is_clipped': 'real'})
    before, most = rig.part.q.copy(), np.zeros(7)

    def told(result):
        nonlocal most
        assert result.outcome == (SKIP if result.check == 'far_target_is_clipped' else PASS)

    step = rig.part.step

    def watched():
        nonlocal most
        step()
        most = np.maximum(most, np.abs(rig.part.q - before))
    rig.part.step = watched
    run_moving(SUITES[kind], rig, told)
    assert np.all(most[:6] < 1e-9)
    assert 0.1 < most[6] <= 0.2 + 1e-9
    np.testing.assert_allclose(rig.part.q, before, atol=1e-6)


def test_an_interrupted_motion_is_stopped_before_the_arm_is_closed(monkeypatch):
    kind, rig = rig_of(LabArm)
    calls = []

    def interrupt(seconds):
        if rig.part.motion is not None:
            raise KeyboardInterrupt
        rig.clock.sleep_until_ns(rig.clock.now_ns() + round(seconds * 1e9))

    rig.sleep = interrupt
    stop, close = rig.part.stop, rig.part.close
    monkeypatch.setattr(rig.part, 'stop', lambda: (calls.append('stop'), stop()))
    monkeypatch.setattr(rig.part, 'close', lambda: (calls.append('close'), close()))
    with pytest.raises(KeyboardInterrupt):
        run_moving(SUITES[kind], rig, lambda result: calls.clear())
    assert calls == ['stop', 'close']
    assert rig.part.motion is None
