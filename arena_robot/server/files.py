"""Names of a session's files, as stations and server use them."""

import re
from dataclasses import dataclass

from arena_robot.core.errors import DataError

_PART = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}')


def checked_path(path: str) -> str:
    """Return ``path`` when it is a plain relative one; DataError otherwise."""
    parts = path.split('/')
    if len(path) > 300 or len(parts) > 8 or not all(_PART.fullmatch(p) for p in parts):
        raise DataError(f'a file is named by a plain relative path, found {path!r:.80}')
    return path


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
