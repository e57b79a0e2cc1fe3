"""
How policies want their chunks executed, passed on by the relay.

A station's spec is the same for all policies, so what differs comes with each chunk, in an answer
of one size. What is left of the last chunk is put together here from two numbers of the query.
"""

from collections import OrderedDict

from arena_robot.core.inferences import packed
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.proto import arena_policy_pb2 as pb

KEPT = 10_000
Key = tuple[str, str]


class ChunkUse:
    """The last chunk of each slot, for one event loop."""

    def __init__(self) -> None:
        self._last: OrderedDict[Key, pb.InferReply] = OrderedDict()

    def left_over(self, key: Key, query: pb.EveryStep, spec: PolicySpec) -> pb.LeftOver | None:
        """Return what the arm has not executed yet, for a policy that continues its chunk."""
        last = self._last.get(key)
        if last is None or not spec.real_time_chunking or query.delay < 2 or not query.next_action:
            return None
        rows, passed = last.rows - (query.next_action - 1), query.delay - 1
        if not passed <= rows <= last.rows:
            return None
        return pb.LeftOver(actions=last.actions[-rows * last.columns:], rows=rows,
                           columns=last.columns, inference_delay=passed)

    def told(self, key: Key, reply: pb.InferReply, spec: PolicySpec) -> pb.InferReply:
        """Return the answer with how it is to be executed, and keep it as the last one."""
        reply.open_loop_horizon, reply.blend_steps = spec.open_loop_horizon, spec.blend_steps
        self._last[key] = reply
        self._last.move_to_end(key)
        while len(self._last) > KEPT:
            self._last.popitem(last=False)
        return reply

    def forget(self, key: Key) -> None:
        """Forget the chunk of a rollout that is over."""
        self._last.pop(key, None)


def executable(reply: pb.InferReply, spec: PolicySpec) -> tuple[int, str]:
    """Return how many of a chunk's actions may be executed, and these actions, packed."""
    rows = reply.rows
    if spec.open_loop_horizon and not spec.pipelined:
        rows = min(rows, spec.open_loop_horizon)
    return rows, packed(reply.actions[:rows * reply.columns])
