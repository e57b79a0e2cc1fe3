import threading
import time

import numpy as np
import pytest

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import ArmState
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.robots.arms import PANDA, RESET_JOINTS
from arena_robot.safety.filter import Safety
from arena_robot.safety.watchdog import CommandWatchdog

MS = 1_000_000
Q = np.array(RESET_JOINTS)


class PlainArm:
    """Does what it is told, which takes it ``busy_s``, as a driver that waits for a server."""

    def __init__(self, clock):
        self.clock, self.q, self.calls = clock, Q.copy(), []
        self.busy_s, self.begun = 0.0, threading.Event()

    def open(self):
        self.calls.append('open')

    def close(self):
        self.calls.append('close')

    def state(self, max_age_s=0.1):
        zeros = np.zeros(7)
        return ArmState(self.clock.now_ns(), self.q, zeros, zeros, zeros, np.zeros(6), self.q)

    def command(self, command):
        self.begun.set()
        time.sleep(self.busy_s)
        self.calls.append('command')
        self.q = command.q
        return command

    def move_to(self, q, duration_s=None):
        self.begun.set()
        time.sleep(self.busy_s)
        self.calls.append(f'move {duration_s:.2f}')
        return duration_s

    def stop(self):
        self.calls.append('stop')

    def recover(self):
        self.calls.append('recover')


@pytest.fixture
def clock():
    return ManualClock(5_000 * MS)


@pytest.fixture
def guarded(clock):
    watchdog = CommandWatchdog(clock, 0.5, 0.1)
    with GuardedArm(PlainArm(clock), Safety(PANDA.limits, clock), watchdog, PANDA) as arm:
        yield arm


def test_what_reaches_the_arm_is_bounded_and_told(guarded, clock):
    sent = guarded.decide(Q + 1.0, clock.now_ns())
    assert 0.0 < np.max(np.abs(sent.q - Q)) <= PANDA.limits.max_lead * (1 + 1e-9)
    assert guarded.clamp_count == 1
    assert sent.clamps[0].reason == 'step_limit'


@pytest.mark.parametrize('q', [np.full(7, np.nan), np.zeros(6), [None] * 7])
def test_nonsense_never_reaches_the_arm(guarded, clock, q):
    with pytest.raises(SafetyError):
        guarded.command(ArmCommand(q, clock.now_ns()))
    assert guarded.arm.calls == ['open']


def test_a_halt_shuts_every_path(guarded, clock):
    guarded.halt('test')
    for act in (lambda: guarded.command(ArmCommand(Q, clock.now_ns())),
                lambda: guarded.move_to(Q)):
        with pytest.raises(SafetyError, match='halted'):
            act()
    guarded.recover()
    with pytest.raises(SafetyError, match='halted'):
        guarded.command(ArmCommand(Q, clock.now_ns()))
    guarded.resume()
    guarded.command(ArmCommand(Q, clock.now_ns()))
    assert guarded.arm.calls == ['open', 'stop', 'recover', 'command']


@pytest.mark.parametrize('stop', [lambda arm: arm.halt('test'), lambda arm: arm.stop()])
@pytest.mark.parametrize('ask', [
    lambda arm, clock: arm.command(ArmCommand(Q + 0.1, clock.now_ns())),
    lambda arm, clock: arm.move_to(Q + 0.1)])
def test_a_driver_that_takes_60_ms_for_a_command_cannot_undo_a_stop(guarded, clock, ask, stop):
    guarded.arm.busy_s, refused = 0.06, []

    def send():
        with pytest.raises(SafetyError, match='a stop came while'):
            ask(guarded, clock)
        refused.append(True)
    sender = threading.Thread(target=send)
    sender.start()
    assert guarded.arm.begun.wait(2.0)
    stop(guarded)
    assert guarded.arm.calls == ['open', 'stop'], 'the stop does not wait for the driver'
    sender.join()
    assert refused
    assert guarded.arm.calls[-1] == 'stop', 'nothing that was asked before it follows a stop'


def test_silence_stops_the_arm_once(guarded, clock):
    guarded.command(ArmCommand(Q, clock.now_ns()))
    clock.advance_ns(499 * MS)
    assert not guarded.watch()
    clock.advance_ns(2 * MS)
    assert guarded.watch()
    assert not guarded.watch()
    assert guarded.arm.calls[-1] == 'stop'


def test_a_motion_is_never_faster_than_the_joints_allow(guarded):
    goal = Q + np.array([1.5, 0, 0, 0, 0, 0, 0])
    shortest_s = 1.875 * 1.5 / PANDA.limits.dq_max[0]
    assert guarded.move_to(goal, 0.2) == pytest.approx(shortest_s)
    assert guarded.move_to(goal) == pytest.approx(4.0)
    with pytest.raises(SafetyError, match='finite'):
        guarded.move_to(goal, float('nan'))


def test_a_stop_refuses_what_was_asked_before_it(guarded, clock):
    before = clock.now_ns()
    clock.advance_ns(MS)
    guarded.stop()
    with pytest.raises(SafetyError, match='before the last stop'):
        guarded.command(ArmCommand(Q, before))
    guarded.command(ArmCommand(Q, clock.now_ns()))
