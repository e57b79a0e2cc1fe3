"""Pictures of a recording in which the arm stands still, each in another pose."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.core.observation import STILL_RAD_S, Floats, Pixels
from arena_robot.recording.bag.base import Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.frames import pictures
from arena_robot.recording.episode.tracks import load_tracks, nearest

INFO = 'sensor_msgs/msg/CameraInfo'
STILL_NS, APART_RAD = 100_000_000, 0.05


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
    for one in pictures(bag, codec, topic):
        row = int(nearest(tracks.arm.stamps, np.array([one.stamp_ns]))[0])
        if not _still(tracks.arm.stamps, tracks.arm.dq, one.stamp_ns):
            continue
        q = tracks.arm.q[row]
        if last is None or np.max(np.abs(q - last)) > APART_RAD:
            last = q
            yield StillView(tracks.arm.pose[row], one.pixels)


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
