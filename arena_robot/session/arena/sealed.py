"""
Sealed records: values that a station without a server stores but should not show; slot tokens.

A value is XORed with an HMAC-SHA256 key stream and signed, under a key in a file of its own that
only its owner can read. Names are then not in plain text in files or logs. A person with access to
the key can still read them, so a strict comparison needs an arena on another machine. The slot
tokens of a remote arena are in such files too, and survive a restart of the station.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text

KEY_BYTES = 32    # as long as the hash


class SealedTokens:
    """
    Keeps the slot tokens of each session in ``folder``, encrypted under a key of this station.

    The tokens of a session that is revealed or aborted are deleted.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, session_id: str, tokens: dict[str, str]) -> None:
        """Store the tokens of a session, by slot."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(self._path(session_id), seal(self._key(), session_id, tokens) + '\n')

    def find(self, session_id: str) -> dict[str, str] | None:
        """Return the tokens of a session, by slot; None when there are none."""
        try:
            text = self._path(session_id).read_text(encoding='utf-8').strip()
        except FileNotFoundError:
            return None
        return unseal(self._key(), session_id, text)

    def forget(self, session_id: str) -> None:
        """Delete the tokens of a session."""
        self._path(session_id).unlink(missing_ok=True)

    def _key(self) -> bytes:
        return read_key(self._folder / '.key')

    def _path(self, session_id: str) -> Path:
        return self._folder / f'{session_id}.sealed'


def read_key(path: Path) -> bytes:
    """Return the key in ``path``, made on first use and readable only by its owner."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, 'wb') as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise DataError(f'{path} is no key: {len(key)} bytes instead of {KEY_BYTES}')
    return key


def seal(key: bytes, label: str, value: Mapping[str, Any]) -> str:
    """Return ``value`` encrypted as hex; ``key`` and ``label`` decrypt it."""
    plain = json.dumps(value).encode('utf-8')
    hidden = _mixed(key, label, plain)
    return (_signature(key, label, hidden) + hidden).hex()


def unseal(key: bytes, label: str, text: str) -> dict[str, Any]:
    """Return what :func:`seal` was given; DataError when key, label or text are not the same."""
    try:
        raw = bytes.fromhex(text)
    except ValueError as error:
        raise DataError(f'the sealed record of {label} is damaged') from error
    mark, hidden = raw[:32], raw[32:]
    if not hmac.compare_digest(mark, _signature(key, label, hidden)):
        raise DataError(f'the sealed record of {label} is damaged, or its key was replaced')
    return dict(json.loads(_mixed(key, label, hidden)))


def _signature(key: bytes, label: str, hidden: bytes) -> bytes:
    return hmac.new(key, b'sign\n' + label.encode() + b'\n' + hidden, hashlib.sha256).digest()


def _mixed(key: bytes, label: str, data: bytes) -> bytes:
    stream = b''
    block = 0
    while len(stream) < len(data):
        text = f'stream\n{label}\n{block}'.encode()
        stream += hmac.new(key, text, hashlib.sha256).digest()
        block += 1
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))
