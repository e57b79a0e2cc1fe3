"""Audit of a clip, or of a rollout while it goes on: trace, metrics, a cache of traces."""

import hashlib
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from arena_robot.audit.base import (
    SMOOTHING,
    Judge,
    Trace,
    TraceStatus,
    averaged,
    refusals,
    smoothed,
)
from arena_robot.audit.opd import (
    DELTA,
    EPSILON,
    EXTRA_METRICS,
    METRICS,
    MILESTONES,
    convention,
    measure,
    number,
)
from arena_robot.core.files import write_json
from arena_robot.core.observation import Pixels
from arena_robot.records.audit_file import EpisodeAudit, withheld
from arena_robot.records.clip import Clip

CACHE_VERSION = 2


@dataclass(frozen=True)
class AuditSettings:
    """
    How the metrics are counted; ``epsilon`` None is 0.005; ``milestones`` is K of MC.

    ``curve`` is ``raw``, what the judge said, or ``v1.5``, smoothed as the authors' second tool.
    """

    convention: str = 'paper'
    epsilon: float | None = None
    delta: float = DELTA
    milestones: int = MILESTONES
    curve: str = 'raw'


@dataclass(frozen=True)
class TraceCache:
    """
    Traces by the content of what was judged: frames, times, instruction, references, judge.

    ``identity`` names the judge with everything that its answers depend on; when it is empty,
    nothing is kept. Invalid traces are not kept: they are tried again.
    """

    folder: Path
    identity: str
    hits: list[str] = field(default_factory=list, compare=False)

    def progress(self, judge: Judge, clip: Clip) -> Trace:
        """Return the trace from the cache, or ask the judge and keep what it says."""
        if not self.identity:
            return judge.progress(clip)
        path = self.folder / f'{_key(self.identity, clip)}.json'
        if (progress := _read(path, clip)) is not None:
            self.hits.append(clip.name)
            return progress
        trace = judge.progress(clip)
        if trace.valid:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, {
                'version': CACHE_VERSION, 'phi': trace.phi.tolist(), 'model': trace.model,
                'detail': trace.detail, 'mode': trace.mode, 'clipped': trace.clipped,
                'calibrated': trace.calibrated, 'raw_phi': trace.raw_phi.tolist(),
                'raw': list(trace.raw), 'success': trace.success.tolist(),
                'half_width': trace.half_width.tolist()})
        return trace


def audit_clip(judge: Judge, clip: Clip, settings: AuditSettings | None = None,
               success: bool | None = None, cache: TraceCache | None = None) -> EpisodeAudit:
    """Return the audit of a clip; a trace that is invalid has no metrics."""
    settings = settings or AuditSettings()
    trace = cache.progress(judge, clip) if cache else judge.progress(clip)
    return audit_trace(judge, clip, trace, settings, success)


def failed_audit(name: str, judge: str, why: str, settings: AuditSettings | None = None,
                 success: bool | None = None) -> EpisodeAudit:
    """Return the audit of an episode that no judge could look at, and why."""
    s = settings or AuditSettings()
    return EpisodeAudit(name, judge, '', TraceStatus.INVALID.value, s.convention,
                        EPSILON if s.epsilon is None else s.epsilon, s.delta, detail=why,
                        success=success)


def audit_trace(judge: Judge, clip: Clip, trace: Trace, settings: AuditSettings,
                success: bool | None = None) -> EpisodeAudit:
    """Return the audit of a trace that a judge gave of a clip."""
    epsilon = EPSILON if settings.epsilon is None else settings.epsilon
    rule = convention(settings.convention)
    metrics: dict[str, float | None] = {}
    refused = refusals(judge.capabilities, trace) if trace.valid else {}
    if trace.valid and settings.curve != 'raw':
        trace = replace(smoothed(trace), mode=', '.join(
            filter(None, (trace.mode, f'curve {settings.curve}'))))
    if trace.valid:
        table = measure([trace.phi], rule, epsilon, settings.delta, [success], [clip.name],
                        settings.milestones)
        wanted = (*METRICS, *(EXTRA_METRICS if rule.peak_based else ()))
        metrics = {m: None if m in refused else number(table.values(m)[0]) for m in wanted}
        refused = {m: why for m, why in refused.items() if m in wanted}
    return withheld(EpisodeAudit(
        clip.name, judge.name, trace.model, trace.status.value, rule.name, epsilon,
        settings.delta, clip.instruction, trace.detail, trace.mode,
        trace.calibrated and judge.capabilities.calibrated,
        clip.interval_s, tuple(clip.frames), trace.clipped, success,
        tuple(np.round(clip.times_s, 6).tolist()), tuple(trace.phi.tolist()), metrics, refused,
        trace.raw, judge.capabilities.trusted, tuple(trace.success.tolist()),
        tuple(trace.half_width.tolist())))


def _key(identity: str, clip: Clip) -> str:
    made = hashlib.sha256(json.dumps([
        CACHE_VERSION, identity, clip.instruction, clip.name,
        np.round(clip.times_s, 6).tolist()]).encode())
    references = {f'{word} {view}': [picture] for word, pictures in (
        ('start', clip.start), ('goal', clip.goal)) for view, picture in pictures.items()}
    for view, sequence in [*clip.frames.items(), *references.items()]:
        made.update(view.encode())
        for picture in sequence:
            made.update(str(picture.shape).encode())
            made.update(picture.tobytes())
    if clip.potential is not None:
        made.update(clip.potential.tobytes())
    return made.hexdigest()


def _read(path: Path, clip: Clip) -> Trace | None:
    """Return a cached trace; None when there is none, or it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        phi = np.array(data['phi'], np.float64)
        if data['version'] != CACHE_VERSION or phi.shape != (len(clip),):
            return None
        return Trace(phi, clip.times_s, str(data['model']), TraceStatus.OK, str(data['detail']),
                     str(data['mode']), int(data['clipped']), bool(data['calibrated']),
                     clip.interval_s, np.array(data['raw_phi'], np.float64), tuple(data['raw']),
                     np.array(data['success'], np.float64),
                     np.array(data['half_width'], np.float64))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class ProgressFollower:
    """
    Asks a judge for the progress at the newest of the frames that it was given.

    It sees the start pictures and the newest ones alone, so a value costs the same at the end of a
    long rollout as at its begin. Values are averaged with the four before them; those of a whole
    episode with the next two as well.
    """

    def __init__(self, judge: Judge, instruction: str) -> None:
        self._judge = judge
        self._instruction = instruction
        self._start: Mapping[str, Pixels] = {}
        self._newest_s = float('-inf')
        self._values: deque[float] = deque(maxlen=len(SMOOTHING))
        self.problem = ''

    def add(self, time_s: float, frames: Mapping[str, Pixels]) -> float | None:
        """Return the progress at ``time_s``; None with the reason in ``problem``."""
        self._start = self._start or dict(frames)
        if time_s <= self._newest_s:
            return None
        self._newest_s = time_s
        trace = self._judge.progress(Clip(
            self._instruction, np.array([time_s], np.float64),
            {view: [frames[view]] for view in self._start}, self._start))
        self.problem = '' if trace.valid else trace.detail
        if not trace.valid:
            return None
        self._values.append(float(trace.phi[-1]))
        return float(averaged(np.array(self._values))[-1])
