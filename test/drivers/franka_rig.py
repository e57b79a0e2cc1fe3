"""Tests of directly wired Frankas: the libraries, the emulated box, waiting."""

import importlib.util
import os
import re
import time
from functools import partial

import numpy as np
import pytest
import waiting

from arena_robot.core.observation import RobotMode
from arena_robot.drivers.franka.arm import FrankaRsArm, LibfrankaArm

BUSY_S = 30.0
until = partial(waiting.until, timeout_s=BUSY_S)
HOST = '127.17.44.1'        # libfranka's port cannot be changed, an address of this machine can
ARMS = {'franka_rs': FrankaRsArm, 'libfranka': LibfrankaArm}
MISSING = {name: importlib.util.find_spec(arm.MODULE) is None for name, arm in ARMS.items()}
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='takes minutes with the others: make walks')


def needs(name):
    return pytest.mark.skipif(MISSING[name], reason=f'{ARMS[name].INSTALL} is not installed')


def follow(arm):
    """
    Begin a long motion of joint 7, and return its goal once the arm is on its way.

    The driver shares this process with the emulated box. Where the machine runs neither for half a
    second, the control process rightly ends the motion, and it is begun again.
    """
    start = arm.wait_state(BUSY_S).q
    goal = start + np.eye(7)[6] * (0.6 if start[6] < 0.0 else -0.6)
    arm.move_to(goal, 3.0)
    end_s = time.monotonic() + BUSY_S
    while abs((state := arm.wait_state(BUSY_S)).q[6] - start[6]) <= 0.03:
        assert time.monotonic() < end_s, (
            f'a motion did not happen: {state.mode.name} {state.errors}, {arm._trouble()!r}, '
            f'{arm._command}, {arm._seen}, process {arm._control.starts}')
        if 'the driver fell silent' in state.errors:
            arm.move_to(goal, 3.0)
    return goal


def logged(box, begin, words):
    """Return the milliseconds of the box at which it logged these words, after ``begin``."""
    return [ms for ms, said in list(box.events) if ms >= begin and re.search(words, said)]


def rest_after(box, begin, words):
    """Return how long the box's arm took to come to rest after it logged these words."""
    until(lambda: logged(box, begin, words), words)
    at = logged(box, begin, words)[0]
    until(lambda: not box._moving, 'rest')
    return next(iter(logged(box, at, 'at rest')), at) - at


def again(arm):
    """Wait until a lost robot answers again, and recover it."""
    until(lambda: not arm._trouble() and arm._seen.count, 'a new connection')
    arm.wait_state(BUSY_S)
    arm.recover()
    assert arm.wait_state(BUSY_S).mode is RobotMode.IDLE
