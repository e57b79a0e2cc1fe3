"""What a station may read of a policy's error: its kind, in the same words for all."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from arena_robot.core.errors import (
    BadReply,
    PolicyEnded,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)

T = TypeVar('T')

SENTENCES: dict[type[PolicyError], str] = {
    PolicyUnavailable: 'the policy cannot be reached',
    PolicyTimeout: 'the policy did not answer in time',
    PolicyRefused: 'the policy refused the observation',
    BadReply: 'the policy answered with something that is no chunk of actions',
    PolicyError: 'the policy failed',
}


async def blind(work: Callable[[], Awaitable[T]]) -> T:
    """Return what ``work`` returns; a policy's error keeps its class and gets a fixed text."""
    try:
        return await work()
    except PolicyError as error:
        raise blinded(error) from None


def blinded(error: PolicyError) -> PolicyError:
    """
    Return an error of the same class with a fixed text.

    A policy that cannot be reached from here has ended for a station, which reaches the relay.
    """
    kind = _kind(error)
    return (PolicyEnded if kind is PolicyUnavailable else kind)(SENTENCES[kind])


def sentence(error: PolicyError) -> str:
    """Return the words for an error."""
    return SENTENCES[_kind(error)]


def _kind(error: PolicyError) -> type[PolicyError]:
    return next(kind for kind in SENTENCES if isinstance(error, kind))
