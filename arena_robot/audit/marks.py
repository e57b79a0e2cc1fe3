"""Marks of a progress curve: when a quarter was reached first, falls, and long standstill."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_robot.audit.opd import QUARTERS
from arena_robot.records.audit_file import EpisodeAudit

FALL = 0.15
STILL_S = 3.0
STILL = 0.02    # of a judge with a noise of .03 or less over five averaged frames

Span = tuple[float, float]


@dataclass(frozen=True)
class Marks:
    """
    ``milestones`` are (seconds, quarter) at the first time that a quarter was reached.

    ``falls`` and ``still`` are spans (from, to in seconds): more than .15 below the best so far,
    and no change for three seconds or longer.
    """

    milestones: tuple[tuple[float, float], ...] = ()
    falls: tuple[Span, ...] = ()
    still: tuple[Span, ...] = ()


def marks_of(audit: EpisodeAudit) -> Marks:
    """Return the marks of an audit's curve; milestones only where the judge is calibrated."""
    return curve_marks(audit.times_s, audit.phi, audit.epsilon, audit.calibrated)


def curve_marks(times_s: Sequence[float], phi: Sequence[float], epsilon: float = 0.0,
                calibrated: bool = True) -> Marks:
    """Return the marks of a curve; see :class:`Marks`."""
    values, times = np.array(phi, np.float64), np.array(times_s, np.float64)
    if len(values) < 2:
        return Marks()
    below = np.maximum.accumulate(values) - values > FALL
    steps = np.abs(np.diff(values)) < max(epsilon, STILL)
    still = _spans(np.concatenate([steps[:1], steps]), times)
    return Marks(tuple((float(times[np.argmax(values >= q)]), float(q)) for q in QUARTERS
                       if calibrated and (values >= q).any()),
                 _spans(below, times), tuple(s for s in still if s[1] - s[0] >= STILL_S))


def _spans(wanted: Any, times: Any) -> tuple[Span, ...]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(int), [0]])))
    return tuple((float(times[a]), float(times[b - 1])) for a, b in edges.reshape(-1, 2))
