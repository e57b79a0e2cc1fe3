"""The answers of a policy in one rollout, as the relay keeps them, and how long the arm waited."""

import base64
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.observation import Floats


@dataclass(frozen=True)
class Inference:
    """
    One answer of a policy to the observation of ``step``, which arrived at ``stamp_ns``.

    ``took_s`` is how long it took; ``count`` actions, one after the other, are in ``packed``:
    float32, little endian, base64.
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


def waits_s(made: Iterable[Inference]) -> list[float]:
    """
    Return how long the arm waited for each answer, in order.

    An answer that was asked ahead is waited for only when it takes longer than what was left of
    the chunk before.
    """
    found, end = [], 0    # steps before ``end`` have an action
    for one in made:
        ahead_s = max(0, end - one.step) / CONTROL_RATE_HZ
        found.append(max(0.0, one.took_s - ahead_s))
        end = max(end, one.step + one.count)
    return found


def waited_share(waits: Sequence[float], steps: int,
                 rate_hz: float = CONTROL_RATE_HZ) -> float:
    """
    Return the share of a rollout's time in which the arm waited for its policy.

    A step lasts a period of the control loop, or as long as its wait ``waits`` (s) when that is
    longer.
    """
    period_s, waited_s = 1.0 / rate_hz, sum(waits)
    whole_s = steps * period_s + sum(max(0.0, wait - period_s) for wait in waits)
    return min(1.0, waited_s / whole_s) if whole_s > 0.0 else 0.0
