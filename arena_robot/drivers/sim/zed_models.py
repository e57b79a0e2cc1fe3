"""ZED 2 and ZED Mini: bodies, eyes, intrinsics."""

from math import atan, degrees

import numpy as np

from arena_robot.core.observation import EYES, CameraInfo, view
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.robots.cameras import MODELS, NATIVE_SIZE, SERIALS


def add_eyes(body: Node, role: str) -> None:
    """Add a camera's housing, lenses and two MJCF cameras to ``body`` (x right, y up)."""
    model = MODELS[role]
    hx, hy, hz = model.half
    body.add('geom', class_='visual', type='box', material='zed', size=(hx - hy, hy, hz),
             pos=(0, 0, hz + 0.001))
    for side in (-1.0, 1.0):
        body.add('geom', class_='visual', type='cylinder', material='zed', size=(hy, hz),
                 pos=(side * (hx - hy), 0, hz + 0.001))
        body.add('geom', class_='visual', type='cylinder', material='lens',
                 size=(hy * 0.62, 0.0015), pos=(side * model.baseline_m / 2, 0, 0.002))
    fovy = 2 * degrees(atan(NATIVE_SIZE[1] / 2 / model.focal_px))
    for eye, side in zip(EYES, (-0.5, 0.5), strict=True):
        body.add('camera', name=view(role, eye), pos=(side * model.baseline_m, 0, -0.004),
                 fovy=fovy)


def camera_info(role: str, width: int, height: int) -> dict[str, CameraInfo]:
    """Return the geometry of both eyes at an image size; 16:9 sizes keep square pixels."""
    model = MODELS[role]
    scale = height / NATIVE_SIZE[1]
    f = model.focal_px * scale
    k = np.array([[f, 0, (width - 1) / 2], [0, f, (height - 1) / 2], [0, 0, 1]])
    extras = {'model': model.name, 'serial': SERIALS[role]}
    return {eye: CameraInfo(width, height, k, baseline, f'{role}_{eye}_camera_frame_optical',
                            extras)
            for eye, baseline in zip(EYES, (0.0, model.baseline_m), strict=True)}
