"""
Queries put together from pieces of bytes and taken apart again, so that pictures are copied once.

A protobuf message that has a field of bytes copies it when it is built, serialized, parsed and
read, each time into new memory; for two pictures that took longer than all the rest.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import Image, Observation
from arena_robot.policy.proto import arena_policy_pb2 as pb

Piece = bytes | memoryview
MAX_FIELDS = 256    # of a message that is taken apart
Query = tuple[pb.InferRequest, Piece]    # and its serialized observation
StreamQuery = tuple[pb.StreamRequest, Query | None]    # no query: it is a reset
VARINT, BYTES = 0, 2
FIXED = {1: 8, 5: 4}    # bytes of a field by its type


def observation_pieces(observation: Observation, jpeg_quality: int = 0) -> list[Piece]:
    """Return a serialized Observation with all of its images, raw when quality is 0."""
    arm, gripper = observation.arm, observation.gripper
    head = pb.Observation(
        stamp_ns=observation.stamp_ns, step=observation.step, prompt=observation.prompt,
        arm_stamp_ns=arm.stamp_ns, joint_position=arm.q.tolist(),
        cartesian_position=arm.pose.tolist(), gripper_stamp_ns=gripper.stamp_ns,
        gripper_position=gripper.position).SerializeToString()
    pieces: list[Piece] = [head]
    for name, image in observation.images.items():
        pieces += _field(pb.Observation, 'images', _image_pieces(name, image, jpeg_quality))
    return pieces


def infer_bytes(request: pb.InferRequest, observation: Sequence[Piece]) -> bytes:
    """Return a serialized request, which has no observation yet, with this one."""
    return b''.join(_infer_pieces(request, observation))


def stream_infer_bytes(head: pb.StreamRequest, request: pb.InferRequest,
                       observation: Sequence[Piece]) -> bytes:
    """Return the same as a message of a stream; ``head`` has its number and deadline."""
    return b''.join((head.SerializeToString(), *_field(
        pb.StreamRequest, 'infer', _infer_pieces(request, observation))))


def serialized(request: Any) -> bytes:
    """Return a message as bytes, which it may be already."""
    return request if isinstance(request, bytes) else bytes(request.SerializeToString())


def query_of(data: Piece) -> Query:
    """Return what a serialized InferRequest asks; raises DecodeError."""
    request, found = taken_apart(data, pb.InferRequest, 'observation')
    return request, found[-1] if found else b''


def stream_query_of(data: Piece) -> StreamQuery:
    """Return what a serialized StreamRequest asks; raises DecodeError."""
    request, found = taken_apart(data, pb.StreamRequest, 'infer')
    return request, query_of(found[-1]) if found else None


def taken_apart(data: Piece, message: Any, name: str) -> tuple[Any, list[memoryview]]:
    """
    Return a message without one field of bytes, and that field's values, which are not copied.

    Raises DecodeError when ``data`` is not such a message, or has more than MAX_FIELDS.
    """
    whole, end, position = memoryview(data), len(data), 0
    wanted = _tag(message, name)
    rest: list[memoryview] = []
    found: list[memoryview] = []
    kept = 0    # where the fields begin that are not in ``rest`` yet
    for _ in range(MAX_FIELDS + 1):
        if position >= end:
            return message.FromString(b''.join((*rest, whole[kept:]))), found
        start = position
        tag, position = read_varint(whole, position)
        kind = tag & 7
        if kind == BYTES:
            size, position = read_varint(whole, position)
        elif kind == VARINT:
            size, position = 0, read_varint(whole, position)[1]
        else:
            size = FIXED.get(kind, 0)
            if not size:
                raise DecodeError(f'field {tag >> 3} has the unknown type {kind}')
        begin, position = position, position + size
        if position > end:
            raise DecodeError(f'field {tag >> 3} is cut off')
        if tag == wanted:
            found.append(whole[begin:position])
            rest.append(whole[kept:start])
            kept = position
    raise DecodeError(f'it has more than {MAX_FIELDS} fields')


def read_varint(data: Piece, position: int) -> tuple[int, int]:
    """Return the number that begins there, and where it ends; raises DecodeError."""
    if position < len(data) and (byte := data[position]) < 0x80:
        return byte, position + 1
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise DecodeError('a number is cut off')
        byte = data[position]
        value, position = value | (byte & 0x7F) << shift, position + 1
        if byte < 0x80:
            return value, position
    raise DecodeError('a number is too long')


def _infer_pieces(request: pb.InferRequest, observation: Sequence[Piece]) -> list[Piece]:
    return [request.SerializeToString(), *_field(pb.InferRequest, 'observation', observation)]


def _image_pieces(name: str, image: Image, jpeg_quality: int) -> list[Piece]:
    height, width = image.pixels.shape[:2]
    raw = jpeg_quality == 0
    info = pb.Image(
        view=name, height=height, width=width, stamp_ns=image.stamp_ns,
        encoding=pb.ENCODING_RGB8 if raw else pb.ENCODING_JPEG).SerializeToString()
    data = np.ascontiguousarray(image.pixels).reshape(-1).view(np.uint8).data if raw else \
        to_jpeg(image.pixels, jpeg_quality)
    return [info, *_field(pb.Image, 'data', [data])]


def _field(message: Any, name: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Return a field of bytes: its number, how many there are, and they."""
    return [_varint(_tag(message, name)) + _varint(sum(map(len, pieces))), *pieces]


@lru_cache
def _tag(message: Any, name: str) -> int:
    """Return the number that a field of bytes begins with."""
    return int(message.DESCRIPTOR.fields_by_name[name].number) << 3 | BYTES


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
