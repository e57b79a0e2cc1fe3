"""
Serialization of messages without ROS, from the definitions in a bag.

Messages are decoded to plain objects whose fields are numbers, strings, lists, numpy arrays and
other such objects. The types of ROS 2 Jazzy are built in; all others are read from the definition
text.
"""

import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore

from arena_robot.core.errors import DataError
from arena_robot.recording.bag.base import Topic, split


class Codec:
    """Decodes and encodes messages of the registered types."""

    def __init__(self) -> None:
        self._store = get_typestore(Stores.ROS2_JAZZY)
        self._taught: set[str] = set()
        self._lock = threading.Lock()

    def teach(self, message_type: str, definition: str) -> None:
        """
        Register a type and its dependencies from a definition text.

        Raises DataError when the text is not one, or contradicts an earlier one.
        """
        if message_type in self._taught:
            return
        with self._lock:
            try:
                for name, text in split(message_type, definition).items():
                    if name not in self._store.fielddefs:
                        self._store.register(get_types_from_msg(text, name))
            except (TypesysError, ValueError) as error:
                raise DataError(f'the definition of {message_type} cannot be used: {error}'
                                ) from error
            self._taught.add(message_type)

    def decode(self, topic: Topic, data: bytes) -> Any:
        """Return the message in ``data``. Raises DataError when it is not one of its type."""
        if topic.definition:
            self.teach(topic.type, topic.definition)
        try:
            return self._store.deserialize_cdr(data, topic.type)
        except (SerdeError, KeyError, IndexError) as error:
            raise DataError(f'{topic.name}: {len(data)} bytes are not a {topic.type}: '
                            f'{error}') from error

    def encode(self, message_type: str, fields: Mapping[str, Any]) -> bytes:
        """
        Return the CDR of a message; fields that are not named are zero, empty or false.

        Nested messages are mappings. Raises DataError on an unknown type or field.
        """
        try:
            message = self._build(message_type, fields)
            return bytes(self._store.serialize_cdr(message, message_type))
        except (KeyError, SerdeError) as error:
            raise DataError(f'cannot encode a {message_type}: {error!r}') from error

    def type_hash(self, message_type: str) -> str:
        """Return the RIHS01 hash of a known type."""
        try:
            return self._store.hash_rihs01(message_type)
        except (KeyError, TypesysError) as error:
            raise DataError(f'{message_type} is not known: {error!r}') from error

    def definition(self, message_type: str) -> str:
        """Return the definition text of a known type, without comments."""
        try:
            return self._store.generate_msgdef(message_type, ros_version=2)[0]
        except TypesysError as error:
            raise DataError(f'{message_type} is not known: {error}') from error

    def _build(self, message_type: str, fields: Mapping[str, Any]) -> Any:
        descriptions = dict(self._store.fielddefs[message_type][1])
        unknown = set(fields) - set(descriptions)
        if unknown:
            raise DataError(f"{message_type} has no {', '.join(sorted(unknown))}; "
                            f"its fields: {', '.join(descriptions)}")
        values = {name: self._value(desc, fields.get(name)) for name, desc in descriptions.items()}
        return self._store.types[message_type](**values)

    def _value(self, desc: Any, value: Any) -> Any:
        kind, inner = int(desc[0]), desc[1]
        if kind == 1:
            return _scalar(inner[0], value)
        if kind == 2:
            return self._build(inner, value or {})
        item, length = inner
        if int(item[0]) == 2:
            return [self._build(item[1], v) for v in (value if value is not None
                                                      else [{}] * (length * (kind == 3)))]
        if item[1][0] == 'string':
            return [str(v) for v in (value or [''] * (length * (kind == 3)))]
        if value is None:
            value = [0] * (length * (kind == 3))
        return np.asarray(value, _dtype(item[1][0]))


def codec_of(topics: Iterable[Topic]) -> Codec:
    """
    Return a codec for the topics of a bag.

    Bags with the same definitions share one: what it has compiled for a type is compiled once.
    """
    return _codec(frozenset((topic.type, topic.definition) for topic in topics))


@lru_cache(maxsize=4)
def _codec(definitions: frozenset[tuple[str, str]]) -> Codec:
    return Codec()


def _scalar(name: str, value: Any) -> Any:
    if name == 'string':
        return value or ''
    if name == 'bool':
        return bool(value)
    return (float if name.startswith('float') else int)(value or 0)


def _dtype(name: str) -> str:
    return {'byte': 'uint8', 'char': 'uint8'}.get(name, name)
