"""The beats of a control loop, and where in a period it looks at its cameras."""

import numpy as np
import pytest
from fake_station import LoopClock

from arena_robot.session.loop.pacing import OLDEST_NS, Pacer, best_shift_ns

PERIOD_NS = 66_666_667
MS = 1_000_000


def camera(phase_ms=0.0, way_ms=30.0, jitter_ms=0.0, late=None, count=90, seed=0):
    """Return (stamp, came) of a camera; ``late`` has ways in ms of single pictures."""
    stamps = 10**9 + round(phase_ms * MS) + PERIOD_NS * np.arange(count)
    ways = np.full(count, way_ms) + np.random.default_rng(seed).uniform(0, jitter_ms, count)
    for index, way in (late or {}).items():
        ways[index] = way
    return [(int(s), int(s + w * MS)) for s, w in zip(stamps, ways, strict=True)]


def due(phase_ms, arrivals):
    return arrivals[0][-1][0] + round(phase_ms * MS) + PERIOD_NS


def oldest_ms(due_ns, arrivals):
    """Return the age of the oldest picture at 40 beats before ``due_ns``."""
    ages = []
    for beat in due_ns - PERIOD_NS * np.arange(2, 42):
        ages.append(beat - min(max(s for s, c in pairs if c <= beat) for pairs in arrivals))
    return np.array(ages) / MS


@pytest.mark.parametrize('phase_ms', range(0, 66, 5))
@pytest.mark.parametrize('phases', [(0, 0, 0), (0, 25, 50), (3, 40, 41)])
def test_from_everywhere_it_is_as_good_as_the_best_moment(phase_ms, phases):
    arrivals = [camera(p, way_ms=20 + 4 * k, jitter_ms=5, seed=k) for k, p in enumerate(phases)]
    here = due(phase_ms, arrivals)
    shift = best_shift_ns(here, PERIOD_NS, arrivals)
    assert abs(shift) <= PERIOD_NS // 2
    best = min(oldest_ms(here + d * MS, arrivals).max() for d in range(-33, 34))
    assert oldest_ms(here + shift, arrivals).max() <= best + 12
    assert abs(best_shift_ns(here + shift, PERIOD_NS, arrivals)) <= 1 * MS


def test_a_good_grid_stays_although_another_is_a_little_better():
    arrivals = [camera(way_ms=30)]
    assert best_shift_ns(due(38, arrivals), PERIOD_NS, arrivals) == 0
    assert best_shift_ns(due(45, arrivals), PERIOD_NS, arrivals) < -7 * MS


def test_it_makes_room_for_pictures_that_are_late_now_and_then_but_not_at_any_price():
    rarely = dict.fromkeys(range(3, 88, 12), 55.0)
    arrivals = [camera(way_ms=30, late=rarely)]
    here = due(37, arrivals)
    moved = best_shift_ns(here, PERIOD_NS, arrivals)
    assert oldest_ms(here + moved, arrivals).max() < 66
    arrivals = [camera(way_ms=30, late=dict.fromkeys(rarely, 92.0))]
    moved = best_shift_ns(here, PERIOD_NS, arrivals)
    assert np.median(oldest_ms(here + moved, arrivals)) * MS <= OLDEST_NS


def test_one_picture_that_is_too_late_for_any_moment_moves_nothing():
    arrivals = [camera(way_ms=30, late={60: 95.0})]
    assert best_shift_ns(due(37, arrivals), PERIOD_NS, arrivals) == 0


@pytest.mark.parametrize('arrivals', [
    [], [[]], [camera(), []], [camera(count=1)], [camera(count=9)]])
def test_with_too_little_known_nothing_moves(arrivals):
    assert best_shift_ns(10**9 + 9 * PERIOD_NS, PERIOD_NS, arrivals) == 0


def test_where_pictures_come_irregularly_it_leaves_more_room():
    def room(jitter_ms):
        arrivals = [camera(way_ms=25, jitter_ms=jitter_ms)]
        here = due(60, arrivals)
        latest_ms = max(c - s for s, c in arrivals[0]) / MS
        return 60 + best_shift_ns(here, PERIOD_NS, arrivals) / MS - latest_ms
    assert 4 <= room(0) <= 6
    assert 9 <= room(20) <= 16


def test_no_room_is_left_that_would_make_every_picture_old():
    arrivals = [camera(way_ms=30, jitter_ms=60)]
    here = due(60, arrivals)
    moved = best_shift_ns(here, PERIOD_NS, arrivals)
    assert np.median(oldest_ms(here + moved, arrivals)) * MS <= OLDEST_NS


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
