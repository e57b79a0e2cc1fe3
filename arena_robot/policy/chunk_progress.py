"""Where an episode is in its chunk: what is executed next, when the next chunk is due."""

from concurrent import futures
from dataclasses import dataclass, field

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.observation import Floats, LeftOver
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.mixing import mixed

NOTHING: Floats = np.zeros((0, 0))


@dataclass
class ChunkProgress:
    """
    The chunk of one episode and the query of the next.

    ``step`` is the index of the action that is executed next; at ``end`` the next chunk is due.
    ``since_ask`` counts the actions that were executed since the newest query. ``pipelined`` and
    ``continues`` (real-time chunking) are as the spec says, or the last chunk.
    """

    chunk: Chunk | None = None
    asked_at: int = 0
    index: int = -1
    step: int = 0
    start: int = 0
    end: int = 0
    horizon: int = 0
    blended: Floats = field(default_factory=lambda: NOTHING)
    since_ask: int = 0
    ahead: 'futures.Future[Chunk] | None' = None
    ahead_asked_at: int = 0
    asked_with_none_left: bool = False
    pipelined: bool = False
    continues: bool = False

    @property
    def left(self) -> int:
        """Return how many actions of the chunk are not executed yet."""
        return 0 if self.chunk is None else len(self.chunk) - self.step

    @property
    def due(self) -> int:
        """Return how many actions are executed before the next chunk is due."""
        return 0 if self.chunk is None else self.end - self.step

    def hurries(self, since_ask: int, due: int, takes_steps: int) -> bool:
        """
        Tell whether an answer is used before it is due, ``since_ask`` steps after its query.

        It is where otherwise no more of its actions would follow its first than an answer takes
        steps: the query after it could then not be made a step earlier than it has to be.
        """
        length = 0 if self.chunk is None else len(self.chunk)    # of the answer too
        then, now = (min(length - since, self.horizon or length) - 1
                     for since in (since_ask + due, since_ask))
        return due > 0 and then <= takes_steps and now > then

    def asks(self, observed_at: int, query: 'futures.Future[Chunk]') -> None:
        """Note a query."""
        self.ahead, self.ahead_asked_at, self.since_ask = query, observed_at, 0
        self.asked_with_none_left = self.left == 0

    def expected_delay(self, takes_steps: int) -> int:
        """Return how many actions will be executed before the answer to a query made now."""
        early = self.hurries(takes_steps, self.due - takes_steps, takes_steps)
        return min(self.left, takes_steps if early else max(self.due, takes_steps))

    def left_over(self, takes_steps: int) -> LeftOver | None:
        """Return what is left of the chunk for a query that is made now."""
        if self.chunk is None or self.left == 0:
            return None
        return LeftOver(self.chunk.actions[self.step:].astype(np.float64),
                        self.expected_delay(takes_steps))

    def use(self, chunk: Chunk, spec: PolicySpec) -> None:
        """
        Begin a chunk, without as many of its first actions as were executed since its query.

        At least one is left. What the chunk itself says of its use counts more than the spec.
        """
        blend = chunk.blend_steps or spec.blend_steps
        rest = NOTHING if self.chunk is None or self.chunk.space is not chunk.space \
            else self.chunk.actions[self.step:self.step + blend].astype(np.float64)
        horizon = chunk.open_loop_horizon or spec.open_loop_horizon
        self.blended, self.horizon = rest, horizon
        self.pipelined = chunk.pipelined or spec.pipelined
        self.continues = chunk.real_time_chunking or spec.real_time_chunking
        self.chunk, self.start = chunk, min(self.since_ask, len(chunk) - 1)
        self.step = self.start
        self.end = min(len(chunk), self.start + horizon) if horizon else len(chunk)
        self.asked_at = self.ahead_asked_at
        self.index += 1

    def take(self) -> Floats:
        """
        Return the next action, mixed with that of the chunk before in the first steps.

        Of K steps, step k = 1, 2 … K has k / (K + 1) of the new chunk.
        """
        assert self.chunk is not None
        action: Floats = self.chunk.actions[self.step].astype(np.float64)
        since, steps = self.step - self.start, len(self.blended)
        if since < steps:
            share = (since + 1) / (steps + 1)
            action = mixed(np.stack([self.blended[since], action]),
                           np.array([1.0 - share, share]), self.chunk.space)
        self.step += 1
        self.since_ask += 1
        return action
