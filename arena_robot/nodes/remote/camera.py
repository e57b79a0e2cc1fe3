"""Camera interface over the topics of a camera node: eyes, or one and depth, paired by stamp."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import QoSProfile, QoSReliabilityPolicy
from sensor_msgs.msg import CameraInfo as CameraInfoMessage

from arena_robot.core.errors import DataError, DriverError, NotConnected, ReadTimeout
from arena_robot.core.observation import DEPTH, EYES, CameraInfo, Image
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.grabbing import Arrivals
from arena_robot.nodes.lib import convert, qos
from arena_robot.nodes.lib.calls import parameters_of
from arena_robot.nodes.lib.endpoints import Way, ends
from arena_robot.nodes.lib.images import (
    COMPRESSED,
    RAW,
    Decoded,
    DecodingThread,
    PacketReader,
    eyes_of,
    message_kind,
    read_compressed,
    read_depth,
    read_image,
    topic_of,
)
from arena_robot.nodes.lib.part_params import RosCameraParams
from arena_robot.nodes.remote.part import Newest, RemotePart
from arena_robot.robots.cameras import topics_of

log = logging.getLogger(__name__)

TOLD_S = 1.0    # until another node has told its parameters
TRACKING = ('pos_tracking.pos_tracking_enabled', 'depth.depth_stabilization')
NEITHER_EYE = ('a ZED wrapper publishes neither eye while its pos_tracking.pos_tracking_enabled '
               'is false and its depth.depth_stabilization is 0 (zed-ros2-wrapper #423): set '
               'depth.depth_stabilization to 1')


class RemoteCamera(RemotePart):
    """
    Client of a camera_node; see :class:`arena_robot.drivers.base.Camera`.

    ``transport`` is one of TRANSPORTS. Pictures that are not raw are decoded by a thread of the
    camera's own, each once and only those whose other eye has come.
    """

    def __init__(self, node: Node, name: str, timeout_s: float = 5.0, style: str = 'zed5',
                 eyes: tuple[str, ...] = EYES, serial: str = '', transport: str = RAW) -> None:
        super().__init__(node, name, timeout_s)
        self.serial = serial or name
        self._style, self._eyes, self._transport = style, eyes, transport
        self._newest: Newest[StereoFrame] = Newest(f'picture of {name}', self._clock,
                                                   lambda f: f.left.stamp_ns)
        self._infos: dict[str, CameraInfo] = {}
        self._half: dict[str, tuple[int, Any]] = {}
        self._decoding: DecodingThread | None = None
        self._sequence = self._dropped = 0
        self._arrivals = Arrivals()
        self._lock = threading.Lock()

    def open(self) -> None:
        """Connect to the node and wait for the first frame."""
        if self._transport != RAW:
            self._decoding = DecodingThread(
                self._name, {eye: read_depth if eye == DEPTH else read_compressed
                             if self._transport == COMPRESSED else PacketReader()
                             for eye in self._eyes},
                self._on_decoded, self._on_unreadable)
            self._made.append(self._decoding.close)
        for eye in eyes_of(self._style):
            image = topic_of(self._style, eye, self._transport)
            info = topics_of(self._style, eye)[1].removeprefix('~/')
            self._subscribe(CameraInfoMessage, info, self._keeper(eye))
            if eye in self._eyes:
                self._subscribe(message_kind(self._transport, eye), image, self._receiver(eye),
                                self._profile(image))
        try:
            self._first(self._newest)
        except NotConnected as error:
            if not (words := self._switched_off()):
                raise
            self._problem = words
            raise NotConnected(words) from error
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

    def _switched_off(self) -> str:
        """Return, as a sentence, that a ZED wrapper is set to send neither eye; or ''."""
        if not self._style.startswith('zed'):
            return ''
        try:
            values = [parameter_value_to_python(value) for value in parameters_of(
                self._node, self._name, TRACKING, TOLD_S)]
        except DriverError:
            return ''
        if values != [False, 0]:
            return ''
        return f'{self._name} sends nothing: {NEITHER_EYE}'

    def _profile(self, topic: str) -> QoSProfile:
        """
        Return the QoS of the images: reliable where JPEGs or video packets are offered so.

        A raw image of 720p is 57 messages; repeating lost ones to a machine that is late makes it
        later.
        """
        if self._transport == RAW:
            return qos.SENSOR
        end_s = time.monotonic() + self._timeout_s
        while not (offers := ends(self._node, f'{self._name}/{topic}', Way.PUBLISHES)):
            if time.monotonic() > end_s:
                return qos.SENSOR
            time.sleep(0.02)
        reliable = all(offer.qos_profile.reliability == QoSReliabilityPolicy.RELIABLE
                       for offer in offers)
        return qos.STATE if reliable else qos.SENSOR

    def _keeper(self, eye: str) -> Callable[[CameraInfoMessage], None]:
        def keep(message: CameraInfoMessage) -> None:
            if eye not in self._infos:
                self._infos[eye] = convert.camera_info(message)
        return keep

    def _receiver(self, eye: str) -> Callable[[Any], None]:
        def receive(message: Any) -> None:
            decoding, stamp_ns = self._decoding, convert.stamp_of(message.header.stamp)
            if decoding is None:
                try:
                    image = (read_depth if eye == DEPTH else read_image)(message)
                except DataError as error:
                    self._on_unreadable(eye, str(error))
                else:
                    self._on_half(eye, stamp_ns, image, self._on_decoded)
            elif self._transport == COMPRESSED:
                self._on_half(eye, stamp_ns, message,
                              lambda pair: decoding.put(Decoded(pair, keep=False)))
            else:
                decoding.put(Decoded({eye: message}, keep=True))
        return receive

    def _on_unreadable(self, eye: str, why: str) -> None:
        """Log once, and say to those who wait, why images cannot be used."""
        problem = f"{self._name}'s {eye} eye: {why}"
        if problem != self._problem:
            log.error('%s', problem)
        self._problem = problem

    def _on_half(self, eye: str, stamp_ns: int, half: Any,
                 paired: Callable[[dict[str, Any]], None]) -> None:
        """Pair the eyes by stamp; an unpaired image counts as dropped."""
        with self._lock:
            others = [name for name in self._eyes if name != eye]
            other = self._half.get(others[0]) if others else None
            if len(self._eyes) == 2 and (other is None or other[0] != stamp_ns):
                self._dropped += eye in self._half
                self._half[eye] = (stamp_ns, half)
                return
            self._half.clear()
        paired({eye: half, **({} if other is None else {others[0]: other[1]})})

    def _on_decoded(self, images: Mapping[str, Any]) -> None:
        """Take the pictures of a grab; those of a video come eye by eye."""
        if len(images) < len(self._eyes):
            for eye, image in images.items():
                self._on_half(eye, image.stamp_ns, image, self._on_decoded)
            return
        self._problem = ''
        stamp_ns = next(iter(images.values())).stamp_ns
        nothing = Image(np.zeros((0, 0, 3), np.uint8), stamp_ns)
        left_out = self._decoding.dropped if self._decoding else 0
        self._sequence += 1
        frame = StereoFrame(images.get('left', nothing), images.get('right', nothing),
                            self._sequence, self._dropped + left_out, images.get(DEPTH))
        self._arrivals.note(stamp_ns, self._clock.now_ns())
        self._newest.put(frame)


class RosCamera(RemoteCamera):
    """The images and the geometry of both eyes of another node."""

    def __init__(self, node: Node, params: RosCameraParams, serial: str = '') -> None:
        super().__init__(node, params.node, params.open_timeout, params.topic_style,
                         eyes_of(params.topic_style), serial, params.transport)

    def open(self) -> None:
        """Connect, and wait for the first frame and the geometry. Raises NotConnected."""
        super().open()
        end_s = time.monotonic() + self._timeout_s
        while not set(self._eyes) <= set(self.info()):
            if time.monotonic() > end_s:
                self.close()
                raise NotConnected(f'{self._name} sends images, and no camera_info of each eye')
            time.sleep(0.01)
