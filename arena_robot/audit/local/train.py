"""
Training of the local judge on clips with known progress.

The network learns by gradient descent (Adam) from single frames: cross-entropy of Φ and of
success. Every fifth scene of a task is left out of it; on these scenes the quality is measured,
Φ is scaled so that as many episodes reach 1 as are done, and the uncertainty of Φ is calibrated.
Everything is decided by the clips and the seed.

The head for instructions that no known task matches is one potential for all tasks. It learns from
hops, not from levels: pairs of frames 0.8 s apart, falls weighted like rises and every task like
the others. It finds what looks like progress in all tasks, such as a thing that is taken, carried
or let go. Its level means nothing, so it stays uncalibrated. The ridge and the scale of its hops
are chosen on tasks that are left out one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import arena_robot
from arena_robot.audit.base import averaged
from arena_robot.audit.local.features import (
    COARSE,
    COLOUR_SLOTS,
    COLUMNS,
    FINE,
    ROWS,
    Features,
    backdrop,
    colour_maps,
    counterfactual,
    table,
)
from arena_robot.audit.local.model import (
    EDGES,
    HIDDEN,
    LATCHED,
    MEAN_WEIGHT,
    MIXED,
    SCALES,
    STILL_S,
    VERSION,
    Block,
    FrameFeatures,
    Head,
    LocalModel,
    Network,
    Pass,
    Scale,
    TrainingCard,
    backdrop_of,
    forward,
    frame_features,
    picture_test,
    places,
    sigmoid,
)
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats
from arena_robot.core.parallel import Progress, nothing
from arena_robot.records.clip import Clip, ClipSource, LabelledClip, read_clip

NETWORKS, EPOCHS = 2, 10    # two err less than one; ten passes take two minutes each
LEAST_BATCHES = 400       # so that few clips are seen often enough
CLIPS, FRAMES = 10, 8   # of a step of the descent
RATE, DECAY, DROPPED = 2e-3, 3e-3, 0.15
SUCCESS_WEIGHT = 0.5
COVERED = 0.9           # of held-out frames, by the interval around Φ
TOP_AT_LEAST = 0.6      # a scale that says 1 below this is none
HELD_OUT = 5            # every fifth scene
AFTER_S = 0.4           # a button that was pressed is seen pressed so long
# Another instruction is not followed while this one is: its Φ is at most this. Clips are taken so
# in a share of the steps, but for a kind in which the other thing may be done first.
COUNTER_PHI, COUNTER_SHARE, FAITHLESS = 0.1, 0.15, 'wrong'
STILLS = 'posed'        # the kind of clips whose frames have no order
SHOWN = ('falls', 'rises')    # of tasks that were left out
VIEWS = ('left', 'right')
EVERY = 2       # of the frames, neighbours are alike
STEPS = 2       # of those frames between the two of a fall or rise
MOVED = 0.05    # a hop whose sign counts in the quality
LARGEST = 0.3       # jumps count as this
MOVED_S = 0.3       # Φ of keeping still is 0 at the start as well
STILL = 0.02        # smaller hops are neither a fall nor a rise
MOST = 10.0         # weight of a fall against that of a rise
POOLED_BASIS, BASIS_FRAMES = 200, 1000
RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Learned:
    """
    One clip's features and labels; ``stride`` is from frame to frame, 0 of stills.

    ``counter`` are the colour maps, now and at the start, of an instruction for something else.
    """

    task: str
    instruction: str
    success: bool | None
    phi: Floats
    features: FrameFeatures
    start: Mapping[str, Features]
    times_s: Floats
    seed: int = 0
    kind: str = ''
    counter: tuple[Block, Features] | None = None
    stride: int = EVERY

    @property
    def step(self) -> int:
        """The step from frame to frame of every second one; its order is that of time."""
        return EVERY // self.stride


def load(files: Sequence[Path], views: Sequence[str] = VIEWS, progress: Progress = nothing
         ) -> list[Learned]:
    """Return the features of clips; DataError when one lacks a view."""
    clips = []
    for number, path in enumerate(files, 1):
        clip = read_clip(path)
        clips.append(learned(clip, views))
        progress(number, len(files), clip.source.name)
    return clips


def learned(clip: LabelledClip, views: Sequence[str] = VIEWS) -> Learned:
    """Return the features of a clip, halved in size; DataError when it lacks a view."""
    for view in views:
        if view not in clip.pictures:
            raise DataError(f'the clip {clip.source.name} has no view {view}')
    return learned_from(clip.clip(views), clip.phi, clip.source, views)


def learned_from(seen: Clip, phi: Floats, source: ClipSource, views: Sequence[str] = VIEWS,
                 whole: bool = False) -> Learned:
    """Return the features of pictures, or of whole ones, whose progress is ``phi``."""
    task = source.task or source.instruction
    stride = 0 if source.kind == STILLS else 1 if task in LATCHED else EVERY
    first = {view: frames[0] for view, frames in seen.frames.items()}
    rows = list(range((len(seen) - 1) % max(stride, 1), len(seen), max(stride, 1)))
    features = frame_features(seen.part(rows).frames, seen.instruction, views, first, whole)
    coarse, fine, colour = (np.asarray(block, np.float16) for block in features.blocks())
    counter = None
    if source.kind != FAITHLESS and (other := counterfactual(
            source.instruction, table(first[views[0]], '' if whole else views[0]))):
        maps = [np.stack([colour_maps([table(p, '' if whole else view)
                                       for p in pictures[view]], other)
                          for view in views], axis=1)
                for pictures in (seen.part(rows).frames, seen.part([0]).frames)]
        counter = np.asarray(maps[0], np.float16), maps[1]
    return Learned(task, source.instruction, source.success, phi[rows],
                   FrameFeatures(coarse, fine, colour, features.start),
                   {view: backdrop(picture) for view, picture in first.items()},
                   seen.times_s[rows], source.seed, source.kind, counter, stride)


def shown(task: str, phi: Floats, times_s: Floats) -> Floats:
    """
    Return (n, 2): the Φ and the success that single frames show, NaN where they show neither.

    A pressed button is seen only while it is pressed; of a task that is to keep still, a frame
    shows whether the arm is where it was.
    """
    wanted = np.stack([phi, phi >= 1.0], axis=1).astype(np.float64)
    if task in STILL_S:
        wanted[:] = ((phi > 0.0) | (times_s <= times_s[0] + MOVED_S))[:, None]
    if task in LATCHED and wanted[:, 1].any():
        pressed = times_s[int(wanted[:, 1].argmax())]
        wanted[times_s > pressed + AFTER_S] = np.nan
    return wanted


def pooled_head(clips: Sequence[Learned], ridges: Sequence[float] = RIDGES
                ) -> tuple[Head, Mapping[str, float]]:
    """Return the head, and how good it was on tasks that were left out; empty for one task."""
    clips = [clip for clip in clips if clip.stride]
    basis = _basis(clips)
    seen = [_Seen(clip, clip.features.hops()[::clip.step] @ basis.T, clip.phi[::clip.step])
            for clip in clips]
    tasks = {task: _sums([clip for clip in seen if clip.clip.task == task])
             for task in sorted({clip.task for clip in clips})}
    tried = [_trial(seen, tasks, ridge) for ridge in ridges] if len(tasks) > 1 else []
    best = max(tried, key=lambda trial: trial.score, default=_Trial(ridges[0], 1.0, {}))
    direction = best.slope * _solved(list(tasks.values()), best.ridge)
    level = float(np.mean(np.concatenate([clip.values(direction) for clip in seen])))
    middle = float(np.mean(np.concatenate([clip.phi for clip in seen])))
    return Head(np.asarray(direction @ basis, np.float32), middle - level), best.quality


@dataclass(frozen=True)
class _Seen:
    """A clip, some of its frames' features (n, k) on the basis, and their progress (n,)."""

    clip: Learned
    features: Features
    phi: Floats

    def values(self, direction: Floats) -> Floats:
        return np.asarray(self.features @ direction, np.float64)


@dataclass(frozen=True)
class _Sums:
    """Of a task: A and b of the normal equations A g = b."""

    a: Floats
    b: Floats


@dataclass(frozen=True)
class _Trial:
    """A ridge, the scale that its hops need, and its quality on tasks that were left out."""

    ridge: float
    slope: float
    quality: Mapping[str, float]

    @property
    def score(self) -> float:
        return self.quality['falls'] + self.quality['rises']


def _basis(clips: Sequence[Learned]) -> Features:
    """Return (k, D): the directions in which the frames differ most, orthonormal."""
    count = sum(len(clip.phi) for clip in clips)
    every = max(count // BASIS_FRAMES, 1)
    frames = np.concatenate([clip.features.part(every).hops() for clip in clips])
    values, vectors = np.linalg.eigh((frames @ frames.T).astype(np.float64))
    keep = values.argsort()[::-1][:min(POOLED_BASIS, len(frames))]
    keep = keep[values[keep] > 1e-6 * values.max()]
    return np.asarray((vectors[:, keep] / np.sqrt(values[keep])).T.astype(np.float32) @ frames)


def _sums(seen: Sequence[_Seen]) -> _Sums:
    dz = np.concatenate([clip.features[STEPS:] - clip.features[:-STEPS] for clip in seen])
    d = np.concatenate([_hops(clip.phi) for clip in seen])
    falls, rises = d < -STILL, d > STILL
    weight = np.ones(len(d))
    weight[falls] = min(float(rises.sum()) / max(float(falls.sum()), 1.0), MOST)
    weight /= max(float(weight.sum()), 1.0)
    weighted = dz.astype(np.float64) * weight[:, None]
    return _Sums(weighted.T @ dz, weighted.T @ np.clip(d, -LARGEST, LARGEST))


def _hops(values: Floats) -> Floats:
    return values[STEPS:] - values[:-STEPS]


def _solved(tasks: Sequence[_Sums], ridge: float) -> Floats:
    a = np.sum([sums.a for sums in tasks], axis=0)
    a[np.diag_indices(len(a))] += ridge * np.trace(a) / len(a) + 1e-12
    return np.asarray(np.linalg.solve(a, np.sum([sums.b for sums in tasks], axis=0)))


def _trial(seen: Sequence[_Seen], tasks: Mapping[str, _Sums], ridge: float) -> _Trial:
    """Return what a ridge does on every task by the hops of the others."""
    directions = {task: _solved([s for name, s in tasks.items() if name != task], ridge)
                  for task in tasks}
    values = [clip.values(directions[clip.clip.task]) for clip in seen]
    predicted = np.concatenate([_hops(v) for v in values])
    true = np.concatenate([_hops(clip.phi) for clip in seen])
    slope = max(float(predicted @ true) / max(float(predicted @ predicted), 1e-12), 1e-6)
    # Around the middle nothing is clipped that the judge would not clip either.
    scaled = [0.5 + slope * (v - v.mean()) for v in values]
    return _Trial(ridge, slope, quality([clip.phi for clip in seen], scaled, [None] * len(seen)))


def quality(true: Sequence[Floats], seen: Sequence[Floats], success: Sequence[bool | None],
            smoothing: bool = True) -> Mapping[str, float]:
    """Return error, sign accuracies and AUC of smoothed values against the known ones."""
    smooth = [np.clip(averaged(p), 0.0, 1.0) for p in seen] if smoothing else seen
    falls: list[bool] = []
    rises: list[bool] = []
    for y, p in zip(true, smooth, strict=True):
        if len(y) > STEPS:
            true_hops, predicted_hops = _hops(y), _hops(p)
            falls += (predicted_hops[true_hops < -MOVED] < 0.0).tolist()
            rises += (predicted_hops[true_hops > MOVED] > 0.0).tolist()
    error = float(np.mean([np.abs(y - p).mean() for y, p in zip(true, smooth, strict=True)]))
    done = np.array([p[-3:].mean() for p, s in zip(smooth, success, strict=True) if s is True])
    failed = np.array([p[-3:].mean() for p, s in zip(smooth, success, strict=True)
                       if s is False])
    numbers = {'error': error, 'falls': _mean(falls), 'rises': _mean(rises)}
    if len(done) and len(failed):
        over = done[:, None] - failed[None]
        numbers['auc'] = float((over > 0.0).mean() + 0.5 * (over == 0.0).mean())
    return numbers


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else 0.0


def train(clips: Sequence[Learned], seed: int = 0, epochs: int = EPOCHS,
          networks: int = NETWORKS, views: Sequence[str] = VIEWS, interval_s: float = 0.2,
          trunk: str = '', progress: Progress = nothing) -> LocalModel:
    """Return the model of the clips; DataError when a task has fewer than two."""
    by_task: dict[str, list[Learned]] = {}
    for clip in clips:
        by_task.setdefault(clip.task, []).append(clip)
    lonely = [task for task, rows in by_task.items() if len(rows) < 2]
    if not by_task or lonely:
        raise DataError('every task needs two episodes or more, better twenty; too few: '
                        f'{", ".join(lonely) or "no episodes at all"}')
    rng = np.random.default_rng(seed)
    apart = held_out(clips, rng)
    rest = [clip for clip, out in zip(clips, apart, strict=True) if not out]
    found = tuple(descend(rest, tuple(by_task), rng, epochs, progress) for _ in range(networks))
    others, new = pooled_head(clips)
    card = TrainingCard(VERSION, tuple(by_task), len(clips), sum(len(c.phi) for c in clips), seed,
                        epochs, interval_s, arena_robot.__version__, trunk)
    model = LocalModel(card, tuple(views), found, others, Scale(), {
        task: tuple(sorted({c.instruction for c in rows})) for task, rows in by_task.items()},
        picture_test([clip.features for clip in clips], rng), {
            view: backdrop_of([c.start[view] for c in clips]) for view in views})
    rows = [clip for clip, out in zip(clips, apart, strict=True) if out and clip.stride]
    model = replace(model, scale=scale_of(model, rows))
    phis = [model.known(c.features, c.task, c.times_s)[::c.step, 0] for c in rows]
    numbers = quality([c.phi[::c.step] for c in rows], phis, [c.success for c in rows], False)
    return replace(model, card=replace(card, quality={
        **numbers, **{f'new_{name}': new[name] for name in new if name in SHOWN}}))


def held_out(clips: Sequence[Learned], rng: np.random.Generator) -> list[bool]:
    """Return which clips are left out: every fifth scene of each task, at least one."""
    scenes: dict[str, list[int]] = {}
    for clip in clips:
        scenes.setdefault(clip.task, [])
        if clip.seed not in scenes[clip.task]:
            scenes[clip.task].append(clip.seed)
    out = {(task, seeds[k]) for task, seeds in scenes.items()
           for k in rng.permutation(len(seeds))[:max(len(seeds) // HELD_OUT, 1)].tolist()}
    return [(clip.task, clip.seed) in out for clip in clips]


def scale_of(model: LocalModel, clips: Sequence[Learned]) -> Scale:
    """Return the scale on which as many of the clips reach 1 as are done, with its intervals."""
    plain = replace(model, scale=Scale())
    return fitted_scale(clips, [plain.known(c.features, c.task, c.times_s)[:, 0] for c in clips])


def fitted_scale(clips: Sequence[Learned], values: Sequence[Floats]) -> Scale:
    """Return the scale of clips by what networks that did not see them said of their frames."""
    rows = list(zip(clips, values, strict=True))
    peaks = sorted(float(v.max()) for c, v in rows if c.task not in STILL_S)
    done = sum(bool(c.phi.max() >= 1.0) for c in clips if c.task not in STILL_S)
    scale = Scale(max(peaks[-done], TOP_AT_LEAST) if done else 1.0)
    errors: list[list[float]] = [[] for _ in range(len(EDGES) + 1)]
    for clip, seen in rows:
        phi = seen if clip.task in STILL_S else scale.phi(seen)
        for k, error in zip(np.searchsorted(EDGES, phi, side='right'), np.abs(phi - clip.phi),
                            strict=True):
            errors[int(k)].append(float(error))
    return Scale(scale.top, tuple(_conformal(found) for found in errors))


def _conformal(errors: Sequence[float]) -> float:
    """Return the error that a new frame of the class exceeds with a probability of 10 %."""
    rank = int(np.ceil(COVERED * (len(errors) + 1)))
    return sorted(errors)[rank - 1] if rank <= len(errors) else 1.0


def initial(tasks: int, views: int, rng: np.random.Generator) -> dict[str, Features]:
    """Return the weights at the start; those of the start's features are minus those of now."""
    def drawn(rows: int, columns: int, gain: float = 1.0) -> Features:
        return np.asarray(gain / np.sqrt(rows) * rng.normal(size=(rows, columns)), np.float32)
    w = {'coarse': drawn(COARSE, HIDDEN, 0.7), 'fine': drawn(FINE, HIDDEN, 0.7),
         'colour': drawn(COLOUR_SLOTS, HIDDEN)}
    w |= {f'{name}_start': drawn(len(block), HIDDEN, 0.2) - (block if name != 'colour' else 0.0)
          for name, block in w.items()}
    return {**w, 'place': drawn(6 * views, HIDDEN, 0.5), 'task': drawn(tasks, HIDDEN, 0.5),
            'mix': drawn(2 * views * HIDDEN, MIXED), 'mix_task': drawn(tasks, MIXED, 0.5),
            'out': 0.1 * rng.normal(size=(tasks, MIXED, 2)).astype(np.float32),
            'bias': np.zeros((tasks, 2), np.float32)}


_DECAYED = ('coarse', 'coarse_start', 'fine', 'fine_start', 'mix')


def descend(clips: Sequence[Learned], tasks: tuple[str, ...], rng: np.random.Generator,
            epochs: int, progress: Progress = nothing,
            begin: Mapping[str, Features] | None = None, least: int = 0) -> Network:
    """Return the network after ``epochs`` passes, or ``least`` steps; it starts with ``begin``."""
    views = clips[0].features.coarse.shape[1]
    w = dict(begin) if begin else initial(len(tasks), views, rng)
    first, second = ({name: np.zeros_like(block) for name, block in w.items()} for _ in range(2))
    wanted = [shown(clip.task, clip.phi, clip.times_s) for clip in clips]
    count = sum(-(-len(c.phi) // FRAMES) for c in clips) // CLIPS
    total = max(epochs * max(count, 1), least or LEAST_BATCHES)
    batches = _batches([np.flatnonzero(~np.isnan(y[:, 0])) for y in wanted], rng)
    for step in range(1, total + 1):
        batch = next(batches)
        owner = np.repeat(np.arange(len(batch)), [len(rows) for _, rows in batch])
        task = np.array([tasks.index(clips[k].task) for k, _ in batch])
        others = [clips[k].counter is not None and rng.random() < COUNTER_SHARE for k, _ in batch]
        seen_by = [_blocks(clips[k], rows, other)
                   for (k, rows), other in zip(batch, others, strict=True)]
        now, start = ([np.concatenate([blocks[when][b] for blocks in seen_by]) for b in range(3)]
                      for when in range(2))
        y = np.concatenate([np.minimum(wanted[k][rows], (COUNTER_PHI, 0.0)) if other
                            else wanted[k][rows]
                            for (k, rows), other in zip(batch, others, strict=True)])
        kept = (rng.random((len(owner), 2 * views * HIDDEN)) > DROPPED) / (1.0 - DROPPED)
        seen = forward(w, now, start, task, owner, kept.astype(np.float32))
        slope = (sigmoid(seen.out) - y) / len(y) * (1.0, SUCCESS_WEIGHT)
        gradient = backward(w, seen, slope.astype(np.float32), now, start, task, owner,
                            kept.astype(np.float32))
        rate = RATE * min(1.0, step / 50) * (0.52 + 0.5 * np.cos(np.pi * step / total))
        for name, g in gradient.items():
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.99 * second[name] + 0.01 * g * g
            size = np.sqrt(second[name] / (1.0 - 0.99 ** step)) + 1e-8
            w[name] = np.asarray(w[name] - rate * first[name] / (1.0 - 0.9 ** step) / size
                                 - (rate * DECAY * w[name] if name in _DECAYED else 0.0),
                                 np.float32)
        progress(step, total, 'network')
    return Network(tasks, w)


def _batches(rows: Sequence['np.ndarray[tuple[int], np.dtype[np.int64]]'],
             rng: np.random.Generator
             ) -> 'Iterator[list[tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]]]]]':
    """Yield some frames of some clips again and again; in one pass every frame once."""
    while True:
        parts = []
        for k, frames in enumerate(rows):
            order = rng.permutation(frames)
            parts += [(k, np.sort(order[i:i + FRAMES])) for i in range(0, len(order), FRAMES)]
        rng.shuffle(parts)
        for i in range(0, max(len(parts) - CLIPS + 1, 1), CLIPS):
            yield parts[i:i + CLIPS]


def _blocks(clip: Learned, rows: 'np.ndarray[tuple[int], np.dtype[np.int64]]', other: bool
            ) -> tuple[list[Block], list[Block]]:
    """Return what the network sees of some frames and of the start, for another instruction."""
    now = [block[rows] for block in clip.features.blocks()]
    start: list[Block] = list(clip.features.start)
    if other and clip.counter is not None:
        now[2], start[2] = clip.counter[0][rows], clip.counter[1]
    return now, start


def backward(w: Mapping[str, Features], seen: Pass, slope: Features, now: Sequence[Block],
             start: Sequence[Block], task: 'np.ndarray[tuple[int], np.dtype[np.int64]]',
             owner: 'np.ndarray[tuple[int], np.dtype[np.int64]]', kept: Features
             ) -> dict[str, Features]:
    """Return the gradient by weight for ``slope`` (n, 2), the loss's by the network's output."""
    rows, n, views = task[owner], len(slope), seen.cells.shape[1]
    g = {name: np.zeros_like(w[name]) for name in ('out', 'bias', 'mix_task', 'task')}
    np.add.at(g['out'], rows, seen.mixed[:, :, None] * slope[:, None, :])
    np.add.at(g['bias'], rows, slope)
    mixed = np.einsum('nk,nhk->nh', slope, w['out'][rows]) * (seen.mixed > 0.0)
    np.add.at(g['mix_task'], rows, mixed)
    pooled = (mixed @ w['mix'].T * kept).reshape(n, 2, views, 1, HIDDEN)
    cells = np.broadcast_to(pooled[:, 1] * np.float32(MEAN_WEIGHT / seen.cells.shape[2]),
                            seen.cells.shape).copy()
    top = seen.top[:, :, None]
    np.put_along_axis(cells, top, np.take_along_axis(cells, top, axis=2) + pooled[:, 0], axis=2)
    cells *= seen.cells > 0.0
    begins = np.searchsorted(owner, np.arange(len(task)))
    firsts = np.add.reduceat(cells, begins, axis=0)
    np.add.at(g['task'], task, firsts.sum(axis=(1, 2)))
    g |= {'mix': seen.pooled.T @ mixed,
          'place': np.einsum('kvph,vpq->qh', firsts, places(views), optimize=True)}
    for blocks, slopes, of in ((now, cells, ''), (start, firsts, '_start')):
        for block, scale, name in zip(blocks, SCALES, ('coarse', 'fine', 'colour'), strict=True):
            by = _gathered(slopes) if name == 'coarse' else slopes
            x = block.astype(np.float32).reshape(-1, block.shape[-1]) * np.float32(scale)
            g[f'{name}{of}'] = x.T @ by.reshape(-1, HIDDEN)
    return g


def _gathered(cells: Features) -> Features:
    """Return (…, 63, h) of (…, 252, h): the sums of four cells."""
    *lead, _, h = cells.shape
    grid = cells.reshape(*lead, ROWS, 2, COLUMNS, 2, h)
    return np.asarray(grid.sum(axis=(-4, -2)).reshape(*lead, ROWS * COLUMNS, h))
