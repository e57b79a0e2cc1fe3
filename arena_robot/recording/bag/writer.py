"""Writer of a bag: a folder, its MCAP files, and ``metadata.yaml`` last."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from arena_robot.core.errors import RecordingError
from arena_robot.core.openable import Openable
from arena_robot.recording.bag import metadata as bag_metadata
from arena_robot.recording.bag.base import Custom, Message, Topic
from arena_robot.recording.bag.mcap_file import McapFile
from arena_robot.recording.bag.metadata import BagFile, BagMetadata

RECORD = 'arena'
INSTALL_HINT = 'every file carries them; to play it back build arena_msgs from arena_robot'
_STATIC_TF = 'tf2_msgs/msg/TFMessage'
_MOST = 64    # static transforms that are repeated in each file; a station has a dozen


class BagWriter(Openable):
    """
    Writes one bag into ``folder`` (made if missing).

    Its files are ``<name>_<n>.mcap``, with the folder's own name if none is given.

    ``custom`` is written at the start of every file and into ``metadata.yaml``. Not thread-safe.
    Raises RecordingError when the folder has a bag already or writing fails.
    """

    def __init__(self, folder: Path, custom: Custom | None = None,
                 chunk_bytes: int = 2 * 2**20, name: str = '', level: int = 1) -> None:
        self.folder = folder
        self.name = name or folder.name
        self.custom: dict[str, str] = {'definitions': INSTALL_HINT, **(custom or {})}
        self.chunk_bytes = chunk_bytes
        self.level = level
        self.topics: dict[str, Topic] = {}
        self._counts: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._done: list[BagFile] = []
        self._done_bytes = 0
        self._latched = LatchedSet()
        self._latching: set[str] = set()
        self._file: McapFile | None = None

    def open(self) -> None:
        """Make the folder and open the first file."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordingError(f'cannot make {self.folder}: {error.strerror}') from error
        present = sorted(p.name for p in self.folder.glob('*.mcap'))
        if present:
            raise RecordingError(f"{self.folder} holds {', '.join(present)} already; recordings "
                                 'are never overwritten, name another folder')
        self._open_file()

    @property
    def bytes_written(self) -> int:
        """Size of all files so far."""
        file = self._file
        return self._done_bytes + (file.bytes_written if file else 0)

    @property
    def message_count(self) -> int:
        """Messages in all files so far."""
        return sum(self._counts.values())

    def add_topic(self, topic: Topic) -> None:
        """Add a topic; does nothing the second time."""
        if topic.name not in self.topics:
            self.topics[topic.name] = topic
            self._counts[topic.name] = 0
            if topic.is_latched:
                self._latching.add(topic.name)
            self._ids[topic.name] = self._open().add_channel(topic)

    def write(self, message: Message) -> None:
        """Write a message of an added topic."""
        file = self._open()
        try:
            channel_id = self._ids[message.topic]
        except KeyError:
            raise RecordingError(f'{message.topic} was not added with add_topic') from None
        file.write(channel_id, message)
        self._counts[message.topic] += 1
        if message.topic in self._latching:
            self._latched.add(self.topics[message.topic], message)

    def write_latched(self, messages: Iterable[Message], log_ns: int) -> None:
        """Repeat latched messages at the start of a file, as if received at ``log_ns``."""
        for message in messages:
            self.write(message._replace(log_ns=log_ns))

    def flush(self) -> None:
        """Write everything to the disk; a process killed now loses nothing."""
        self._open().flush()

    def split(self, log_ns: int) -> Path:
        """Close the file and continue in a new one that starts with the latched messages."""
        self._close_file()
        self._open_file()
        for topic in self.topics.values():
            self._ids[topic.name] = self._open().add_channel(topic)
        self.write_latched(list(self._latched), log_ns)
        return self._open().path

    def close(self, custom: Custom | None = None) -> BagMetadata:
        """Close the file, write ``metadata.yaml``, and return what it says."""
        self.custom.update(custom or {})
        if self._file is not None:
            self._close_file()
            bag_metadata.write(self.folder, self.summary())
        return self.summary()

    def abandon(self) -> None:
        """Close without indices and metadata; the bag can be recovered."""
        if self._file is not None:
            self._file.abandon()
            self._file = None

    def summary(self) -> BagMetadata:
        """Return the metadata of the files closed so far."""
        return BagMetadata(tuple(self._done), tuple(self.topics.values()), dict(self._counts),
                           dict(self.custom))

    def _open(self) -> McapFile:
        if self._file is None:
            raise RecordingError(f'the bag {self.folder} is not open for writing')
        return self._file

    def _open_file(self) -> None:
        path = self.folder / f'{self.name}_{len(self._done)}.mcap'
        self._file = McapFile(path, self.chunk_bytes, self.level)
        self._file.open()
        self._file.add_metadata(RECORD, self.custom)
        self._file.flush()

    def _close_file(self) -> None:
        file = self._open()
        item = BagFile(file.path.name, file.start_ns, file.end_ns - file.start_ns,
                       file.message_count)
        whole = BagMetadata((*self._done, item), tuple(self.topics.values()), self._counts,
                            self.custom)
        file.add_metadata(RECORD, self.custom)
        file.add_metadata('rosbag2', {'serialized_metadata': bag_metadata.to_text(whole, False)})
        self._file = None
        file.close()
        self._done.append(item)
        self._done_bytes += file.bytes_written


class LatchedSet:
    """
    Newest message of each latched topic; of static transforms, every different one.

    Static transforms come from several senders, each with its own part of the tree.
    """

    def __init__(self) -> None:
        self._messages: dict[str, list[Message]] = {}

    def add(self, topic: Topic, message: Message) -> None:
        """Store a message; messages of topics that are not latched are ignored."""
        if not topic.is_latched:
            return
        if topic.type != _STATIC_TF:
            self._messages[topic.name] = [message]
            return
        others = [m for m in self._messages.get(topic.name, []) if m.data != message.data]
        self._messages[topic.name] = [*others, message][-_MOST:]

    def __iter__(self) -> Iterator[Message]:
        for messages in list(self._messages.values()):
            yield from messages
