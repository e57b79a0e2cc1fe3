"""
The key that signs heads of the log and promises.

A head says how many entries there are, and their root. A promise says at which time the server
gave a pair (``draw``) or took a verdict (``verdict``), before anybody knows whether it counts. A
receipt is the proof that a session is in the log, as a station gets it with the reveal; a station
checks it, and loads neither the database nor the rankings for that.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.pair import canonical, read_canonical
from arena_robot.server.sealing import secret_file
from arena_robot.server.transparency.merkle import leaf_hash, root_of_inclusion

_CONTEXT = b'arena log head 1\n'
_PROMISE = b'arena promise 1\n'
DRAW, VERDICT = 'draw', 'verdict'


@dataclass(frozen=True)
class SignedHead:
    """The log at one time; hashes, key and signature in hex. ``key`` is the public key."""

    size: int
    root: str
    time_ns: int
    key: str
    signature: str

    def signed_bytes(self) -> bytes:
        """Return what the signature is over."""
        return _signed_bytes(self.size, self.root, self.time_ns)

    def plain(self) -> dict[str, Any]:
        """Return the head as JSON values."""
        return dict(self.__dict__)


def _signed_bytes(size: int, root: str, time_ns: int) -> bytes:
    values = {'size': size, 'root': root, 'time_ns': time_ns}
    return _CONTEXT + json.dumps(values, sort_keys=True, separators=(',', ':')).encode()


def read_head(values: Mapping[str, Any], where: str) -> SignedHead:
    """Return the head in JSON values, its signature checked; DataError otherwise."""
    try:
        head = build(SignedHead, values, where)
        _verify(head.key, head.signature, head.signed_bytes())
    except (ConfigError, ValueError, TypeError) as error:
        raise DataError(f'{where} is not a signed head of a log: {error}') from error
    except InvalidSignature as error:
        raise DataError(f'{where}: the signature of the head is wrong') from error
    return head


def read_promise(text: str, kind: str, session_id: str) -> dict[str, Any]:
    """Return what a promise says of a session, its signature checked; DataError otherwise."""
    where = f'the promise ({kind}) of session {session_id:.40}'
    values = read_canonical(text, where)
    try:
        signed = {name: value for name, value in values.items() if name != 'signature'}
        _verify(values['key'], values['signature'], _PROMISE + canonical(signed).encode())
        if (values['kind'], values['session']) != (kind, session_id):
            raise ValueError('it is another promise')
        int(values['time_ns'])
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f'{where} cannot be read: {error}') from error
    except InvalidSignature as error:
        raise DataError(f'{where}: its signature is wrong') from error
    return values


def _verify(key: str, signature: str, data: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), data)


class LogKey:
    """An Ed25519 key in a file that only its owner reads; made when there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: Ed25519PrivateKey | None = None
        self._reading = threading.Lock()

    @property
    def public(self) -> str:
        """Return the public key in hex."""
        return self._private().public_key().public_bytes_raw().hex()

    def sign(self, size: int, root: bytes, time_ns: int) -> SignedHead:
        """Return a signed head."""
        data = _signed_bytes(size, root.hex(), time_ns)
        return SignedHead(size, root.hex(), time_ns, self.public,
                          self._private().sign(data).hex())

    def promise(self, kind: str, session_id: str, time_ns: int, **said: str) -> str:
        """Return a signed promise, canonical JSON; see :func:`read_promise`."""
        values = {'kind': kind, 'session': session_id, 'time_ns': time_ns, 'key': self.public,
                  **said}
        signature = self._private().sign(_PROMISE + canonical(values).encode()).hex()
        return canonical({**values, 'signature': signature})

    def _private(self) -> Ed25519PrivateKey:
        with self._reading:
            if self._key is None:
                self._key = Ed25519PrivateKey.from_private_bytes(self._read())
            return self._key

    def _read(self) -> bytes:
        try:
            return bytes.fromhex(secret_file(self._path).strip())
        except ValueError as error:
            raise ConfigError(f'{self._path} is not the key of a log; restore it from its backup'
                              ) from error


@dataclass(frozen=True)
class Receipt:
    """Entry ``number`` of the log is ``body``, by a head that the server signed."""

    session_id: str
    number: int
    body: str
    head: SignedHead


def read_receipt(values: Mapping[str, Any]) -> Receipt:
    """Return what a receipt proves; DataError when it proves nothing."""
    try:
        number, body, session = int(values['number']), str(values['entry']), str(values['session'])
        path = [bytes.fromhex(step) for step in values['path']]
        head = read_head(values['head'], f'the head in the receipt of session {session:.40}')
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f'this is not a receipt: {error!r}') from error
    if root_of_inclusion(leaf_hash(body.encode()), number, head.size, path).hex() != head.root:
        raise DataError(f'the receipt of session {session} does not fit its own head')
    return Receipt(session, number, body, head)
