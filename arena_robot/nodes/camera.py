"""Lifecycle node of a camera, with the topics and frames of the ZED wrapper."""

import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import cv2
import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.publisher import Publisher
from sensor_msgs.msg import CameraInfo as CameraInfoMessage
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as ImageMessage
from tf2_msgs.msg import TFMessage

from arena_robot.core.errors import NotConnected
from arena_robot.core.jpeg import DEPTH_FORMAT, DEPTH_HEADER, to_jpeg, to_png
from arena_robot.core.observation import DEPTH, EYES, CameraInfo, Picture
from arena_robot.drivers.base import Camera, Part
from arena_robot.nodes import backends
from arena_robot.nodes.lib import convert, diagnostics, qos
from arena_robot.nodes.lib.images import (
    COMPRESSED,
    DEPTH_ENCODING,
    ENCODINGS,
    eyes_of,
    topic_of,
)
from arena_robot.nodes.lib.part_node import PartNode
from arena_robot.nodes.lib.part_params import CameraParams
from arena_robot.nodes.lib.spin import run_node
from arena_robot.robots.cameras import topics_of
from arena_robot.safety.urdf import CameraMount, FixedFrame, camera_frames


@dataclass(frozen=True)
class Eye:
    """The publishers of one eye."""

    frame_id: str
    image: Publisher
    info: Publisher
    compressed: Publisher
    geometry: CameraInfoMessage


class CameraNode(PartNode[CameraParams]):
    """
    Publishes both eyes of every grab, or one and its depth, with the same stamp.

    ``mount_of`` tells where the camera is when no parameter does, as a simulation knows.
    """

    def __init__(self, name: str = 'camera_node',
                 mount_of: Callable[[], CameraMount | None] = lambda: None,
                 **options: Any) -> None:
        self._mount_of = mount_of
        super().__init__(name, CameraParams(), **options)

    def extra_params(self) -> None:
        """Declare the backend's own parameters."""
        v = self.params
        self.role, self._mount = v.role, v.mount
        self.size = (v.width, v.height) if v.width and v.height else None
        self.backend = v.chosen_backend
        if not self.has_own_part:
            self._make = backends.choose(self, 'camera', self.backend)

    def build_part(self) -> Part:
        """Return the driver that the parameter ``backend`` names."""
        return self._make()

    def on_open(self) -> None:
        """Check the serial number and create the topics."""
        self.camera = cast(Camera, self.part)
        wanted = self.params.serial_number
        if wanted and wanted != self.camera.serial:
            raise NotConnected(f"the {self.role} camera should have serial number '{wanted}', "
                               f"found '{self.camera.serial}'")
        self.rate = diagnostics.Rate(lambda: self.params.pub_frame_rate)
        self.dropped = 0
        geometry = self.camera.info()
        # Depth is of the left eye's pixels.
        geometry = {**geometry, DEPTH: geometry[EYES[0]]} if EYES[0] in geometry else geometry
        self.eyes = {eye: self._eye(eye, geometry[eye])
                     for eye in eyes_of(self.params.topic_style) if eye in geometry}
        self.transforms = CameraTransforms(
            self, {name: eye.frame_id for name, eye in self.eyes.items() if name != DEPTH},
            max(info.baseline_m for info in geometry.values()))
        self.transforms.publish(self._mount or self._mount_of())

    def on_start(self) -> None:
        """Publish from the next frame on."""
        self._next_ns = 0

    def stream_once(self) -> None:
        """Publish the next frame, or skip it when the camera is faster than pub_frame_rate."""
        frame = self.camera.wait_frame(0.5)
        stamp_ns = self.timeline.to_ros(frame.left.stamp_ns)
        self.dropped = frame.dropped
        period_ns = round(1e9 / self.params.pub_frame_rate)
        if stamp_ns < self._next_ns - period_ns // 8:
            return
        late = stamp_ns - self._next_ns > period_ns
        self._next_ns = (stamp_ns if late else self._next_ns) + period_ns
        self.rate.tick()
        taken: dict[str, Picture] = {
            'left': frame.left.pixels, 'right': frame.right.pixels,
            **({DEPTH: frame.depth.millimetres} if frame.depth else {})}
        pictures = [(self.eyes[eye], self._resized(pixels)) for eye, pixels in taken.items()
                    if pixels.size and eye in self.eyes]
        # Raw images first: a control loop waits for them; JPEGs take longer.
        for eye, pixels in pictures:
            self._publish(eye, pixels, stamp_ns)
        for eye, _ in pictures:
            eye.geometry.header.stamp = convert.time_of(stamp_ns)
            eye.info.publish(eye.geometry)
        for eye, pixels in pictures:
            self._publish_jpeg(eye, pixels, stamp_ns)

    def report(self) -> Sequence[DiagnosticStatus]:
        """Return the status of the stream; publish the frames again where the camera moved."""
        self.transforms.publish(self._mount or self._mount_of())
        values = {'Camera role': self.role, 'frames dropped': self.dropped,
                  'backend': self.backend,
                  'capture latency (ms)': self.params.capture_latency_ms}
        return (self.stream_status('images', self.camera.serial, self.rate, values),)

    # -- inside ------------------------------------------------------------------------------

    def _eye(self, eye: str, info: CameraInfo) -> Eye:
        style = self.params.topic_style
        image, about, frame = topics_of(style, eye, self.params.frame_name)
        if self.size:
            info = scaled(info, *self.size)
        return Eye(frame, self.keep(qos.publisher(self, ImageMessage, image)),
                   self.keep(qos.publisher(self, CameraInfoMessage, about)),
                   self.keep(qos.publisher(self, CompressedImage,
                                           f'~/{topic_of(style, eye, COMPRESSED)}')),
                   convert.camera_info_message(info, 0, frame))

    def _resized(self, pixels: Picture) -> Picture:
        if not self.size or pixels.shape[1::-1] == self.size:
            return pixels
        # Between two depths there is nothing.
        how = cv2.INTER_AREA if pixels.ndim == 3 else cv2.INTER_NEAREST
        return np.asarray(cv2.resize(pixels, self.size, interpolation=how), pixels.dtype)

    def _publish(self, eye: Eye, pixels: Picture, stamp_ns: int) -> None:
        if eye.image.get_subscription_count():
            eye.image.publish(image_message(pixels, stamp_ns, eye.frame_id,
                                            self.params.encoding))

    def _publish_jpeg(self, eye: Eye, pixels: Picture, stamp_ns: int) -> None:
        if eye.compressed.get_subscription_count():
            eye.compressed.publish(jpeg_message(pixels, stamp_ns, eye.frame_id,
                                                self.params.jpeg_quality))


def image_message(pixels: Picture, stamp_ns: int, frame_id: str, encoding: str) -> ImageMessage:
    """Return (H, W, 3) RGB pixels as an Image in one of ENCODINGS, or depth (H, W) in mm."""
    height, width = pixels.shape[:2]
    if pixels.ndim == 2:
        encoding = DEPTH_ENCODING
    elif encoding != 'rgb8':
        pixels = pixels[:, :, ENCODINGS[encoding]]
    if encoding == 'bgra8':
        pixels = np.dstack([pixels, np.full((height, width), 255, np.uint8)])
    data = array('B')
    data.frombytes(np.ascontiguousarray(pixels).view(np.uint8).data)
    return ImageMessage(header=convert.header(stamp_ns, frame_id), height=height, width=width,
                        encoding=encoding, step=len(data) // height, data=data)


def jpeg_message(pixels: Picture, stamp_ns: int, frame_id: str, quality: int) -> CompressedImage:
    """Return RGB pixels as JPEG, or depth as PNG, with the format text of image_transport."""
    if pixels.ndim == 2:
        return CompressedImage(header=convert.header(stamp_ns, frame_id), format=DEPTH_FORMAT,
                               data=array('B', DEPTH_HEADER + to_png(pixels)))
    return CompressedImage(header=convert.header(stamp_ns, frame_id),
                           format='rgb8; jpeg compressed bgr8',
                           data=array('B', to_jpeg(pixels, quality)))


def scaled(info: CameraInfo, width: int, height: int) -> CameraInfo:
    """Return the geometry of an image resized to ``width`` by ``height`` pixels."""
    sx, sy = width / info.width, height / info.height
    k = np.array(info.k, dtype=np.float64)
    k[0, 0] *= sx
    k[1, 1] *= sy
    k[0, 2] = (k[0, 2] + 0.5) * sx - 0.5
    k[1, 2] = (k[1, 2] + 0.5) * sy - 0.5
    return CameraInfo(width, height, k, info.baseline_m, info.frame_id, info.extras)


def main(args: Sequence[str] | None = None) -> int:
    """Run one camera_node until it is interrupted."""
    return run_node(lambda spin: CameraNode(context=spin.context), args or sys.argv)


class CameraTransforms:
    """
    Publishes the frames of one camera, latched, by REP 103 and REP 105.

    ``optical`` are the optical frames by eye. Without a mount the frames hang on nothing.
    """

    def __init__(self, node: PartNode[CameraParams], optical: Mapping[str, str],
                 baseline_m: float) -> None:
        self._node, self._optical, self._baseline_m = node, optical, baseline_m
        self._sent: list[FixedFrame] = []
        self._static: Publisher | None = None
        if node.params.publish_tf:
            self._static = node.keep(qos.publisher(node, TFMessage, 'tf_static', qos.LATCHED))

    def publish(self, mount: CameraMount | None) -> None:
        """Publish the frames where they are others than before."""
        frames = camera_frames(self._node.params.frame_name, mount, self._optical,
                               self._baseline_m)
        if self._static is None or frames == self._sent:
            return
        self._sent = frames
        stamp_ns = self._node.get_clock().now().nanoseconds
        self._static.publish(TFMessage(transforms=[convert.transform(
            stamp_ns, frame.parent, frame.child, frame.pose[:3],
            convert.quaternion_of(np.array(frame.pose[3:]))) for frame in frames]))


if __name__ == '__main__':
    sys.exit(main())
