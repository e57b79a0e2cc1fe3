"""A clip with a known progress at every frame, in one ``.npz`` file: training data of judges."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from arena_robot.core.clip import Clip
from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import replacing
from arena_robot.core.jpeg import from_jpeg
from arena_robot.core.observation import Floats

SUFFIX = '.clip.npz'
VERSION = 1


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
