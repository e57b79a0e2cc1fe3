import pytest

from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import SafetyError
from arena_robot.safety.watchdog import CommandWatchdog, StopOwner

MS = 1_000_000


@pytest.fixture
def clock():
    return ManualClock(10_000 * MS)


@pytest.fixture
def watchdog(clock):
    return CommandWatchdog(clock, timeout_s=0.2, max_age_s=0.1)


def test_a_fresh_stream_passes(watchdog, clock):
    for _ in range(5):
        watchdog.accept(clock.now_ns())
        clock.advance_ns(66 * MS)
    assert not watchdog.ceased()


def test_a_stream_that_ceases_is_noticed_once(watchdog, clock):
    assert not watchdog.ceased()
    watchdog.accept(clock.now_ns())
    clock.advance_ns(199 * MS)
    assert not watchdog.ceased()
    clock.advance_ns(2 * MS)
    assert watchdog.ceased()
    assert not watchdog.ceased()


@pytest.mark.parametrize(('offset_ms', 'message'), [(-101, 'old'), (51, 'in the future')])
def test_a_command_of_another_time_is_refused(watchdog, clock, offset_ms, message):
    with pytest.raises(SafetyError, match=message):
        watchdog.accept(clock.now_ns() + offset_ms * MS)
    assert not watchdog.ceased()


def test_commands_pass_in_order_only(watchdog, clock):
    watchdog.accept(clock.now_ns())
    with pytest.raises(SafetyError, match='already accepted'):
        watchdog.accept(clock.now_ns() - MS)


def test_after_a_halt_only_resume_opens(watchdog, clock):
    watchdog.accept(clock.now_ns())
    watchdog.halt('the evaluator pressed stop')
    clock.advance_ns(1000 * MS)
    with pytest.raises(SafetyError, match='evaluator pressed stop'):
        watchdog.accept(clock.now_ns())
    before = clock.now_ns()
    clock.advance_ns(MS)
    watchdog.resume()
    with pytest.raises(SafetyError, match='before the last stop'):
        watchdog.accept(before)
    watchdog.accept(clock.now_ns())


@pytest.mark.parametrize('first', StopOwner)
def test_each_owner_releases_its_own_halt_alone(watchdog, clock, first):
    second = next(one for one in StopOwner if one is not first)
    watchdog.halt('the lab stopped it', StopOwner.LAB)
    watchdog.halt('STOP in a session', StopOwner.SESSION)
    assert watchdog.halted == 'the lab stopped it; STOP in a session'
    watchdog.resume(first)
    with pytest.raises(SafetyError, match='halted'):
        watchdog.accept(clock.now_ns())
    watchdog.resume(second)
    watchdog.accept(clock.now_ns())


def test_a_drop_refuses_what_was_asked_before(watchdog, clock):
    asked = clock.now_ns()
    clock.advance_ns(MS)
    watchdog.drop()
    with pytest.raises(SafetyError, match='before the last stop'):
        watchdog.accept(asked)
    assert watchdog.halted == ''
