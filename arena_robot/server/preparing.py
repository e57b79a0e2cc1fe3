"""What happens to the policies of a session before its first rollout: warm-up, equal latency."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from arena_robot.core.errors import ArenaError
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc.channel import query_request
from arena_robot.policy.timing import MEASURED, made_up_observation, warm_episode
from arena_robot.server.target import PolicyTarget
from arena_robot.server.upstreams import Upstream, known_spec

log = logging.getLogger(__name__)

CALL_S = 20.0
KEPT = 10_000
Find = Callable[[PolicyTarget], Awaitable[Upstream]]


class Preparing:
    """
    Prepares both policies of a session at once, so that neither shows which needs it.

    A station may ask that the policies of a pair take equally long. Then each is measured, and
    no answer of either is given earlier than the slowest of them took. One event loop.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._begun: OrderedDict[str, asyncio.Task[float]] = OrderedDict()

    async def ready(self, session_id: str,
                    targets: Sequence[tuple[PolicyTarget, PolicySpec | None]], equal: bool,
                    known_s: float = 0.0) -> float:
        """
        Return how long an answer takes at least (s), once both policies are prepared.

        Each has the spec with which it was admitted, or None in a pool that reads none.
        ``known_s`` is what was measured before, above 0.
        """
        task = self._begun.get(session_id)
        if task is None:
            task = asyncio.ensure_future(self._both(targets, equal and not known_s))
            self._begun[session_id] = task
            while len(self._begun) > KEPT:
                self._begun.popitem(last=False)
        return known_s or await asyncio.shield(task)

    def close(self) -> None:
        """Cancel what is under way."""
        for task in self._begun.values():
            task.cancel()

    async def _both(self, targets: Sequence[tuple[PolicyTarget, PolicySpec | None]],
                    equal: bool) -> float:
        return max(await asyncio.gather(*(self._one(*target, equal) for target in targets)))

    async def _one(self, target: PolicyTarget, admitted: PolicySpec | None,
                   equal: bool) -> float:
        """Return how long the slowest measured answer took; 0 when nothing was measured."""
        episode, slowest_s = warm_episode(), 0.0
        try:
            way = await self._find(target)
            spec = admitted or await known_spec(way, CALL_S)
            # Pictures take a while to make: not in the thread that serves all stations.
            request = await asyncio.to_thread(
                lambda: query_request(made_up_observation(spec), episode, spec))
            for number in range(spec.warm_up + MEASURED * equal):
                began_s = time.monotonic()
                await way.infer(request, CALL_S)
                if number >= spec.warm_up:
                    slowest_s = max(slowest_s, time.monotonic() - began_s)
            if spec.warm_up or equal:
                await way.reset(episode, CALL_S)
        except ArenaError as error:    # it fails again in its rollout, where it counts
            log.warning('a policy was not prepared: %s: %s', error.code, error)
            return 0.0
        return slowest_s
