"""
Reader of bags: topics, messages in order of arrival, decoded with a given decoder.

Damaged files are read with :func:`arena_robot.recording.bag.salvage.salvage`; everything else
needs a recovered bag.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

from mcap.reader import SeekingReader
from typing_extensions import Self

from arena_robot.core.errors import RecordingError
from arena_robot.recording.bag import metadata as bag_metadata
from arena_robot.recording.bag.base import Decoder, Message, Topic
from arena_robot.recording.bag.in_order import messages_in_order
from arena_robot.recording.bag.metadata import BagMetadata
from arena_robot.recording.bag.salvage import BROKEN, to_topic

T = TypeVar('T')


class BagReader:
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

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

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
            found = reader.iter_messages(topics, starting_at=start_ns, ending_before=end_ns)
            for _, channel, m in found:
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
