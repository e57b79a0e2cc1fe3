"""
Elements of a bag: topics with their QoS and definition, and messages as serialized bytes.

This room does not depend on the contents of messages; decoders are arguments (see :mod:`codec`).
A definition is the text of a .msg file followed by those it depends on. Times are integer
nanoseconds: ``log_ns`` when the recorder received a message, ``publish_ns`` when its sender
published it.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from arena_robot.core.errors import RecordingError

INFINITE_NS = 2**63 - 1

IMAGE_TYPES = frozenset({'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'})
REQUERY = '/requery'    # begins the names of topics with the answers of a policy asked again
SEPARATOR = '=' * 80
_FIELD = re.compile(r'^([A-Za-z][\w/]*)(?:<=\d+)?(?:\[[<=\d]*\])?\s+[A-Za-z]\w*')
_PRIMITIVE = re.compile(r'bool|byte|char|float(32|64)|u?int(8|16|32|64)|w?string')
_HEADER_FIRST = re.compile(r'^std_msgs/Header\s')


@dataclass(frozen=True)
class Qos:
    """
    The QoS that a publisher offers, in rmw's terms (``reliable``, ``keep_last`` …).

    ``depth`` is 0 and ``history`` ``unknown`` when they come from the ROS graph, which does not
    report them.
    """

    reliability: str = 'reliable'
    durability: str = 'volatile'
    history: str = 'keep_last'
    depth: int = 10
    deadline_ns: int = INFINITE_NS
    lifespan_ns: int = INFINITE_NS
    liveliness: str = 'automatic'
    liveliness_lease_ns: int = INFINITE_NS
    avoid_ros_namespace_conventions: bool = False

    @property
    def is_latched(self) -> bool:
        """Whether late subscribers are sent the last message."""
        return self.durability == 'transient_local'


@dataclass(frozen=True)
class Topic:
    """
    A recorded topic.

    ``type`` such as ``sensor_msgs/msg/JointState``, ``definition`` the text of its .msg file
    followed by those it depends on, ``type_hash`` its RIHS01 hash or empty.
    """

    name: str
    type: str
    definition: str = ''
    type_hash: str = ''
    qos: tuple[Qos, ...] = ()

    @property
    def is_latched(self) -> bool:
        """Whether any publisher of the topic latches."""
        return any(qos.is_latched for qos in self.qos)

    @property
    def is_image(self) -> bool:
        """Whether its messages are images, which are stored without further compression."""
        return self.type in IMAGE_TYPES


class Message(NamedTuple):
    """One recorded message; ``data`` is complete CDR, ``sequence`` the publisher's count or 0."""

    topic: str
    log_ns: int
    publish_ns: int
    sequence: int
    data: bytes


class Decoder(Protocol):
    """Turns the raw bytes of a message into an object with the fields of its type."""

    def decode(self, topic: Topic, data: bytes) -> Any:
        """Return the decoded message. Raises DataError when the bytes do not fit the type."""


Custom = Mapping[str, str]


def share_folders() -> tuple[Path, ...]:
    """Return the ``share`` folders of AMENT_PREFIX_PATH in order, then that of ROS from wheels."""
    prefixes = [*os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep), sys.prefix]
    return tuple(Path(prefix, 'share') for prefix in prefixes if prefix)


def read_definition(message_type: str, folders: Sequence[Path]) -> str:
    """
    Return the text of ``pkg/msg/Type`` and, after separators, of all types it depends on.

    ``folders`` hold ``pkg/msg/Type.msg``; the first that has it wins. Raises RecordingError
    when a type is in none of them.
    """
    texts: dict[str, str] = {}
    waiting = [message_type]
    while waiting:
        name = waiting.pop(0)
        if name not in texts:
            texts[name] = _read(name, folders)
            waiting += dependencies(name, texts[name])
    top = texts.pop(message_type)
    parts = [top, *(f'{SEPARATOR}\nMSG: {short_name(n)}\n{t}' for n, t in texts.items())]
    return '\n'.join(part.rstrip('\n') + '\n' for part in parts)


def _read(name: str, folders: Sequence[Path]) -> str:
    package, kind, short = name.split('/')
    for folder in folders:
        path = folder / package / kind / f'{short}.msg'
        if path.is_file():
            return path.read_text(encoding='utf-8')
    raise RecordingError(f"the definition of {name} is in none of {', '.join(map(str, folders))}; "
                         f'install {package} and source its workspace')


def short_name(message_type: str) -> str:
    """Return ``pkg/Type`` for ``pkg/msg/Type``, as a definition text writes it."""
    package, _, short = message_type.split('/')
    return f'{package}/{short}'


def dependencies(message_type: str, text: str) -> list[str]:
    """Return the full names of the types that the fields of one .msg text have."""
    package = message_type.split('/')[0]
    types = []
    for line in _fields(text):
        match = _FIELD.match(line)
        if match and not _PRIMITIVE.fullmatch(match[1]):
            words = match[1].split('/')
            types.append(f'{words[0] if len(words) > 1 else package}/msg/{words[-1]}')
    return list(dict.fromkeys(types))


def split(message_type: str, definition: str) -> dict[str, str]:
    """Return the .msg text of each type in a definition, by full name."""
    parts = re.split(r'^=+\s*^MSG: (\S+)\s*?\n', definition, flags=re.MULTILINE)
    texts = {message_type: parts[0]}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        package, _, short = name.partition('/')
        texts[f"{package}/msg/{short.removeprefix('msg/')}"] = text
    return texts


def starts_with_header(definition: str) -> bool:
    """Whether the first field of a type is a ``std_msgs/Header``, so that bytes 4:12 stamp it."""
    return bool(_HEADER_FIRST.match(next(_fields(definition), '')))


def _fields(text: str) -> Iterator[str]:
    """Yield the field lines of a text: no comments, no constants, nothing after a separator."""
    for raw in text.splitlines():
        if raw.startswith('===='):
            return
        line = raw.split('#')[0].strip()
        if line and not re.match(r'^\S+\s+[A-Z]\w*\s*=', line):
            yield line
