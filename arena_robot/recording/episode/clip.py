"""
An episode's pictures for judges, at even times; and those in which the arm stands still.

What a simulator told of the progress comes with them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.core.observation import ROLES, STILL_RAD_S, Floats, Pixels, view
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.frames import pictures, pixels_of
from arena_robot.recording.episode.tracks import EpisodeTracks, Stamps, load_tracks, nearest
from arena_robot.records.clip import Clip

_AFTER_NS = 500_000_000    # an object that was let go comes to rest
POTENTIAL = '/potential'
_FLOAT = 'std_msgs/msg/Float64'
INFO = 'sensor_msgs/msg/CameraInfo'
# Before and after a picture, the arm is at rest; and the least turn of a joint to another pose.
STILL_NS, APART_RAD = 100_000_000, 0.05


def read_clip(folder: Path, interval_s: float = 0.2, views: Sequence[str] = ROLES,
              max_frames: int = 0) -> Clip:
    """
    Return the clip of the episode in ``folder``, a frame every ``interval_s``.

    ``views`` are roles; their left eyes are taken, and those that were not recorded are left out.
    ``max_frames`` (0: any) makes the interval longer where there would be more. The simulated
    station's potential comes with it. Raises DataError or RecordingError.
    """
    with BagReader(folder) as bag:
        codec = codec_of(bag.topics.values())
        tracks = load_tracks(bag, codec)
        span = clip_span(tracks, folder, views)
        grid = _grid(span, interval_s, max_frames)
        frames = {role: _frames(bag, codec, tracks.views[view(role)].topic, nearest(log, grid))
                  for role, log in span.logs.items()}
        potential = _potential(bag, codec, grid)
    session = str(tracks.info.get('session_id', '')) or folder.parent.name
    slot = str(tracks.info.get('slot', '')) or folder.name
    return Clip(str(tracks.info.get('prompt', '')), (grid - grid[0]) * 1e-9, frames,
                name=f'{session}/{slot}', potential=potential)


@dataclass(frozen=True)
class ClipSpan:
    """The first and last instant of an episode's clip, and the arrivals of each view's frames."""

    begin_ns: int
    end_ns: int
    logs: Mapping[str, Stamps]

    @property
    def duration_s(self) -> float:
        """How long the clip is."""
        return (self.end_ns - self.begin_ns) * 1e-9

    def ahead_s(self, role: str) -> float:
        """Return how long before the clip the video of a role begins."""
        return float(self.begin_ns - self.logs[role][0]) * 1e-9


def clip_span(tracks: EpisodeTracks, folder: Path, views: Sequence[str] = ROLES) -> ClipSpan:
    """Return the clip from the first step to half a second after the last. Raises DataError."""
    logs = {role: tracks.views[view(role)].log for role in views if view(role) in tracks.views
            and len(tracks.views[view(role)].stamps)}
    stamps = tracks.steps.stamps
    if not logs or not len(stamps):
        raise DataError(f'{folder} has no pictures of {", ".join(views)}, or no step; a judge '
                        'has nothing to look at')
    begin = max(int(max(log[0] for log in logs.values())), int(stamps[0]))
    end = min(int(min(log[-1] for log in logs.values())), int(stamps[-1]) + _AFTER_NS)
    return ClipSpan(begin, max(begin, end), logs)


def _grid(span: ClipSpan, interval_s: float, max_frames: int) -> Stamps:
    """Return the instants of the frames."""
    count = int(span.duration_s / interval_s + 1e-6) + 1
    if max_frames and count > max_frames:
        return np.linspace(span.begin_ns, span.end_ns, max_frames).astype(np.int64)
    return span.begin_ns + np.round(np.arange(count) * interval_s * 1e9).astype(np.int64)


def _frames(bag: BagReader, decoder: Decoder, topic: Topic, rows: Stamps) -> list[Pixels]:
    """Return the pictures of some rows of a topic, each decoded once."""
    wanted, decoded = set(rows.tolist()), {}
    for row, message in enumerate(bag.messages([topic.name])):
        if row in wanted:
            decoded[row] = pixels_of(topic, decoder.decode(topic, message.data))
    return [decoded[row] for row in rows.tolist()]


def _potential(bag: BagReader, decoder: Decoder, grid: Stamps) -> Floats | None:
    potential = read_potential(bag, decoder)
    if potential is None:
        return None
    return np.asarray(np.interp(grid.astype(np.float64), potential.stamps.astype(np.float64),
                                potential.values), np.float64)


class Potential(NamedTuple):
    """Stamps of arrival (N,) in order, and how far the state was (N,), 0 to 1."""

    stamps: Stamps
    values: Floats


def read_potential(bag: BagReader, decoder: Decoder) -> Potential | None:
    """Return the simulated station's potential; None where none was recorded."""
    topics = [t.name for t in bag.of_type(_FLOAT) if t.name.endswith(POTENTIAL)]
    rows = [(message.log_ns, float(value.data))
            for message, value in bag.decoded(decoder, topics[:1])] if topics else []
    if not rows:
        return None
    return Potential(np.array([r[0] for r in rows], np.int64), np.array([r[1] for r in rows]))


@dataclass(frozen=True)
class StillView:
    """A picture (H, W, 3) RGB and the flange's pose (6,) in the base at its time."""

    flange: Floats
    picture: Pixels


def still_views(bag: BagReader, image: str) -> Iterator[StillView]:
    """
    Yield pictures of a raw image topic, or of its JPEGs, taken while the arm stood still.

    Two of them are at poses APART_RAD apart. Raises DataError without pictures or arm states.
    """
    codec = codec_of(bag.topics.values())
    topic = next((bag.topics[name] for name in (f'{image}/compressed', image)
                  if name in bag.topics), None)
    tracks = load_tracks(bag, codec)
    if topic is None or not len(tracks.arm.stamps):
        raise DataError(f'{bag.folder} has no pictures on {image} with states of the arm; it has '
                        f"{', '.join(sorted(bag.topics))}")
    last: Floats | None = None
    for picture in pictures(bag, codec, topic):
        row = int(nearest(tracks.arm.stamps, np.array([picture.stamp_ns]))[0])
        if not _still(tracks.arm.stamps, tracks.arm.dq, picture.stamp_ns):
            continue
        q = tracks.arm.q[row]
        if last is None or np.max(np.abs(q - last)) > APART_RAD:
            last = q
            yield StillView(tracks.arm.pose[row], picture.pixels)


def intrinsics(bag: BagReader, topic_name: str) -> tuple[Floats, str]:
    """Return the (3, 3) intrinsics and the frame of a recorded CameraInfo. Raises DataError."""
    topic: Topic | None = bag.topics.get(topic_name)
    if topic is None or topic.type != INFO:
        raise DataError(f'{bag.folder} has no {INFO} on {topic_name}: record it, or calibrate '
                        'with the running station')
    codec = codec_of(bag.topics.values())
    for message in bag.messages([topic_name]):
        value = codec.decode(topic, message.data)
        return np.array(value.k, np.float64).reshape(3, 3), str(value.header.frame_id)
    raise DataError(f'{bag.folder} has no message on {topic_name}')


def _still(stamps: 'np.ndarray[tuple[int, ...], np.dtype[np.int64]]', dq: Floats,
           at_ns: int) -> bool:
    near = np.abs(stamps - at_ns) <= STILL_NS
    return bool(near.any()) and float(np.max(np.abs(dq[near]))) < STILL_RAD_S
