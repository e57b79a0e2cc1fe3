"""
The messages of an intact MCAP file in order of ``log_ns``, a chunk at a time.

The library's own iteration takes every record apart and keeps a heap of them, which took a third
of the time of deriving and checking an episode. Here a message that nobody asked for costs the
reading of its head.
"""

import struct
from bisect import bisect_left
from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import IO

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Chunk, ChunkIndex
from mcap.stream_reader import get_chunk_data_stream
from mcap.summary import Summary

from arena_robot.recording.bag.base import Message

RECORD = struct.Struct('<BQ')       # opcode and length, before every record
MESSAGE = struct.Struct('<HIQQ')    # channel, sequence, log time, publish time

_log_ns = attrgetter('log_ns')


def messages_in_order(file: IO[bytes], summary: Summary, topics: Collection[str] | None,
                      start_ns: int | None, end_ns: int | None) -> Iterator[Message]:
    """
    Yield the messages of ``topics`` (None: of all) from ``start_ns`` to before ``end_ns``.

    Only the messages that a later chunk may still precede are held. Raises what the library and
    struct raise where a chunk is damaged.
    """
    names = {number: channel.topic if topics is None or channel.topic in topics else ''
             for number, channel in summary.channels.items()}
    waiting: list[Message] = []
    for index in sorted(summary.chunk_indexes,
                        key=lambda one: (one.message_start_time, one.chunk_start_offset)):
        if not _concerns(index, names, start_ns, end_ns):
            continue
        ready = bisect_left(waiting, index.message_start_time, key=_log_ns)
        yield from waiting[:ready]
        del waiting[:ready]
        waiting += (one for one in _messages(_records(file, index), names)
                    if (start_ns is None or one.log_ns >= start_ns)
                    and (end_ns is None or one.log_ns < end_ns))
        waiting.sort(key=_log_ns)
    yield from waiting


def _concerns(index: ChunkIndex, names: dict[int, str], start_ns: int | None,
              end_ns: int | None) -> bool:
    """Return whether a chunk can have wanted messages; without an index of it, it can."""
    if start_ns is not None and index.message_end_time < start_ns:
        return False
    if end_ns is not None and index.message_start_time >= end_ns:
        return False
    inside = index.message_index_offsets
    return not inside or any(names[channel] for channel in inside)


def _records(file: IO[bytes], index: ChunkIndex) -> bytes:
    """Return the records of a chunk, whose checksum is right."""
    file.seek(index.chunk_start_offset + RECORD.size)
    stream, length = get_chunk_data_stream(Chunk.read(ReadDataStream(file)), validate_crc=True)
    return bytes(stream.read(length))


def _messages(records: bytes, names: dict[int, str]) -> Iterator[Message]:
    """Yield the messages of the channels that have a name; KeyError where one is not known."""
    place = 0
    while place < len(records):
        opcode, length = RECORD.unpack_from(records, place)
        place += RECORD.size
        end = place + length
        if end > len(records):
            raise ValueError('a message reaches beyond its chunk')
        if opcode == Opcode.MESSAGE:
            channel, sequence, log_ns, publish_ns = MESSAGE.unpack_from(records, place)
            name = names[channel]
            if name:
                yield Message(name, log_ns, publish_ns, sequence,
                              records[place + MESSAGE.size:end])
        place = end
