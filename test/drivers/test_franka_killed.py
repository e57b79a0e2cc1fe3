"""A killed driver of a wired Franka, and one that falls silent: rest by the box's own log."""

import subprocess
import sys

import numpy as np
import pytest
from franka_rig import ARMS, BUSY_S, HOST, LONG, logged, needs, rest_after, until

from arena_robot.core.action import ArmCommand
from arena_robot.drivers.emulators.fr3 import Fr3Emulator

BEAT_MS, TIMEOUT_MS = 500, 200      # of the heartbeat; of commands, as set here
DRIVER = """
import sys, time
import numpy as np
from arena_robot.core.action import ArmCommand
from arena_robot.drivers.franka import arm as arms
with getattr(arms, sys.argv[1])(sys.argv[2]) as arm:
    arm.recover()
    home, begin = arm.wait_state(30.0).q, time.monotonic()
    while True:
        way = 0.2 * np.sin(6.0 * (time.monotonic() - begin))
        arm.command(ArmCommand(home + way * np.eye(7)[6], 0))
        time.sleep(1 / 15)
"""
ENDED = 'preempted|reflex|success'      # of a motion, by the box
LIBRARIES = [pytest.param(name, marks=needs(name)) for name in ARMS]
pytestmark = LONG


@pytest.fixture(scope='module')
def box():
    with Fr3Emulator(HOST, lock_step=True) as box:
        yield box


@pytest.mark.parametrize('library', LIBRARIES)
def test_a_killed_driver_leaves_the_arm_at_rest(box, library):
    with subprocess.Popen([sys.executable, '-c', DRIVER, ARMS[library].__name__, HOST]) as driver:
        start = box.ticks
        until(lambda: logged(box, start, 'moves'), 'the motion')
        moving = logged(box, start, 'moves')[0] + 500
        until(lambda: box.ticks > moving and box._moving, 'the motion')
        begin = box.ticks
        driver.kill()
    assert rest_after(box, begin, ENDED) <= 150
    assert logged(box, begin, ENDED)[0] - begin <= BEAT_MS


@pytest.mark.parametrize('library', LIBRARIES)
def test_an_arm_whose_commands_end_comes_to_rest(box, library):
    with ARMS[library](HOST, command_timeout=TIMEOUT_MS * 1e-3) as arm:
        arm.recover()
        home = arm.wait_state(BUSY_S).q
        arm.command(ArmCommand(home, 0))
        until(lambda: box._motion is not None and box._motion.began, 'the motion')
        begin = box.ticks
        arm.command(ArmCommand(home + 0.25 * np.eye(7)[0], 0))
        assert rest_after(box, begin, ENDED) <= 150
        assert logged(box, begin, ENDED)[0] - begin <= TIMEOUT_MS + 50
