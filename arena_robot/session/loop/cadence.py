"""
One action at every step of a fixed cadence, for any chunk length and inference time.

Chunk length and inference time could identify a policy. So a blind rollout never waits for an
inference: every command is sent at the same moment of its control period. During an inference the
command is to hold the position. Nothing that is published or recorded marks these steps, except
the motion itself.
"""

import numpy as np

from arena_robot.core.action import Action, ActionSpace, Chunk
from arena_robot.core.clock import Clock
from arena_robot.core.errors import PolicyTimeout
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.chunks import ChunkExecutor, ChunkStep, binarised

# The share of a period after which a step's command is sent; an answer until then is in time.
ACT_AFTER = 0.6
STAMP_NS = 1_000_000


class CadencedActions:
    """The actions of one rollout, one for each tick; used by one thread."""

    def __init__(self, executor: ChunkExecutor, clock: Clock, period_s: float,
                 timeout_s: float) -> None:
        self._executor = executor
        self._clock = clock
        self._period_s = period_s
        self._timeout_s = timeout_s
        self._held = 0
        self.waited = 0    # steps of the rollout in which the arm held; told to nobody
        self._target: Floats | None = None
        self._gripper = 0.0
        self._asked: Floats | None = None

    def next(self, seen: Observation, episode: str, begun_ns: int) -> ChunkStep:
        """
        Return the action of this step, ACT_AFTER of a period after the steady time ``begun_ns``.

        Raises PolicyTimeout when the inference takes too long, and what the policy raised.
        """
        if self._target is None:
            self._target, self._gripper = seen.arm.q.copy(), seen.gripper.position
        self._executor.ask(seen, episode)
        self._clock.sleep_until_steady_ns(begun_ns + round(ACT_AFTER * self._period_s * 1e9))
        taken = self._executor.take(episode)
        if taken is not None:
            self._held = 0
            self._asked = taken.requested
            return self._shown(seen, taken.action, taken.requested, taken.chunk.space)
        self._held += 1
        self.waited += 1
        if self._held * self._period_s > self._timeout_s:
            raise PolicyTimeout(f'the policy did not answer within {self._timeout_s:.3g} s')
        held = Action(binarised(np.append(self._target, self._gripper)),
                      ActionSpace.JOINT_POSITION)
        space = self._executor.spec.action_space
        return self._shown(seen, held, self._request(seen, space), space)

    def sent(self, q: Floats, gripper: float) -> None:
        """Note what was sent: the next hold repeats it."""
        self._target, self._gripper = q, gripper

    def _shown(self, seen: Observation, action: Action, requested: Floats,
               space: ActionSpace) -> ChunkStep:
        """Return the action in a form that is the same for all policies: a chunk of one action."""
        chunk = Chunk(requested[None].astype(np.float32), space)
        return ChunkStep(action, requested, chunk, seen.step, seen.step, 0, 0.0)

    def _request(self, seen: Observation, space: ActionSpace) -> Floats:
        """Return the request to hold the position, in the policy's own space."""
        if space.is_velocity:
            return np.append(np.zeros(space.size - 1), self._gripper)
        if space is ActionSpace.JOINT_POSITION:
            assert self._target is not None
            return np.append(self._target, self._gripper)
        return self._asked if self._asked is not None else np.append(seen.arm.pose, self._gripper)


def stamp_class(stamp_ns: int) -> int:
    """Return a stamp rounded down to whole milliseconds, as a blind rollout has them."""
    return stamp_ns - stamp_ns % STAMP_NS


def time_class(seconds: float) -> float:
    """Return a time rounded to whole milliseconds."""
    return round(seconds * 1e9 / STAMP_NS) * STAMP_NS * 1e-9
