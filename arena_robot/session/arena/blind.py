"""
Blind policies: a wrapper that removes everything that identifies a policy.

Errors keep their class and get a fixed text, because the original text may contain an address or a
name. Times are rounded up to coarse steps.
"""

import math
from collections.abc import Callable
from typing import TypeVar

from arena_robot.core.action import Chunk
from arena_robot.core.clock import Clock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import (
    BadReply,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.core.observation import Observation
from arena_robot.policy.base import Closable, Policy, PolicySpec

COARSE_S = 0.05

T = TypeVar('T')

_WORDS: tuple[tuple[type[PolicyError], str], ...] = (
    (PolicyUnavailable, 'cannot be reached'),
    (PolicyTimeout, 'did not answer in time'),
    (PolicyRefused, 'refused the request'),
    (BadReply, 'answered with something that cannot be executed'),
)


def coarse(seconds: float) -> float:
    """Return ``seconds`` rounded up to steps of 50 ms."""
    return math.ceil(round(seconds / COARSE_S, 6)) * COARSE_S


class BlindPolicy:
    """The policy of a slot, without identifying information."""

    def __init__(self, policy: Policy, slot: Slot, clock: Clock) -> None:
        self._policy = policy
        self._slot = slot
        self._clock = clock

    def __repr__(self) -> str:
        return f'<policy of slot {self._slot.value}>'

    @property
    def spec(self) -> PolicySpec:
        """Required input and output of the policy; never logged or published."""
        return self._told(lambda: self._policy.spec)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Return the next actions, with times in coarse steps; PolicyError with a fixed text."""
        start_ns = self._clock.now_ns()
        chunk = self._told(lambda: self._policy.infer(observation, episode))
        spent_s = (self._clock.now_ns() - start_ns) * 1e-9
        return Chunk(chunk.actions, chunk.space, coarse(spent_s))

    def reset(self, episode: str = '') -> None:
        """Clear an episode; PolicyError with a fixed text."""
        self._told(lambda: self._policy.reset(episode))

    def close(self) -> None:
        """Close the policy's connection, if it has one."""
        if isinstance(self._policy, Closable):
            self._told(self._policy.close)

    def _told(self, call: Callable[[], T]) -> T:
        problem: PolicyError
        try:
            return call()
        except Exception as error:  # the text of any exception must not reach the station
            problem = plain(error, self._slot)
        # Outside the handler, so that the original is not stored as the context.
        raise problem


def plain(error: Exception, slot: Slot) -> PolicyError:
    """Return an error of the same class that names only the slot."""
    for kind, words in _WORDS:
        if isinstance(error, kind):
            return kind(f'the policy of slot {slot.value} {words}')
    return PolicyError(f'the policy of slot {slot.value} failed')
