"""The parameters of camera_node."""

from dataclasses import dataclass

from arena_robot.core.jpeg import QUALITY
from arena_robot.core.observation import ROLES
from arena_robot.nodes.parameters import param
from arena_robot.nodes.part_params import PartParams

# Position of red, green and blue in a pixel of an Image message.
ENCODINGS = {'rgb8': (0, 1, 2), 'bgr8': (2, 1, 0), 'bgra8': (2, 1, 0)}
STYLES = {
    'zed5': ('~/{eye}/color/rect/image', '~/{eye}/color/rect/camera_info',
             '{name}_{eye}_camera_frame_optical'),
    'zed4': ('~/{eye}/image_rect_color', '~/{eye}/camera_info',
             '{name}_{eye}_camera_optical_frame'),
    'generic': ('~/{eye}/image_raw', '~/{eye}/camera_info',
                '{name}_{eye}_camera_frame_optical'),
}


@dataclass(frozen=True, kw_only=True)
class CameraParams(PartParams):
    """The parameters of camera_node."""

    role: str = param('left', 'position of the camera', choices=ROLES)
    serial_number: str = param('', 'serial number that the camera must have; empty: any')
    camera_name: str = param('', 'prefix of frame names; empty: the role')
    pub_frame_rate: float = param(15.0, 'frames published', 0.1, 120.0, unit='Hz')
    width: int = param(0, 'published width; 0: size of the camera', 0, 4096, unit='px')
    height: int = param(0, 'published height; 0: size of the camera', 0, 4096, unit='px')
    encoding: str = param('rgb8', 'pixel format', choices=tuple(ENCODINGS))
    jpeg_quality: int = param(
        QUALITY, 'quality of …/compressed, encoded only while it has subscribers', 1, 100)
    topic_style: str = param(
        'zed5', 'topic names: of a ZED wrapper version, or generic', choices=tuple(STYLES))
    capture_latency_ms: float = param(
        41.0, "stamp minus true exposure, published in diagnostics; DROID's for ZED",
        0.0, 1000.0, unit='ms')
