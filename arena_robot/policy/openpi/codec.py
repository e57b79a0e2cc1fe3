"""
msgpack with numpy arrays, as in openpi's and RoboArena's protocol.

An array is the map ``{b'__ndarray__': True, b'data', b'dtype', b'shape'}``, a numpy scalar
``{b'__npgeneric__': True, b'data', b'dtype'}``. Nothing is ever unpickled, and only booleans,
integers and floats are accepted.
"""

import math
from typing import Any

import msgpack
import numpy as np

from arena_robot.core.errors import DataError

PLAIN_KINDS = 'biuf'
DTYPE_CHARS = 16


def pack(value: Any) -> bytes:
    """Return ``value`` as msgpack; raises DataError on what the format cannot carry."""
    try:
        packed: bytes = msgpack.packb(value, default=_encode)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f'cannot be sent as msgpack: {error}') from error
    return packed


def unpack(data: bytes | bytearray, most_bytes: int = 0, most_items: int = 0) -> Any:
    """
    Return what ``data`` holds, arrays read-only; raises DataError when it is malformed.

    It may have ``most_bytes``, and ``most_items`` in each list and map; 0: as many as there are.
    Of small objects it takes seventy times the memory of its bytes. Depth is bounded by msgpack.
    """
    if 0 < most_bytes < len(data):
        raise DataError(f'{len(data)} bytes of msgpack were sent, at most {most_bytes} are read')
    items = most_items or -1
    try:
        return msgpack.unpackb(data, object_hook=_decode, strict_map_key=False,
                               max_array_len=items, max_map_len=items)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise DataError(f'{len(data)} bytes are not the msgpack that was expected: {error}'
                        ) from error


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in PLAIN_KINDS:
        raise DataError(f'arrays of dtype {value.dtype} are not sent; use numbers')
    if isinstance(value, np.ndarray):
        return {b'__ndarray__': True, b'data': value.tobytes(), b'dtype': value.dtype.str,
                b'shape': value.shape}
    if isinstance(value, np.generic):
        return {b'__npgeneric__': True, b'data': value.item(), b'dtype': value.dtype.str}
    raise TypeError(f'a {type(value).__name__} cannot be sent')


def _decode(value: dict[Any, Any]) -> Any:
    if b'__ndarray__' in value:
        return _array(value)
    if b'__npgeneric__' in value:
        return _dtype(value.get(b'dtype')).type(value.get(b'data'))
    return value


def _array(value: dict[Any, Any]) -> np.ndarray:
    data, shape = value.get(b'data'), value.get(b'shape')
    dtype = _dtype(value.get(b'dtype'))
    if not isinstance(data, bytes) or not isinstance(shape, list) or not all(
            isinstance(side, int) and side >= 0 for side in shape):
        raise ValueError('an array needs its data as bytes and its shape as whole numbers')
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f'an array of shape {shape} and dtype {dtype} needs '
                         f'{math.prod(shape) * dtype.itemsize} bytes, found {len(data)}')
    return np.frombuffer(data, dtype).reshape(shape)


def _dtype(name: Any) -> np.dtype:
    text = name.decode('ascii', 'replace') if isinstance(name, bytes) else str(name)
    if len(text) > DTYPE_CHARS:
        raise ValueError(f'a dtype of {len(text)} characters is refused')
    dtype = np.dtype(text)
    if dtype.kind not in PLAIN_KINDS:
        raise ValueError(f'dtype {text!r} is refused; only booleans, integers and floats are read')
    return dtype
