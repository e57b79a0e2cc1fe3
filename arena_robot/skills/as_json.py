"""Records of skills as JSON values and back; unknown or missing keys are errors."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any, TypeVar

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError

Record = TypeVar('Record')


def to_json(record: Any) -> dict[str, Any]:
    """Return a record, a dataclass, as JSON objects, lists, texts and numbers."""
    return {name: plain(value) for name, value in asdict(record).items()}


def from_json(cls: type[Record], data: Any, where: str) -> Record:
    """Return the record; DataError names ``where`` it does not fit."""
    if not isinstance(data, Mapping):
        raise DataError(f'{where}: expected an object, found {type(data).__name__}')
    try:
        return build(cls, data, where)
    except ConfigError as error:
        raise DataError(str(error)) from error


def plain(value: Any) -> Any:
    """Return ``value`` with tuples as lists and enums as their values."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return value.value if isinstance(value, Enum) else value
