"""
Atomic writes of files, and checked reads of JSON.

Everything is written to a temporary file beside the target, synced to the disk, and renamed over
the target; then the folder is synced too. A reader sees the old content or the new. Several
writers of one file, in one process or in many, never share a temporary file: the last one to
finish wins. After an OSError, which is passed on, no temporary file remains.
"""

import json
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from arena_robot.core.clock import DAY_S
from arena_robot.core.errors import DataError

PARTIAL = '.tmp'
STALE_S = DAY_S


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the content of ``path`` by ``data``; the mode of an existing file is kept."""
    with replacing(path) as partial:
        partial.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Replace the content of ``path`` by ``text`` in UTF-8, its line ends as they are given."""
    write_bytes(path, text.encode('utf-8'))


def write_json(path: Path, value: Any, indent: int | None = 2, sync_name: bool = True) -> None:
    """
    Replace the content of ``path`` by ``value`` as JSON in UTF-8; ValueError for NaN.

    Without ``sync_name`` the caller calls :func:`sync_folder` later, once for many files.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False) + '\n'
    with replacing(path, sync_name) as partial:
        partial.write_bytes(text.encode('utf-8'))


@contextmanager
def replacing(path: Path, sync_name: bool = True) -> Iterator[Path]:
    """
    Yield an empty temporary file; at the end of the block it takes the place of ``path``.

    For writers that want a file name (video, tables). When the block raises, ``path`` stays as it
    was and the temporary file is removed. What writers of ``path`` that were killed more than a
    day ago left behind is removed as well.
    """
    _remove_stale(path)
    mode = _mode(path)
    partial = path.with_name(f'.{path.name}.{os.getpid()}-{secrets.token_hex(6)}{PARTIAL}')
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                     0o666 if mode is None else mode))
    try:
        yield partial
        if mode is not None:
            partial.chmod(mode)
        _sync(partial, os.O_RDONLY)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if sync_name:
        sync_folder(path.parent)


def move(source: Path, target: Path) -> None:
    """Rename a file or folder so that the new name survives a power cut."""
    source.rename(target)
    sync_folder(target.parent)
    if source.parent != target.parent:
        sync_folder(source.parent)


def replace(source: Path, target: Path) -> None:
    """Sync a finished file, then rename it over ``target``, which is on the same disk."""
    _sync(source, os.O_RDONLY)
    source.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make names created, renamed or removed in ``folder`` survive a power cut."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _remove_stale(path: Path) -> None:
    begin, oldest_s = f'.{path.name}.', time.time() - STALE_S
    with os.scandir(path.parent) as entries:
        for entry in entries:
            if entry.name.startswith(begin) and entry.name.endswith(PARTIAL):
                with suppress(FileNotFoundError):
                    if entry.stat().st_mtime < oldest_s:
                        os.unlink(entry.path)


def _mode(path: Path) -> int | None:
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    return None


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
