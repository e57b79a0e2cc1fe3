"""
Clips: pictures of an episode with their times, the input of a judge.

A labelled clip has a known progress at every frame, in one ``.npz`` file: training data of judges.
Of real episodes a person knows it: ``labels.csv`` has a line for each, see :class:`EpisodeLabel`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from arena_robot.core.config import build
from arena_robot.core.csv_tables import rows_of, write_csv
from arena_robot.core.errors import ConfigError, Conflict, DataError
from arena_robot.core.files import replacing
from arena_robot.core.jpeg import from_jpeg
from arena_robot.core.observation import Floats, Pixels

SUFFIX = '.clip.npz'
VERSION = 1
LABELS_FILE = 'labels.csv'
LABELS = ('failure', 'suboptimal', 'success')    # from worst to best
MOST_STAGES = 9    # a digit of the keyboard each
FALL_S = 0.5       # what falls is down within this time


@dataclass(frozen=True)
class Clip:
    """
    Frames of one or more views at the same instants, and what was to be done.

    ``times_s`` (T+1,) increase; ``frames`` have T+1 pictures (H, W, 3) RGB of each view. ``start``
    and ``goal`` are reference pictures by view, where there are any. ``name`` is the episode's;
    ``potential`` (T+1,) is what a simulator knew of the progress, None without one.
    """

    instruction: str
    times_s: Floats
    frames: Mapping[str, Sequence[Pixels]]
    start: Mapping[str, Pixels] = field(default_factory=dict)
    goal: Mapping[str, Pixels] = field(default_factory=dict)
    name: str = ''
    potential: Floats | None = None

    def __post_init__(self) -> None:
        if not len(self.times_s) or not self.frames:
            raise DataError('a clip needs at least one view and one instant')
        if (self.times_s[1:] <= self.times_s[:-1]).any():
            raise DataError('the times of a clip must increase')
        for view, frames in self.frames.items():
            if len(frames) != len(self.times_s):
                raise DataError(f'a clip has {len(self.times_s)} instants, and {len(frames)} '
                                f'pictures of {view}')
        if self.potential is not None and self.potential.shape != self.times_s.shape:
            raise DataError(f'a clip has {len(self.times_s)} instants, and '
                            f'{len(self.potential)} values of the potential')

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def interval_s(self) -> float | None:
        """Mean time between frames, None for a single one."""
        count = len(self.times_s) - 1
        return float(self.times_s[-1] - self.times_s[0]) / count if count else None

    def part(self, instants: Sequence[int]) -> 'Clip':
        """Return the clip of some of the instants, in increasing order."""
        chosen = list(instants)
        return replace(
            self, times_s=self.times_s[chosen],
            frames={view: [frames[i] for i in chosen] for view, frames in self.frames.items()},
            potential=None if self.potential is None else self.potential[chosen])


@dataclass(frozen=True)
class ClipSource:
    """Where a clip comes from; ``kind`` is how the episode was made, such as ``drop``."""

    name: str
    instruction: str
    task: str = ''
    seed: int = 0
    kind: str = ''
    success: bool | None = None


@dataclass(frozen=True)
class LabelledClip:
    """JPEG pictures by view at ``times_s`` (T+1,), and the progress ``phi`` (T+1,) then."""

    source: ClipSource
    times_s: Floats
    phi: Floats
    pictures: Mapping[str, Sequence[bytes]]

    def clip(self, views: Sequence[str] | None = None) -> Clip:
        """Return the decoded clip, of some views or of all."""
        return Clip(self.source.instruction, self.times_s, {
            view: [from_jpeg(data) for data in self.pictures[view]]
            for view in (views or self.pictures)}, name=self.source.name, potential=self.phi)


def write_clip(path: Path, clip: LabelledClip) -> None:
    """Write a clip, whole or not at all."""
    arrays: dict[str, Any] = {
        'times_s': clip.times_s, 'phi': clip.phi,
        'source': np.array(json.dumps({'version': VERSION, **asdict(clip.source)}))}
    for view, pictures in clip.pictures.items():
        arrays[f'{view}/lengths'] = np.array([len(data) for data in pictures], np.int64)
        arrays[f'{view}/jpeg'] = np.frombuffer(b''.join(pictures), np.uint8)
    with replacing(path) as partial, partial.open('wb') as out:
        np.savez(out, **arrays)


def read_clip(path: Path) -> LabelledClip:
    """Return a clip; DataError when the file is none."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            source = json.loads(str(arrays['source']))
            if source.pop('version') != VERSION:
                raise ValueError('it was written by another version')
            views = [name.split('/')[0] for name in arrays.files if name.endswith('/lengths')]
            return LabelledClip(build(ClipSource, source, str(path)), arrays['times_s'],
                                arrays['phi'], {view: _pictures(arrays, view) for view in views})
    except (OSError, EOFError, KeyError, ValueError, BadZipFile, ConfigError) as error:
        raise DataError(f'{path} is not a clip: {error}') from error


def clip_files(folder: Path) -> list[Path]:
    """Return the clips in a folder and its folders, sorted by name."""
    return sorted(folder.rglob(f'*{SUFFIX}'))


def _pictures(arrays: Any, view: str) -> list[bytes]:
    data = arrays[f'{view}/jpeg'].tobytes()
    ends = np.cumsum(arrays[f'{view}/lengths'])
    starts = np.concatenate([[0], ends[:-1]])
    return [data[a:b] for a, b in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class StageMark:
    """At ``time_s`` of the clip, ``stage`` is reached: 1 is the first stage, 0 the start."""

    time_s: float
    stage: int


@dataclass(frozen=True)
class EpisodeLabel:
    """
    What a person says of one episode; ``file`` is its folder, or its video, in that of the table.

    ``label`` is one of ``LABELS``, empty while the person is not done. ``scene`` names what has to
    be left out together when a judge is tested. ``task`` is what all wordings of its instruction
    have in common, ``stages`` are the task's, in their order. ``marks`` say when each was reached,
    or lost again: a mark of a lower stage than the one before it says that work was undone.
    """

    file: str
    instruction: str
    label: str = ''
    scene: str = ''
    task: str = ''
    stages: tuple[str, ...] = ()
    marks: tuple[StageMark, ...] = ()

    def progress(self, times_s: Floats) -> Floats:
        """
        Return the progress at times of the clip: stage k of n is k/n.

        It rises linearly from mark to mark. It falls in the last ``FALL_S`` before a mark of a
        lower stage, and stays as it is after the last mark. DataError where stages have no names.
        """
        if not self.stages:
            raise DataError(f'{self.file}: the stages of its task have no names; name them with '
                            '`arena judge label`')
        points = [(0.0, 0.0)]
        for mark in sorted(self.marks, key=lambda m: m.time_s):
            before_s, level = points[-1]
            if mark.stage < round(level * len(self.stages)):
                points.append((max(mark.time_s - FALL_S, before_s), level))
            points.append((mark.time_s, mark.stage / len(self.stages)))
        at, levels = zip(*points, strict=True)
        return np.asarray(np.interp(times_s, at, levels), np.float64)

    def marked(self, time_s: float, stage: int) -> 'EpisodeLabel':
        """Return the label with one more mark. Conflict for a stage that the task has not."""
        if not 0 <= stage <= len(self.stages):
            raise Conflict(f'the task has the stages 0 to {len(self.stages)}, not {stage}')
        return replace(self, marks=tuple(sorted(
            [*(m for m in self.marks if m.time_s != time_s), StageMark(time_s, stage)],
            key=lambda m: m.time_s)))

    def judged(self, label: str) -> 'EpisodeLabel':
        """Return the finished label. Conflict where the last mark says something else."""
        if not self.stages:
            raise Conflict('name the stages of the task first')
        if label not in LABELS:
            raise Conflict(f"the label '{label}' is none of {', '.join(LABELS)}")
        done = bool(self.marks) and self.marks[-1].stage == len(self.stages)
        if label == LABELS[-1] and not done:
            raise Conflict(f"'{self.stages[-1]}' has no time yet: go to where it is reached and "
                           f'press {len(self.stages)}')
        if label == LABELS[0] and done:
            raise Conflict(f"'{self.stages[-1]}' is reached at the end. If that was undone, press "
                           'a lower digit where it happens; U takes the mark back')
        return replace(self, label=label)

    def undone(self) -> 'EpisodeLabel':
        """Return the label without what was said last: the label itself, or the last mark."""
        if self.label:
            return replace(self, label='')
        if not self.marks:
            raise Conflict('there is nothing to undo in this episode')
        return replace(self, marks=self.marks[:-1])


_LABEL_COLUMNS = ('file', 'instruction', 'label', 'scene', 'task', 'stages', 'marks')


def read_labels(folder: Path) -> dict[str, EpisodeLabel]:
    """Return the labels of a folder by file, empty without a table; DataError names the line."""
    path = folder / LABELS_FILE
    if not path.exists():
        return {}
    labels = {}
    for number, row in rows_of(path, _LABEL_COLUMNS[:3]):
        if row['label'] not in ('', *LABELS):
            raise DataError(f"{path}, line {number}: the label '{row['label']}' is none of "
                            f'{", ".join(LABELS)}')
        if not (folder / row['file']).exists():
            raise DataError(f"{path}, line {number}: {folder / row['file']} is missing")
        stages = tuple(name.strip() for name in row.get('stages', '').split(';') if name.strip())
        try:
            marks = tuple(StageMark(float(time), int(stage)) for time, stage in (
                word.split(':') for word in row.get('marks', '').split()))
        except ValueError as error:
            raise DataError(f"{path}, line {number}: marks are SECONDS:STAGE, separated by "
                            f"spaces, found '{row['marks']}'") from error
        if any(not 0 <= mark.stage <= len(stages) for mark in marks):
            raise DataError(f"{path}, line {number}: a mark of '{row['marks']}' is for none of "
                            f'the {len(stages)} stages')
        labels[row['file']] = EpisodeLabel(row['file'], row['instruction'], row['label'],
                                           row.get('scene', ''), row.get('task', ''), stages,
                                           marks)
    return labels


def write_labels(folder: Path, labels: Mapping[str, EpisodeLabel]) -> None:
    """Write the labels of a folder, whole or not at all, sorted by file."""
    write_csv(folder / LABELS_FILE, _LABEL_COLUMNS, [
        (row.file, row.instruction, row.label, row.scene, row.task, '; '.join(row.stages),
         ' '.join(f'{mark.time_s:.2f}:{mark.stage}' for mark in row.marks))
        for _, row in sorted(labels.items())])
