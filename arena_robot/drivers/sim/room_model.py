"""
Surroundings of the arm: floor, mobile desk, tripods, lights; bodies, eyes, lenses of the cameras.

Pictures of wood, floor and wall are drawn by seed and handed to MuJoCo as PNG bytes.
"""

from dataclasses import dataclass
from math import atan, degrees

import cv2
import numpy as np

from arena_robot.core.observation import EYES, CameraInfo, Floats, view
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.robots.cameras import MODELS, NATIVE_SIZE, SERIALS

FLOOR_Z = -0.74
OVERVIEW = 'overview'  # a camera that no real station has, to show it whole
DESK_CENTRE = (0.33, 0.0)
DESK_HALF = (0.53, 0.50)
_WOODS = ('oak', 'walnut', 'white', 'grey')
_WOOD = {'oak': ((196, 158, 112), (164, 122, 78)), 'walnut': ((128, 88, 60), (92, 60, 40)),
         'white': ((214, 210, 203), (192, 186, 177)), 'grey': ((176, 172, 167), (140, 136, 132))}


@dataclass(frozen=True)
class Look:
    """Appearance by seed: camera poses (m, looking at a point), light, wood."""

    left: tuple[Floats, Floats]
    right: tuple[Floats, Floats]
    wrist_tilt: float
    light: Floats
    brightness: float
    warmth: float
    wood: str
    floor: tuple[float, float, float]


def look_for(rng: np.random.Generator) -> Look:
    """Draw a look: cameras move by centimetres, light and table change visibly."""
    def eye(side: float) -> tuple[Floats, Floats]:
        position = np.array([0.34, side * 0.66, 0.44]) + rng.uniform(-1, 1, 3) * (0.07, 0.05, 0.05)
        target = np.array([0.42, side * 0.02, 0.13]) + rng.uniform(-1, 1, 3) * (0.04, 0.04, 0.02)
        return position, target

    grey = float(rng.uniform(0.28, 0.5))
    return Look(left=eye(1.0), right=eye(-1.0), wrist_tilt=float(rng.uniform(0.30, 0.36)),
                light=np.array([0.3, 0.0, 2.4]) + rng.uniform(-1, 1, 3) * (0.9, 0.9, 0.3),
                brightness=float(rng.uniform(0.8, 1.05)), warmth=float(rng.uniform(-1, 1)),
                wood=str(rng.choice(_WOODS)), floor=(grey, grey * 0.99, grey * 0.97))


def add_room(world: Node, look: Look) -> None:
    """
    Add desk, furniture, walls, floor and lights to ``world``.

    Called last and written front to back: objects drawn later are mostly hidden and cost less.
    """
    room = world.add('body', name='room')
    _desk(room)
    _furniture(room)
    for x, y, sx, sy in ((-2.2, 0, 0.05, 6), (0, 2.6, 6, 0.05), (0, -2.6, 6, 0.05),
                         (3.2, 0, 0.05, 6)):
        room.add('geom', class_='visual', type='box', material='wall', size=(sx, sy, 1.9),
                 pos=(x, y, FLOOR_Z + 1.9))
    room.add('geom', class_='visual', type='box', material='wall', size=(6, 6, 0.05),
             pos=(0, 0, FLOOR_Z + 3.8))
    room.add('geom', class_='fixed', name='floor', type='plane', material='floor',
             size=(6, 6, 4), pos=(0, 0, FLOOR_Z))
    position = np.array([1.75, -1.05, 0.92])
    right, up = camera_axes(position, np.array([0.27, 0.02, 0.05]))
    world.add('camera', name=OVERVIEW, pos=position, xyaxes=(*right, *up), fovy=42)
    warm = np.array([1.0, 1.0 + 0.03 * look.warmth, 1.0 + 0.09 * look.warmth])
    key = np.clip(warm * 0.52 * look.brightness, 0, 1)
    world.add('light', pos=look.light, dir=np.array([0.45, 0, 0]) - look.light, directional=True,
              diffuse=key, specular=(0.2, 0.2, 0.2), castshadow=True)
    world.add('light', pos=(-1.5, 1.5, 2), dir=(0.8, -0.7, -0.9), directional=True,
              diffuse=key * 0.3, specular=(0.0, 0.0, 0.0), castshadow=False)


def _furniture(world: Node) -> None:
    """A whiteboard, a shelf with boxes, a door and a poster: the background of the images."""
    world.add('geom', class_='visual', type='box', material='board',
              size=(0.9, 0.01, 0.5), pos=(0.5, -2.53, 0.55))
    world.add('geom', class_='visual', type='box', material='metal',
              size=(0.93, 0.008, 0.53), pos=(0.5, -2.54, 0.55))
    for x, z, colour in ((0.1, 0.7, (0.2, 0.35, 0.6)), (0.75, 0.5, (0.65, 0.25, 0.2))):
        world.add('geom', class_='visual', type='box', rgba=(*colour, 1),
                  size=(0.16, 0.004, 0.012), pos=(x, -2.515, z))
    for y, z, size, rgb in ((-0.9, 0.31, (0.01, 0.45, 1.05), (0.45, 0.50, 0.54)),
                            (0.75, 0.75, (0.01, 0.42, 0.30), (0.20, 0.42, 0.55))):
        world.add('geom', class_='visual', type='box', rgba=(*rgb, 1), size=size,
                  pos=(-2.14, y, z))
    for z in (-0.05, 0.45, 0.95):
        world.add('geom', class_='visual', type='box', material='shelf',
                  size=(0.8, 0.16, 0.015), pos=(0.6, 2.38, z))
    for x, z, half, colour in ((0.1, 0.13, 0.16, (0.62, 0.49, 0.34)),
                               (0.62, 0.09, 0.12, (0.25, 0.33, 0.42)),
                               (1.08, 0.12, 0.15, (0.62, 0.49, 0.34)),
                               (0.35, 0.60, 0.13, (0.72, 0.72, 0.70)),
                               (0.95, 0.63, 0.16, (0.55, 0.22, 0.18))):
        world.add('geom', class_='visual', type='box', rgba=(*colour, 1),
                  size=(half * 1.1, 0.13, half), pos=(x, 2.36, z))


def _desk(world: Node) -> None:
    (cx, cy), (hx, hy) = DESK_CENTRE, DESK_HALF
    world.add('geom', class_='fixed', name='table', type='box', material='wood',
              size=(hx, hy, 0.0175), pos=(cx, cy, -0.0175))
    world.add('geom', class_='visual', type='box', material='metal_dark',
              size=(hx - 0.03, hy - 0.03, 0.02), pos=(cx, cy, -0.055))
    world.add('geom', class_='visual', type='box', material='metal_dark', size=(0.14, 0.12, 0.004),
              pos=(-0.02, 0, -0.003))
    for x in (cx - hx + 0.06, cx + hx - 0.06):
        for y in (cy - hy + 0.06, cy + hy - 0.06):
            world.add('geom', class_='visual', type='box', material='metal_dark',
                      size=(0.025, 0.025, 0.3), pos=(x, y, -0.375))
            world.add('geom', class_='visual', type='cylinder', material='dark', size=[0.035],
                      fromto=(x, y - 0.014, FLOOR_Z + 0.035, x, y + 0.014, FLOOR_Z + 0.035))
        world.add('geom', class_='visual', type='box', material='metal_dark',
                  size=(0.02, hy - 0.06, 0.02), pos=(x, cy, -0.6))
    world.add('geom', class_='visual', type='box', material='metal_dark', size=(hx - 0.06, 0.2,
              0.008), pos=(cx, cy, -0.58))
    world.add('geom', class_='visual', type='box', material='dark', size=(0.18, 0.16, 0.05),
              pos=(0.05, 0, -0.525))


def camera_axes(position: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return (3,) right and up of a level camera at ``position`` that looks at ``target``."""
    forward = (target - position) / np.linalg.norm(target - position)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    return right, np.cross(right, forward)


def add_tripod_camera(world: Node, role: str, pose: tuple[Floats, Floats]) -> Node:
    """Add a ZED 2 on a tripod; return the body that carries its eyes."""
    position, target = pose
    right, up = camera_axes(position, target)
    foot = position - (0, 0, 0.055)
    world.add('geom', class_='visual', type='cylinder', material='dark', size=[0.011],
              fromto=(*foot, foot[0], foot[1], -0.25))
    world.add('geom', class_='visual', type='cylinder', material='dark', size=[0.017],
              fromto=(foot[0], foot[1], 0.05, foot[0], foot[1], -0.30))
    world.add('geom', class_='visual', type='sphere', material='dark', size=[0.018], pos=foot)
    world.add('geom', class_='visual', type='cylinder', material='metal', size=[0.007],
              fromto=(*foot, *(position - (0, 0, 0.016))))
    for k in range(3):
        angle = 2 * np.pi * k / 3 + (0.5 if position[1] > 0 else -0.5)
        spread = 0.30 * np.array([np.cos(angle), np.sin(angle)])
        world.add('geom', class_='visual', type='capsule', material='dark', size=[0.011],
                  fromto=(foot[0], foot[1], -0.20, *(foot[:2] + spread), FLOOR_Z + 0.012))
    return world.add('body', name=f'camera_{role}', pos=position, xyaxes=(*right, *up))


def _noise(rng: np.random.Generator, height: int, width: int, fx: int, fy: int) -> Floats:
    coarse = rng.uniform(-1, 1, (fy, fx)).astype(np.float32)
    return np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), float)


def wood_png(rng: np.random.Generator, kind: str) -> bytes:
    """Return planks with grain running along the first axis of the picture."""
    size = 512
    light, dark = (np.array(colour, float) for colour in _WOOD[kind])
    warp = _noise(rng, size, size, 4, 6) * 3 + _noise(rng, size, size, 5, 40) * 0.8
    rows = np.arange(size)[:, None] / size * 22
    grain = 0.5 + 0.5 * np.sin(rows * 2 * np.pi / 3 + warp)
    grain = 0.45 * grain + 0.55 * (0.5 + 0.5 * _noise(rng, size, size, 8, size // 3))
    picture = dark + (light - dark) * grain[..., None]
    planks = rng.uniform(0.93, 1.05, 4)[np.arange(size) * 4 // size]
    picture = picture * planks[:, None, None]
    picture[np.arange(0, size, size // 4)] *= 0.75
    return _png(picture)


def floor_png(rng: np.random.Generator, colour: tuple[float, float, float]) -> bytes:
    """Return speckled concrete."""
    size = 256
    picture = np.array(colour) * 255 * np.ones((size, size, 1))
    picture = picture * (1 + 0.05 * _noise(rng, size, size, 9, 9)[..., None]
                         + 0.05 * rng.uniform(-1, 1, (size, size, 1)))
    return _png(picture)


def _png(rgb: Floats) -> bytes:
    pixels = np.clip(rgb, 0, 255).astype(np.uint8)
    _, data = cv2.imencode('.png', pixels[..., ::-1])
    return bytes(data.tobytes())


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
