"""
Answers to queries of every control step: each comes a fixed time after its query, in one size.

A station that is asked for it sends a query with the whole observation at every step, whether it
needs a chunk or not. The policy is asked only when it does. Neither the steps of the queries, nor
the times and sizes of the answers depend on the policy.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from arena_robot.policy.grpc.endpoint import DUE
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.server.upstreams import padded

# A station sends its command 40 ms after the step began (0.6 of a period, see
# arena_robot.session.loop.cadence); the rest is for the observation and the network.
RELEASE_S = 0.02
# The answers to the other calls of a rollout, its first and its last, come after so many of these.
CLASS_S = 0.1
KEPT = 10_000
Key = tuple[str, str]
T = TypeVar('T')


@dataclass(frozen=True)
class _Inference:
    chunk: int
    task: 'asyncio.Task[pb.InferReply]'


class StepAnswers:
    """
    The inferences that are running, one for each slot, for one event loop.

    A query of a chunk that is not the last one begins an inference; what began before is
    cancelled. The same chunk may be asked for again: it is given out again.
    """

    def __init__(self, release_s: float = RELEASE_S) -> None:
        self._release_s = release_s
        self._running: OrderedDict[Key, _Inference] = OrderedDict()

    async def answer(self, key: Key, query: pb.EveryStep, came_s: float,
                     infer: Callable[[], Awaitable[pb.InferReply]]) -> pb.InferReply:
        """
        Return the chunk of a query that came at ``came_s``, without actions when it is not ready.

        Raises what ``infer`` raised.
        """
        inference = self._inference(key, query, infer) if query.due == DUE else None
        await asyncio.sleep(came_s + self._release_s - asyncio.get_running_loop().time())
        reply = pb.InferReply()
        if inference is not None and inference.task.done() and not inference.task.cancelled():
            reply.CopyFrom(await inference.task)
        reply.chunk = query.chunk
        return padded(reply)

    def _inference(self, key: Key, query: pb.EveryStep,
                   infer: Callable[[], Awaitable[pb.InferReply]]) -> _Inference:
        found = self._running.get(key)
        if found is not None and found.chunk == query.chunk:
            return found
        self._drop(key)
        task = asyncio.ensure_future(infer())
        task.add_done_callback(_look_at)
        self._running[key] = made = _Inference(query.chunk, task)
        while len(self._running) > KEPT:
            self._drop(next(iter(self._running)))
        return made

    async def settle(self, key: Key, wait_s: float) -> None:
        """Wait for the inference of a slot, so long at most; then it is forgotten."""
        found = self._running.get(key)
        if found is not None:
            await asyncio.wait([found.task], timeout=wait_s)
            self._drop(key)

    def close(self) -> None:
        """Cancel what is running."""
        for key in list(self._running):
            self._drop(key)

    def _drop(self, key: Key) -> None:
        found = self._running.pop(key, None)
        if found is not None:
            found.task.cancel()


async def in_class(work: Callable[[], Awaitable[T]], class_s: float) -> T:
    """Return what ``work`` returns, a multiple of ``class_s`` after the call; 0: at once."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    result = await work()
    if class_s > 0.0:
        await asyncio.sleep(class_s - (loop.time() - began_s) % class_s)
    return result


def _look_at(task: 'asyncio.Task[pb.InferReply]') -> None:
    """Read the error of a task that nobody may wait for, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
