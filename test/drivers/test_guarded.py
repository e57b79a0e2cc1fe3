import threading

import numpy as np
import pytest

from arena_robot.core.action import ArmCommand
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import SafetyError
from arena_robot.core.observation import ArmState
from arena_robot.drivers.guarded import GuardedArm
from arena_robot.safety.filter import Safety
from arena_robot.safety.robots import PANDA, RESET_JOINTS
from arena_robot.safety.watchdog import CommandWatchdog

MS = 1_000_000
Q = np.array(RESET_JOINTS)


class PlainArm:
    """Does at once what it is told; ``busy`` delays a command, as a slow driver would."""

    def __init__(self, clock):
        self.clock, self.q, self.calls = clock, Q.copy(), []
        self.busy = None

    def open(self):
        self.calls.append('open')

    def close(self):
        self.calls.append('close')

    def state(self, max_age_s=0.1):
        zeros = np.zeros(7)
        return ArmState(self.clock.now_ns(), self.q, zeros, zeros, zeros, np.zeros(6), self.q)

    def command(self, command):
        if self.busy:
            self.busy.wait(2.0)
        self.calls.append('command')
        self.q = command.q
        return command

    def move_to(self, q, duration_s=None):
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
    with GuardedArm(PlainArm(clock), Safety(PANDA.limits, clock), watchdog) as arm:
        yield arm


def test_what_reaches_the_arm_is_bounded_and_told(guarded, clock):
    sent = guarded.command(ArmCommand(Q + 1.0, clock.now_ns()))
    assert 0.0 < np.max(np.abs(sent.q - Q)) <= PANDA.limits.max_lead * (1 + 1e-9)
    assert guarded.clamp_count == 1
    assert guarded.last_clamps[0].reason == 'step_limit'


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


def test_a_command_in_flight_cannot_undo_a_stop(guarded, clock):
    guarded.arm.busy = threading.Event()
    sender = threading.Thread(
        target=lambda: guarded.command(ArmCommand(Q + 0.1, clock.now_ns())))
    sender.start()
    stopper = threading.Thread(target=lambda: guarded.halt('test'))
    timer = threading.Timer(0.005, guarded.arm.busy.set)
    stopper.start()
    timer.start()
    for thread in (sender, stopper, timer):
        thread.join()
    assert guarded.arm.calls[-1] == 'stop'


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
