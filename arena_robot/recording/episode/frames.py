"""Images from recorded messages and from streams of video packets; H.264 videos from images."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from arena_robot.core import jpeg
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.errors import DataError
from arena_robot.core.files import replacing
from arena_robot.core.observation import DepthImage, Image, Millimetres, Pixels
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.recording.episode.tracks import time_ns
from arena_robot.recording.episode.views import JPEG

if TYPE_CHECKING:    # videos are written where no bag is read, without mcap
    from arena_robot.recording.bag.reader import BagReader

# Above any station's camera: both eyes of a ZED side by side in its largest mode have 5.5 million.
MOST_PIXELS = 4096 * 2304
_TICKS = Fraction(1, 90_000)
CELLS = 16    # of a blurred picture's longer side: a face in a lab's picture has one to four
_RAW = {'rgb8': (3, None), 'bgr8': (3, cv2.COLOR_BGR2RGB), 'rgba8': (4, cv2.COLOR_RGBA2RGB),
        'bgra8': (4, cv2.COLOR_BGRA2RGB), 'mono8': (1, cv2.COLOR_GRAY2RGB)}


def pictures(bag: 'BagReader', decoder: Decoder, topic: Topic, start_ns: int | None = None
             ) -> Iterator[Image]:
    """Yield the decoded pictures of a topic with their capture stamps, in order of arrival."""
    for message in bag.messages([topic.name], start_ns):
        value = decoder.decode(topic, message.data)
        yield Image(pixels_of(topic, value), time_ns(value.header.stamp))


def depths(bag: 'BagReader', decoder: Decoder, topic: Topic) -> Iterator[DepthImage]:
    """Yield the depth images of a topic, in order of arrival. Raises DataError."""
    for _, value in bag.decoded(decoder, [topic.name]):
        yield DepthImage(depth_of(topic, value), time_ns(value.header.stamp))


def depth_of(topic: Topic, value: Any) -> Millimetres:
    """Return the depth (H, W) in mm of a decoded message. Raises DataError."""
    try:
        if topic.type == JPEG:
            return jpeg.from_depth_message(value.data, str(value.format), MOST_PIXELS)
        if value.encoding != '16UC1':
            raise DataError(f'depth is {value.encoding}, known is 16UC1, in mm')
    except DataError as error:
        raise DataError(f'{topic.name}: {error}') from error
    rows = np.asarray(value.data, np.uint8).view('<u2').reshape(value.height, value.step // 2)
    return np.asarray(rows[:, :value.width], np.uint16)


def pixels_of(topic: Topic, value: Any) -> Pixels:
    """Return the RGB pixels (H, W, 3) of a decoded message. Raises DataError."""
    if topic.type == JPEG:
        try:
            return jpeg.from_jpeg(value.data, MOST_PIXELS)
        except DataError as error:
            raise DataError(f"{topic.name}: {error} ({value.format or 'no format given'})"
                            ) from error
    if value.encoding not in _RAW:
        raise DataError(f"{topic.name}: pictures are {value.encoding}; known: {', '.join(_RAW)}")
    channels, convert = _RAW[value.encoding]
    rows = np.asarray(value.data, np.uint8).reshape(value.height, value.step)
    plain = rows[:, :value.width * channels].reshape(value.height, value.width, channels)
    return np.asarray(plain if convert is None else cv2.cvtColor(plain, convert), np.uint8)


def video_frames(bag: 'BagReader', decoder: Decoder, topic: Topic) -> Iterator[tuple[int, Any]]:
    """Yield (capture stamp, video frame); JPEG goes to YUV without a detour over RGB."""
    if topic.type != JPEG:
        for image in pictures(bag, decoder, topic):
            yield image.stamp_ns, VideoFrame.from_ndarray(image.pixels, format='rgb24')
        return
    mjpeg = av.CodecContext.create('mjpeg', 'r')
    mjpeg.options = {'max_pixels': str(MOST_PIXELS)}
    for message in bag.messages([topic.name]):
        value = decoder.decode(topic, message.data)
        try:
            frames = mjpeg.decode(av.Packet(bytes(value.data)))
        except av.FFmpegError as error:
            raise DataError(f'{topic.name}: a picture cannot be decoded: {error}') from error
        for frame in frames:
            yield time_ns(value.header.stamp), frame


def write_video(path: Path, frames: Iterable[tuple[int, Any]], rate_hz: float = CONTROL_RATE_HZ,
                crf: int = 23, on_frame: Callable[[], None] = lambda: None,
                size: tuple[int, int] | None = None) -> list[int]:
    """
    Write an H.264 MP4 that browsers play; return the capture stamps of its frames.

    The time between frames is the time between their captures; a frame that is not later than the
    previous one is left out. ``rate_hz`` is nominal, ``size`` (width, height) the pictures' own
    when None. The file is written atomically; without a frame none is written. Raises DataError.
    """
    remaining = iter(frames)
    first = next(remaining, None)
    if first is None:
        return []
    width, height = size or (first[1].width, first[1].height)
    stamps: list[int] = []
    convert = VideoReformatter()    # one for all frames: each sets up its conversion once
    try:
        with (replacing(path) as partial,
              av.open(str(partial), 'w', format='mp4', options={'movflags': '+faststart'}) as out):
            stream = _stream(out, (width, height), rate_hz, crf)
            for stamp_ns, frame in chain([first], remaining):
                if stamps and (stamp_ns - stamps[-1]) < 12_000:
                    continue
                stamps.append(stamp_ns)
                out.mux(stream.encode(_ready(convert, frame, stream, stamp_ns - stamps[0])))
                on_frame()
            out.mux(stream.encode(None))
    except av.FFmpegError as error:
        raise DataError(f'{path} cannot be written as a video: {error}') from error
    return stamps


def rgb_frame(pixels: Pixels) -> Any:
    """Return RGB pixels as a frame for :func:`write_video`."""
    return av.VideoFrame.from_ndarray(pixels, format='rgb24')


def _stream(out: Any, size: tuple[int, int], rate_hz: float, crf: int) -> Any:
    stream = out.add_stream('libx264', rate=Fraction(rate_hz).limit_denominator(1000))
    stream.width, stream.height = size[0] & ~1, size[1] & ~1
    stream.pix_fmt = 'yuv420p'
    stream.time_base = stream.codec_context.time_base = _TICKS
    stream.options = {'preset': 'veryfast', 'crf': str(crf), 'bf': '0'}
    stream.codec_context.colorspace = Colorspace.SMPTE170M
    stream.codec_context.color_range = ColorRange.MPEG
    return stream


def _ready(convert: VideoReformatter, frame: Any, stream: Any, since_ns: int) -> Any:
    ready = convert.reformat(frame, stream.width, stream.height, 'yuv420p', threads=1,
                             dst_colorspace=Colorspace.SMPTE170M, dst_color_range=ColorRange.MPEG)
    ready.pts, ready.time_base = round(since_ns * 90_000 / 10**9), _TICKS
    return ready


def read_video(path: Path) -> Iterator[Pixels]:
    """
    Yield the RGB pixels of a video's frames.

    Raises DataError when it cannot be read, or its pictures have more than ``MOST_PIXELS``: its
    headers are looked at before memory is taken, and the decoder refuses what they did not say.
    """
    for *_, pixels in timed_frames(path):
        yield pixels


def timed_frames(path: Path) -> Iterator[tuple[int, int, Pixels]]:
    """
    Yield how many frames a video says to have, and of each its time (ns) and RGB pixels.

    Raises DataError as :func:`read_video`.
    """
    try:
        with av.open(str(path)) as file:
            stream = file.streams.video[0]
            coder = stream.codec_context
            if coder.width * coder.height > MOST_PIXELS:
                raise DataError(f'{path} has pictures of {coder.width} by {coder.height}; up to '
                                f'{MOST_PIXELS} pixels are read')
            coder.options = {'max_pixels': str(MOST_PIXELS)}
            for frame in file.decode(video=0):
                stamp_ns = round((frame.pts or 0) * frame.time_base * 10**9)
                yield stream.frames, stamp_ns, frame.to_ndarray(format='rgb24')
    except (av.FFmpegError, IndexError) as error:
        raise DataError(f'{path} is not a video that can be read: {error}') from error


@dataclass(frozen=True)
class Blur:
    """
    What is made unrecognisable in a video: boxes (x0, y0, x1, y1) in pixels, or all without one.

    ``from_s`` and ``to_s`` are seconds of the video; None is its end.
    """

    boxes: tuple[tuple[int, int, int, int], ...] = ()
    from_s: float = 0.0
    to_s: float | None = None

    def apply(self, pixels: Pixels) -> None:
        """Replace the boxes of a picture by large cells of one colour. Raises DataError."""
        height, width = pixels.shape[:2]
        cell = max(height, width) / CELLS
        for x0, y0, x1, y1 in self.boxes or ((0, 0, width, height),):
            if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
                raise DataError(f'the box {x0} {y0} {x1} {y1} is not in a picture of {width} by '
                                f'{height}: left, top, right and bottom in pixels are wanted')
            few = max(1, round((x1 - x0) / cell)), max(1, round((y1 - y0) / cell))
            pixels[y0:y1, x0:x1] = cv2.resize(
                cv2.resize(pixels[y0:y1, x0:x1], few, interpolation=cv2.INTER_AREA),
                (x1 - x0, y1 - y0), interpolation=cv2.INTER_NEAREST)


def blur_video(source: Path, target: Path, blur: Blur,
               progress: Callable[[int, int, str], None]) -> None:
    """
    Write a copy of a video in which a part is blurred; its frames keep their number and times.

    ``progress`` is called with frames done, frames in all, and the file's name. DataError when the
    video cannot be read, a box is not in its pictures, or it has no picture in that time.
    """
    hit = False

    def frames() -> Iterator[tuple[int, Any]]:
        nonlocal hit
        first_ns = None
        for number, (total, stamp_ns, pixels) in enumerate(timed_frames(source), 1):
            first_ns = stamp_ns if first_ns is None else first_ns
            second = (stamp_ns - first_ns) * 1e-9
            if blur.from_s <= second <= (float('inf') if blur.to_s is None else blur.to_s):
                blur.apply(pixels)
                hit = True
            yield stamp_ns, rgb_frame(pixels)
            progress(number, max(total, number), source.name)
        if not hit:
            end = 'the end' if blur.to_s is None else f'{blur.to_s:g} s'
            raise DataError(f'{source.name} has no picture between {blur.from_s:g} s and {end}')
    write_video(target, frames())


def first_picture(path: Path) -> Pixels:
    """Return the first picture of a video. Raises DataError."""
    picture = next(read_video(path), None)
    if picture is None:
        raise DataError(f'{path} has no picture')
    return picture


class PacketDecoder:
    """
    Decodes the packets of one stream in their order; ``codec`` is FFmpeg's name, such as ``h264``.

    Nothing comes before the first key frame. Raises DataError for a codec that FFmpeg lacks.
    """

    def __init__(self, codec: str) -> None:
        try:
            self._context: Any = av.CodecContext.create(codec, 'r')
        except (av.FFmpegError, ValueError) as error:
            raise DataError(f"no decoder for the video codec '{codec}': {error}") from error
        self._context.thread_count = 1    # more threads add delay
        self._context.flags |= av.codec.context.Flags.low_delay

    def decode(self, data: bytes) -> Pixels | None:
        """Return the (H, W, 3) RGB pixels of a packet; None before the first picture."""
        try:
            frames = self._context.decode(av.Packet(data))
        except av.FFmpegError as error:
            raise DataError(f'a video packet cannot be decoded: {error}') from error
        if not frames:
            return None
        return np.asarray(frames[-1].to_ndarray(format='rgb24'), np.uint8)
