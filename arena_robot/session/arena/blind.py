"""
What a station may show of a policy's errors.

An error keeps its class and gets a fixed text, because the original text may contain an address or
a name.
"""

from arena_robot.core.episode import Slot
from arena_robot.core.errors import (
    BadReply,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)

UNREACHABLE = 'cannot be reached'

_WORDS: tuple[tuple[type[PolicyError], str], ...] = (
    (PolicyEnded, 'is not running any more'),
    (PolicyUnavailable, UNREACHABLE),
    (PolicyTimeout, 'did not answer in time'),
    (PolicyRefused, 'refused the request'),
    (BadReply, 'answered with something that cannot be executed'),
)


def blinded(error: Exception, slot: Slot) -> PolicyError:
    """Return an error of the same class that names only the slot."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return kind(f'the policy of slot {slot.value} {words}')
    return PolicyError(f'the policy of slot {slot.value} failed')
