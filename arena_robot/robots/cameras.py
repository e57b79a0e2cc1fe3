"""The cameras of DROID stations, the names of their topics and frames, one row each."""

import math
from dataclasses import dataclass
from enum import Enum

# An optical frame (z forward, x right, y down) in a body frame (x forward, y left, z up).
OPTICAL_RPY = (-math.pi / 2, 0.0, -math.pi / 2)
# Image and camera_info of an eye, and its optical frame, by the style of a station's topics.
STYLES = {
    'zed5': ('~/{eye}/color/rect/image', '~/{eye}/color/rect/camera_info',
             '{name}_{eye}_camera_frame_optical'),
    'zed4': ('~/{eye}/image_rect_color', '~/{eye}/camera_info',
             '{name}_{eye}_camera_optical_frame'),
    'generic': ('~/{eye}/image_raw', '~/{eye}/camera_info',
                '{name}_{eye}_camera_frame_optical'),
    'mono': ('~/image_raw', '~/camera_info', '{name}_camera_optical_frame'),
    'realsense': ('~/{eye}/image_raw', '~/{eye}/camera_info', '{name}_color_optical_frame'),
}
# What eyes are called in topics, where they are not called left and right.
EYES_OF = {'mono': {'left': ''},
           'realsense': {'left': 'color', 'depth': 'aligned_depth_to_color'}}


def topics_of(style: str, eye: str, name: str = '') -> tuple[str, str, str]:
    """Return an eye's image, camera_info and frame; ``eye`` may be depth, ``name`` the camera."""
    word = EYES_OF.get(style, {}).get(eye, eye)
    image, info, frame = (text.format(eye=word, name=name) for text in STYLES[style])
    return image, info, frame


class CameraKind(str, Enum):
    """What a camera gives."""

    MONO = 'mono'
    STEREO = 'stereo'
    DEPTH = 'depth'


# The topics of simulated cameras.
STYLE_OF = {CameraKind.STEREO: 'zed5', CameraKind.MONO: 'mono', CameraKind.DEPTH: 'realsense'}
# Width and height, px, that the focal lengths are about.
NATIVE_SIZE = (1280, 720)


@dataclass(frozen=True)
class StereoModel:
    """A ZED: focal length in pixels at 1280x720, baseline and body half-size in m, a serial."""

    name: str
    focal_px: float
    baseline_m: float
    half: tuple[float, float, float]


ZED_2 = StereoModel('ZED 2', 530.0, 0.120, (0.0875, 0.015, 0.0165))
ZED_MINI = StereoModel('ZED Mini', 700.0, 0.063, (0.0623, 0.0133, 0.0085))
MODELS = {'left': ZED_2, 'right': ZED_2, 'wrist': ZED_MINI}
SERIALS = {'left': '20000001', 'right': '20000002', 'wrist': '10000003'}
