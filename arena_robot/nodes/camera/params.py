"""The parameters of camera_node."""

from dataclasses import dataclass

import numpy as np

from arena_robot.core.errors import ConfigError
from arena_robot.core.jpeg import QUALITY
from arena_robot.core.observation import EYES, ROLES
from arena_robot.nodes.lib.parameters import PartParams, param
from arena_robot.robots.arms import PANDA
from arena_robot.robots.cameras import STYLES
from arena_robot.safety.urdf import CameraMount

# Position of red, green and blue in a pixel of an Image message.
ENCODINGS = {'rgb8': (0, 1, 2), 'bgr8': (2, 1, 0), 'bgra8': (2, 1, 0)}
MOUNT_SIZE = 6


def eyes_of(style: str) -> tuple[str, ...]:
    """Return the eyes that a camera with these topics has; a mono camera's is the left one."""
    return EYES if '{eye}' in STYLES[style][0] else EYES[:1]


@dataclass(frozen=True, kw_only=True)
class CameraParams(PartParams):
    """The parameters of camera_node."""

    role: str = param('left', 'position of the camera', choices=ROLES)
    serial_number: str = param('', 'serial number that the camera must have; empty: any')
    camera_name: str = param('', 'prefix of frame names; empty: the role')
    arm_prefix: str = param('', "prefix of joint and frame names, such as 'left'")
    extrinsics: tuple[float, ...] = param(
        (), "pose of the left eye's optical frame in extrinsics_frame: x y z (m) roll pitch yaw "
        "(rad); empty: unknown, or the simulation's")
    extrinsics_frame: str = param(
        '', f'frame that the camera is fixed to, such as {PANDA.base_frame()}, or '
        f'{PANDA.flange_frame()} on the wrist')
    publish_tf: bool = param(
        True, "publish the camera's frames on tf_static; false where another node does")
    pub_frame_rate: float = param(15.0, 'frames published', 0.1, 120.0, unit='Hz')
    width: int = param(0, 'published width; 0: size of the camera', 0, 4096, unit='px')
    height: int = param(0, 'published height; 0: size of the camera', 0, 4096, unit='px')
    encoding: str = param('rgb8', 'pixel format', choices=tuple(ENCODINGS))
    jpeg_quality: int = param(
        QUALITY, 'quality of …/compressed, encoded only while it has subscribers', 1, 100)
    topic_style: str = param(
        'zed5', 'topic names: of a ZED wrapper version, generic, or mono: a camera with one eye',
        choices=tuple(STYLES))
    capture_latency_ms: float = param(
        41.0, "stamp minus true exposure, published in diagnostics; DROID's for ZED",
        0.0, 1000.0, unit='ms')

    @property
    def frame_name(self) -> str:
        """What the names of the camera's frames begin with."""
        name = self.camera_name or self.role
        return f'{self.arm_prefix}_{name}' if self.arm_prefix else name

    @property
    def mount(self) -> CameraMount | None:
        """Where the camera is; None where ``extrinsics`` is empty. Raises ConfigError."""
        if not self.extrinsics:
            return None
        if len(self.extrinsics) != MOUNT_SIZE or not np.all(np.isfinite(self.extrinsics)):
            raise ConfigError(f'extrinsics needs {MOUNT_SIZE} finite numbers, x y z roll pitch '
                              f'yaw; found {list(self.extrinsics)}')
        if not self.extrinsics_frame:
            raise ConfigError('extrinsics needs extrinsics_frame: the frame that the camera is '
                              f'fixed to, such as {PANDA.base_frame()}')
        return CameraMount(self.extrinsics_frame, self.extrinsics)
