"""Pictures of a running station's camera, with the arm's pose, for its calibration."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from typing_extensions import Self

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import EYES, STILL_RAD_S, Floats, Pixels
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.remote.robot import RemoteArm, RemoteCamera

FIND_S = 10.0       # for the nodes of a station that has just started
MOVE_S = 15.0       # longer than any motion between two poses
REST_S = 5.0        # for the next state, picture or camera_info
NEAR_RAD = 0.05     # a joint at its goal; the pose is measured, so more precision is not needed
LATE_FRAMES = 30    # two seconds of pictures


@dataclass(frozen=True)
class StationCamera:
    """Which camera of which station: names of its nodes, and its topics' style."""

    namespace: str
    camera: str
    style: str
    arm: str = 'arm_node'


class CalibrationStation:
    """A running station's arm and one camera; use it in a ``with`` block."""

    def __init__(self, which: StationCamera) -> None:
        self._which, self._spin = which, Spin()

    def __enter__(self) -> Self:
        self._spin.__enter__()
        try:
            node = Listening(f'calibration_{uuid.uuid4().hex[:8]}', context=self._spin.context,
                             namespace=self._which.namespace or None)
            self._spin.add(node, threads=2)
            self.arm = RemoteArm(node, self._which.arm, FIND_S)
            self.camera = RemoteCamera(node, self._which.camera, FIND_S, self._which.style,
                                       EYES[:1])
            self.arm.open()
            self.camera.open()
        except BaseException:
            self._spin.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.camera.close()
        self.arm.close()
        self._spin.close()

    def intrinsics(self) -> Floats:
        """
        Return the (3, 3) intrinsics of the left eye; DriverError without camera_info.

        The first one comes after the first picture.
        """
        end_s = time.monotonic() + REST_S
        while (info := self.camera.info().get(EYES[0])) is None and time.monotonic() < end_s:
            time.sleep(0.01)
        if info is None or not info.k[0, 0]:
            raise DriverError(f'{self._which.camera} publishes no camera_info with a focal length')
        return info.k

    def take(self) -> tuple[Floats, Pixels]:
        """Return the flange's pose (6,) and a picture from then; DriverError while it moves."""
        before = self.arm.wait_state(REST_S)
        image = self.camera.wait_frame(REST_S).left
        for _ in range(LATE_FRAMES):
            if image.stamp_ns > before.stamp_ns:
                break
            image = self.camera.wait_frame(REST_S).left
        else:
            raise DriverError('its pictures are older than the state of the arm; are the clocks '
                              'of both the same?')
        after = self.arm.wait_state(REST_S)
        moved = float(np.max(np.abs(after.q - before.q)))
        if max(np.max(np.abs(before.dq)), np.max(np.abs(after.dq))) > STILL_RAD_S \
                or moved > 0.002:
            raise DriverError('the arm moves; let it come to rest')
        return after.pose, image.pixels

    def go(self, q: Floats, stopped: Callable[[], bool] = lambda: False) -> None:
        """Move to joints (7,) rad through the safety layer and wait for rest; DriverError."""
        self.arm.move_to(q)
        for _ in range(round(MOVE_S * 50)):
            state = self.arm.wait_state(REST_S)
            if stopped():
                self.arm.stop()
                raise DriverError('stopped')
            if np.max(np.abs(state.q - q)) < NEAR_RAD and np.max(np.abs(state.dq)) < STILL_RAD_S:
                return
        self.arm.stop()
        raise DriverError(f'the arm is not at {np.round(q, 3).tolist()} after {MOVE_S:g} s')
