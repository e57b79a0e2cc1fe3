"""Images from recorded messages and from streams of video packets; H.264 videos from images."""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from arena_robot.core import jpeg
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.errors import DataError
from arena_robot.core.files import replacing
from arena_robot.core.observation import Image, Pixels
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.tracks import time_ns
from arena_robot.recording.episode.views import JPEG

# Above any station's camera: both eyes of a ZED side by side in its largest mode have 5.5 million.
MOST_PIXELS = 4096 * 2304
_TICKS = Fraction(1, 90_000)
_RAW = {'rgb8': (3, None), 'bgr8': (3, cv2.COLOR_BGR2RGB), 'rgba8': (4, cv2.COLOR_RGBA2RGB),
        'bgra8': (4, cv2.COLOR_BGRA2RGB), 'mono8': (1, cv2.COLOR_GRAY2RGB)}


def pictures(bag: BagReader, decoder: Decoder, topic: Topic, start_ns: int | None = None
             ) -> Iterator[Image]:
    """Yield the decoded pictures of a topic with their capture stamps, in order of arrival."""
    for message in bag.messages([topic.name], start_ns):
        value = decoder.decode(topic, message.data)
        yield Image(pixels_of(topic, value), time_ns(value.header.stamp))


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


def video_frames(bag: BagReader, decoder: Decoder, topic: Topic) -> Iterator[tuple[int, Any]]:
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
    when None. The file is written atomically; without a frame no file is written.
    """
    remaining = iter(frames)
    first = next(remaining, None)
    if first is None:
        return []
    width, height = size or (first[1].width, first[1].height)
    stamps: list[int] = []
    convert = VideoReformatter()    # one for all frames: each sets up its conversion once
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
    try:
        with av.open(str(path)) as file:
            coder = file.streams.video[0].codec_context
            if coder.width * coder.height > MOST_PIXELS:
                raise DataError(f'{path} has pictures of {coder.width} by {coder.height}; up to '
                                f'{MOST_PIXELS} pixels are read')
            coder.options = {'max_pixels': str(MOST_PIXELS)}
            for frame in file.decode(video=0):
                yield frame.to_ndarray(format='rgb24')
    except (av.FFmpegError, IndexError) as error:
        raise DataError(f'{path} is not a video that can be read: {error}') from error


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
