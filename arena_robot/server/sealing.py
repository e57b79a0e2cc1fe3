"""Secrets at rest: texts encrypted with a key that is in a separate file."""

import base64
import functools
import hashlib
import hmac
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from arena_robot.core.errors import ConfigError

KEY_BYTES = 32    # AES-256
SHORT_CHARS, SHORT_KEPT = 200, 4096    # pairs and nonces of the open sessions, about 1 MB
_NONCE_BYTES = 12    # what AES-GCM takes
_MARK = 'sealed1'


class Seal:
    """
    Encrypts short texts with AES-256-GCM, and derives secrets.

    ``read`` returns the keys when they are first needed. The first key seals; every key opens.
    ``about`` says what a text is, and must be the same when it is opened.
    """

    def __init__(self, read: Callable[[], Sequence[bytes]]) -> None:
        self._read = read
        # The same short ones are read again and again.
        self._opened_short = functools.lru_cache(maxsize=SHORT_KEPT)(self._opened)

    @functools.cached_property
    def _keys(self) -> dict[str, bytes]:
        return {_name(key): key for key in self._read()}

    def load(self) -> None:
        """Read the keys now; ConfigError when they cannot be read."""
        assert self._keys

    def seal(self, text: str, about: str) -> str:
        """Return a text that only the key opens."""
        name, key = next(iter(self._keys.items()))
        nonce = os.urandom(_NONCE_BYTES)
        data = nonce + AESGCM(key).encrypt(nonce, text.encode(), about.encode())
        return f'{_MARK}:{name}:{base64.urlsafe_b64encode(data).decode()}'

    def open(self, sealed: str, about: str) -> str:
        """Return what was sealed; ConfigError when none of the keys opens it."""
        opened = self._opened_short if len(sealed) <= SHORT_CHARS else self._opened
        return opened(sealed, about)

    def _opened(self, sealed: str, about: str) -> str:
        _, name, body = sealed.split(':', 2)
        try:
            data = base64.urlsafe_b64decode(body)
            return AESGCM(self._keys[name]).decrypt(
                data[:_NONCE_BYTES], data[_NONCE_BYTES:], about.encode()).decode()
        except (KeyError, ValueError, InvalidTag) as error:
            raise ConfigError(f'the database has secrets ({about}) of key {name}, the key file '
                              f"has {', '.join(self._keys)}; restore the key file from its "
                              'backup, or add the old key as its second line') from error

    def derived(self, about: str) -> Iterator[str]:
        """Yield a secret that is always the same for ``about``, of each key."""
        for key in self._keys.values():
            digest = hmac.new(key, f'derived:{about}'.encode(), hashlib.sha256).digest()
            yield base64.urlsafe_b64encode(digest).rstrip(b'=').decode()


def is_sealed(text: str) -> bool:
    """Tell whether a text was sealed."""
    return text.startswith(f'{_MARK}:')


def random_seal() -> Seal:
    """Return a seal whose key is kept nowhere."""
    return Seal(lambda: [os.urandom(KEY_BYTES)])


def seal_of(path: Path) -> Seal:
    """
    Return the seal of a key file, which is made, for its owner alone, when there is none.

    Each line is a key of 64 hex digits; the first one seals. ConfigError when it cannot be read.
    """
    def read() -> list[bytes]:
        try:
            keys = [bytes.fromhex(line) for line in secret_file(path).split()]
            if not keys or any(len(key) != KEY_BYTES for key in keys):
                raise ValueError('a key has 64 hex digits')
        except (OSError, ValueError) as error:
            raise ConfigError(f'{path} is not a key file: {error}; restore it from its backup'
                              ) from error
        return keys
    return Seal(read)


def secret_file(path: Path) -> str:
    """Return what is in a file of secrets; several processes that start at once make one."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = path.with_name(f'.{path.name}.{os.getpid()}')
        try:
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_SYNC, 0o600), 'w',
                           encoding='ascii') as file:
                file.write(os.urandom(KEY_BYTES).hex() + '\n')
            os.link(made, path)
        except FileExistsError:
            pass    # another process was first
        finally:
            made.unlink()
    return path.read_text(encoding='ascii')


def _name(key: bytes) -> str:
    return hashlib.sha256(b'name of a key' + key).hexdigest()[:8]
