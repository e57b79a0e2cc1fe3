"""Judges without a model of their own: recorded numbers, the simulator, and baselines."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.records.clip import Clip

SCALES: Mapping[str, float] = {'share': 1.0, 'percent': 100.0}
_SMALL = (32, 18)
# Where LeRobot's tools put progress: the first is of SARM, Robometer and TOPReward alike.
SIGNALS = ('progress_sparse', 'progress_dense', 'reward.robometer.progress')
_PROVENANCE = 'lerobot.reward_scoring.provenance'


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


class LeRobotJudge:
    """
    What a reward model of LeRobot (SARM, Robometer, TOPReward) said of an exported dataset.

    ``file`` is the parquet that LeRobot's scoring of the dataset wrote, ``dataset`` the folder of
    the dataset (by default that of the file), ``column`` the signal (by default the first of
    ``SIGNALS``, else the first whose name has ``progress``). The values are spread over the clip
    by the share of time.
    """

    name = 'lerobot'
    capabilities = Capabilities(calibrated=False, needs_record=True)

    def __init__(self, file: str, dataset: str = '', column: str = '') -> None:
        path = Path(file).expanduser()
        rows, about = _parquet([path])
        known = [name for name in rows if 'progress' in name]
        column = column or next((name for name in (*SIGNALS, *known) if name in known), '')
        if column not in rows or not {'episode_index', 'frame_index'} <= rows.keys():
            raise ConfigError(f"{path} needs the columns episode_index, frame_index and "
                              f"'{column or 'progress_sparse'}'; it has {', '.join(rows)}")
        self._file = path.name
        self._numbers = [np.array(rows[name], np.float64)
                         for name in ('episode_index', 'frame_index', column)]
        root = Path(dataset).expanduser() if dataset else path.parent
        episodes, _ = _parquet(sorted(root.glob('meta/episodes/*/*.parquet')))
        counted = episodes.get('episode_index', [])
        self._episodes = {f'{session or f"{root.resolve().name}_{number:06d}"}/{slot or "A"}':
                          (number, length) for number, length, session, slot in zip(
            counted, episodes.get('length', []), *(
                episodes.get(name, [''] * len(counted)) for name in ('session_id', 'slot')),
            strict=True)}
        scored = json.loads(about.get(_PROVENANCE, '{}')).get('model', {})
        model = (about.get('reward_model_path') or about.get('vlm_name') or scored.get('id')
                 or 'unnamed model')
        self.model = f'{model}: {column}'
        self.identity = f'{self.model} {hashlib.sha256(path.read_bytes()).hexdigest()}'

    def progress(self, clip: Clip) -> Trace:
        """Return the signal of the clip's episode."""
        number, length = self._episodes.get(clip.name, (-1, 0))
        episode, frame, value = self._numbers
        own = episode == number
        if not own.any():
            return invalid(clip, self.model, f"{self._file} has no episode '{clip.name}'")
        at = (clip.times_s - clip.times_s[0]) / max(float(np.ptp(clip.times_s)), 1e-9)
        return trace_of(clip, np.interp(at, frame[own] / max(length - 1, 1), value[own]),
                        self.model, calibrated=False, detail="a reward model's scale is its own")

    def compare(self, pair: Pair) -> float | None:
        """Return None: two pictures are not in the file."""
        return None


def _parquet(paths: Sequence[Path]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the columns of parquet files in a row, and what the first says of itself."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ConfigError("parquet files need pyarrow: pip install 'droid-arena[judges]'"
                          ) from error
    try:
        tables = [pq.read_table(path) for path in paths]
        rows = pa.concat_tables(tables, promote_options='default')
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DataError(f'{", ".join(map(str, paths)) or "meta/episodes"} cannot be read as '
                        f'parquet: {error}') from error
    return ({name: rows[name].to_pylist() for name in rows.column_names
             if not name.startswith('stats/')},
            {key.decode(): text.decode() for key, text in (rows.schema.metadata or {}).items()})


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
