"""
Receipts: the proof that a session is in the log, as a station gets it with the reveal.

A station checks them too; it loads neither the database nor the rankings for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arena_robot.core.errors import DataError
from arena_robot.server.transparency.keys import SignedHead, read_head
from arena_robot.server.transparency.merkle import leaf_hash, root_of_inclusion


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
        path = [bytes.fromhex(one) for one in values['path']]
        head = read_head(values['head'], f'the head in the receipt of session {session:.40}')
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f'this is not a receipt: {error!r}') from error
    if root_of_inclusion(leaf_hash(body.encode()), number, head.size, path).hex() != head.root:
        raise DataError(f'the receipt of session {session} does not fit its own head')
    return Receipt(session, number, body, head)
