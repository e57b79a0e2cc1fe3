"""
``episode.json``: an episode in numbers, derived from its bag; see `arena episode derive`.

Times are seconds unless their name ends in ``_ns``.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_json

EPISODE_FILE = 'episode.json'
VERSION = 1


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
