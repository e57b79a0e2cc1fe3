"""Read and check JSON files and objects."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError


def read_json(path: str | Path) -> Any:
    """Return the value in a JSON file; raises DataError if it cannot be read or parsed."""
    try:
        return json.loads(Path(path).read_text(encoding='utf-8'))
    except OSError as error:
        raise DataError(f'cannot read {path}: {error.strerror}') from error
    except ValueError as error:
        raise DataError(f'{path} is not JSON: {error}') from error


def object_with(data: object, what: str, keys: set[str]) -> Mapping[str, Any]:
    """Return ``data`` if it is an object with no other keys; raises DataError."""
    if not isinstance(data, Mapping):
        raise DataError(f'{what} must be an object with {", ".join(sorted(keys))}')
    unknown = sorted(str(key) for key in set(data) - keys)
    if unknown:
        raise DataError(f'{what} has unknown keys {", ".join(unknown)}; '
                        f'known are {", ".join(sorted(keys))}')
    return data
