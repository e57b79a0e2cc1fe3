"""An episode's pictures at even times, from its bag: what judges look at."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arena_robot.core.clip import Clip
from arena_robot.core.errors import DataError
from arena_robot.core.observation import ROLES, Floats, Pixels, view
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.frames import pixels_of
from arena_robot.recording.episode.potential import read_potential
from arena_robot.recording.episode.tracks import EpisodeTracks, Stamps, load_tracks, nearest

_AFTER_NS = 500_000_000


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
        found = [role for role in views if view(role) in tracks.views
                 and len(tracks.views[view(role)].stamps)]
        if not found or not len(tracks.steps.stamps):
            raise DataError(f'{folder} has no pictures of {", ".join(views)}, or no step; a judge '
                            'has nothing to look at')
        log = {role: tracks.views[view(role)].log for role in found}
        grid = _grid(tracks, max(s[0] for s in log.values()), min(s[-1] for s in log.values()),
                     interval_s, max_frames)
        frames = {role: _frames(bag, codec, tracks.views[view(role)].topic,
                                nearest(log[role], grid)) for role in found}
        potential = _potential(bag, codec, grid)
    session = str(tracks.info.get('session_id', '')) or folder.parent.name
    slot = str(tracks.info.get('slot', '')) or folder.name
    return Clip(str(tracks.info.get('prompt', '')), (grid - grid[0]) * 1e-9, frames,
                name=f'{session}/{slot}', potential=potential)


def _grid(tracks: EpisodeTracks, first_ns: int, last_ns: int, interval_s: float,
          max_frames: int) -> Stamps:
    """Return the instants, from the first step to half a second after the last."""
    stamps = tracks.steps.stamps
    begin = max(int(first_ns), int(stamps[0]))
    end = max(begin, min(int(last_ns), int(stamps[-1]) + _AFTER_NS))
    count = int((end - begin) * 1e-9 / interval_s + 1e-6) + 1
    if max_frames and count > max_frames:
        return np.linspace(begin, end, max_frames).astype(np.int64)
    return begin + np.round(np.arange(count) * interval_s * 1e9).astype(np.int64)


def _frames(bag: BagReader, decoder: Decoder, topic: Topic, rows: Stamps) -> list[Pixels]:
    """Return the pictures of some rows of a topic, each decoded once."""
    wanted, decoded = set(rows.tolist()), {}
    for row, message in enumerate(bag.messages([topic.name])):
        if row in wanted:
            decoded[row] = pixels_of(topic, decoder.decode(topic, message.data))
    return [decoded[row] for row in rows.tolist()]


def _potential(bag: BagReader, decoder: Decoder, grid: Stamps) -> Floats | None:
    found = read_potential(bag, decoder)
    if found is None:
        return None
    return np.asarray(np.interp(grid.astype(np.float64), found.stamps.astype(np.float64),
                                found.values), np.float64)
