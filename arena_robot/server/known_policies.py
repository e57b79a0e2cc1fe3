"""The policies of running sessions, as the relay knows them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from arena_robot.core.errors import DataError
from arena_robot.policy.base import PolicySpec
from arena_robot.server.base import PolicyRecord
from arena_robot.server.policy_needs import of_json
from arena_robot.server.store.policies import Policies
from arena_robot.server.target import PolicyTarget

KNOWN_S = 0.5


@dataclass(frozen=True)
class KnownPolicy:
    """A policy as it was read, until ``until_s`` of the monotonic clock."""

    record: PolicyRecord
    until_s: float
    reachable: Callable[[PolicyRecord], PolicyTarget]

    @cached_property
    def spec(self) -> PolicySpec | None:
        """The spec with which it was admitted; None in a pool that reads none."""
        return of_json(self.record.spec)

    @cached_property
    def target(self) -> PolicyTarget:
        """Where it is called; raises DataError where it may not be."""
        return self.reachable(self.record)


class KnownPolicies:
    """
    Policies by number, each read once in ``KNOWN_S`` for all slots; any thread may ask.

    ``reachable`` returns where a policy may be called now.
    """

    def __init__(self, policies: Policies,
                 reachable: Callable[[PolicyRecord], PolicyTarget]) -> None:
        self._policies, self._reachable = policies, reachable
        self._known: dict[int, KnownPolicy] = {}

    def of_all(self, numbers: Iterable[int]) -> dict[int, KnownPolicy]:
        """Return policies as they are, or were at most ``KNOWN_S`` ago; DataError: unknown."""
        now_s, wanted = time.monotonic(), set(numbers)
        known = {number: one for number, one in list(self._known.items())
                 if number in wanted and one.until_s >= now_s}
        if missing := sorted(wanted - known.keys()):
            read = self._policies.by_ids(missing)
            if unknown := [number for number in missing if number not in read]:
                raise DataError(f'there is no policy with number {unknown[0]} on this server')
            new = {number: KnownPolicy(read[number], now_s + KNOWN_S, self._reachable)
                   for number in missing}
            self._known.update(new)
            known.update(new)
        return known
