"""The store of uploaded files: a folder, or anything else that fsspec names by URL (S3…)."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import replace
from arena_robot.server.files import BLOCK_BYTES, checked_path


class Blobs:
    """Files by key; a file is written once, completely or not at all."""

    def __init__(self, url: str) -> None:
        self._url = url

    def open(self) -> None:
        """Connect; ConfigError when the URL cannot be used."""
        import fsspec  # here: an import of tables stores no file, and need not wait for it
        try:
            # What another server has stored since a folder was listed is there, too.
            self._fs, self._root = fsspec.core.url_to_fs(self._url, use_listings_cache=False)
            self._fs.makedirs(self._root, exist_ok=True)
        except (ValueError, ImportError, OSError) as error:
            raise ConfigError(f'cannot use the blob store {self._url}: {error}') from error
        self._local = 'file' in self._fs.protocol

    def put(self, source: Path, key: str) -> None:
        """Move a local file to ``key``: a rename where that can be, else a copy."""
        self.place(self.stage(source, key), key)
        source.unlink(missing_ok=True)

    def stage(self, source: Path, key: str) -> str:
        """Copy a local file into the store under a name of its own, if that takes a copy."""
        target = self._path(key)
        self._fs.makedirs(target.rsplit('/', 1)[0], exist_ok=True)
        if self._local and _same_device(source, Path(target).parent):
            return str(source)
        part = f'{target}.{uuid.uuid4().hex}.part'
        self._fs.put_file(str(source), part)
        return part

    def place(self, staged: str, key: str) -> None:
        """Give a staged file its key; quick."""
        if self._local:
            replace(Path(staged), Path(self._path(key)))
        else:
            self._fs.mv(staged, self._path(key))

    def remove(self, key: str) -> None:
        """Delete the file under ``key``, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(key))

    def drop(self, staged: str) -> None:
        """Remove a staged file that gets no key."""
        self._fs.rm_file(staged)

    def exists(self, key: str) -> bool:
        """Tell whether there is a file under ``key``."""
        return bool(self._fs.exists(self._path(key)))

    def size(self, key: str) -> int:
        """Return the bytes under ``key``; DataError when there is none."""
        try:
            return int(self._fs.size(self._path(key)))
        except FileNotFoundError as error:
            raise DataError(f'there is no file {key} in the store') from error

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder of the store; none when there is no such folder."""
        try:
            return sorted(path.rstrip('/').rsplit('/', 1)[-1]
                          for path in self._fs.ls(self._path(folder), detail=False))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def local_path(self, key: str) -> Path | None:
        """Return the file's path when the store is a folder of this machine."""
        return Path(self._path(key)) if self._local else None

    def fetch(self, key: str, target: Path) -> None:
        """Put a file at a path of this machine: a link where the store is a folder of it."""
        target.parent.mkdir(parents=True, exist_ok=True)
        local = self.local_path(key)
        if local is not None:
            target.symlink_to(local)
        else:
            with target.open('wb') as stream:
                stream.writelines(self.read(key))

    def read(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from ``start`` up to ``end`` (exclusive; None is all)."""
        left = (self.size(key) if end is None else end) - start
        with cast(BinaryIO, self._fs.open(self._path(key), 'rb')) as file:
            file.seek(start)
            while left > 0:
                block = file.read(min(BLOCK_BYTES, left))
                if not block:
                    return
                left -= len(block)
                yield block

    def _path(self, key: str) -> str:
        return f'{self._root}/{checked_path(key)}'


def _same_device(source: Path, folder: Path) -> bool:
    return source.stat().st_dev == folder.stat().st_dev
