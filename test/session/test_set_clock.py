"""Somebody sets the clock: pacing and time-outs go on, and the jump is noted."""

import json
import threading

import numpy as np
import pytest
from conducted_station import Station, go
from fake_station import LoopClock
from test_conductor import go_on

from arena_robot.core.clock import JumpDetector, ManualClock, SystemClock
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.errors import SafetyError
from arena_robot.safety.watchdog import CommandWatchdog
from arena_robot.session.loop.pacing import Pacer
from arena_robot.session.protocol.states import State

HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize('set_ns', [-HOUR_NS, HOUR_NS])
def test_a_grid_goes_on(set_ns):
    clock = LoopClock()
    pacer = Pacer(15.0, clock)
    for _ in range(10):
        pacer.wait()
    before = clock.steady_ns()
    clock.set_ns = set_ns
    ticks = [pacer.wait() for _ in range(15)]
    assert clock.steady_ns() - before == pytest.approx(10**9, abs=10**8)
    assert ticks[0].loop_s == pytest.approx(1 / 15)
    assert ticks[0].start_ns == pytest.approx(before + set_ns, abs=10**9)


@pytest.mark.parametrize('set_ns', [-HOUR_NS, HOUR_NS])
def test_a_rollout_goes_on_to_its_end_and_says_so(tmp_path, set_ns):
    station = Station(tmp_path, steps=40)
    go(station.conductor, State.START_PHOTOGRAPHED)
    step = station.hall.step

    def set_at_ten(taken, seen):
        if taken.index == 10:
            station.clock.set_ns = set_ns
        step(taken, seen)
    station.hall.step = set_at_ten
    begin = station.clock.steady_ns()
    episode = station.conductor.run(Slot.A)
    assert (episode.end, episode.steps) == (EndReason.TIMEOUT, 40)
    assert f'the clock was set by {set_ns / 1e9:+.1f} s at step 11' in episode.detail
    assert station.clock.steady_ns() - begin < 5 * 10**9


def test_a_jump_is_noted_in_the_journal_the_record_and_the_notice(tmp_path):
    station = Station(tmp_path)
    go(station.conductor, State.ASSIGNED)
    station.conductor.upkeep()
    assert not station.conductor.record.notice
    station.clock.set_ns = -HOUR_NS
    station.conductor.upkeep()
    station.conductor.upkeep()
    record = station.conductor.record
    assert record.clock_jumps_s == (-3600.0,)
    assert 'clock was set by -3600.0 s' in record.notice
    folder = station.store.root / record.session_id
    assert json.loads((folder / 'session.json').read_text())['clock_jumps_s'] == [-3600.0]
    assert '"clock_set"' in (folder / 'journal.jsonl').read_text()
    go_on(station.conductor)


@pytest.fixture
def watched():
    """Return a clock, and a watchdog that accepted a command before the clock was set back."""
    clock = LoopClock()
    watchdog = CommandWatchdog(clock, 0.3)
    watchdog.accept(clock.now_ns())
    clock.set_ns = -HOUR_NS
    return clock, watchdog


def test_the_end_of_a_command_stream_is_noticed_after_a_jump(watched):
    clock, watchdog = watched
    clock.now += 400_000_000
    assert watchdog.ceased()


def test_new_commands_are_accepted_after_a_jump_and_old_ones_are_not(watched):
    clock, watchdog = watched
    clock.now += 100_000_000
    before = clock.now_ns() - 50_000_000
    watchdog.accept(clock.now_ns())
    with pytest.raises(SafetyError, match='older than one already accepted'):
        watchdog.accept(before)
    watchdog.drop()
    clock.set_ns = -2 * HOUR_NS
    clock.now += 1_000_000
    watchdog.accept(clock.now_ns())
    with pytest.raises(SafetyError, match=r'older than one|before the last stop'):
        watchdog.accept(clock.now_ns() - 100_000_000)


def test_jumps_are_told_once_and_drift_is_none():
    clock = LoopClock()
    jumps = JumpDetector(clock)
    clock.now += 10**12
    clock.set_ns = 400_000_000
    assert jumps.jump_s() == 0.0
    clock.set_ns = -HOUR_NS
    assert jumps.jump_s() == pytest.approx(-3600.0)
    assert jumps.jump_s() == 0.0


def test_the_clocks_sleep_in_both_times():
    clock = SystemClock()
    for now, sleep in ((clock.now_ns, clock.sleep_until_ns),
                       (clock.steady_ns, clock.sleep_until_steady_ns)):
        due_ns = now() + 5_000_000
        sleep(due_ns)
        assert now() >= due_ns
        sleep(due_ns)
    manual = ManualClock(5)
    thread = threading.Thread(target=manual.sleep_until_steady_ns, args=(20,))
    thread.start()
    manual.advance_ns(20)
    thread.join(5.0)
    assert not thread.is_alive()
    assert np.isclose(manual.steady_ns(), 25)
