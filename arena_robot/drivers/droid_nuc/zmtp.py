"""
ZeroMQ's transport (ZMTP 3.0, mechanism NULL) over TCP: greeting, READY, multipart messages.

The bytes only, without a socket. A ZeroMQ library would keep messages while there is no connection
and deliver them later; a target for an arm must not come later.
"""

from collections.abc import Sequence

from arena_robot.core.errors import DriverError

SIGNATURE = b'\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f'
GREETING = SIGNATURE + b'\x03\x00' + b'NULL'.ljust(20, b'\x00') + b'\x00' + bytes(31)
MORE, LONG, COMMAND = 1, 2, 4
READY = b'\x05READY'
MOST_BYTES = 1 << 20
_VERSION_AT, _MECHANISM = 10, slice(12, 32)


class WireError(DriverError):
    """The peer does not use ZMTP 3, or sent a damaged frame."""


def ready(socket_type: str) -> bytes:
    """Return the command that ends the handshake of a ``DEALER`` or ``ROUTER``."""
    body = READY + _property('Socket-Type', socket_type) + _property('Identity', '')
    return bytes([COMMAND, len(body)]) + body


def message(parts: Sequence[bytes]) -> bytes:
    """Return a multipart message as frames."""
    out = b''
    for number, part in enumerate(parts, 1):
        flags = MORE if number < len(parts) else 0
        if len(part) > 255:
            out += bytes([flags | LONG]) + len(part).to_bytes(8, 'big') + part
        else:
            out += bytes([flags, len(part)]) + part
    return out


class Incoming:
    """What comes from a peer: ``greeted`` and ``is_ready`` tell how far the handshake got."""

    def __init__(self) -> None:
        self.greeted = self.is_ready = False
        self._waiting = b''
        self._parts: list[bytes] = []

    def feed(self, received: bytes) -> list[list[bytes]]:
        """Take bytes, return the messages that are complete. Raises WireError."""
        self._waiting += received
        if not self.greeted and not self._greet():
            return []
        found = []
        while (frame := self._frame()) is not None:
            flags, body = frame
            if flags & COMMAND:
                self.is_ready |= body.startswith(READY)
                if body.startswith(b'\x05ERROR'):
                    raise WireError(f'the peer refuses the connection: {body[7:]!r}')
                continue
            if not self.is_ready:
                raise WireError('a message came before the handshake was over')
            self._parts.append(body)
            if not flags & MORE:
                found.append(self._parts)
                self._parts = []
        return found

    def _greet(self) -> bool:
        start = self._waiting[:len(SIGNATURE)]
        if start[:1] not in (b'', b'\xff') or (len(start) == len(SIGNATURE)
                                               and not start[9] & 1):
            raise WireError(f'it answers {self._waiting[:24]!r}, which is not ZeroMQ')
        if len(self._waiting) > _VERSION_AT and self._waiting[_VERSION_AT] < 3:
            raise WireError(f'it speaks ZMTP {self._waiting[_VERSION_AT]}; version 3 (ZeroMQ 4) '
                            'is needed')
        if len(self._waiting) < len(GREETING):
            return False
        mechanism = self._waiting[_MECHANISM].rstrip(b'\x00')
        if mechanism != b'NULL':
            raise WireError(f'it wants the security mechanism {mechanism!r}; only NULL is known')
        self._waiting, self.greeted = self._waiting[len(GREETING):], True
        return True

    def _frame(self) -> tuple[int, bytes] | None:
        """Take the next whole frame out of what waits."""
        if len(self._waiting) < 2:
            return None
        flags = self._waiting[0]
        if flags > MORE | LONG | COMMAND:
            raise WireError(f'a frame begins with {flags:#04x}, which ZMTP does not know')
        head = 9 if flags & LONG else 2
        if len(self._waiting) < head:
            return None
        size = int.from_bytes(self._waiting[1:head], 'big')
        if size > MOST_BYTES:
            raise WireError(f'a frame of {size} bytes; at most {MOST_BYTES} are read')
        if len(self._waiting) < head + size:
            return None
        body = self._waiting[head:head + size]
        self._waiting = self._waiting[head + size:]
        return flags, body


def _property(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + len(value).to_bytes(4, 'big') + value.encode()
