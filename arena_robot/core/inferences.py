"""The exact inferences of a blind session: kept away from the station until the reveal."""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats


@dataclass(frozen=True)
class Inference:
    """
    One answer of a policy to the observation of ``step``, which arrived at ``stamp_ns``.

    ``took_s`` is how long it took; ``count`` actions, one after the other, are in ``packed``:
    float32, little endian, base64. Steps during which the arm waited have no inference.
    """

    step: int
    stamp_ns: int
    took_s: float
    count: int
    packed: str = ''

    def actions(self) -> Floats:
        """Return the actions, (count, size); (count, 0) when only their number is known."""
        numbers = np.frombuffer(base64.b64decode(self.packed), '<f4')
        return numbers.reshape(self.count, -1).astype(np.float64)


def packed(actions: Any) -> str:
    """Return numbers as they are kept in an :class:`Inference`."""
    return base64.b64encode(np.asarray(actions, '<f4').tobytes()).decode('ascii')


def inferences_to_json(slots: Mapping[str, Iterable[Inference]]) -> str:
    """Return the inferences of each slot as JSON."""
    return json.dumps({'version': 1, 'slots': {
        slot: [list(one.__dict__.values()) for one in made] for slot, made in slots.items()}})


def inferences_of_json(text: str) -> dict[str, tuple[Inference, ...]]:
    """Return what :func:`inferences_to_json` was given. Raises DataError."""
    try:
        return {slot: tuple(Inference(int(step), int(stamp), float(took), int(count), str(data))
                            for step, stamp, took, count, data in made)
                for slot, made in json.loads(text)['slots'].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f'the inferences of a session cannot be read: {error}') from error
