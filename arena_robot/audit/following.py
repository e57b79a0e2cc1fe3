"""Progress of a rollout while it goes on: a judge sees the start and the newest pictures."""

from collections import deque
from collections.abc import Mapping

import numpy as np

from arena_robot.audit.base import Judge, averaged
from arena_robot.core.clip import Clip
from arena_robot.core.observation import Pixels

AVERAGED = 5


class ProgressFollower:
    """
    Asks a judge for the progress at the newest of the frames that it was given.

    It sees the start pictures and the newest ones alone, so a value costs the same at the end of a
    long rollout as at its begin. Values are averaged with the four before them; those of a whole
    episode with the next two as well.
    """

    def __init__(self, judge: Judge, instruction: str) -> None:
        self._judge = judge
        self._instruction = instruction
        self._start: Mapping[str, Pixels] = {}
        self._newest_s = float('-inf')
        self._values: deque[float] = deque(maxlen=AVERAGED)
        self.problem = ''

    def add(self, time_s: float, frames: Mapping[str, Pixels]) -> float | None:
        """Return the progress at ``time_s``; None with the reason in ``problem``."""
        self._start = self._start or dict(frames)
        if time_s <= self._newest_s:
            return None
        self._newest_s = time_s
        trace = self._judge.progress(Clip(
            self._instruction, np.array([time_s], np.float64),
            {view: [frames[view]] for view in self._start}, self._start))
        self.problem = '' if trace.valid else trace.detail
        if not trace.valid:
            return None
        self._values.append(float(trace.phi[-1]))
        return float(averaged(np.array(self._values))[-1])
