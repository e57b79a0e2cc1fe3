"""
Clips: pictures of an episode with their times, the input of a judge.

A labelled clip has a known progress at every frame, in one ``.npz`` file: training data of judges.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import replacing
from arena_robot.core.jpeg import from_jpeg
from arena_robot.core.observation import Floats, Pixels

SUFFIX = '.clip.npz'
VERSION = 1


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
