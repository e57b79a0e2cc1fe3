"""The policies of running sessions, as the relay knows them."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from arena_robot.server.base import PolicyRecord
from arena_robot.server.relay_route import warms_up
from arena_robot.server.store.policies import Policies
from arena_robot.server.target import PolicyTarget

T = TypeVar('T')

KNOWN_S = 1.0


class KnownPolicies:
    """
    What slots ask about their policies, read once in ``KNOWN_S`` for all of them.

    ``reachable`` returns where a policy may be called now. Any thread may ask.
    """

    def __init__(self, policies: Policies,
                 reachable: Callable[[PolicyRecord], PolicyTarget]) -> None:
        self._records = _Known(policies.by_id)
        self._targets = _Known(lambda number: reachable(self._records.of(number)))

    def warms_up(self, number: int) -> bool:
        """Tell whether a policy is to be queried before its first rollout."""
        return warms_up(self._records.of(number).spec)

    def target(self, number: int) -> PolicyTarget:
        """Return where a policy is called; DataError where it may not be."""
        return self._targets.of(number)


class _Known(Generic[T]):
    """What ``read`` returned for a number; what it raised is not kept."""

    def __init__(self, read: Callable[[int], T]) -> None:
        self._read = read
        self._found: dict[int, tuple[T, float]] = {}

    def of(self, number: int) -> T:
        now_s = time.monotonic()
        found = self._found.get(number)
        if found is None or found[1] < now_s:
            found = self._found[number] = self._read(number), now_s + KNOWN_S
        return found[0]
