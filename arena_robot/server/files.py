"""Names of a session's files, as stations and server use them."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.errors import DataError

# An episode has about ten: more would make a manifest that takes long to check.
MOST_FILES = 1000
BLOCK_BYTES = 1 << 22    # read at once: larger ones are no quicker
_SHA256 = re.compile('[0-9a-f]{64}')
_PART = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}')


def checked_path(path: str) -> str:
    """Return ``path`` when it is a plain relative one; DataError otherwise."""
    parts = path.split('/')
    if len(path) > 300 or len(parts) > 8 or not all(_PART.fullmatch(p) for p in parts):
        raise DataError(f'a file is named by a plain relative path, found {path!r:.80}')
    return path


def checked_sha256(text: str, name: str) -> str:
    """Return a SHA-256 that is named for a file; DataError when it is none."""
    if not _SHA256.fullmatch(text):
        raise DataError(f'{name}: the SHA-256 has 64 hex digits, found {text!r:.80}')
    return text


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    total = hashlib.sha256()
    with path.open('rb') as stream:
        while block := stream.read(BLOCK_BYTES):
            total.update(block)
    return total.hexdigest()


@dataclass(frozen=True)
class FileId:
    """A file of a session: slot ``A``, ``B``, or ``-`` for the session's own."""

    session_id: str
    slot: str
    path: str

    @property
    def key(self) -> str:
        """Return the key in the blob store."""
        folder = 'session' if self.slot == '-' else self.slot
        return f'{self.session_id}/{folder}/{checked_path(self.path)}'


@dataclass(frozen=True)
class FileRecord:
    """What the server has of a file; ``received`` bytes of ``size``."""

    file: FileId
    size: int
    sha256: str
    received: int
    complete: bool


@dataclass(frozen=True)
class ManifestEntry:
    """One file of an episode: ``path`` relative to its folder, ``sha256`` in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All files of an episode, sorted by path; ``sha256`` is over their canonical JSON."""

    files: tuple[ManifestEntry, ...]

    @property
    def content(self) -> str:
        """Return the files as canonical JSON."""
        return json.dumps([entry.__dict__ for entry in self.files], sort_keys=True,
                          separators=(',', ':'))

    @property
    def sha256(self) -> str:
        """Return the hash by which a log entry names the whole episode."""
        return hashlib.sha256(self.content.encode()).hexdigest()


def checked_manifest(files: Iterable[ManifestEntry]) -> Manifest:
    """Return the manifest of ``files``; DataError when it cannot be one."""
    entries = sorted(files, key=lambda entry: entry.path)
    if len(entries) > MOST_FILES or len({entry.path for entry in entries}) != len(entries):
        raise DataError(f'an episode has up to {MOST_FILES} files, each once; found '
                        f'{len(entries)}')
    for entry in entries:
        checked_path(entry.path)
        checked_sha256(entry.sha256, entry.path)
    return Manifest(tuple(entries))
