"""The exact inferences of a blind session: kept away from the station until the reveal."""

import base64
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats

# A step's command is sent so long after the step began (0.6 of a period, see
# arena_robot.session.loop.cadence): an answer until then is in time.
IN_TIME_S = 0.6 / CONTROL_RATE_HZ


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


def packed(numbers: Sequence[float]) -> str:
    """Return numbers that float32 can hold as they are kept in an :class:`Inference`."""
    return base64.b64encode(struct.pack(f'<{len(numbers)}f', *numbers)).decode('ascii')


def waited_steps(made: Sequence[Inference], steps: int) -> int:
    """
    Return in how many of a rollout's ``steps`` there was no action, so that the arm held.

    ``made`` are its inferences in order. Between two queries that each follow a whole chunk it is
    exact; else it follows from how long the inference took.
    """
    waited = end = 0    # steps before ``end`` have an action
    for number, one in enumerate(made):
        after = made[number + 1].step if number + 1 < len(made) else steps
        held = max(0, math.ceil((one.took_s - IN_TIME_S) * CONTROL_RATE_HZ))
        if one.step < end:    # asked ahead: what was executed when it comes is dropped
            came, passed = one.step + held, end - one.step
            waited += max(0, min(came, steps) - end)
            end = max(end, one.step + one.count, came + max(1, one.count - passed))
            continue
        if number + 1 < len(made):    # where a whole chunk was executed between two queries
            held = max(held, after - one.step - one.count)
        waited += max(0, min(held, steps - one.step))
        end = one.step + held + one.count
    return min(waited, steps)


def waited_shares(revealed: str, steps: Mapping[str, int]) -> dict[str, float]:
    """
    Return the share of waited steps of each slot whose inferences a reveal has.

    ``revealed`` is what :func:`inferences_to_json` returned, '' without any; ``steps`` of the
    rollouts by slot. Raises DataError.
    """
    made = inferences_of_json(revealed) if revealed else {}
    return {slot: waited_steps(made[slot], count) / count for slot, count in steps.items()
            if count > 0 and made.get(slot)}


def inferences_to_json(slots: Mapping[str, Iterable[Inference]],
                       equal_latency_s: float | None = None) -> str:
    """Return the inferences of each slot as JSON, and how long each of them took at least."""
    least = {} if equal_latency_s is None else {'equal_latency_s': equal_latency_s}
    return json.dumps({'version': 1, **least, 'slots': {
        slot: [list(one.__dict__.values()) for one in made] for slot, made in slots.items()}})


def inferences_of_json(text: str) -> dict[str, tuple[Inference, ...]]:
    """Return what :func:`inferences_to_json` was given. Raises DataError."""
    try:
        return {slot: tuple(Inference(int(step), int(stamp), float(took), int(count), str(data))
                            for step, stamp, took, count, data in made)
                for slot, made in json.loads(text)['slots'].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f'the inferences of a session cannot be read: {error}') from error
