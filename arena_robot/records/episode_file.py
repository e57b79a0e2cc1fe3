"""
The files of an episode's folder: which there are, ``episode.json``, ``scene_match.json``.

``episode.json`` is an episode in numbers, derived from its bag; see `arena episode derive`.
``scene_match.json`` stands beside the episode of slot B: how like the start photographs the scene
was before B ran, the lowest score ``match`` and the scores of the ``views``, 0 to 1 (1: nothing
changed; 0.37: one percent of the picture changed). Times are seconds unless their name ends in
``_ns``.

Arrays of an ``.npz`` file from strangers are read only after their headers: they take no memory
before they are checked.
"""

import dataclasses
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json

EPISODE_FILE = 'episode.json'
VERSION = 1
SCENE_MATCH_FILE = 'scene_match.json'
MOST_VIEWS = 20    # of a scene match from a station; one has six eyes
STEPS_FILE = 'steps.npz'
# The bag with its metadata, what `arena episode derive` makes of it, the station's scene match.
_NAMES = re.compile(r'metadata\.yaml|episode\.json|steps\.npz|scene_match\.json|'
                    r'[A-Za-z0-9_][A-Za-z0-9_.\-]{0,100}\.(mcap|mp4)')
SLOTS = ('A', 'B')
# Of a stranger's steps.npz unpacked, and of the header of an array in it.
MOST_BYTES = 16 << 20
HEADER_BYTES = 4096


def earlier_home(folder: Path) -> Path | None:
    """
    Return where a recording in ``folder`` is kept once its slot is recorded again.

    ``<slot>_earlier``, then ``<slot>_earlier_2`` and so on; None without a recording.
    """
    if not folder.exists() or not any(folder.glob('*.mcap')):
        return None
    names = [f'{folder.name}_earlier', *(f'{folder.name}_earlier_{k}' for k in range(2, 1000))]
    return next(folder.with_name(n) for n in names if not folder.with_name(n).exists())


@dataclass(frozen=True)
class Spread:
    """Median, 99th percentile and maximum."""

    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class ControlReport:
    """How well the control rate was held; a tick a period late counts as missed."""

    nominal_hz: float = 0.0
    mean_hz: float | None = None
    period_s: Spread | None = None
    period_error_s: Spread | None = None
    late_s: Spread | None = None
    missed_ticks: int = 0


@dataclass(frozen=True)
class InferenceReport:
    """
    How many inferences there were and how long the arm waited for each in which it did.

    ``waited`` is the share of the rollout's time in which the arm waited; None where nobody knows.
    """

    count: int = 0
    wait_s: Spread | None = None
    waited: float | None = None


@dataclass(frozen=True)
class ClampReport:
    """How many steps the safety layer changed, and how often for which reason."""

    steps: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewReport:
    """
    Frames of one view; ``missing`` is the number of frames that would fill its gaps.

    ``role`` and ``eye`` name the camera, ``frame_id`` its optical frame. ``file`` is its video
    with ``video_frames``, the first of them at ``start_ns``. ``extrinsics`` is the pose of the
    optical frame in ``extrinsics_frame``, x y z (m) roll pitch yaw (rad); empty where unknown.
    """

    topic: str
    frames: int
    rate_hz: float | None = None
    missing: int = 0
    max_gap_s: float | None = None
    latency_s: Spread | None = None
    file: str | None = None
    video_frames: int = 0
    start_ns: int | None = None
    role: str = ''
    eye: str = ''
    frame_id: str = ''
    extrinsics_frame: str = ''
    extrinsics: tuple[float, ...] = ()


@dataclass(frozen=True)
class TopicNumbers:
    """Messages of one topic, and how many of them were lost."""

    type: str
    count: int
    bytes: int
    rate_hz: float | None = None
    max_gap_s: float = 0.0
    lost: int = 0
    max_latency_s: float | None = None


@dataclass(frozen=True)
class BagReport:
    """The bag that the numbers come from."""

    files: tuple[str, ...] = ()
    messages: int = 0
    start_ns: int = 0
    duration_s: float = 0.0
    recovered: bool = False


@dataclass(frozen=True)
class EpisodeFile:
    """Everything in an ``episode.json``; what is not in the bag is empty or None."""

    session_id: str = ''
    slot: str = ''
    prompt: str = ''
    station: str = ''
    robot_type: str = ''
    backend: str = ''
    third_person: str = ''
    end_reason: str = ''
    detail: str = ''
    control_rate_hz: float | None = None
    max_steps: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    steps: int = 0
    control: ControlReport = field(default_factory=ControlReport)
    observation_age_s: Spread | None = None
    skew_s: Spread | None = None
    inference: InferenceReport = field(default_factory=InferenceReport)
    clamps: ClampReport = field(default_factory=ClampReport)
    views: Mapping[str, ViewReport] = field(default_factory=dict)
    topics: Mapping[str, TopicNumbers] = field(default_factory=dict)
    bag: BagReport = field(default_factory=BagReport)


def has_episode(folder: Path) -> bool:
    """Tell whether the numbers of the episode in ``folder`` were derived."""
    return (folder / EPISODE_FILE).exists()


def read_episode(folder: Path) -> EpisodeFile:
    """Return the numbers of the episode in ``folder``; DataError when they cannot be read."""
    path = folder / EPISODE_FILE
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(f'{path} cannot be read: {error}; run `arena episode derive` again'
                        ) from error
    return parse_episode(text, str(path))


def parse_episode(text: bytes, where: str) -> EpisodeFile:
    """Return the numbers in the bytes of an episode file; DataError names ``where``."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise TypeError(f'expected a mapping, found a {type(data).__name__}')
        version = data.pop('version', None)
        if version != VERSION:
            raise ValueError(f'its version is {version}, this program reads {VERSION}')
        return build(EpisodeFile, data, EPISODE_FILE)
    except (ValueError, TypeError, RecursionError, ConfigError) as error:
        raise DataError(f'{where} holds no numbers of an episode: {error}; run `arena episode '
                        'derive` again') from error


def write_episode(folder: Path, episode: EpisodeFile) -> None:
    """Write the numbers of an episode into its folder, whole or not at all."""
    values: dict[str, Any] = {'version': VERSION, **dataclasses.asdict(episode)}
    write_json(folder / EPISODE_FILE, values)


@dataclass(frozen=True)
class SceneMatch:
    """The station's scores before B, 0 to 1."""

    match: float
    views: Mapping[str, float] = field(default_factory=dict)


def write_scene_match(folder: Path, match: SceneMatch) -> None:
    """Write the file into the folder of an episode, whole or not at all."""
    write_json(folder / SCENE_MATCH_FILE, {'version': VERSION, **dataclasses.asdict(match)})


def parse_scene_match(text: bytes, where: str) -> SceneMatch:
    """Return what the bytes of such a file say; DataError names ``where``."""
    try:
        data: Any = json.loads(text)
        if not isinstance(data, dict) or data.pop('version', None) != VERSION:
            raise ValueError(f'expected a mapping of version {VERSION}')
        match = build(SceneMatch, data, where)
        scores = (match.match, *match.views.values())
        if len(match.views) > MOST_VIEWS or not all(
                math.isfinite(score) and 0.0 <= score <= 1.0 for score in scores):
            raise ValueError(f'up to {MOST_VIEWS} scores from 0 to 1 were expected')
    except (ValueError, TypeError, RecursionError, ConfigError) as error:
        raise DataError(f'{where} is no scene match: {error}') from error
    return match


def episode_files(folder: Path) -> list[Path]:
    """
    Return the files of an episode, by name.

    Temporary files, folders, hidden files and files with other names are not among them.
    """
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir()
                  if _NAMES.fullmatch(path.name) and path.is_file())


def episodes(place: Path) -> list[Path]:
    """
    Return the episode folders at ``place``: itself, or the slots of the session it is.

    Raises DataError when there is none.
    """
    if _is_episode(place):
        return [place]
    folders = [place / slot for slot in SLOTS if _is_episode(place / slot)]
    if not folders:
        raise DataError(f'{place} is neither an episode (a folder with a .mcap file) nor a '
                        'session with episodes A and B in it')
    return folders


def _is_episode(place: Path) -> bool:
    return (place / 'metadata.yaml').exists() or any(place.glob('*.mcap'))


def read_arrays(content: bytes, where: str) -> dict[str, NDArray[np.generic]]:
    """
    Return the arrays of an ``.npz`` file; DataError when it is none or unpacks to over 16 MiB.

    Every array is as large as its header says, and no header is believed before that is checked.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > MOST_BYTES:
                raise DataError(f'{where} unpacks to more than {MOST_BYTES} bytes')
            for member in members:
                _check_header(archive, member, where)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError, NotImplementedError,
            zipfile.BadZipFile) as error:
        raise DataError(f'{where} cannot be read: {error}') from error


def _check_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> None:
    with archive.open(member) as stream:
        head = io.BytesIO(stream.read(HEADER_BYTES))
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(
        npy.read_magic(head))
    if read is None:
        raise DataError(f'{where}: {member.filename:.80} has another version of npy')
    shape, _, kind = read(head)
    wanted = math.prod(shape) * kind.itemsize
    if kind.hasobject or head.tell() + wanted != member.file_size:
        raise DataError(f'{where}: {member.filename:.80} says that it has {wanted} bytes of '
                        f'values, and has {member.file_size - head.tell()}')
