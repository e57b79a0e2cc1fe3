"""
Judges: how far a task has come in every frame of a clip.

A judge declares what it can do. A metric that needs more is refused with the reason and never
computed, see :func:`refusals`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol, runtime_checkable

import numpy as np

from arena_robot.core.observation import Floats, Pixels
from arena_robot.records.clip import Clip

OVERFLOW = 1e-4    # outside [0, 1]: the rounding of a judge's own numbers
SMOOTHING = np.array([0.1, 0.2, 0.4, 0.2, 0.1])    # weights of a value and its neighbours


class JudgeKind(str, Enum):
    """What a judge says: progress of a frame, signed relative progress, or only which is ahead."""

    ABSOLUTE = 'absolute'
    HOP = 'hop'
    PAIRWISE = 'pairwise'


@dataclass(frozen=True)
class Capabilities:
    """
    What a judge can do and needs.

    ``calibrated``: its 0 and 1 are the task's start and end. ``interval_s`` between the frames
    that it takes, ``max_frames`` of one query (0: any); ``views`` that it requires (empty: any
    will do), ``max_views`` that it looks at (0: all). One that is not ``deterministic`` can give
    another answer when it is asked again. ``needs_record``: it reads what was recorded beside the
    pictures, so it can judge no pictures from elsewhere. ``trusted``: which of ``evaluators``,
    ``mc``, ``str`` and ``sqs`` a judge that is not trusted by its name has proven itself for.
    """

    kind: JudgeKind = JudgeKind.ABSOLUTE
    needs_goal: bool = False
    calibrated: bool = True
    deterministic: bool = True
    max_views: int = 0
    views: tuple[str, ...] = ()
    max_frames: int = 0
    interval_s: float = 0.2
    needs_record: bool = False
    trusted: tuple[str, ...] = ()


class TraceStatus(str, Enum):
    """Whether a trace can be used."""

    OK = 'ok'
    INVALID = 'invalid'


@dataclass(frozen=True)
class Trace:
    """
    What a judge said of a clip: ``phi`` (T+1,) in [0, 1] at ``times_s``; empty when invalid.

    ``raw_phi`` is what it said before clipping and smoothing, ``clipped`` how many values were
    clipped, ``model`` its identity, ``raw`` its replies, ``detail`` why it is invalid or not
    calibrated here. ``success`` (T+1,) is the probability that the task is done at each instant,
    ``half_width`` (T+1,) that of an interval around ``phi`` which holds the true progress in 90 %;
    empty where the judge says neither.
    """

    phi: Floats
    times_s: Floats
    model: str
    status: TraceStatus = TraceStatus.OK
    detail: str = ''
    mode: str = ''
    clipped: int = 0
    calibrated: bool = True
    interval_s: float | None = None
    raw_phi: Floats = field(default_factory=lambda: np.zeros(0))
    raw: tuple[str, ...] = ()
    success: Floats = field(default_factory=lambda: np.zeros(0))
    half_width: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def valid(self) -> bool:
        """Whether there are numbers."""
        return self.status is TraceStatus.OK


@dataclass(frozen=True)
class Pair:
    """Two instants of an episode by view, and what is known of the task."""

    instruction: str
    before: Mapping[str, Pixels]
    after: Mapping[str, Pixels]
    start: Mapping[str, Pixels] = field(default_factory=dict)
    goal: Mapping[str, Pixels] = field(default_factory=dict)


class Judge(Protocol):
    """Says how far a task has come; one with an ``identity`` can be cached, see identity_of."""

    name: str
    capabilities: Capabilities

    def progress(self, clip: Clip) -> Trace:
        """Return the trace of a clip; what goes wrong is in its status, never a number."""

    def compare(self, pair: Pair) -> float | None:
        """Return the signed progress from before to after, None when it cannot tell."""


@runtime_checkable
class HasIdentity(Protocol):
    """
    A judge that says what its answers depend on besides its settings and the clip.

    Such as the content of a file. Empty: it cannot tell at present.
    """

    @property
    def identity(self) -> str:
        """A text that changes whenever the answers could."""


def identity_of(judge: Judge) -> str:
    """Return a judge's identity; empty where it has none: then nothing may be kept of it."""
    return judge.identity if isinstance(judge, HasIdentity) else ''


def invalid(clip: Clip, model: str, detail: str, raw: tuple[str, ...] = (),
            mode: str = '') -> Trace:
    """Return the trace of a judge that has no numbers for a clip."""
    return Trace(np.zeros(0), clip.times_s, model, TraceStatus.INVALID, detail, mode,
                 interval_s=clip.interval_s, raw=raw)


def trace_of(clip: Clip, values: Floats, model: str, *, strict: bool = True, mode: str = '',
             calibrated: bool = True, detail: str = '', raw: tuple[str, ...] = ()) -> Trace:
    """
    Return the trace of ``values``, one per frame of the clip.

    Invalid when their number is wrong or one is not finite; when ``strict``, also when one is
    outside [0, 1] by more than 1e-4. What is outside is clipped and counted.
    """
    progress = np.asarray(values, np.float64)
    if progress.shape != (len(clip),):
        return invalid(clip, model, f'{progress.shape} values for {len(clip)} frames', raw, mode)
    over = (progress < 0.0) | (progress > 1.0)
    if not np.isfinite(progress).all():
        return invalid(clip, model, 'a value is not finite', raw, mode)
    if strict and ((progress < -OVERFLOW) | (progress > 1.0 + OVERFLOW)).any():
        return invalid(clip, model, f'values from {progress.min():g} to {progress.max():g} are '
                       'not progress from 0 to 1', raw, mode)
    return Trace(np.clip(progress, 0.0, 1.0), clip.times_s, model, detail=detail, mode=mode,
                 clipped=int(over.sum()), calibrated=calibrated, interval_s=clip.interval_s,
                 raw_phi=progress, raw=raw)


def difference(judge: Judge, pair: Pair) -> float | None:
    """Return Φ(after) - Φ(before) of a judge of whole clips; the start comes first if known."""
    start = pair.start or pair.before
    clip = Clip(pair.instruction, np.arange(3.0), {
        view: [start.get(view, pair.before[view]), pair.before[view], pair.after[view]]
        for view in pair.before}, pair.start, pair.goal)
    trace = judge.progress(clip)
    return float(trace.phi[2] - trace.phi[1]) if trace.valid else None


_LEVELS = ('mp', 'mc', 'ppl', 'fns', 'sqs')


def refusals(capabilities: Capabilities, trace: Trace) -> dict[str, str]:
    """Return the metrics that a judge's trace does not support, with the reasons."""
    if capabilities.kind is JudgeKind.PAIRWISE:
        why = 'the judge only says which of two frames is ahead'
        return dict.fromkeys(('mp', 'mc', 'ppl', 'cra', 'str', 'drr', 'fns', 'sqs'), why)
    if not capabilities.calibrated or not trace.calibrated:
        why = trace.detail or "the judge's 0 and 1 are not the start and the end of the task"
        return dict.fromkeys(_LEVELS, f'not calibrated here: {why}')
    return {}


def smoothed(trace: Trace) -> Trace:
    """Return the trace with its values smoothed, see :func:`smoothed_values`."""
    return replace(trace, phi=smoothed_values(trace.phi))


def smoothed_values(phi: Floats) -> Floats:
    """
    Return a curve with outliers of one frame replaced and neighbours averaged.

    A value farther than 0.35 from the median of its four neighbours becomes that median; then the
    weights are .1 .2 .4 .2 .1, normalised at the ends. It may still fall.
    """
    kept = phi.copy()
    for t in range(len(phi)):
        around = np.delete(phi[max(t - 2, 0):t + 3], min(t, 2))
        if len(around) >= 2 and abs(phi[t] - np.median(around)) > 0.35:
            kept[t] = np.median(around)
    return np.clip(averaged(kept), 0.0, 1.0)


def averaged(phi: Floats) -> Floats:
    """Return the average with the weights .1 .2 .4 .2 .1, normalised at the ends."""
    padded, present = np.pad(phi, 2), np.pad(np.ones(len(phi)), 2)
    return np.asarray(np.convolve(padded, SMOOTHING, 'valid')
                      / np.convolve(present, SMOOTHING, 'valid'))
