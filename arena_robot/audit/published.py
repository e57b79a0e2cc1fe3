"""Published numbers of RoboPulse, and a loader for its files by configurable field names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.audit.base import Pair
from arena_robot.audit.bench import BINS, BenchPair
from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import from_jpeg
from arena_robot.core.observation import Pixels

# Small, medium, large and their mean: table 2 of the paper, on RoboPulse.
ROWS: Mapping[str, tuple[float, float, float, float]] = {
    'CLIP-B32, image to image': (0.56, 0.56, 0.61, 0.57),
    'CLIP-L14, image to image': (0.54, 0.59, 0.65, 0.59),
    'CLIP-B32, text to image': (0.51, 0.42, 0.49, 0.47),
    'CLIP-L14, text to image': (0.49, 0.45, 0.45, 0.46),
    'Gemini 3 Pro': (0.54, 0.67, 0.77, 0.66), 'GPT-5.2': (0.47, 0.51, 0.62, 0.53),
    'Qwen3-VL-4B': (0.46, 0.55, 0.66, 0.56), 'Qwen3-VL-8B': (0.48, 0.57, 0.74, 0.59),
    'VLAC': (0.61, 0.72, 0.79, 0.71), 'GVL': (0.63, 0.72, 0.78, 0.71),
    'Robo-Dopamine': (0.80, 0.85, 0.85, 0.83)}
NOTE = ('published rows are of another data set (RoboPulse: real and simulated robots, people) '
        'and cannot be compared with rows measured here')


@dataclass(frozen=True)
class PulseFields:
    """
    Names of the fields of a benchmark file, and what its labels are.

    ``images`` is a list of eight files: start, goal, three views before, three after; ``up`` are
    the label values that mean progress. A dot goes into an object: ``meta.task``.
    """

    task: str = 'task'
    images: str = 'images'
    label: str = 'label'
    bin: str = 'bin'
    hop: str = 'hop'
    setting: str = 'setting'
    episode: str = 'episode_id'
    up: tuple[str, ...] = ('1', '+1', 'progress', 'positive', 'true')
    down: tuple[str, ...] = ('-1', '0', 'regression', 'negative', 'false')
    views: tuple[str, ...] = field(default=('left', 'right', 'wrist'))


def read_pulse(path: Path, fields: PulseFields | None = None, limit: int = 0) -> list[BenchPair]:
    """
    Return the pairs of a benchmark's JSON file; pictures lie beside it.

    DataError names the entry and the field that is missing or is not understood.
    """
    names = fields or PulseFields()
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read as JSON: {error}') from error
    if not isinstance(data, list) or not data:
        raise DataError(f'{path}: expected a list of entries')
    return [_entry(entry, number, path, names)
            for number, entry in enumerate(data[:limit or len(data)])]


def _entry(entry: Any, number: int, path: Path, names: PulseFields) -> BenchPair:
    where = f'{path}, entry {number}'
    images, label = _get(entry, names.images, where), str(_get(entry, names.label, where)).lower()
    if not isinstance(images, list) or len(images) != 2 + 2 * len(names.views):
        raise DataError(f"{where}: '{names.images}' must name {2 + 2 * len(names.views)} files")
    if label not in (*names.up, *names.down):
        raise DataError(f"{where}: the label '{label}' is neither of {names.up} nor {names.down}")
    size = str(_get(entry, names.bin, where)).lower()
    if size not in BINS:
        raise DataError(f"{where}: the bin '{size}' is none of {', '.join(BINS)}")
    pictures = [_picture(path.parent / str(name), where) for name in images]
    count = len(names.views)
    before = dict(zip(names.views, pictures[2:2 + count], strict=True))
    after = dict(zip(names.views, pictures[2 + count:], strict=True))
    pair = Pair(str(_get(entry, names.task, where)), before, after,
                {names.views[0]: pictures[0]}, {names.views[0]: pictures[1]})
    return BenchPair(pair, 1 if label in names.up else -1, _hop(entry, names, where), size, 0,
                     str(_get(entry, names.episode, where)),
                     str(_get(entry, names.setting, where)))


def _hop(entry: Any, names: PulseFields, where: str) -> float:
    try:
        return float(_get(entry, names.hop, where))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: '{names.hop}' is not a number") from error


def _get(entry: Any, name: str, where: str) -> Any:
    value = entry
    for word in name.split('.'):
        if not isinstance(value, dict) or word not in value:
            known: Sequence[str] = sorted(value) if isinstance(value, dict) else ()
            raise DataError(f"{where} has no '{name}'; it has {', '.join(known)}")
        value = value[word]
    return value


def _picture(path: Path, where: str) -> Pixels:
    try:
        return from_jpeg(path.read_bytes())
    except OSError as error:
        raise DataError(f'{where}: {path} cannot be read: {error.strerror}') from error
