"""Cameras whose pictures come late are named before and while a rollout runs."""

from types import SimpleNamespace

from arena_robot.session.loop.pacing import lag_problem, picture_lag_s, waiting_loop
from arena_robot.session.loop.preflight import preflight

MS = 1_000_000


def camera(lag_ms, clock=None, period_ms=66):
    """A camera whose newest frames came ``lag_ms`` after they were taken."""
    now_ns = clock.now_ns() if clock else 0
    pairs = [(stamp, stamp + lag_ms * MS)
             for stamp in range(now_ns, now_ns + 20 * period_ms * MS, period_ms * MS)]
    image = SimpleNamespace(stamp_ns=now_ns - lag_ms * MS, pixels=SimpleNamespace(shape=(4, 4, 3)))
    frame = SimpleNamespace(left=image, right=image)
    return SimpleNamespace(arrivals=lambda: pairs, wait_frame=lambda timeout_s: frame, serial='7')


def test_the_lag_is_the_usual_one():
    lens = camera(300)
    pairs = [*lens.arrivals(), (0, 5_000 * MS)]
    lens.arrivals = lambda: pairs
    assert round(picture_lag_s(lens), 6) == 0.3
    assert picture_lag_s(SimpleNamespace(arrivals=list)) is None


def test_preflight_takes_max_image_age_as_its_limit(tmp_path):
    clock = SimpleNamespace(now_ns=lambda: 10**18)

    def lag_check(lag_ms, period_ms=66):
        parts = SimpleNamespace(cameras={'wrist': camera(lag_ms, clock, period_ms)},
                                ages=SimpleNamespace(image_s=0.2))
        parts.arm_state = parts.gripper_state = lambda: SimpleNamespace(
            recovery_required=False, errors=(), stamp_ns=10**18, fault=0, position=0.0,
            mode=SimpleNamespace(name='IDLE'))
        return preflight(parts, clock, tmp_path, 0.0)[0]
    assert (lag_check(150).ok, lag_check(150).warning) == (True, False)
    rare = lag_check(150, 83)
    assert (rare.ok, rare.warning) == (True, True)
    assert 'come at 12.0 Hz, the control loop runs at 15' in rare.detail
    late = lag_check(300)
    assert not late.ok
    assert 'are 300 ms old when they come, a step accepts 200 ms (max_image_age)' in late.detail
    ahead = lag_check(-80)
    assert not ahead.ok
    assert 'clock is off by -0.08 s' in ahead.detail


def test_a_running_loop_names_the_cameras_it_waits_for():
    cameras = {'left': camera(310), 'wrist': camera(40)}
    said = waiting_loop(cameras, 0.2)
    assert said == ('Pictures come too late (left camera 310 ms; a step accepts 200 ms): the loop '
                    'waits for them.')
    assert waiting_loop({'wrist': cameras['wrist']}, 0.2) == ''
    assert lag_problem(0.2, 0.2) == ''
