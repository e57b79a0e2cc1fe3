"""The simulated cameras behind the Camera protocol."""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import mujoco
import numpy as np

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, ReadTimeout, StaleData
from arena_robot.core.observation import (
    EYES,
    ROLES,
    CameraInfo,
    DepthImage,
    Image,
    Pixels,
    view,
)
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.grabbing import Arrivals
from arena_robot.drivers.part import Opened
from arena_robot.drivers.sim.mjcf import pose_of
from arena_robot.drivers.sim.render import Renderer, Shot
from arena_robot.drivers.sim.room_model import camera_info
from arena_robot.drivers.sim.world import SimWorld
from arena_robot.robots.cameras import NATIVE_SIZE, SERIALS, CameraKind

log = logging.getLogger(__name__)
WAITING = 1  # frames that can wait while a slow one is rendered; more are lost
_EARLY_NS = 4_000_000  # a 15 Hz loop over 1 ms steps requests after 66 ms or 67 ms
_NOTHING: Pixels = np.zeros((0, 0, 3), np.uint8)


class SimCamera(Opened):
    """
    One camera of the station; see :class:`arena_robot.drivers.base.Camera`.

    An eye that is not in ``eyes`` is not rendered: its image has shape (0, 0, 3). Only a stereo
    camera, a ZED, has a right eye; one of another ``kind`` stands where its left eye is. In a
    world without its own thread, frames are rendered on request, at most one per period; in a
    running one, every period, by :class:`Studio`.
    """

    def __init__(self, world: SimWorld, studio: 'Studio', role: str, *,
                 size: tuple[int, int] = (320, 180), rate_hz: float = 15.0,
                 eyes: Sequence[str] = EYES, kind: str = 'stereo') -> None:
        if role not in ROLES:
            raise ConfigError(f"no camera role '{role}'.{nearest(role, ROLES)}")
        width, height = size
        if not (0 < width <= NATIVE_SIZE[0] and 0 < height <= NATIVE_SIZE[1]):
            raise ConfigError(f'image size {width}x{height} is outside 1x1 to '
                              f'{NATIVE_SIZE[0]}x{NATIVE_SIZE[1]}')
        unknown = [eye for eye in eyes if eye not in EYES]
        if unknown or not eyes:
            raise ConfigError(f'no camera eye {unknown}.{nearest(str(unknown), EYES)}')
        if kind not in (kinds := [known.value for known in CameraKind]):
            raise ConfigError(f"no camera kind '{kind}'.{nearest(kind, kinds)}")
        self.world, self.role, self.size, self.kind = world, role, size, CameraKind(kind)
        self.eyes = tuple(eyes) if self.kind is CameraKind.STEREO else EYES[:1]
        self.serial = SERIALS[role]
        self.period_ns = round(1e9 / rate_hz)
        self._studio = studio
        self._frame: StereoFrame | None = None
        self._new = threading.Condition()
        self._sequence = self._dropped = 0
        self._arrivals = Arrivals()
        self._generation = -1

    def open(self) -> None:
        """Draw the first frame."""
        self._sequence = self._dropped = 0
        self._frame, self._arrivals = None, Arrivals()
        self._studio.draw(self)
        if self.world.running:  # the first drawing also made the graphics context
            self._arrivals = Arrivals()
            self._studio.draw(self)
        self._studio.add(self)
        super().open()

    def close(self) -> None:
        """Stop rendering."""
        self._studio.remove(self)
        super().close()

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry of its eyes at this camera's image size."""
        geometry = camera_info(self.role, *self.size)
        return geometry if self.kind is CameraKind.STEREO else {EYES[0]: geometry[EYES[0]]}

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest frame."""
        self._require_open(f'the {self.role} camera')
        if not self.world.running and not self.dead and self._due():
            self._studio.draw(self)
        frame = self._newest()
        age_s = (self.world.now_ns() - frame.left.stamp_ns) * 1e-9 + self.world.silence_s()
        if age_s > max_age_s:
            raise StaleData(f'newest frame of the {self.role} camera ({self.serial}) is '
                            f'{age_s:.3f} s old, accepted are {max_age_s} s')
        return frame

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next new frame."""
        self._require_open(f'the {self.role} camera')
        if self.world.running:
            with self._new:
                seen = self._sequence
                if self._new.wait_for(lambda: self._sequence != seen, timeout_s):
                    return self._newest()
        else:
            due_ns = self._newest().left.stamp_ns + self.period_ns
            end_ns = self.world.now_ns() + round(timeout_s * 1e9)
            self.world.run_until_ns(min(due_ns, end_ns))
            if due_ns <= end_ns and not self.dead:
                self._studio.draw(self)
                return self._newest()
        raise ReadTimeout(f'no frame of the {self.role} camera ({self.serial}) within '
                          f'{timeout_s} s; is it plugged in?')

    def arrivals(self) -> Sequence[tuple[int, int]]:
        """Return when the newest frames were taken, and when they were drawn."""
        return self._arrivals.pairs()

    def mount(self) -> tuple[bool, tuple[float, ...]]:
        """
        Return whether the camera is on the flange, and where its left eye's optical frame is.

        The pose is x y z (m) roll pitch yaw (rad) in the flange, or in the arm's base.
        """
        world = self.world
        with world.ticked:
            mujoco.mj_kinematics(world.model, world.data)
            mujoco.mj_camlight(world.model, world.data)
            eye = world.data.camera(view(self.role, EYES[0]))
            pose = np.eye(4)
            pose[:3, :3], pose[:3, 3] = eye.xmat.reshape(3, 3) * (1.0, -1.0, -1.0), eye.xpos
            on_flange = self.role == ROLES[2]
            if on_flange:
                flange, site = np.eye(4), world.arm.impedance.flange
                flange[:3, :3] = world.data.site_xmat[site].reshape(3, 3)
                flange[:3, 3] = world.data.site_xpos[site]
                pose = np.linalg.inv(flange) @ pose
            place = (pose_of if on_flange else world.in_base)(pose[:3, 3], pose[:3, :3].ravel())
        return on_flange, tuple(np.round(place, 6).tolist())

    @property
    def dead(self) -> bool:
        """Whether a test made this camera fail."""
        return self.role in self.world.faults.dead

    def shots(self) -> list[Shot]:
        """Return the images to render for one frame."""
        return [self._shot(eye) for eye in self.eyes] + self._depth_shots()

    def _shot(self, eye: str) -> Shot:
        return Shot(view(self.role, eye), *self.size)

    def _depth_shots(self) -> list[Shot]:
        return [Shot(view(self.role), *self.size, depth=True)
                for _ in range(self.kind is CameraKind.DEPTH)]

    def take(self, pictures: Mapping[Shot, Any], stamp_ns: int) -> None:
        """Store the images of one grab."""
        left, right = (Image(pictures.get(self._shot(eye), _NOTHING), stamp_ns) for eye in EYES)
        depth = [DepthImage(pictures[shot], stamp_ns) for shot in self._depth_shots()]
        with self._new:
            self._sequence += 1
            self._frame = StereoFrame(left, right, self._sequence, self._dropped, *depth)
            self._generation = self.world.generation
            if self.world.running:
                self._arrivals.note(stamp_ns, self.world.now_ns())
            self._new.notify_all()

    def miss(self) -> None:
        """Count a grab that could not be drawn in time."""
        self._dropped += 1

    def _due(self) -> bool:
        age_ns = self.world.now_ns() - self._newest().left.stamp_ns
        early = age_ns >= self.period_ns - _EARLY_NS
        return early or self._generation != self.world.generation

    def _newest(self) -> StereoFrame:
        assert self._frame is not None
        return self._frame


class Studio:
    """Renders for all cameras of a world: on request when idle, every period when it runs."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._renderer = Renderer()
        self._cameras: list[SimCamera] = []
        self._pending: list[Future[dict[Shot, Any]]] = []
        world.on_tick.append(self._on_tick)
        self._next_ns: dict[SimCamera, int] = {}

    def add(self, camera: SimCamera) -> None:
        """Draw for ``camera`` from now on."""
        with self._world.ticked:
            self._cameras.append(camera)
            period = camera.period_ns
            self._next_ns[camera] = (self._world.now_ns() // period + 1) * period

    def remove(self, camera: SimCamera) -> None:
        """Stop rendering for ``camera``."""
        with self._world.ticked:
            if camera in self._cameras:
                self._cameras.remove(camera)

    def draw(self, camera: SimCamera) -> None:
        """Draw one frame of ``camera`` now."""
        snapshot = self._world.snapshot()
        camera.take(self._renderer.draw(snapshot, camera.shots()), snapshot.stamp_ns)

    def picture(self, shot: Shot) -> Pixels:
        """Return (H, W, 3) of the present instant from any camera of the scene."""
        picture: Pixels = self._renderer.draw(self._world.snapshot(), [shot])[shot]
        return picture

    def close(self) -> None:
        """End the drawing thread."""
        with self._world.ticked:
            self._cameras.clear()
            if self._on_tick in self._world.on_tick:
                self._world.on_tick.remove(self._on_tick)
        self._renderer.close()

    def _on_tick(self) -> None:
        if not self._world.running:
            return
        now_ns = self._world.now_ns()
        due = [camera for camera in self._cameras if now_ns >= self._next_ns[camera]]
        if not due:
            return
        for camera in due:
            self._next_ns[camera] = (now_ns // camera.period_ns + 1) * camera.period_ns
        self._pending = [future for future in self._pending if not future.done()]
        if len(self._pending) > WAITING:
            for camera in due:
                camera.miss()
            return
        due = [camera for camera in due if not camera.dead]
        if not due:
            return
        snapshot = self._world.snapshot()
        future = self._renderer.submit(snapshot, [shot for camera in due
                                                  for shot in camera.shots()])
        self._pending.append(future)
        future.add_done_callback(lambda drawn: _hand_out(drawn, due, snapshot.stamp_ns))


def _hand_out(drawn: 'Future[dict[Shot, Any]]', cameras: Sequence[SimCamera],
              stamp_ns: int) -> None:
    """
    Deliver the images of one grab to all cameras.

    All at once: publishing one camera's images while others are rendered would slow down the
    rendering by more than it saves, and a control loop waits for the last camera anyway.
    """
    if (error := drawn.exception()) is not None:
        log.error('no frame at %d ns: %s', stamp_ns, error)
        return
    for camera in cameras:
        camera.take(drawn.result(), stamp_ns)
