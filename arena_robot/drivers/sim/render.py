"""
Rendering of a world, by one thread that owns the OpenGL context.

Uses snapshots in its own MjData, so rendering never blocks the physics. The static objects that a
fixed camera sees are rendered once per scene, as its backdrop.
"""

import math
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DriverError
from arena_robot.core.observation import Picture, Pixels
from arena_robot.drivers.sim.gripper_model import BAR_END, BAR_PIVOT, FINGERS
from arena_robot.drivers.sim.scene import CompiledScene
from arena_robot.drivers.sim.world import Snapshot

MAX_WIDTH, MAX_HEIGHT = 1280, 720    # the ZED's HD720, and the size of the OpenGL buffer
_PLAIN = ((256, 12, 3), (480, 16, 4), (MAX_HEIGHT, 28, 8))  # up to height: slices, stacks
_OFFSCREEN = mujoco.mjtFramebuffer.mjFB_OFFSCREEN
_STATIC, _MOVING = mujoco.mjtCatBit.mjCAT_STATIC, mujoco.mjtCatBit.mjCAT_DYNAMIC
Depths = NDArray[np.float32]
MOST_MM = 65_535    # what 16 bits hold


class Backdrop:
    """
    An image (H, W, 3) of the static objects, with the depth (H, W) of each pixel.

    The result equals rendering everything, as long as nothing is transparent: each pixel is that
    of the nearer of two objects, rendered in the same way. At the same depth the moving object is
    shown.
    """

    def __init__(self, pixels: Pixels, depth: Depths) -> None:
        self._pixels, self._depth = pixels, depth

    def behind(self, pixels: Pixels, depth: Depths) -> Pixels:
        """Return an image of the moving objects in front of this background."""
        picture: Pixels = self._pixels.copy()
        cv2.copyTo(pixels, (depth <= self._depth).view(np.uint8), picture)
        return picture


@dataclass(frozen=True)
class Shot:
    """One picture to draw: an MJCF camera and a size in pixels; colours, or ``depth``."""

    camera: str
    width: int
    height: int
    depth: bool = False

    def area(self) -> 'mujoco.MjrRect':
        """Return where in a buffer it is drawn."""
        return mujoco.MjrRect(0, 0, self.width, self.height)


class Canvas:
    """
    An OpenGL context with one scene's model loaded; belongs to the thread that made it.

    Mesa draws pixels in its own threads. There are two buffers, so that the geometry of an image
    is prepared while the pixels of the previous one are drawn. Static objects in fixed cameras are
    rendered once; see :class:`Backdrop`.
    """

    BUFFERS = 2

    def __init__(self, gl: 'mujoco.GLContext', scene: CompiledScene, width: int,
                 height: int) -> None:
        self.scene, self.width, self.height = scene, width, height
        model = self.model = scene.model
        slices, stacks = (48, 24) if scene.spec.beauty else next(
            (s, t) for h, s, t in _PLAIN if height <= h)
        model.vis.quality.numslices, model.vis.quality.numstacks = slices, stacks
        model.vis.quality.numquads = 4 if scene.spec.beauty else 1
        # As large as the images only: clearing and storing more costs time.
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        gl.make_current()
        self.data = mujoco.MjData(model)
        self._picture = mujoco.MjvScene(model, maxgeom=1000)
        for effect in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_SKYBOX):
            self._picture.flags[effect] = scene.spec.beauty
        self._picture.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._contexts = [mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50)
                          for _ in range(1 if scene.spec.beauty else self.BUFFERS)]
        self._option, self._camera = mujoco.MjvOption(), mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._posed: Snapshot | None = None
        self._bars, self._sight = _Bars(model), _Sight(model)
        self._backdrops: dict[Shot, Backdrop] = {}
        self._ids = {model.camera(i).name: i for i in range(model.ncam)}
        self._planes = tuple(float(model.stat.extent * at) for at in (
            model.vis.map.znear, model.vis.map.zfar))

    def draw(self, snapshot: Snapshot, shots: Sequence[Shot]) -> Iterator[Picture]:
        """Yield one picture per shot: (H, W, 3) uint8 RGB, or (H, W) uint16 mm of depth."""
        if snapshot is not self._posed:
            self._pose(snapshot)
        begun: deque[_Begun] = deque()
        for number, shot in enumerate(shots):
            if len(begun) == len(self._contexts):
                yield begun.popleft().finish()
            begun.append(self._begin(shot, self._contexts[number % len(self._contexts)]))
        while begun:
            yield begun.popleft().finish()

    def _begin(self, shot: Shot, context: 'mujoco.MjrContext') -> '_Begun':
        backdrop = self._backdrop(shot, context)
        self._render(shot, context, _MOVING if backdrop else _STATIC | _MOVING)
        return _Begun(shot, context, backdrop, self._planes)

    def _backdrop(self, shot: Shot, context: 'mujoco.MjrContext') -> Backdrop | None:
        """Return the static objects of a shot; None where everything has to be rendered again."""
        body = self.model.cam_bodyid[self._ids[shot.camera]]
        if self.scene.spec.beauty or self.model.body_weldid[body] or shot.depth:
            return None  # shadows fall on static objects; a camera on the arm moves
        if shot not in self._backdrops:
            self._render(shot, context, _STATIC)
            self._backdrops[shot] = Backdrop(*_read(shot, context))
        return self._backdrops[shot]

    def _render(self, shot: Shot, context: 'mujoco.MjrContext', what: int) -> None:
        self._camera.fixedcamid = camera = self._ids[shot.camera]
        self._sight.hide(self.data, camera, shot.width / shot.height)
        mujoco.mjv_updateScene(self.model, self.data, self._option, None, self._camera, what,
                               self._picture)
        self._sight.restore()
        mujoco.mjr_setBuffer(_OFFSCREEN, context)
        mujoco.mjr_render(shot.area(), self._picture, context)

    def _pose(self, snapshot: Snapshot) -> None:
        self.data.qpos[:] = snapshot.qpos
        self.data.mocap_pos[:] = snapshot.mocap_pos
        self.data.mocap_quat[:] = snapshot.mocap_quat
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        self._bars.pose(self.data)
        self._posed = snapshot

    def free(self) -> None:
        """Free the contexts' graphics memory."""
        for context in self._contexts:
            context.free()


@dataclass(frozen=True)
class _Begun:
    """A picture that is being drawn; ``planes`` m: nearest and furthest that is drawn."""

    shot: Shot
    context: 'mujoco.MjrContext'
    backdrop: Backdrop | None
    planes: tuple[float, ...]

    def finish(self) -> Picture:
        """Wait for the picture and return it, first row on top."""
        if self.shot.depth:
            near, far = self.planes
            share = 1.0 - np.float64(_read(self.shot, self.context)[1][::-1]) * (1.0 - near / far)
            mm = 1e3 * near / share
            return np.where(mm <= min(MOST_MM, 999.0 * far), np.rint(mm), 0).astype(np.uint16)
        if self.backdrop is None:
            pixels = np.empty((self.shot.height, self.shot.width, 3), np.uint8)
            mujoco.mjr_setBuffer(_OFFSCREEN, self.context)
            mujoco.mjr_readPixels(pixels, None, self.shot.area(), self.context)
        else:
            pixels = self.backdrop.behind(*_read(self.shot, self.context))
        return np.ascontiguousarray(pixels[::-1])


def _read(shot: Shot, context: 'mujoco.MjrContext') -> tuple[Pixels, Depths]:
    """Return pixels and depths in OpenGL's order: first row at the bottom."""
    pixels = np.empty((shot.height, shot.width, 3), np.uint8)
    depth = np.empty((shot.height, shot.width), np.float32)
    mujoco.mjr_setBuffer(_OFFSCREEN, context)
    mujoco.mjr_readPixels(pixels, depth, shot.area(), context)
    return pixels, depth


def _make_context() -> 'mujoco.GLContext':
    try:
        return mujoco.GLContext(MAX_WIDTH, MAX_HEIGHT)
    except (AttributeError, ImportError, RuntimeError) as error:
        backend = os.environ.get('MUJOCO_GL', 'not set')
        raise DriverError(
            f'cannot draw pictures with MUJOCO_GL={backend}: {error}; on Debian and Ubuntu: '
            'apt-get install libegl1 libgl1-mesa-dri libgles2, then MUJOCO_GL=egl') from error


class _Sight:
    """View culling: objects outside an image are not drawn; half of its cost is geometry."""

    _HIDDEN = 5  # a geom group that is not drawn

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._groups = model.geom_group.copy()
        self._radius = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)

    def hide(self, data: mujoco.MjData, camera: int, aspect: float) -> None:
        """Move geoms whose bounding sphere is outside the camera's pyramid to a hidden group."""
        turn = data.cam_xmat[camera].reshape(3, 3)
        x, y, z = ((data.geom_xpos - data.cam_xpos[camera]) @ turn).T
        up = np.tan(np.radians(self._model.cam_fovy[camera]) / 2)
        side = up * aspect
        outside = (z > self._radius) | (
            np.abs(x) + side * z > self._radius * np.hypot(1, side)) | (
            np.abs(y) + up * z > self._radius * np.hypot(1, up))
        self._model.geom_group[:] = np.where(outside, self._HIDDEN, self._groups)

    def restore(self) -> None:
        """Undo :meth:`hide`."""
        self._model.geom_group[:] = self._groups


class _Bars:
    """Turns the drawn-only linkage bars of a 2F-85 to fit its opening."""

    def __init__(self, model: mujoco.MjModel) -> None:
        kind = mujoco.mjtObj
        self._hand = mujoco.mj_name2id(model, kind.mjOBJ_BODY, 'hand')
        self._bars = [
            (mujoco.mj_name2id(model, kind.mjOBJ_GEOM, f'bar_{side}_{face}'), sign, face * 0.0135,
             model.jnt_qposadr[mujoco.mj_name2id(model, kind.mjOBJ_JOINT, finger)])
            for side, sign, finger in zip(('left', 'right'), (1, -1), FINGERS, strict=True)
            for face in (1, -1)]

    def pose(self, data: mujoco.MjData) -> None:
        if self._bars[0][0] < 0:
            return
        origin, turn = data.xpos[self._hand], data.xmat[self._hand].reshape(3, 3)
        for geom, sign, x, address in self._bars:
            y, z = sign * BAR_PIVOT[0], BAR_PIVOT[1]
            dy = sign * (BAR_END[0] + data.qpos[address]) - y
            dz = BAR_END[1] - z
            length = math.hypot(dy, dz)
            data.geom_xpos[geom] = origin + turn @ (x, y + dy / 2, z + dz / 2)
            c, s = dz / length, dy / length
            data.geom_xmat[geom] = (turn @ ((1, 0, 0), (0, c, s), (0, -s, c))).ravel()


class Renderer:
    """Draws on its own thread; the context is made on first use."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix='sim_render')
        self._gl: mujoco.GLContext | None = None
        self._canvas: Canvas | None = None
        self._closed = False

    def submit(self, snapshot: Snapshot, shots: Sequence[Shot]) -> 'Future[dict[Shot, Any]]':
        """Draw soon: one picture per shot, as :meth:`Canvas.draw`."""
        return self._thread.submit(self._draw, snapshot, tuple(shots))

    def draw(self, snapshot: Snapshot, shots: Sequence[Shot]) -> dict[Shot, Any]:
        """Draw now and return one picture per shot, as :meth:`Canvas.draw`."""
        return self.submit(snapshot, shots).result(timeout=60.0)

    def close(self) -> None:
        """Free the context; can be called twice."""
        if not self._closed:
            self._closed = True
            self._thread.submit(self._free)
            self._thread.shutdown(wait=True)

    def _draw(self, snapshot: Snapshot, shots: Sequence[Shot]) -> dict[Shot, Any]:
        canvas = self._fitting(snapshot.scene, max(shot.width for shot in shots),
                               max(shot.height for shot in shots))
        return dict(zip(shots, canvas.draw(snapshot, shots), strict=True))

    def _fitting(self, scene: CompiledScene, width: int, height: int) -> Canvas:
        """Return a canvas of ``scene`` that is large enough; it only grows."""
        canvas = self._canvas
        if canvas is not None:
            if canvas.scene is scene and canvas.width >= width and canvas.height >= height:
                return canvas
            width, height = max(width, canvas.width), max(height, canvas.height)
            canvas.free()
        if self._gl is None:
            self._gl = _make_context()
        self._canvas = Canvas(self._gl, scene, width, height)
        return self._canvas

    def _free(self) -> None:
        if self._canvas is not None:
            self._canvas.free()
        if self._gl is not None:
            self._gl.free()
        self._canvas = self._gl = None
