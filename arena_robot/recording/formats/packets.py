"""Pictures out of a stream of video packets, such as ffmpeg_image_transport sends."""

from typing import Any

import av
import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.core.observation import Pixels


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
