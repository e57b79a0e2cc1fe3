"""
Training of the local judge on a lab's own labels.

Each scene is left out once: networks that saw nothing of it say how far its episodes got. These
numbers decide whether the model may be called calibrated. The model itself has learned from all
scenes; its scale and its intervals are those of the scenes left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import arena_robot
from arena_robot.audit.bench import JudgedEnd, end_scores
from arena_robot.audit.local.features import Features
from arena_robot.audit.local.model import (
    BACKDROP_MARGIN,
    MARGIN,
    VERSION,
    Head,
    LocalModel,
    Network,
    Scale,
    TrainingCard,
    backdrop_of,
    picture_test,
)
from arena_robot.audit.local.train import (
    MOVED,
    NETWORKS,
    STEPS,
    Learned,
    descend,
    fitted_scale,
    pooled_head,
    quality,
)
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats
from arena_robot.core.parallel import Progress, nothing

Said = Sequence[tuple[Floats, Floats]]    # Φ and the half width of its interval, by episode
EPOCHS = 3         # with ten episodes the least number of steps decides
BEGUN_STEPS = 120  # of a network that goes on from another; three times as many judge no better


@dataclass(frozen=True)
class LeftOut:
    """
    What networks that saw nothing of an episode's scene said of its frames, before any scale.

    ``away`` says how far its pictures are from those of the other scenes: the median of the
    picture test, and the start picture of each view.
    """

    clip: Learned
    values: Floats
    away: tuple[float, ...]


def train_labelled(clips: Sequence[Learned], views: Sequence[str], seed: int = 0,
                   begin: Network | None = None, interval_s: float = 0.2, whole: bool = False,
                   progress: Progress = nothing) -> LocalModel:
    """
    Return the model of labelled episodes; ``seed`` of a clip is the number of its scene.

    ``begin`` is a network of other tasks to go on from. ``whole`` pictures were looked at.
    DataError when a task has one episode.
    """
    tasks = tuple(dict.fromkeys(clip.task for clip in clips))
    lonely = [task for task in tasks if sum(clip.task == task for clip in clips) < 2]
    if not tasks or lonely:
        raise DataError('every task needs two labelled episodes or more, better twenty; too few: '
                        f'{", ".join(lonely) or "no episodes at all"}')
    seen = leave_scenes_out(clips, views, seed, begin, progress)
    card = TrainingCard(VERSION, tasks, len(clips), sum(len(c.phi) for c in clips), seed, EPOCHS,
                        interval_s, arena_robot.__version__, '', left_out=left_out_numbers(seen),
                        whole=whole)
    model = _fitted(clips, views, seed, NETWORKS, begin, progress)
    limit, *gaps = _limits(seen, len(views))
    return replace(
        model, card=card, others=pooled_head(clips)[0],
        scale=fitted_scale([row.clip for row in seen], [row.values for row in seen]),
        test=replace(model.test, limit=max(model.test.limit, limit)),
        backdrops={view: replace(drop, limit=max(drop.limit, gap))
                   for (view, drop), gap in zip(model.backdrops.items(), gaps, strict=True)})


def leave_scenes_out(clips: Sequence[Learned], views: Sequence[str], seed: int = 0,
                     begin: Network | None = None, progress: Progress = nothing) -> list[LeftOut]:
    """Return what was said of the episodes whose task was also done in another scene."""
    seen, scenes = [], sorted({clip.seed for clip in clips})
    for number, scene in enumerate(scenes):
        rest = [clip for clip in clips if clip.seed != scene]
        apart = [clip for clip in clips if clip.seed == scene
                 and clip.task in {other.task for other in rest}]
        if apart and len(rest) > 1:
            model = _fitted(rest, views, seed, 1, begin, nothing)
            seen += [LeftOut(clip, model.known(clip.features, clip.task, clip.times_s)[:, 0], (
                float(np.median(model.test.distances(clip.features.pooled()))),
                *(drop.distance(clip.start[view]) for view, drop in model.backdrops.items())))
                for clip in apart]
        progress(number + 1, len(scenes), 'scenes left out')
    return seen


def left_out_numbers(seen: Sequence[LeftOut]) -> dict[str, float]:
    """
    Return what networks reached on scenes that they did not see.

    ``episodes``, ``scenes``, ``successes``, ``failures``, ``frames``, ``falls_count`` and
    ``rises_count`` are counts. ``success_end`` and ``failure_end`` are means of the last Φ;
    ``auc`` with ``auc_low`` and ``auc_high``: how often a success ends above another episode, 95 %
    over episodes. ``error`` is that of Φ, ``clock_error`` that of elapsed time; ``falls`` and
    ``rises`` are shares of right signs within 0.8 s. ``coverage`` is the share of frames whose
    truth the interval of 90 % held. ``familiar`` is the share of episodes whose pictures passed.
    The scale, the intervals and the limits of pictures of a scene come from the other scenes.
    """
    numbers: dict[str, float] = {
        'episodes': len(seen), 'scenes': len({row.clip.seed for row in seen}),
        'successes': sum(row.clip.success is True for row in seen),
        'failures': sum(row.clip.success is False for row in seen),
        'frames': sum(len(row.clip.phi) for row in seen)}
    said = [_scaled(row, seen) for row in seen]
    return {**numbers, **_ends(seen, said), **_instants(seen, said)} if seen else numbers


def _ends(seen: Sequence[LeftOut], said: Said) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for name, done in (('success', True), ('failure', False)):
        ends = [float(phi[-1]) for row, (phi, _) in zip(seen, said, strict=True)
                if row.clip.success is done]
        numbers |= {f'{name}_end': float(np.mean(ends))} if ends else {}
    scored = end_scores([JudgedEnd(row.clip.task, int(row.clip.success is True), phi)
                         for row, (phi, _) in zip(seen, said, strict=True)])[0]
    if 'success_end' in numbers and scored.count:
        numbers |= {'auc': scored.accuracy, 'auc_low': scored.low, 'auc_high': scored.high}
    familiar = [all(away <= limit for away, limit in zip(row.away, _limits(
        _others(row, seen), len(row.away) - 1), strict=True)) for row in seen]
    return {**numbers, 'familiar': float(np.mean(familiar))}


def _instants(seen: Sequence[LeftOut], said: Said) -> dict[str, float]:
    true = [row.clip.phi for row in seen]
    kept = [slice(None, None, row.clip.step) for row in seen]
    hops = np.concatenate([y[k][STEPS:] - y[k][:-STEPS] for y, k in zip(true, kept, strict=True)])
    signs = quality([y[k] for y, k in zip(true, kept, strict=True)], [
        phi[k] for (phi, _), k in zip(said, kept, strict=True)], [None] * len(seen), False)
    inside = [np.abs(y - phi) <= half for y, (phi, half) in zip(true, said, strict=True)]
    return {'falls': signs['falls'], 'falls_count': int((hops < -MOVED).sum()),
            'rises': signs['rises'], 'rises_count': int((hops > MOVED).sum()),
            'error': _mean_error(true, [phi for phi, _ in said]),
            'clock_error': _mean_error(true, [np.linspace(0.0, 1.0, len(y)) for y in true]),
            'coverage': float(np.concatenate(inside).mean())}


def _scaled(row: LeftOut, seen: Sequence[LeftOut]) -> tuple[Floats, Floats]:
    """Return Φ and the half width of its interval by the scale of the other scenes."""
    others = _others(row, seen)
    scale = fitted_scale([other.clip for other in others], [other.values for other in others])
    phi = np.clip(scale.phi(row.values), 0.0, 1.0)
    return phi, scale.half_width(phi)


def _others(row: LeftOut, seen: Sequence[LeftOut]) -> list[LeftOut]:
    """Return the rows of the other scenes."""
    return [other for other in seen if other.clip.seed != row.clip.seed]


def _limits(seen: Sequence[LeftOut], views: int) -> list[float]:
    """Return how far pictures may be away: a little farther than any scene that was left out."""
    margins = (MARGIN, *(BACKDROP_MARGIN,) * views)
    return [margin * max((row.away[k] for row in seen), default=0.0)
            for k, margin in enumerate(margins)]


def _mean_error(true: Sequence[Floats], said: Sequence[Floats]) -> float:
    return float(np.mean([np.abs(y - phi).mean() for y, phi in zip(true, said, strict=True)]))


def _fitted(clips: Sequence[Learned], views: Sequence[str], seed: int, networks: int,
            begin: Network | None, progress: Progress) -> LocalModel:
    """Return a model of the clips with no card, no scale, and no head for other tasks."""
    tasks, rng = tuple(dict.fromkeys(clip.task for clip in clips)), np.random.default_rng(seed)
    start = _begun(begin, len(tasks)) if begin is not None else None
    found = tuple(descend(clips, tasks, rng, EPOCHS, progress, start, BEGUN_STEPS if start else 0)
                  for _ in range(networks))
    return LocalModel(
        TrainingCard(VERSION, tasks, 0, 0, seed, EPOCHS, 0.0, '', ''), tuple(views), found,
        Head(np.zeros(0, np.float32), 0.0), Scale(), {
            task: tuple(sorted({c.instruction for c in clips if c.task == task}))
            for task in tasks},
        picture_test([clip.features for clip in clips], rng), {
            view: backdrop_of([c.start[view] for c in clips]) for view in views})


def _begun(network: Network, tasks: int) -> dict[str, Features]:
    """Return the weights of a network for other tasks, each of which begins as their mean."""
    own = ('task', 'mix_task', 'out', 'bias')
    return {name: np.repeat(block.mean(axis=0, keepdims=True), tasks, axis=0) if name in own
            else block.copy() for name, block in network.weights.items()}
