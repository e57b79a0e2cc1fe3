"""Temporal ensembling, as ACT does it: a policy whose newest chunks are averaged."""

import dataclasses
import math
import threading

import numpy as np

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import PolicyRefused
from arena_robot.core.observation import Floats, Observation
from arena_robot.policy.base import Closable, Policy, PolicySpec

DECAY = 0.01    # ACT's
ANGLES = slice(3, 6)    # of a pose


class Ensembling:
    """
    Queries the inner policy often, and averages what its chunks say of the same control step.

    Every ``open_loop_horizon`` steps the inner policy is queried. An action is the mean of all
    predictions for its step: the oldest has weight 1, the next exp(-``decay``), and so on, so a
    larger ``decay`` trusts older predictions more. With Zhao et al., "Learning Fine-Grained
    Bimanual Manipulation with Low-Cost Hardware" (2023), it is 0.01, one query a step.

    The answer is a whole chunk, each of its actions averaged, so latency can still be hidden. A
    caller that sends no steps (openpi) is taken to query every ``open_loop_horizon`` steps.
    """

    def __init__(self, policy: Policy, decay: float = DECAY, open_loop_horizon: int = 1) -> None:
        self._policy = policy
        self._decay = decay
        self._horizon = open_loop_horizon
        self._made: dict[str, list[tuple[int, Floats]]] = {}
        self._lock = threading.Lock()

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's, executed ``open_loop_horizon`` actions at a time."""
        return dataclasses.replace(self._policy.spec, open_loop_horizon=self._horizon,
                                   blend_steps=0)

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query, and average with the chunks before."""
        chunk = self._policy.infer(observation, episode)
        if self._policy.spec.layout and not chunk.space.row.of_joints:
            raise PolicyRefused('poses in a layout are not averaged: their angles have a unit of '
                                'their own; serve the policy without ensembling')
        with self._lock:
            chunks = self._made.setdefault(episode, [])
            step = observation.step
            if chunks and step == 0:
                step = chunks[-1][0] + self._horizon
            chunks[:] = [(at, rows) for at, rows in chunks if at < step < at + len(rows)]
            chunks.append((step, np.asarray(chunk.actions, np.float64)))
            actions = [self._mean(chunks, step + k, chunk) for k in range(len(chunk))]
        return dataclasses.replace(chunk, actions=np.array(actions, np.float32))

    def _mean(self, chunks: list[tuple[int, Floats]], step: int, chunk: Chunk) -> Floats:
        actions = np.array([rows[step - at] for at, rows in chunks if step - at < len(rows)])
        return mixed(actions, np.exp(-self._decay * np.arange(len(actions))), chunk.space)

    def reset(self, episode: str = '') -> None:
        """Forget the chunks of an episode."""
        with self._lock:
            self._made.pop(episode, None)
        self._policy.reset(episode)

    def close(self) -> None:
        """Close the inner policy, if it holds something."""
        if isinstance(self._policy, Closable):
            self._policy.close()


def mixed(rows: Floats, weights: Floats, space: ActionSpace) -> Floats:
    """
    Return the mean (size,) of the actions ``rows`` (K, size) with ``weights`` (K,), any scale.

    Angles of a flange pose go the shorter way from the last row, so -179 and 179 degrees do not
    meet at 0. The gripper is a mean too; it closes above 0.5.
    """
    rows = np.asarray(rows, np.float64)
    shares = np.asarray(weights, np.float64) / np.sum(weights)
    if space is ActionSpace.CARTESIAN_POSITION:
        rows = rows.copy()
        turn = rows[:, ANGLES] - rows[-1, ANGLES]
        rows[:, ANGLES] = rows[-1, ANGLES] + (turn + math.pi) % (2.0 * math.pi) - math.pi
    out: Floats = shares @ rows
    return out
