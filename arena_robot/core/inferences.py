"""The answers of a policy in one rollout, as the relay keeps them, and how long the arm waited."""

import base64
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.observation import Floats


class Proof(NamedTuple):
    """
    What is kept of an answer, and of the observation that it was given to, to compare with later.

    ``packed`` has actions of ``columns`` numbers, one after the other: float32, little endian,
    base64. ``blend_steps`` of the next chunk are mixed with what is left of this one.
    ``observation_sha256`` is of the serialized observation; ``pictures`` are thumbnails of its
    pictures by view, base64, kept of some observations alone.
    """

    packed: str = ''
    columns: int = 0
    blend_steps: int = 0
    observation_sha256: str = ''
    pictures: Mapping[str, str] = MappingProxyType({})

    def actions(self) -> Floats:
        """Return the actions, (N, columns); (0, 0) when none are kept."""
        numbers = np.frombuffer(base64.b64decode(self.packed), '<f4').astype(np.float64)
        return numbers.reshape(-1, self.columns) if self.columns else np.zeros((0, 0))


NOTHING_KEPT = Proof()


@dataclass(frozen=True)
class Inference:
    """
    One answer of a policy to the observation of ``step``, which arrived at ``stamp_ns``.

    ``took_s`` is how long it took; ``count`` of its actions may be executed.
    """

    step: int
    stamp_ns: int
    took_s: float
    count: int
    proof: Proof = NOTHING_KEPT

    @classmethod
    def of(cls, row: Sequence[Any]) -> 'Inference':
        """Return the inference of :meth:`row`."""
        step, stamp_ns, took_s, count, *proof = row
        return cls(step, stamp_ns, took_s, count, Proof(*proof))

    def row(self) -> list[Any]:
        """Return its values as JSON takes them."""
        return [self.step, self.stamp_ns, self.took_s, self.count, *self.proof[:-1],
                dict(self.proof.pictures)]


def packed(numbers: Sequence[float]) -> str:
    """Return numbers that float32 can hold as they are kept in an :class:`Inference`."""
    return base64.b64encode(struct.pack(f'<{len(numbers)}f', *numbers)).decode('ascii')


def waits_s(made: Iterable[Inference]) -> list[float]:
    """
    Return how long the arm waited for each answer, in order.

    An answer that was asked ahead is waited for only when it takes longer than what was left of
    the chunk before.
    """
    waits, end = [], 0    # steps before ``end`` have an action
    for inference in made:
        ahead_s = max(0, end - inference.step) / CONTROL_RATE_HZ
        waits.append(max(0.0, inference.took_s - ahead_s))
        end = max(end, inference.step + inference.count)
    return waits


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
