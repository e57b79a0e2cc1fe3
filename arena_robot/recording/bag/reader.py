"""
Reader of bags: topics, messages in order of arrival, decoded with a given decoder.

Damaged files are read with :func:`arena_robot.recording.bag.salvage.salvage`; everything else
needs a recovered bag.
"""

import heapq
import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, TypeVar

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.reader import SeekingReader
from mcap.records import Chunk, ChunkIndex
from mcap.stream_reader import get_chunk_data_stream
from mcap.summary import Summary

from arena_robot.core.errors import RecordingError
from arena_robot.core.openable import Openable
from arena_robot.recording.bag import metadata as bag_metadata
from arena_robot.recording.bag.base import Decoder, Message, Topic
from arena_robot.recording.bag.metadata import BagMetadata
from arena_robot.recording.bag.salvage import BROKEN, MESSAGE, to_topic

T = TypeVar('T')
_RECORD = struct.Struct('<BQ')       # opcode and length, before every record
_log_ns = attrgetter('log_ns')


class BagReader(Openable):
    """
    A complete bag: a folder with ``metadata.yaml`` and the files it names.

    Raises RecordingError when it is not one; the message says how to recover it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata = BagMetadata((), (), {})
        self.topics: dict[str, Topic] = {}
        self.records: dict[str, dict[str, str]] = {}
        self._files: list[tuple[IO[bytes], SeekingReader]] = []

    def open(self) -> None:
        """Read the metadata and the summaries of all files."""
        self.metadata = bag_metadata.read(self.folder)
        try:
            for item in self.metadata.files:
                self._open_file(self.folder / Path(item.path).name)
        except RecordingError:
            self.close()
            raise

    def close(self) -> None:
        """Close the files."""
        for file, _ in self._files:
            file.close()
        self._files.clear()

    def messages(self, topics: Iterable[str] | None = None, start_ns: int | None = None,
                 end_ns: int | None = None) -> Iterator[Message]:
        """Yield messages by ``log_ns``, of ``topics`` (default all), from start to before end."""
        wanted = None if topics is None else list(topics)
        if wanted == []:
            return
        parts = [self._part(path.name, file, reader, wanted, start_ns, end_ns)
                 for path, (file, reader) in zip(self._paths(), self._files, strict=True)]
        yield from parts[0] if len(parts) == 1 else heapq.merge(*parts, key=lambda m: m.log_ns)

    def decoded(self, decoder: Decoder, topics: Iterable[str] | None = None
                ) -> Iterator[tuple[Message, Any]]:
        """Yield messages with their decoded contents."""
        for message in self.messages(topics):
            yield message, decoder.decode(self.topics[message.topic], message.data)

    def of_type(self, *types: str) -> list[Topic]:
        """Return the topics with messages of these types, by name."""
        return sorted((t for t in self.topics.values() if t.type in types), key=lambda t: t.name)

    def _paths(self) -> list[Path]:
        return [self.folder / Path(item.path).name for item in self.metadata.files]

    def _open_file(self, path: Path) -> None:
        try:
            file = path.open('rb')
        except OSError as error:
            raise RecordingError(f'cannot read {path}: {error.strerror}') from error
        try:
            reader = _guard(path, lambda: SeekingReader(file, validate_crcs=True))
        except RecordingError:
            file.close()
            raise
        self._files.append((file, reader))
        summary = _guard(path, reader.get_summary)
        if summary is None or summary.statistics is None:
            raise RecordingError(f'{path} has no summary: recover it with '
                                 f'`arena episode recover {self.folder}`')
        for channel in summary.channels.values():
            self.topics[channel.topic] = to_topic(channel, summary.schemas[channel.schema_id])
        for record in _guard(path, lambda: list(reader.iter_metadata())):
            self.records[record.name] = dict(record.metadata)

    def _part(self, name: str, file: IO[bytes], reader: SeekingReader,
              topics: list[str] | None, start_ns: int | None, end_ns: int | None
              ) -> Iterator[Message]:
        try:
            summary = reader.get_summary()
            if summary is not None and summary.chunk_indexes:
                yield from messages_in_order(file, summary, topics, start_ns, end_ns)
                return
            records = reader.iter_messages(topics, starting_at=start_ns, ending_before=end_ns)
            for _, channel, m in records:
                yield Message(channel.topic, m.log_time, m.publish_time, m.sequence, m.data)
        except BROKEN as error:
            raise RecordingError(f'{self.folder / name} is damaged ({error!r}): recover it with '
                                 f'`arena episode recover {self.folder}`') from error


def _guard(path: Path, call: Callable[[], T]) -> T:
    try:
        return call()
    except BROKEN as error:
        raise RecordingError(f'{path} is cut off or damaged ({error!r}): recover it with '
                             f'`arena episode recover {path.parent}`') from error


def messages_in_order(file: IO[bytes], summary: Summary, topics: Collection[str] | None,
                      start_ns: int | None, end_ns: int | None) -> Iterator[Message]:
    """
    Yield the messages of ``topics`` (None: of all) from ``start_ns`` to before ``end_ns``.

    Only the messages that a later chunk may still precede are held. The library's own iteration
    takes every record apart, a third of the time of deriving and checking an episode. Raises what
    the library and struct raise where a chunk is damaged.
    """
    names = {number: channel.topic if topics is None or channel.topic in topics else ''
             for number, channel in summary.channels.items()}
    waiting: list[Message] = []
    for index in sorted(summary.chunk_indexes,
                        key=lambda chunk: (chunk.message_start_time, chunk.chunk_start_offset)):
        if not _concerns(index, names, start_ns, end_ns):
            continue
        ready = bisect_left(waiting, index.message_start_time, key=_log_ns)
        yield from waiting[:ready]
        del waiting[:ready]
        waiting += (message for message in _messages(_records(file, index), names)
                    if (start_ns is None or message.log_ns >= start_ns)
                    and (end_ns is None or message.log_ns < end_ns))
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
    file.seek(index.chunk_start_offset + _RECORD.size)
    stream, length = get_chunk_data_stream(Chunk.read(ReadDataStream(file)), validate_crc=True)
    return bytes(stream.read(length))


def _messages(records: bytes, names: dict[int, str]) -> Iterator[Message]:
    """Yield the messages of the channels that have a name; KeyError where one is not known."""
    place = 0
    while place < len(records):
        opcode, length = _RECORD.unpack_from(records, place)
        place += _RECORD.size
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
