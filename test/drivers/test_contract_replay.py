"""The contracts on recorded parts, played on simulated and on wall time."""

import threading

import numpy as np
import pytest

from arena_robot.core.clock import SystemClock
from arena_robot.drivers.conformance.pytest_suite import (
    ArmConformance,
    CameraConformance,
    GripperConformance,
)
from arena_robot.drivers.conformance.rig import ArmRig, CameraRig, GripperRig
from arena_robot.drivers.conformance.suite import ARM, GRIPPER
from arena_robot.drivers.replay import (
    Player,
    Recorded,
    ReplayArm,
    ReplayCamera,
    ReplayGripper,
    Track,
)
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

    steady_ns, sleep_until_steady_ns = now_ns, sleep_until_ns


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
    kind, make = request.param
    player = Player(short_episode(), clock)

    def end():
        player.offset_ns = clock.now_ns() - player.recorded.end_ns

    return kind(make(player), clock, silence=end, harmless=True)


@pytest.mark.parametrize('rig', [(GripperRig, ReplayGripper)], indirect=True, ids=['gripper'])
class TestReplayGripper(GripperConformance):
    checks = (*GRIPPER.still, *GRIPPER.commands)


@pytest.mark.parametrize('rig', [
    (CameraRig, lambda player, role=role: ReplayCamera(player, role, camera_info(role, 96, 54)))
    for role in ('left', 'wrist')], indirect=True, ids=['left', 'wrist'])
class TestReplayCamera(CameraConformance):
    pass


@pytest.mark.parametrize('rig', [(ArmRig, ReplayArm)], indirect=True, ids=['arm'])
class TestReplayArm(ArmConformance):
    checks = (*ARM.still, *ARM.commands)
