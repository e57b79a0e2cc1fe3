"""Image topics: eyes of a camera, raw pictures, JPEGs and video packets, and their decoding."""

import importlib
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as ImageMessage

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.jpeg import from_depth_message, from_jpeg
from arena_robot.core.observation import DEPTH, EYES, DepthImage, Image
from arena_robot.nodes.lib import convert
from arena_robot.robots.cameras import EYES_OF, topics_of

if TYPE_CHECKING:
    from arena_robot.recording.episode.frames import PacketDecoder

# Position of red, green and blue in a pixel of an Image message.
ENCODINGS = {'rgb8': (0, 1, 2), 'bgr8': (2, 1, 0), 'bgra8': (2, 1, 0)}
RAW, COMPRESSED, FFMPEG = 'raw', 'compressed', 'ffmpeg'
# What is added to the name of the raw topic, as image_transport does.
TRANSPORTS = {RAW: '', COMPRESSED: '/compressed', FFMPEG: '/ffmpeg'}
LONGEST = 30    # waiting video packets of two seconds at 15 Hz
JOIN_S = 1.0    # one picture is decoded in less
DEPTHS = '/compressedDepth'    # PNG, without loss, in every transport but raw
DEPTH_ENCODING = '16UC1'
FFMPEG_PACKAGE = 'ffmpeg_image_transport_msgs'


def eyes_of(style: str) -> tuple[str, ...]:
    """Return the eyes that a camera with these topics has, and depth; a single one is left."""
    return tuple(EYES_OF.get(style, EYES))


def topic_of(style: str, eye: str, transport: str = RAW) -> str:
    """Return the image topic of an eye in a transport, behind the name of its camera node."""
    tail = DEPTHS if eye == DEPTH and transport != RAW else TRANSPORTS[transport]
    return topics_of(style, eye)[0].removeprefix('~/') + tail


def styles_of(style: str, own: Sequence[str], cameras: Sequence[str]) -> tuple[str, ...]:
    """Return the style of each camera: its ``own``, or all have ``style``. Raises ConfigError."""
    styles = tuple(own) or (style,) * len(cameras)
    if len(styles) != len(cameras):
        raise ConfigError(f'topic_styles has {len(styles)} entries for {len(cameras)} cameras; '
                          'name one style for each camera, or set topic_style alone')
    return styles


def message_kind(transport: str, eye: str = '') -> Any:
    """Return the message class of a transport. Raises ConfigError when it is not installed."""
    if transport == RAW:
        return ImageMessage
    if transport == COMPRESSED or eye == DEPTH:
        return CompressedImage
    try:
        return importlib.import_module(f'{FFMPEG_PACKAGE}.msg').FFMPEGPacket
    except (ImportError, AttributeError) as error:
        raise ConfigError(f'images as {transport} need the messages of {FFMPEG_PACKAGE}, which '
                          'are not installed here; source the workspace that has them, or use '
                          'the transport compressed') from error


def read_image(message: Any) -> Image:
    """Return (H, W, 3) RGB pixels of an rgb8, bgr8 or bgra8 Image; DataError otherwise."""
    if message.encoding not in ENCODINGS:
        raise DataError(f"its images are '{message.encoding}', usable are "
                        f"{', '.join(ENCODINGS)}; publish colour images")
    channels = 4 if message.encoding == 'bgra8' else 3
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    pixels = rows[:, :message.width * channels].reshape(message.height, message.width, channels)
    if message.encoding != 'rgb8':
        pixels = np.ascontiguousarray(pixels[:, :, ENCODINGS[message.encoding]])
    return Image(pixels, convert.stamp_of(message.header.stamp))


def read_compressed(message: Any) -> Image:
    """Return the pixels of a CompressedImage with a JPEG or PNG in it; DataError otherwise."""
    return Image(from_jpeg(np.frombuffer(message.data, np.uint8)),
                 convert.stamp_of(message.header.stamp))


def read_depth(message: Any) -> DepthImage:
    """Return the depth of a 16UC1 Image, or of a PNG in a CompressedImage; DataError otherwise."""
    stamp_ns = convert.stamp_of(message.header.stamp)
    if isinstance(message, CompressedImage):
        return DepthImage(from_depth_message(
            np.frombuffer(message.data, np.uint8), message.format), stamp_ns)
    if message.encoding != DEPTH_ENCODING or message.is_bigendian:
        raise DataError(f"its depth is '{message.encoding}', usable is {DEPTH_ENCODING}, "
                        'little-endian, in mm')
    rows = np.frombuffer(message.data, '<u2').reshape(message.height, message.step // 2)
    return DepthImage(rows[:, :message.width], stamp_ns)


class PacketReader:
    """Reads the FFMPEGPackets of one eye, in their order."""

    def __init__(self) -> None:
        self._codec = ''
        self._decoder: PacketDecoder | None = None

    def __call__(self, message: Any) -> Image | None:
        """Return the picture; None before the first key frame."""
        from arena_robot.recording.episode.frames import PacketDecoder  # FFmpeg, only where used
        # Newer publishers add the pixel formats: 'h264;yuv420p;bgr8;bgr8'.
        codec = str(message.encoding).split(';')[0].replace('h.26', 'h26').replace(
            'libx26', 'h26')
        if self._decoder is None or codec != self._codec:
            self._decoder, self._codec = PacketDecoder(codec), codec
        pixels = self._decoder.decode(bytes(message.data))
        return None if pixels is None else Image(pixels, convert.stamp_of(message.header.stamp))


@dataclass(frozen=True)
class Decoded:
    """One message per eye of one grab; ``keep``: it may not be left out, others build on it."""

    messages: Mapping[str, Any]
    keep: bool


class DecodingThread:
    """
    Decodes what :meth:`put` hands over, in a thread of its own; ``done`` gets the pictures by eye.

    Each message is decoded once. While one is decoded a newer one replaces one that waits; video
    packets build on each other and are all decoded. ``failed`` gets what cannot be read.
    """

    def __init__(self, name: str,
                 readers: Mapping[str, Callable[[Any], Image | DepthImage | None]],
                 done: Callable[[Mapping[str, Any]], None],
                 failed: Callable[[str, str], None]) -> None:
        self._readers, self._done, self._failed = readers, done, failed
        self._waiting: deque[Decoded] = deque()
        self._new = threading.Condition()
        self._over = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, daemon=True, name=f'decode {name}')
        self._thread.start()

    def put(self, job: Decoded) -> None:
        """Hand over messages; returns at once."""
        with self._new:
            while self._waiting and (not job.keep or len(self._waiting) >= LONGEST):
                self._waiting.popleft()
                self.dropped += 1
            self._waiting.append(job)
            self._new.notify()

    def close(self) -> None:
        """End the thread; may be called twice."""
        with self._new:
            self._over = True
            self._new.notify()
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        while True:
            with self._new:
                self._new.wait_for(lambda: self._waiting or self._over)
                if self._over:
                    return
                job = self._waiting.popleft()
            images = {}
            for eye, message in job.messages.items():
                try:
                    image = self._readers[eye](message)
                except DataError as error:
                    self._failed(eye, str(error))
                    break
                if image is not None:
                    images[eye] = image
            else:
                if images:
                    self._done(images)
