"""Judges without a model: recorded numbers, the simulator's potential, and baselines."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from arena_robot.audit.base import (
    Capabilities,
    JudgeKind,
    Pair,
    Trace,
    difference,
    invalid,
    trace_of,
)
from arena_robot.audit.opd import read_traces
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.records.clip import Clip

SCALES: Mapping[str, float] = {'share': 1.0, 'percent': 100.0}
_SMALL = (32, 18)


class OracleJudge:
    """The simulator's own potential, where the recording has it."""

    name = identity = 'oracle'
    capabilities = Capabilities(needs_record=True)

    def progress(self, clip: Clip) -> Trace:
        """Return the potential of the frames."""
        if clip.potential is None:
            return invalid(clip, self.name, 'the episode has no recorded potential; only the '
                           'simulated station publishes one')
        return trace_of(clip, clip.potential, self.name)

    def compare(self, pair: Pair) -> float | None:
        """Return None: two pictures have no potential."""
        return None


class RecordedJudge:
    """
    Numbers from a file of traces, by the clip's name (``SESSION/A``).

    ``scale`` is ``share`` (0 to 1) or ``percent``; it is never guessed. ``kind`` is ``absolute``,
    or ``delta`` for changes that are added up. The values are spread evenly over the clip.
    """

    name = 'recorded'

    def __init__(self, file: str, scale: str = 'share', kind: str = 'absolute') -> None:
        if scale not in SCALES or kind not in ('absolute', 'delta'):
            raise ConfigError('scale is share or percent and kind is absolute or delta, found '
                              f"'{scale}' and '{kind}'")
        self.capabilities = Capabilities(JudgeKind.ABSOLUTE)
        self._scale, self._kind, self._file = SCALES[scale], kind, file
        self._traces = {t.name: t.phi for t in read_traces(
            Path(file), 100.0 * self._scale if kind == 'delta' else self._scale)}
        self.identity = hashlib.sha256(Path(file).read_bytes()).hexdigest()

    def progress(self, clip: Clip) -> Trace:
        """Return the recorded numbers."""
        model = f'{self.name}:{Path(self._file).name}'
        if clip.name not in self._traces:
            return invalid(clip, model, f"{self._file} has no episode '{clip.name}'")
        values = self._traces[clip.name] / self._scale
        if self._kind == 'delta':
            values = np.cumsum(values)
        if len(values) != len(clip):
            at = np.linspace(0.0, len(values) - 1.0, len(clip))
            values = values[np.round(at).astype(int)]
        return trace_of(clip, values, model, strict=self._kind != 'delta', mode=self._kind)

    def compare(self, pair: Pair) -> float | None:
        """Return None: two pictures are not in the file."""
        return None


class ElapsedTime:
    """Baseline: the share of the clip's time. It always rises."""

    name = identity = 'elapsed'
    capabilities = Capabilities(calibrated=False)

    def progress(self, clip: Clip) -> Trace:
        """Return the share of the time."""
        times = clip.times_s - clip.times_s[0]
        return trace_of(clip, times / max(float(times[-1]), 1e-9), self.name,
                        calibrated=False, detail='a clock sees no pictures')

    def compare(self, pair: Pair) -> float | None:
        """Return 1: after is later."""
        return 1.0


class _PictureDistance:
    """Baseline: cosine distance of small grey pictures to a reference."""

    identity = 'picture distance'
    capabilities = Capabilities(calibrated=False)

    def __init__(self) -> None:
        self.name = ''

    def _likeness(self, frames: Mapping[str, Pixels], to: Mapping[str, Pixels]) -> float:
        views = [view for view in frames if view in to]
        return float(np.mean([_grey(frames[v]) @ _grey(to[v]) for v in views]))

    def _values(self, clip: Clip, to: Mapping[str, Pixels]) -> Floats:
        frames = [{view: pictures[t] for view, pictures in clip.frames.items()}
                  for t in range(len(clip))]
        return np.array([self._likeness(frame, to) for frame in frames])


class StartDistance(_PictureDistance):
    """Baseline: how unlike the start picture a frame is."""

    def __init__(self) -> None:
        self.name = 'start_distance'

    def progress(self, clip: Clip) -> Trace:
        """Return (1 - cosine) / 2."""
        start = clip.start or {view: frames[0] for view, frames in clip.frames.items()}
        return trace_of(clip, (1.0 - self._values(clip, start)) / 2.0, self.name,
                        calibrated=False, detail='a picture distance has no scale')

    def compare(self, pair: Pair) -> float | None:
        """Return by how much the distance grew."""
        return difference(self, pair)


class GoalDistance(_PictureDistance):
    """Baseline: how like the goal picture a frame is; without one the last frame."""

    capabilities = Capabilities(calibrated=False, needs_goal=True)

    def __init__(self) -> None:
        self.name = 'goal_distance'

    def progress(self, clip: Clip) -> Trace:
        """Return (1 + cosine) / 2."""
        if not clip.goal:
            return invalid(clip, self.name, 'it needs a goal picture')
        return trace_of(clip, (1.0 + self._values(clip, clip.goal)) / 2.0, self.name,
                        calibrated=False, detail='a picture distance has no scale')

    def compare(self, pair: Pair) -> float | None:
        """Return by how much the likeness grew."""
        return difference(self, pair) if pair.goal else None


def _grey(picture: Pixels) -> Floats:
    small = cv2.resize(picture, _SMALL, interpolation=cv2.INTER_AREA).mean(axis=2).ravel()
    small = small - small.mean()
    return np.asarray(small / max(float(np.linalg.norm(small)), 1e-9), np.float64)
