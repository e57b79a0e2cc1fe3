"""
Everything that can be read of a damaged MCAP file.

A chunk whose checksum is wrong is skipped, and reading continues behind it. Where the framing of
the records is broken, reading continues at the next record that is complete. Topics are taken from
the summary when that is intact, otherwise from the records before the messages.
"""

import io
import mmap
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Metadata, Schema
from mcap.stream_reader import CRCValidationError, get_chunk_data_stream

from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag.base import Message, Topic
from arena_robot.recording.bag.mcap_file import MAGIC
from arena_robot.recording.bag.metadata import qos_from_maps

# What a broken file makes the libraries below raise.
BROKEN = (McapError, CRCValidationError, struct.error, zstandard.ZstdError, EOFError,
          UnicodeDecodeError, KeyError, ValueError, OverflowError, MemoryError)

HEAD = 9
MESSAGE = struct.Struct('<HIQQ')    # channel, sequence, log time, publish time
MAX_CHUNK_BYTES = 1 << 30    # recorders write a few MiB; a damaged size could be anything
_LENGTH = struct.Struct('<Q')
_SIZE = struct.Struct('<I')
_CHUNK = struct.Struct('<QQQII')
_FOOTER = struct.Struct('<QQI')
_OFFSET_BYTES, _MOST_OFFSETS = 26, 10    # a summary offset record, and how many there may be
# Records by opcode: bytes of fixed size, then blocks that begin with their own size.
_LAYOUTS = {Opcode.HEADER: (0, 2), Opcode.SCHEMA: (2, 3), Opcode.CHANNEL: (4, 3),
            Opcode.MESSAGE_INDEX: (2, 1), Opcode.METADATA: (0, 2), Opcode.DATA_END: (4, 0)}
# A chunk, schema or channel whose length is below 4 GiB.
_NEXT = re.compile(rb'[\x03\x04\x06].{4}\x00{4}', re.DOTALL)


@dataclass(frozen=True)
class Damage:
    """A part of a file that cannot be read: where, why, and, if known, its messages' stamps."""

    file: str
    offset: int
    bytes: int
    reason: str
    start_ns: int = 0
    end_ns: int = 0


@dataclass(frozen=True)
class _Record:
    opcode: int
    begin: int
    end: int


def to_topic(channel: Channel, schema: Schema) -> Topic:
    """Return the topic of a channel and its schema."""
    return Topic(channel.topic, schema.name, schema.data.decode('utf-8'),
                 channel.metadata.get('topic_type_hash', ''),
                 qos_from_maps(channel.metadata.get('offered_qos_profiles', '')))


def salvage(path: Path) -> Iterator[Topic | Message | Metadata | Damage]:
    """
    Yield everything in a file that can be read, in the order it was written.

    A topic is yielded before its messages, a damage where it stands. Raises RecordingError when
    the file cannot be opened.
    """
    try:
        with path.open('rb') as file:
            if not path.stat().st_size:
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield from _Salvage(path.name, data).items()
    except OSError as error:
        raise RecordingError(f'cannot read {path}: {error.strerror}') from error


class _Salvage:
    def __init__(self, name: str, data: mmap.mmap) -> None:
        self._name = name
        self._data = data
        self._schemas: dict[int, Schema] = {}
        self._topics: dict[int, Topic] = {}
        self._yielded: set[int] = set()
        self._lost: set[int] = set()

    def items(self) -> Iterator[Topic | Message | Metadata | Damage]:
        self._read_summary()
        place = len(MAGIC)
        if self._data[:place] != MAGIC:
            place = 0
        while place < len(self._data):
            record = self._record(place)
            if record is None:
                following = self._following(place + 1)
                reason = 'unreadable' if following < len(self._data) else 'cut off'
                yield self._damage(place, following, reason)
                place = following
                continue
            if record.opcode == Opcode.DATA_END:
                return
            end = record.end
            try:
                yield from self._contents(record)
            except BROKEN as error:
                if end < len(self._data) and self._record(end) is None:
                    end = self._following(place + 1)    # its length is not to be trusted
                yield self._damage(place, end, _reason(error), record)
            place = end

    def _damage(self, begin: int, end: int, reason: str, record: _Record | None = None) -> Damage:
        start_ns = end_ns = 0
        if record is not None and record.opcode == Opcode.CHUNK:
            start_ns, end_ns = _CHUNK.unpack_from(self._data, record.begin)[:2]
        return Damage(self._name, begin, end - begin, reason, start_ns, end_ns)

    def _following(self, place: int) -> int:
        """Return where the next complete record begins, or the end of the file."""
        for match in _NEXT.finditer(self._data, place):
            record = self._record(match.start())
            if record is not None and self._is_sound(record):
                return match.start()
        return len(self._data)

    def _is_sound(self, record: _Record) -> bool:
        try:
            if record.opcode == Opcode.CHUNK:
                self._chunk(record)
                return True
            if record.opcode == Opcode.SCHEMA:
                return bool(Schema.read(self._stream(record)).encoding == 'ros2msg')
            return str(Channel.read(self._stream(record)).topic).startswith('/')
        except BROKEN:
            return False

    def _record(self, place: int) -> _Record | None:
        """Return the record at a place, None when there is none whose lengths agree."""
        data = self._data
        if place + HEAD > len(data):
            return None
        opcode, (length,) = data[place], _LENGTH.unpack_from(data, place + 1)
        record = _Record(opcode, place + HEAD, place + HEAD + length)
        if record.end > len(data):
            return None
        if opcode == Opcode.CHUNK:
            return record if self._chunk_fits(record) else None
        if opcode in _LAYOUTS:
            return record if self._fits(record, *_LAYOUTS[Opcode(opcode)]) else None
        if opcode == Opcode.MESSAGE:
            return record if length >= MESSAGE.size else None
        return record if opcode == Opcode.ATTACHMENT else None

    def _fits(self, record: _Record, fixed: int, blocks: int) -> bool:
        place = record.begin + fixed
        for _ in range(blocks):
            if place + _SIZE.size > record.end:
                return False
            place += _SIZE.size + _SIZE.unpack_from(self._data, place)[0]
        return place == record.end

    def _chunk_fits(self, record: _Record) -> bool:
        if record.end - record.begin < _CHUNK.size + _LENGTH.size:
            return False
        name = _CHUNK.unpack_from(self._data, record.begin)[4]
        size = record.begin + _CHUNK.size + name
        if name > 16 or size + _LENGTH.size > record.end:
            return False
        return bool(size + _LENGTH.size + _LENGTH.unpack_from(self._data, size)[0] == record.end)

    def _stream(self, record: _Record) -> ReadDataStream:
        return ReadDataStream(io.BytesIO(self._data[record.begin:record.end]))

    def _chunk(self, record: _Record) -> bytes:
        """Return the records of a chunk; one of BROKEN when its checksum is wrong."""
        chunk = Chunk.read(self._stream(record))
        if chunk.uncompressed_size > MAX_CHUNK_BYTES:
            raise ValueError(f'a chunk of {chunk.uncompressed_size} bytes')
        if chunk.compression == 'zstd':
            inside = zstandard.frame_content_size(chunk.data)
            if inside not in (chunk.uncompressed_size, zstandard.CONTENTSIZE_UNKNOWN, -1):
                raise ValueError('the sizes of a chunk differ')
        stream, length = get_chunk_data_stream(chunk, validate_crc=True)
        return bytes(stream.read(length))

    def _contents(self, record: _Record) -> Iterator[Topic | Message | Metadata | Damage]:
        if record.opcode == Opcode.METADATA:
            yield Metadata.read(self._stream(record))
        elif record.opcode == Opcode.CHUNK:
            yield from self._messages(record, self._chunk(record))
        else:
            yield from self._decoded(record, record.opcode, self._data[record.begin:record.end])

    def _messages(self, record: _Record, data: bytes) -> Iterator[Topic | Message | Damage]:
        place = 0
        while place < len(data):
            end = place + HEAD + _LENGTH.unpack_from(data, place + 1)[0]
            if end > len(data):
                raise ValueError('a message reaches beyond its chunk')
            try:
                yield from self._decoded(record, data[place], data[place + HEAD:end])
            except BROKEN as error:    # the records behind it can still be read
                yield self._damage(record.begin - HEAD, record.end, _reason(error), record)
            place = end

    def _decoded(self, record: _Record, opcode: int,
                 data: bytes) -> Iterator[Topic | Message | Damage]:
        if opcode == Opcode.MESSAGE:
            channel, sequence, log_ns, publish_ns = MESSAGE.unpack_from(data)
            if channel not in self._topics:
                if channel not in self._lost:    # once for all of its messages
                    self._lost.add(channel)
                    yield self._damage(record.begin - HEAD, record.end, f'the description of '
                                       f'channel {channel} is lost: its messages are left out',
                                       record)
                return
            if channel not in self._yielded:
                self._yielded.add(channel)
                yield self._topics[channel]
            yield Message(self._topics[channel].name, log_ns, publish_ns, sequence,
                          data[MESSAGE.size:])
        elif opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
            number = self._define(opcode, data)
            if number and number not in self._yielded:
                self._yielded.add(number)
                yield self._topics[number]

    def _define(self, opcode: int, data: bytes) -> int:
        """Keep a schema or channel that is not known yet; return the number of a channel."""
        stream = ReadDataStream(io.BytesIO(data))
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream)
            self._schemas.setdefault(schema.id, schema)
            return 0
        channel = Channel.read(stream)
        if channel.id not in self._topics:
            self._topics[channel.id] = to_topic(channel, self._schemas[channel.schema_id])
        return int(channel.id)

    def _read_summary(self) -> None:
        """Take schemas and channels from the end of the file, if its checksum is right."""
        data = self._data
        footer = len(data) - len(MAGIC) - _FOOTER.size
        if footer < HEAD or data[-len(MAGIC):] != MAGIC:
            return
        start, offsets, crc = _FOOTER.unpack_from(data, footer)
        # Where bytes were lost or added before it, the summary is not where the footer says. Its
        # last part, whose place the footer names too, has records of one size and ends here.
        moved = [0, *(footer - HEAD - records * _OFFSET_BYTES - offsets
                      for records in range(1, _MOST_OFFSETS) if offsets)]
        place = next((start + shift for shift in moved if crc and 0 < start + shift < footer
                      and zlib.crc32(data[start + shift:footer + 16]) == crc), 0)
        if not place:
            return
        while (record := self._record(place)) and record.opcode in _LAYOUTS:
            try:
                self._define(record.opcode, data[record.begin:record.end])
            except BROKEN:
                return
            place = record.end


def _reason(error: BaseException) -> str:
    if isinstance(error, CRCValidationError):
        return 'the checksum is wrong'
    return str(error) or type(error).__name__
