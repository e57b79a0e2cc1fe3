"""Camera interface over the topics of a camera node: both eyes, paired by stamp."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo as CameraInfoMessage
from sensor_msgs.msg import Image as ImageMessage

from arena_robot.core.camera import CameraInfo
from arena_robot.core.errors import ReadTimeout
from arena_robot.core.observation import EYES, Image
from arena_robot.drivers.arrivals import Arrivals
from arena_robot.drivers.base import StereoFrame
from arena_robot.nodes import convert
from arena_robot.nodes.camera.params import ENCODINGS, STYLES
from arena_robot.nodes.remote.part import Newest, RemotePart

log = logging.getLogger(__name__)


class RemoteCamera(RemotePart):
    """Client of a camera_node; see :class:`arena_robot.drivers.base.Camera`."""

    def __init__(self, node: Node, name: str, timeout_s: float = 5.0, style: str = 'zed5',
                 eyes: tuple[str, ...] = EYES, serial: str = '') -> None:
        super().__init__(node, name, timeout_s)
        self.serial = serial or name
        self._style, self._eyes = style, eyes
        self._newest: Newest[StereoFrame] = Newest(f'frame of {name}', self._clock,
                                                   lambda f: f.left.stamp_ns)
        self._infos: dict[str, CameraInfo] = {}
        self._half: dict[str, Image] = {}
        self._sequence = self._dropped = 0
        self._arrivals = Arrivals()
        self._lock = threading.Lock()

    def open(self) -> None:
        """Connect to the node and wait for the first frame."""
        for eye in EYES:
            image, info, _ = (t.format(eye=eye, name='').removeprefix('~/')
                              for t in STYLES[self._style])
            self._subscribe(CameraInfoMessage, info, self._keeper(eye))
            if eye in self._eyes:
                self._subscribe(ImageMessage, image, self._receiver(eye))
        self._first(self._newest)
        super().open()

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry of the eyes."""
        self._require_open(self._name)
        return dict(self._infos)

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest frame."""
        self._require_open(self._name)
        return self._newest.get(max_age_s)

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next new frame."""
        self._require_open(self._name)
        try:
            return self._newest.wait(timeout_s)
        except ReadTimeout as error:
            raise ReadTimeout(self._problem or str(error)) from error

    def arrivals(self) -> Sequence[tuple[int, int]]:
        """Return the stamps of the newest frames, and when both eyes had arrived."""
        return self._arrivals.pairs()

    def _keeper(self, eye: str) -> Callable[[CameraInfoMessage], None]:
        def keep(message: CameraInfoMessage) -> None:
            if eye not in self._infos:
                self._infos[eye] = convert.camera_info(message)
        return keep

    def _receiver(self, eye: str) -> Callable[[ImageMessage], None]:
        def receive(message: ImageMessage) -> None:
            try:
                image = read_image(message)
            except ValueError as error:
                self._unreadable(f"{self._name}'s {eye} eye: {error}")
                return
            self._problem = ''
            self._on_image(eye, image)
        return receive

    def _unreadable(self, problem: str) -> None:
        """Log once, and say to those who wait, why images cannot be used."""
        if problem != self._problem:
            log.error('%s', problem)
        self._problem = problem

    def _on_image(self, eye: str, image: Image) -> None:
        """Pair the eyes by stamp; an unpaired image counts as dropped."""
        with self._lock:
            other = self._half.get('right' if eye == 'left' else 'left')
            if len(self._eyes) == 2 and (other is None or other.stamp_ns != image.stamp_ns):
                self._dropped += eye in self._half
                self._half[eye] = image
                return
            self._half.clear()
            nothing = Image(np.zeros((0, 0, 3), np.uint8), image.stamp_ns)
            pair = {eye: image, **({} if other is None else {_other(eye): other})}
            self._sequence += 1
            frame = StereoFrame(pair.get('left', nothing), pair.get('right', nothing),
                                self._sequence, self._dropped)
            self._arrivals.note(image.stamp_ns, self._clock.now_ns())
        self._newest.put(frame)


def read_image(message: ImageMessage) -> Image:
    """Return (H, W, 3) RGB pixels of an rgb8, bgr8 or bgra8 Image; ValueError otherwise."""
    if message.encoding not in ENCODINGS:
        raise ValueError(f"its images are '{message.encoding}', usable are "
                         f"{', '.join(ENCODINGS)}; publish colour images")
    channels = 4 if message.encoding == 'bgra8' else 3
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    pixels = rows[:, :message.width * channels].reshape(message.height, message.width, channels)
    if message.encoding != 'rgb8':
        pixels = np.ascontiguousarray(pixels[:, :, ENCODINGS[message.encoding]])
    return Image(pixels, convert.stamp_of(message.header.stamp))


def _other(eye: str) -> str:
    return 'right' if eye == 'left' else 'left'
