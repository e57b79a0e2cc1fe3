"""Progress of a rollout while it goes on: a judge sees the start and the newest pictures."""

from collections import deque
from collections.abc import Mapping

import numpy as np

from arena_robot.audit.base import Judge
from arena_robot.core.clip import Clip
from arena_robot.core.observation import Pixels

NEWEST = 5    # a judge that averages over time averages over five frames


class ProgressFollower:
    """
    Asks a judge for the progress at the newest of the frames that it was given.

    It sees the start pictures and the last five instants, so a value costs the same at the end of
    a long rollout as at its begin. It is close to that of the whole episode, and not equal to it:
    a value in the midst of an episode is averaged with those after it.
    """

    def __init__(self, judge: Judge, instruction: str) -> None:
        self._judge = judge
        self._instruction = instruction
        self._start: Mapping[str, Pixels] = {}
        self._recent: deque[tuple[float, Mapping[str, Pixels]]] = deque(maxlen=NEWEST)
        self.problem = ''

    def add(self, time_s: float, frames: Mapping[str, Pixels]) -> float | None:
        """Return the progress at ``time_s``; None with the reason in ``problem``."""
        self._start = self._start or dict(frames)
        if self._recent and time_s <= self._recent[-1][0]:
            return None
        self._recent.append((time_s, frames))
        trace = self._judge.progress(Clip(
            self._instruction, np.array([t for t, _ in self._recent], np.float64),
            {view: [seen[view] for _, seen in self._recent] for view in self._start},
            self._start))
        self.problem = '' if trace.valid else trace.detail
        return float(trace.phi[-1]) if trace.valid else None
