"""What a simulator told of the progress while an episode was recorded."""

from typing import NamedTuple

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.recording.bag.base import Decoder
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.tracks import Stamps

POTENTIAL = '/potential'
_FLOAT = 'std_msgs/msg/Float64'


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
