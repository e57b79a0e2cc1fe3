"""zerorpc's events (protocol version 3): a header, a name and arguments, packed with msgpack."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from arena_robot.core.errors import DriverError

OK, ERROR = 'OK', 'ERR'
HEARTBEAT, MORE = '_zpc_hb', '_zpc_more'


class EventError(DriverError):
    """What came is not an event of zerorpc."""


def _new_id() -> bytes:
    return uuid.uuid4().hex.encode()


@dataclass(frozen=True)
class Event:
    """
    An event; ``answers`` is the id of the request that it belongs to, None for a request.

    An id goes back as it came: zerorpc makes bytes, and finds no request for the same as text.
    """

    name: str
    args: Sequence[Any]
    answers: bytes | str | None = None
    identity: bytes | str = field(default_factory=_new_id)

    def packed(self) -> bytes:
        """Return the event's bytes. Raises TypeError for what msgpack cannot hold."""
        header: dict[str, Any] = {'message_id': self.identity, 'v': 3}
        if self.answers is not None:
            header['response_to'] = self.answers
        out: bytes = msgpack.packb((header, self.name, list(self.args)), use_bin_type=True)
        return out


def unpacked(blob: bytes) -> Event:
    """Return the event of some bytes. Raises EventError."""
    try:
        header, name, args = msgpack.unpackb(blob, raw=False)
        return Event(str(name), args if isinstance(args, list) else [args],
                     header.get('response_to'), header['message_id'])
    except (ValueError, TypeError, AttributeError, KeyError, msgpack.UnpackException) as error:
        raise EventError(f'{blob[:40]!r} is not an event of zerorpc') from error

