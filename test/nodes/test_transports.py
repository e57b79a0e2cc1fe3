"""Images that are not raw: decoded once, off the callbacks, pairs only, video in its order."""

import threading
from array import array
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest
from sensor_msgs.msg import CompressedImage

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.jpeg import to_jpeg
from arena_robot.nodes.lib import convert
from arena_robot.nodes.lib.images import (
    Decoded,
    DecodingThread,
    PacketReader,
    message_kind,
    read_compressed,
)

PICTURE = np.repeat(np.arange(64, dtype=np.uint8)[None, :, None] * 3, 48, 0).repeat(3, 2)


def jpeg(stamp_ns=7, data=None):
    return CompressedImage(header=convert.header(stamp_ns, ''), format='bgra8; jpeg compressed '
                           'bgr8', data=array('B', to_jpeg(PICTURE) if data is None else data))


def test_a_jpeg_is_read_in_rgb():
    message = jpeg()
    image = read_compressed(message)
    assert image.stamp_ns == 7
    assert np.max(np.abs(image.pixels.astype(int) - PICTURE)) < 12
    with pytest.raises(DataError, match='not a picture'):
        read_compressed(jpeg(data=b'no'))


def test_a_newer_jpeg_replaces_one_that_waits_and_each_is_decoded_once():
    busy, go_on, decoded, done = threading.Event(), threading.Event(), [], threading.Event()

    def read(message):
        decoded.append(message)
        busy.set()
        assert go_on.wait(5.0)
        return message
    thread = DecodingThread('zed', {'left': read}, lambda images: decoded[-1] == 4 and done.set(),
                            lambda eye, why: None)
    thread.put(Decoded({'left': 1}, keep=False))
    assert busy.wait(5.0)
    for number in (2, 3, 4):
        thread.put(Decoded({'left': number}, keep=False))
    go_on.set()
    assert done.wait(5.0)
    thread.close()
    assert decoded == [1, 4]
    assert thread.dropped == 2


def test_what_cannot_be_read_is_said_with_its_eye():
    said, over = [], threading.Event()

    def failed(eye, why):
        said.append((eye, why))
        over.set()
    thread = DecodingThread('zed', {'right': read_compressed}, lambda images: None, failed)
    thread.put(Decoded({'right': jpeg(data=b'no')}, keep=False))
    assert over.wait(5.0)
    thread.close()
    assert said == [('right', '2 bytes are not a picture that can be read')]


def packets():
    encoder = av.CodecContext.create('mpeg4', 'w')
    encoder.width, encoder.height, encoder.pix_fmt = 64, 48, 'yuv420p'
    encoder.time_base = Fraction(1, 15)
    out = []
    for _ in range(4):
        out += [bytes(p) for p in encoder.encode(av.VideoFrame.from_ndarray(PICTURE, 'rgb24'))]
    return out + [bytes(p) for p in encoder.encode(None)]


def test_video_packets_are_decoded_in_their_order():
    read, read_images = PacketReader(), []
    for number, data in enumerate(packets()):
        message = SimpleNamespace(encoding='mpeg4;yuv420p;bgr8;bgr8', data=data,
                                  header=convert.header(number + 1, ''))
        read_images.append(read(message))
    images = [image for image in read_images if image is not None]
    assert len(images) >= 3
    assert np.mean(np.abs(images[-1].pixels.astype(int) - PICTURE)) < 6
    with pytest.raises(DataError, match="no decoder for the video codec 'nothing'"):
        PacketReader()(SimpleNamespace(encoding='nothing', data=b'', header=None))


def test_the_missing_package_of_a_transport_is_named():
    with pytest.raises(ConfigError, match='ffmpeg_image_transport_msgs'):
        message_kind('ffmpeg')
