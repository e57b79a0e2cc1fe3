"""The contracts on recorded parts, played on simulated and on wall time."""

import threading
import time

import numpy as np
import pytest
from driver_contract import ArmContract, CameraContract, GripperContract, Rig

from arena_robot.core.clock import SystemClock
from arena_robot.drivers.recorded import Recorded, Track
from arena_robot.drivers.replay import Player, ReplayArm, ReplayCamera, ReplayGripper
from arena_robot.drivers.sim.zed_models import camera_info


class SteppingClock:
    """A clock whose sleeps take no time."""

    def __init__(self):
        self._now_ns = 10**18
        self._lock = threading.Lock()

    def now_ns(self):
        return self._now_ns

    def sleep_until_ns(self, stamp_ns):
        with self._lock:
            self._now_ns = max(self._now_ns, stamp_ns)


def short_episode(seconds=2.0):
    arm = np.arange(0, seconds, 0.01)
    frames = np.arange(0, seconds, 1 / 15)
    rng = np.random.default_rng(0)
    q = 0.1 * np.sin(arm)[:, None] * np.ones(7)
    views = {f'{role}_{eye}': Track.of((frames * 1e9).astype(np.int64) + 5, rng.integers(
        0, 255, (len(frames), 54, 96, 3), dtype=np.uint8))
        for role in ('left', 'wrist') for eye in ('left', 'right')}
    stamps = (arm * 1e9).astype(np.int64) + 5
    return Recorded(stamps, q, 0 * q, 0 * q, np.zeros((len(arm), 6)), q + 0.01, stamps,
                    np.linspace(0, 1, len(arm)), views)


@pytest.fixture(params=[SteppingClock, SystemClock])
def clock(request):
    return request.param()


@pytest.fixture
def rig(clock, request):
    player = Player(short_episode(), clock)
    part = request.param(player)

    def end():
        player.offset_ns = clock.now_ns() - player.recorded.end_ns

    def advance(seconds):
        clock.sleep_until_ns(clock.now_ns() + round(seconds * 1e9))
        if isinstance(clock, SystemClock):
            time.sleep(0.001)

    return Rig(part, clock, end, advance)


@pytest.mark.parametrize('rig', [ReplayGripper], indirect=True)
class TestReplayGripper(GripperContract):
    pass


@pytest.mark.parametrize('rig', [
    lambda player, role=role: ReplayCamera(player, role, camera_info(role, 96, 54))
    for role in ('left', 'wrist')], indirect=True, ids=['left', 'wrist'])
class TestReplayCamera(CameraContract):
    pass


class StillArm(ReplayArm):
    """The recorded arm without motions, which it refuses; see test_replay.py."""

    def move_to(self, q, duration_s=None):
        self._checked(q)
        return 0.0


@pytest.mark.parametrize('rig', [StillArm], indirect=True)
class TestReplayArm(ArmContract):
    pass
