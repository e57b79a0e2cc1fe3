"""The beats of a control loop, on a clock that only the sleeper moves."""

import pytest
from fake_station import LoopClock

from arena_robot.session.loop.pacing import Pacer


def test_small_lateness_does_not_shift_the_grid():
    clock = LoopClock()
    pacer = Pacer(15.0, clock)
    starts = []
    for index in range(30):
        tick = pacer.wait()
        starts.append(tick.start_ns)
        clock.now += 60_000_000 if index % 3 else 70_000_000
    assert starts[29] - starts[0] == 29 * pacer.period_ns
    with pytest.raises(ValueError, match='positive'):
        Pacer(0.0, clock)


def test_a_grid_is_moved_little_by_little_and_as_far_as_asked():
    clock = LoopClock()
    pacer = Pacer(15.0, clock)
    loops_ns = []
    for index in range(40):
        loops_ns.append(round(pacer.wait().loop_s * 1e9) - pacer.period_ns)
        if index in (5, 20):
            pacer.steer(10_000_000 if index == 5 else -4_000_000)
    assert loops_ns[7:11] == [3_000_000, 3_000_000, 3_000_000, 1_000_000]
    assert loops_ns[22:24] == [-3_000_000, -1_000_000]
    assert sum(loops_ns[1:]) == 6_000_000


def test_a_grid_that_starts_anew_forgets_where_it_was_to_go():
    clock = LoopClock()
    pacer = Pacer(15.0, clock)
    pacer.wait()
    pacer.steer(30_000_000)
    clock.now += 200_000_000
    pacer.wait()
    assert all(pacer.wait().loop_s == pytest.approx(1 / 15, abs=1e-9) for _ in range(10))
