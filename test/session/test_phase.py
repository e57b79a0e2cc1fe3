"""The beats of a control loop, where in a period it looks at its cameras, when it asks."""

from concurrent import futures

import numpy as np
import pytest
from fake_station import FakeArm, FakeCamera, FakeGripper, LoopClock, Sink
from test_rollout import Bench

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import EndReason, Slot
from arena_robot.core.inferences import waited_share
from arena_robot.core.observation import Image
from arena_robot.drivers.base import StereoFrame
from arena_robot.policy import chunks
from arena_robot.policy.base import PolicySpec
from arena_robot.session.loop.pacing import OLDEST_NS, Pacer, best_shift_ns
from arena_robot.session.loop.parts import Parts
from arena_robot.session.loop.rollout import Rollout, RolloutConfig, RolloutRequest

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


class FreeCamera(FakeCamera):
    """Takes a picture each period at a phase of its own; each is on its way for a while."""

    def __init__(self, clock, phase_ms, way_ms):
        super().__init__(clock)
        self.phase_ns, self.way_ns = phase_ms * 1_000_000, way_ms * 1_000_000
        self.period_ns = round(1e9 / 15)

    def number(self):
        return (self.clock.now_ns() - self.way_ns - self.phase_ns) // self.period_ns

    def frame(self, max_age_s=0.2):
        image = Image(np.zeros((4, 4, 3), np.uint8), self.stamp_ns(self.number()))
        return StereoFrame(image, image, 0)

    def wait_frame(self, timeout_s):
        self.clock.now = self.stamp_ns(self.number() + 1) + self.way_ns
        return self.frame()

    def stamp_ns(self, number):
        return number * self.period_ns + self.phase_ns

    def arrivals(self):
        stamps = [self.stamp_ns(self.number() - back) for back in range(29, -1, -1)]
        return [(stamp, stamp + self.way_ns) for stamp in stamps]


@pytest.mark.parametrize(('phases_ms', 'ways_ms', 'oldest_ms'), [
    ((0, 0, 0), (20, 30, 45), 52), ((0, 20, 40), (25, 25, 25), 73), ((60, 5, 10), (10, 30, 8), 49),
])
def test_every_step_sees_fresh_pictures_whatever_the_phases_of_the_cameras(
        phases_ms, ways_ms, oldest_ms):
    bench = Bench(steps=60)
    bench.cameras.update({
        role: FreeCamera(bench.clock, phase, way) for role, phase, way in zip(
            ('left', 'right', 'wrist'), phases_ms, ways_ms, strict=True)})
    bench.rollout.run()
    oldest = [(s.stamp_ns - min(s.image_stamps_ns.values())) / 1e6 for s in bench.sink.steps]
    assert max(oldest) <= oldest_ms


def test_a_loop_that_was_held_up_finds_back_to_fresh_pictures():
    bench = Bench(steps=60)
    bench.cameras['left'] = FreeCamera(bench.clock, 0, 40)
    bench.sink.at[10] = lambda: setattr(bench.clock, 'now', bench.clock.now + 92_000_000)
    bench.rollout.run()
    age = [(s.stamp_ns - s.image_stamps_ns['left_left']) / 1e6 for s in bench.sink.steps]
    assert max(age[:10]) < 50
    assert max(age[11:16]) > 60
    assert max(age[30:]) < 50


PERIOD_S = 1.0 / 15


class Later(futures.Future):
    """An answer that is there from an instant of a clock on."""

    def __init__(self, clock, ready_ns):
        super().__init__()
        self.clock, self.ready_ns = clock, ready_ns

    def done(self):
        return self.clock.now >= self.ready_ns

    def add_done_callback(self, fn):
        """Call it at once, at the time at which the answer will be there."""
        now, self.clock.now = self.clock.now, max(self.clock.now, self.ready_ns)
        fn(self)
        self.clock.now = now


class Thinker:
    """Answers after ``thinks_s`` of a clock."""

    def __init__(self, clock, thinks_s, spec):
        self.clock, self.thinks_s, self.spec = clock, thinks_s, spec
        self.asked, self.ready_ns = [], 0

    def infer(self, observation, episode=''):
        self.asked.append(observation.step)
        self.ready_ns = self.clock.now + round(self.thinks_s * 1e9)
        actions = np.ones((self.spec.chunk_length, 8), np.float32)
        return Chunk(actions, self.spec.action_space)

    def reset(self, episode=''):
        self.ready_ns = 0


@pytest.fixture
def rolled(monkeypatch):
    def roll(thinks_s, steps, **options):
        clock, sink = LoopClock(), Sink()
        policy = Thinker(clock, thinks_s, PolicySpec(ActionSpace.JOINT_VELOCITY, **options))

        class Worker:
            def submit(self, call):
                future = Later(clock, 0)
                future.set_result(call())
                future.ready_ns = policy.ready_ns
                return future

            def end(self):
                pass

        def wait(ends, timeout_s, _):
            clock.now = max(clock.now, ends[0].ready_ns)

        monkeypatch.setattr(chunks, 'CallThread', Worker)
        monkeypatch.setattr(chunks.futures, 'wait', wait)
        parts = Parts(FakeArm(clock), FakeGripper(clock), {'left': FakeCamera(clock)})
        job = RolloutRequest('s1', Slot.A, 'put the cube in the bowl')
        episode = Rollout(job, parts, policy, clock, sink,
                          RolloutConfig(max_steps=steps)).run()
        assert (episode.end, episode.steps) == (EndReason.TIMEOUT, steps)
        return episode, policy, sink
    return roll


def test_the_loop_asks_when_a_chunk_is_used_up_and_keeps_exact_values(rolled):
    episode, policy, sink = rolled(0.2, 12, chunk_length=4)
    assert policy.asked == [0, 4, 8]
    assert sink.chunks == [(0, 0, 4), (1, 4, 4), (2, 8, 4)]
    assert [s.inference_s for s in sink.steps] == pytest.approx([0.2, 0, 0, 0] * 3)
    assert [(s.chunk_index, s.chunk_step) for s in sink.steps] == [
        (n, k) for n in range(3) for k in range(4)]
    assert [s.loop_s for s in sink.steps[1:5]] == pytest.approx([0.2, *[PERIOD_S] * 3], abs=1e-6)
    assert episode.waited == pytest.approx(0.6 / (0.6 + 9 * PERIOD_S), abs=0.01)


@pytest.mark.parametrize('length', [8, 10, 15])
@pytest.mark.parametrize('takes_s', [0.05, 0.15, 0.3, 0.5])
@pytest.mark.parametrize('pipelined', [True, False])
def test_the_arm_waits_no_longer_than_it_must(rolled, length, takes_s, pipelined):
    episode, policy, sink = rolled(takes_s, 90, chunk_length=length, pipelined=pipelined)
    waits = [s.inference_s for s in sink.steps]
    assert waits[0] == pytest.approx(takes_s), 'the first chunk is waited for'
    asked = len(policy.asked) - 1
    if pipelined:    # asked one step after a chunk began at the earliest
        least_s = max(0.0, takes_s - (length - 1) / 2 * PERIOD_S)
        assert sum(waits[1:]) <= asked * (least_s + PERIOD_S if least_s else 0.0)
    else:
        assert sum(waits[1:]) == pytest.approx(asked * takes_s)
    assert episode.waited == pytest.approx(waited_share(waits, 90), abs=0.01)
