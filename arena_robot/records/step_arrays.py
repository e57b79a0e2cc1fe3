"""Arrays of an ``.npz`` file from strangers: the headers are checked before memory is taken."""

import io
import math
import zipfile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from arena_robot.core.errors import DataError

MOST_BYTES = 16 << 20
HEADER_BYTES = 4096


def read_arrays(content: bytes, where: str) -> dict[str, NDArray[np.generic]]:
    """
    Return the arrays of an ``.npz`` file; DataError when it is none or unpacks to over 16 MiB.

    Every array is as large as its header says, and no header is believed before that is checked.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(one.file_size for one in members) > MOST_BYTES:
                raise DataError(f'{where} unpacks to more than {MOST_BYTES} bytes')
            for one in members:
                _check_header(archive, one, where)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError,
            zipfile.BadZipFile) as error:
        raise DataError(f'{where} cannot be read: {error}') from error


def _check_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> None:
    with archive.open(member) as stream:
        head = io.BytesIO(stream.read(HEADER_BYTES))
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(
        npy.read_magic(head))
    if read is None:
        raise DataError(f'{where}: {member.filename:.80} has another version of npy')
    shape, _, kind = read(head)
    wanted = math.prod(shape) * kind.itemsize
    if kind.hasobject or head.tell() + wanted != member.file_size:
        raise DataError(f'{where}: {member.filename:.80} says that it has {wanted} bytes of '
                        f'values, and has {member.file_size - head.tell()}')
