"""Faults of a directly wired Franka: how one is injected, and what a driver then must do."""

import re
import threading
import time

import numpy as np
import pytest
from bad_input import in_time, told
from franka_rig import BUSY_S, again, follow, rest_after, until

from arena_robot.core.action import ArmCommand
from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.core.observation import RobotMode
from arena_robot.drivers.emulators.fci_motion import measured_q
from arena_robot.drivers.emulators.fr3 import Fr3Emulator
from arena_robot.drivers.franka import arm as arm_module

REST_MS = 150


def faults(**values):
    """Return what sets these faults of the box."""
    return lambda box, arm: [setattr(box.faults, name, value) for name, value in values.items()]


def survives(box, arm, inject):
    """See that a motion goes on to its goal."""
    goal = follow(arm)
    inject(box, arm)
    end_s = time.monotonic() + BUSY_S
    while (off := np.max(np.abs((state := arm.wait_state(BUSY_S)).q - goal))) >= 0.005:
        assert time.monotonic() < end_s, (
            f'{off:.4f} rad from the goal: {state.mode.name} {state.errors}, {arm._seen}')
    until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.IDLE)
    assert not arm.state(BUSY_S).errors


def needs_recovery(box, arm, inject, words):
    """See that the arm comes to rest, refuses commands in these words, and can be recovered."""
    goal, begin = follow(arm), box.ticks
    with in_time():
        inject(box, arm)
        until(lambda: arm.wait_state(BUSY_S).mode is RobotMode.REFLEX, 'the reflex')
    assert rest_after(box, begin, 'reflex') <= REST_MS
    with pytest.raises(DriverError, match=rf'REFLEX \(.*{words}.*\); recover it first'):
        arm.command(ArmCommand(goal, 0))
    arm.recover()
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) > 0.02


def loses_connection(box, arm, inject, words, ends='reflex|preempted'):
    """See that the arm comes to rest, is connected again, and the motion is forgotten."""
    goal, begin = follow(arm), box.ticks
    with in_time():
        inject(box, arm)
        until(arm._trouble, 'the trouble')
    assert re.search(words, arm._trouble())
    with pytest.raises(DriverError, match=words):
        arm.command(ArmCommand(goal, 0))
    assert rest_after(box, begin, ends) <= REST_MS
    box.faults.mend()
    again(arm)
    assert np.max(np.abs(arm.wait_state(BUSY_S).q - goal)) > 0.02


def does_not_start(box, arm, inject, words):
    """See that a motion does not begin, and that this is told."""
    start = arm.wait_state(BUSY_S).q
    inject(box, arm)
    with in_time():
        arm.command(ArmCommand(start, 0))
        until(lambda: words in ' '.join(arm.state(BUSY_S).errors) + arm._trouble(), 'the words')
    assert np.max(np.abs(measured_q(box.station) - start)) < 0.01


def stays_in_reflex(box, arm, inject, words, monkeypatch):
    """See that a recovery fails in these words, and that it is told in time."""
    monkeypatch.setattr(arm_module, 'RECOVERY_S', 1.6)
    box.reflex()
    until(lambda: arm.wait_state(BUSY_S).recovery_required)
    inject(box, arm)
    if 'no answer' in words:
        said = []

        def recover():
            try:
                arm.recover()
            except DriverError as error:
                said.append(str(error))
        recovery = threading.Thread(target=recover)
        with in_time():
            recovery.start()
            until(lambda: 'has not answered the recovery yet' in arm._silence(), 'the words')
        recovery.join(BUSY_S)
        arm._control.kill('the test ends it')
        assert re.search(words, said[0])
        return
    with told(DriverError, words):
        arm.recover()


def is_not_opened(arm_class, inject, words, host='127.0.0.1', port=0):
    """See that no connection is made, in these words and in time, and that nothing moves."""
    with Fr3Emulator(host, port, lock_step=True) as other:
        inject(other, None)
        arm = arm_class(f'{host}:{other.port}' if port == 0 else host)
        with told(NotConnected, words):
            arm.open()
        assert arm._control is None
        assert all('moves' not in said for _, said in other.events)
