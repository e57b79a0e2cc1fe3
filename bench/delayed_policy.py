"""An echo that answers as late as a file says, for `bench/bench_reviews.py`."""

import time
from pathlib import Path

from arena_robot.policy.examples.simple import Echo


class Delayed(Echo):
    """Waits the seconds that are in a file, none when it is not there; the gripper says who."""

    def __init__(self, file, number):
        super().__init__()
        self._file, self._number = Path(file), number

    def infer(self, observation, episode=''):
        """Wait and echo."""
        if self._file.exists():
            time.sleep(float(self._file.read_text() or 0.0))
        chunk = super().infer(observation, episode)
        chunk.actions[:, -1] = self._number / 100.0
        return chunk
