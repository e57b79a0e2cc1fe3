"""
Writer of one MCAP file.

Two chunks are written in parallel, called lanes: state is compressed (zstd, fast), images are
stored as received, because JPEG cannot be compressed further and raw video is too much to compress
in real time. Readers restore the order by the chunks' time ranges. :meth:`McapFile.flush` closes
both lanes, so a killed process loses at most the time between two flushes.
"""

import fcntl
import os
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    McapRecord,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)

from arena_robot import __version__
from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.metadata import qos_to_text

MAGIC = b'\x89MCAP0\r\n'
LIBRARY = f'arena_robot/{__version__}'

_MESSAGE_HEAD = struct.Struct('<BQHIQQ')
_CHUNK_HEAD = struct.Struct('<BQQQQI')
_INDEX_HEAD = struct.Struct('<BQHI')
_SECOND_PART = _MESSAGE_HEAD.size - 9


class _Lane:
    """An open chunk: the bytes of its messages and their offsets."""

    def __init__(self, compressor: zstandard.ZstdCompressor | None) -> None:
        self.compressor = compressor
        self.clear()

    def clear(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.start_ns = 0
        self.end_ns = 0
        self.index: dict[int, list[int]] = defaultdict(list)

    def add(self, channel_id: int, message: Message) -> None:
        log_ns = message.log_ns
        head = _MESSAGE_HEAD.pack(Opcode.MESSAGE, _SECOND_PART + len(message.data), channel_id,
                                  message.sequence & 0xFFFFFFFF, log_ns, message.publish_ns)
        if self.pieces:
            self.start_ns = min(self.start_ns, log_ns)
            self.end_ns = max(self.end_ns, log_ns)
        else:
            self.start_ns = self.end_ns = log_ns
        self.index[channel_id] += (log_ns, self.size)
        self.pieces += (head, message.data)
        self.size += len(head) + len(message.data)

    def packed(self) -> tuple[Sequence[bytes], int, int]:
        """Return the chunk's stored bytes, their number, and the CRC of the plain ones."""
        if self.compressor is None:
            crc = 0
            for piece in self.pieces:
                crc = zlib.crc32(piece, crc)
            return self.pieces, self.size, crc
        plain = b''.join(self.pieces)
        stored = self.compressor.compress(plain)
        return (stored,), len(stored), zlib.crc32(plain)


class McapFile:
    """
    Writes one file.

    ``chunk_bytes`` is the size at which a lane is closed, ``level`` zstd's level for state, 0 to
    store it uncompressed.

    Not thread-safe: one thread writes. Every method raises RecordingError when writing fails.
    """

    def __init__(self, path: Path, chunk_bytes: int = 2 * 2**20, level: int = 1) -> None:
        self.path = path
        self.chunk_bytes = chunk_bytes
        self.message_count = 0
        self.bytes_written = 0
        self.start_ns = 0
        self.end_ns = 0
        self.counts: dict[int, int] = defaultdict(int)
        self._state = _Lane(zstandard.ZstdCompressor(level=level) if level else None)
        self._pictures = _Lane(None)
        self._schemas: list[Schema] = []
        self._channels: list[Channel] = []
        self._lanes: dict[int, _Lane] = {}
        self._chunks: list[ChunkIndex] = []
        self._metadata: list[MetadataIndex] = []
        self._file: IO[bytes] | None = None

    def open(self) -> None:
        """Create the file and lock it while it is written; an existing file is never changed."""
        try:
            self._file = self.path.open('xb', buffering=2**18)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RecordingError(f'cannot create {self.path}: {error.strerror}') from error
        self._put([MAGIC])
        self._record(Header('ros2', LIBRARY))

    def add_channel(self, topic: Topic) -> int:
        """Add a topic and return its channel number."""
        schema_id = next((s.id for s in self._schemas if s.name == topic.type), 0)
        if not schema_id:
            schema_id = len(self._schemas) + 1
            schema = Schema(schema_id, topic.definition.encode('utf-8'), 'ros2msg', topic.type)
            self._schemas.append(schema)
            self._record(schema)
        channel = Channel(id=len(self._channels) + 1, topic=topic.name, message_encoding='cdr',
                          schema_id=schema_id, metadata={
                              'offered_qos_profiles': qos_to_text(topic.qos),
                              'topic_type_hash': topic.type_hash})
        self._channels.append(channel)
        self._lanes[channel.id] = self._pictures if topic.is_image else self._state
        self._record(channel)
        return channel.id

    def write(self, channel_id: int, message: Message) -> None:
        """Add a message to its lane, and close the lane when it is large enough."""
        if self.message_count:
            self.start_ns = min(self.start_ns, message.log_ns)
            self.end_ns = max(self.end_ns, message.log_ns)
        else:
            self.start_ns = self.end_ns = message.log_ns
        self.message_count += 1
        self.counts[channel_id] += 1
        lane = self._lanes[channel_id]
        lane.add(channel_id, message)
        if lane.size >= self.chunk_bytes:
            self._close_chunk(lane)

    def add_metadata(self, name: str, values: Mapping[str, str]) -> None:
        """Add a metadata record."""
        offset, length = self._record(Metadata(name=name, metadata=dict(values)))
        self._metadata.append(MetadataIndex(offset=offset, length=length, name=name))

    def flush(self) -> None:
        """Close the open chunks and write everything to the disk."""
        self._close_chunk(self._state)
        self._close_chunk(self._pictures)
        try:
            self._open_file().flush()
            os.fdatasync(self._open_file().fileno())
        except OSError as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Write the indices and close; does nothing when the file is closed."""
        if self._file is None:
            return
        try:
            self.flush()
            self._record(DataEnd(0))
            self._put([*self._summary(), MAGIC])
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._refused(error) from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file without indices; it can be recovered."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError:
                file.raw.close()  # type: ignore[attr-defined]

    def _open_file(self) -> IO[bytes]:
        if self._file is None:
            raise RecordingError(f'{self.path} is not open for writing')
        return self._file

    def _refused(self, error: OSError) -> RecordingError:
        return RecordingError(f'cannot write {self.path}: {error.strerror or error}')

    def _put(self, pieces: Sequence[bytes]) -> None:
        file = self._open_file()
        try:
            file.writelines(pieces)
        except OSError as error:
            raise self._refused(error) from error
        self.bytes_written += sum(map(len, pieces))

    def _record(self, record: McapRecord) -> tuple[int, int]:
        builder = RecordBuilder()
        record.write(builder)
        data = builder.end()
        offset = self.bytes_written
        self._put([data])
        return offset, len(data)

    def _close_chunk(self, lane: _Lane) -> None:
        if not lane.pieces:
            return
        stored, size, crc = lane.packed()
        name = b'zstd' if lane.compressor else b''
        tail = struct.pack('<I', len(name)) + name + struct.pack('<Q', size)
        length = _CHUNK_HEAD.size - 9 + len(tail) + size
        head = _CHUNK_HEAD.pack(Opcode.CHUNK, length, lane.start_ns, lane.end_ns, lane.size, crc)
        start = self.bytes_written
        self._put([head + tail, *stored])
        chunk_length = self.bytes_written - start
        offsets, index_start = {}, self.bytes_written
        for channel_id, pairs in lane.index.items():
            offsets[channel_id] = self.bytes_written
            self._put([_INDEX_HEAD.pack(Opcode.MESSAGE_INDEX, 6 + 8 * len(pairs), channel_id,
                                        8 * len(pairs)), struct.pack(f'<{len(pairs)}Q', *pairs)])
        self._chunks.append(ChunkIndex(
            message_start_time=lane.start_ns, message_end_time=lane.end_ns,
            chunk_start_offset=start, chunk_length=chunk_length, message_index_offsets=offsets,
            message_index_length=self.bytes_written - index_start, compression=name.decode(),
            compressed_size=size, uncompressed_size=lane.size))
        lane.clear()

    def _summary(self) -> list[bytes]:
        """Return the summary section and the footer."""
        start = self.bytes_written
        builder = RecordBuilder()
        offsets = []
        groups: list[tuple[Opcode, Sequence[McapRecord]]] = [
            (Opcode.SCHEMA, self._schemas), (Opcode.CHANNEL, self._channels),
            (Opcode.STATISTICS, [self._statistics()]), (Opcode.CHUNK_INDEX, self._chunks),
            (Opcode.METADATA_INDEX, self._metadata)]
        for opcode, records in groups:
            begin = builder.count
            for record in records:
                record.write(builder)
            if records:
                offsets.append(SummaryOffset(opcode, start + begin, builder.count - begin))
        offset_start = start + builder.count
        for offset in offsets:
            offset.write(builder)
        data = builder.end()
        head = struct.pack('<BQQQ', Opcode.FOOTER, 20, start, offset_start)
        Footer(summary_start=start, summary_offset_start=offset_start,
               summary_crc=zlib.crc32(head, zlib.crc32(data))).write(builder)
        return [data, builder.end()]

    def _statistics(self) -> Statistics:
        return Statistics(
            attachment_count=0, channel_count=len(self._channels),
            channel_message_counts=dict(self.counts), chunk_count=len(self._chunks),
            message_count=self.message_count, metadata_count=len(self._metadata),
            message_start_time=self.start_ns, message_end_time=self.end_ns,
            schema_count=len(self._schemas))
