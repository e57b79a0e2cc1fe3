"""
The local judge's model: small networks, one linear head for unknown tasks, and a picture test.

Two networks of the same form are averaged. Each sees of each cell of the table (8 by 8 pixels of
two views) the frozen features of now and of the start, and how much of the instruction's colours
is there now and was there at the start:

    z = relu(W x_now + W' x_start + place + task)   per cell, 48 numbers
    u = relu(M [max z, mean z] + task)              over the cells of both views, 64 numbers
    Φ, success = sigmoid(u · w_task + b_task)

So it asks whether something that the task wants is to be seen anywhere, and not where the arm is.
There is no time in it; what a picture cannot show comes from the frames before, see
:func:`with_past`. The picture test says whether frames are like those of the training (camera,
light, scene): a subspace of the pooled features, and how far from it the training's own held-out
frames lie.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from arena_robot.audit.base import averaged
from arena_robot.audit.local.features import (
    CELLS,
    COARSE,
    COLUMNS,
    ROWS,
    Features,
    colour_maps,
    table,
    trunk_features,
)
from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import replacing
from arena_robot.core.observation import Floats, Pixels

VERSION = 2
Block: TypeAlias = Features | NDArray[np.float16]    # training keeps thousands of frames
# They bring features of a standard deviation of 6 and 7, and of maps near 0.25, to 1.
SCALES = (0.17, 0.14, 4.0)
HIDDEN, MIXED = 48, 64
MEAN_WEIGHT = 4.0    # a thing fills few of the cells, so means are small beside maxima
HEAD_SCALES = (0.05, 2.0)
BASIS = 64
MARGIN, BACKDROP_MARGIN, LEAST_LIMIT = 1.1, 1.12, 0.3
TEST_EVERY = 16     # of the frames, neighbours are alike
TEST_APART = 5      # every fifth clip, for the limit of the picture test
# No picture shows what these tasks ask for: a button comes back up, and time passes.
LATCHED = ('press_button',)
STILL_S: Mapping[str, float] = {'do_not_move': 5.0}
EDGES = (0.2, 0.5, 0.8)    # of Φ, between the classes whose uncertainty is measured apart
# What the bench has to measure, on scenes not trained on, before a model may judge evaluators.
BARS: Mapping[str, float] = {'home': 0.9, 'open': 0.9, 'high': 0.9, 'back': 0.9, 'empty': 0.9,
                             'pairs': 0.93, 'auc': 0.95, 'falls': 0.78, 'rises': 0.78}
# And before MC@100, and STR, are given: share of episodes that agree, rank correlation.
METRIC_BARS: Mapping[str, float] = {'mc': 0.9, 'str': 0.65}
# What a model of a lab's own labels has to reach, each scene left out once, before its level means
# anything; and the largest error of Φ. `local` reached the last two on new simulated tasks.
LABEL_BARS: Mapping[str, float] = {'scenes': 5, 'successes': 5, 'failures': 5, 'coverage': 0.8,
                                   'auc': 0.88}
LARGEST_ERROR = 0.19


@dataclass(frozen=True)
class TrainingCard:
    """
    What a model was trained on and how good it was on scenes that were left out.

    ``quality`` is of every second frame: error of Φ, sign accuracy of falls and rises within
    0.8 s, AUC of success by the final Φ. ``measured`` is what ``bench/bench_judge_unseen.py``
    found on new scenes, by the names of ``BARS`` and ``METRIC_BARS``; empty: not measured.
    ``left_out`` is what a model of a lab's own labels reached on each of the lab's scenes by
    networks that did not see it, see ``left_out_numbers``; empty for a model of known progress.
    ``whole`` pictures were looked at, see :func:`frame_features`.
    """

    version: int
    tasks: tuple[str, ...]
    episodes: int
    frames: int
    seed: int
    epochs: int
    interval_s: float
    package: str
    trunk: str
    quality: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, float] = field(default_factory=dict)
    whole: bool = False

    @property
    def lacking(self) -> list[str]:
        """Why a model of a lab's own labels is not calibrated; empty where nothing is lacking."""
        if not self.left_out:
            return []
        short = [f'{name} {self.left_out.get(name, 0.0):.3g} of {bar:g}'
                 for name, bar in LABEL_BARS.items() if self.left_out.get(name, 0.0) < bar]
        if (error := self.left_out.get('error', 1.0)) > LARGEST_ERROR:
            short.append(f'error {error:.3g}, at most {LARGEST_ERROR:g}')
        return [f'on scenes left out, its labels showed too little: {", ".join(short)}'] \
            if short else []

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the model is trusted with: ``evaluators`` and the metrics whose bars it reaches."""
        reached = {name for name, bar in {**BARS, **METRIC_BARS}.items()
                   if self.measured.get(name, 0.0) >= bar}
        return tuple(name for name, needs in (
            ('evaluators', set(BARS)), ('mc', {'mc'}), ('str', {'str'}), ('sqs', {'str'}))
            if needs <= reached)


@dataclass(frozen=True)
class Head:
    """Weights (D,) and the value at zero."""

    weights: Features
    bias: float


@dataclass(frozen=True)
class PictureTest:
    """``middle`` (P,), orthonormal ``basis`` (k, P), ``limit`` of the distance from it."""

    middle: Features
    basis: Features
    limit: float

    def distances(self, pooled: Features) -> Features:
        """Return the (n,) root mean square distances of pooled features (n, P)."""
        residual = pooled - self.middle
        residual = residual - (residual @ self.basis.T) @ self.basis
        return np.asarray(np.sqrt((residual ** 2).mean(axis=1)), np.float32)


@dataclass(frozen=True)
class StartEdges:
    """
    What start pictures of a view have in common: their edges, and a limit of the difference.

    Robot, gripper and table stand in the same place in all of them while the camera does.
    """

    edges: Features
    limit: float

    def distance(self, edges: Features) -> float:
        """Return 1 minus the correlation with the edges of a picture."""
        return float(1.0 - self.edges @ edges)


@dataclass(frozen=True)
class FrameFeatures:
    """
    Of n frames and V views: what the network sees, and the same of the start (1, V, …).

    ``coarse`` (n, V, 63, 112), ``fine`` (n, V, 252, 40), ``colour`` (n, V, 252, 2).
    """

    coarse: Block
    fine: Block
    colour: Block
    start: tuple[Features, Features, Features]

    def __len__(self) -> int:
        return len(self.coarse)

    def blocks(self) -> tuple[Block, Block, Block]:
        """Return the three."""
        return self.coarse, self.fine, self.colour

    def part(self, every: int) -> 'FrameFeatures':
        """Return those of every so many frames."""
        return FrameFeatures(self.coarse[::every], self.fine[::every], self.colour[::every],
                             self.start)

    def hops(self) -> Features:
        """Return (n, D) for the head of unknown tasks: features minus those of the start."""
        seen = ((self.coarse, self.start[0]), (self.colour, self.start[2]))
        return np.concatenate([(scale * (now.astype(np.float32) - first)).reshape(len(now), -1)
                               for scale, (now, first) in zip(HEAD_SCALES, seen, strict=True)],
                              axis=1)

    def pooled(self) -> Features:
        """Return (n, P) for the picture test."""
        n, views = self.coarse.shape[:2]
        grid = self.coarse.astype(np.float32).reshape(n, views, ROWS, COLUMNS // 3, 3, COARSE)
        return np.asarray(grid.mean(axis=4).reshape(n, -1))


@dataclass(frozen=True)
class Network:
    """Weights by name, float32; the last axis of the task's is its place among ``tasks``."""

    tasks: tuple[str, ...]
    weights: Mapping[str, Features]

    def values(self, features: FrameFeatures, task: str, at_once: int = 32) -> Floats:
        """Return (n, 2): Φ and the probability of success by each frame alone."""
        rows = np.array([self.tasks.index(task)])
        parts = []
        for begin in range(0, len(features), at_once):
            now = tuple(block[begin:begin + at_once] for block in features.blocks())
            pass_ = forward(self.weights, now, features.start, rows,
                            np.zeros(len(now[0]), np.int64))
            parts.append(sigmoid(pass_.out))
        return np.concatenate(parts).astype(np.float64)


@dataclass(frozen=True)
class Pass:
    """What the network computed of a batch, kept for its gradient."""

    out: Features       # (n, 2), before the sigmoid
    mixed: Features     # (n, MIXED)
    pooled: Features    # (n, V · 2 · HIDDEN)
    cells: Features     # (n, V, 252, HIDDEN)
    top: 'np.ndarray[tuple[int, ...], np.dtype[np.int64]]'    # (n, V, HIDDEN), the largest cell


def forward(weights: Mapping[str, Features], now: Sequence[Block], start: Sequence[Block],
            task: 'np.ndarray[tuple[int], np.dtype[np.int64]]',
            owner: 'np.ndarray[tuple[int], np.dtype[np.int64]]',
            kept: Features | None = None) -> Pass:
    """
    Return the pass of n frames of k clips; ``owner`` (n,) is a frame's clip.

    ``task`` (k,) is the row of each clip's task; ``kept`` multiplies the pooled values.
    """
    w = weights
    first = (_seen(start, w, '_start') + places(start[0].shape[1]) @ w['place']
             + w['task'][task][:, None, None])
    cells = _seen(now, w, '')
    cells += first[owner]
    np.maximum(cells, 0.0, out=cells)
    top = cells.argmax(axis=2)
    largest = np.take_along_axis(cells, top[:, :, None], axis=2)[:, :, 0]
    pooled = np.concatenate([largest.reshape(len(cells), -1),
                             MEAN_WEIGHT * cells.mean(axis=2).reshape(len(cells), -1)], axis=1)
    if kept is not None:
        pooled = pooled * kept
    rows = task[owner]
    mixed = np.maximum(pooled @ w['mix'] + w['mix_task'][rows], 0.0)
    out = np.einsum('nh,nhk->nk', mixed, w['out'][rows]) + w['bias'][rows]
    return Pass(out, mixed, pooled, cells, top)


def _seen(blocks: Sequence[Block], weights: Mapping[str, Features], of: str) -> Features:
    """Return (n, V, 252, HIDDEN): the linear part of the first layer."""
    coarse, fine, colour = (block.astype(np.float32) * np.float32(scale)
                            for block, scale in zip(blocks, SCALES, strict=True))
    seen = fine @ weights[f'fine{of}'] + colour @ weights[f'colour{of}']
    return np.asarray(seen + spread(coarse @ weights[f'coarse{of}']))


def spread(coarse: Features) -> Features:
    """Return (…, 252, h) of (…, 63, h): every coarse cell four times."""
    *lead, _, h = coarse.shape
    grid = coarse.reshape(*lead, ROWS, 1, COLUMNS, 1, h)
    return np.broadcast_to(grid, (*lead, ROWS, 2, COLUMNS, 2, h)).reshape(*lead, 4 * CELLS, h)


@cache
def places(views: int) -> Features:
    """Return (V, 252, 6 V): 1, x, y, x y, x², y² of a cell in its view's own columns."""
    y, x = (np.linspace(-1.0, 1.0, n) for n in (2 * ROWS, 2 * COLUMNS))
    x, y = (grid.ravel() for grid in np.meshgrid(x, y))
    terms = np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1)
    return np.stack([np.concatenate([terms if other == view else 0.0 * terms
                                     for other in range(views)], axis=1)
                     for view in range(views)]).astype(np.float32)


def sigmoid(x: Features) -> Features:
    """Return 1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0))))


@dataclass(frozen=True)
class Scale:
    """
    How the network's numbers become Φ: ``top`` and more is 1, to 0.5 they stay as they are.

    ``half_widths``: by class of Φ (see ``EDGES``), the true progress of held-out frames was within
    this of Φ in 90 %.
    """

    top: float = 1.0
    half_widths: tuple[float, ...] = (1.0,) * (len(EDGES) + 1)

    def phi(self, values: Floats) -> Floats:
        """Return Φ of the network's numbers, linear between 0.5 and ``top``."""
        return np.interp(values, (0.0, 0.5, self.top), (0.0, 0.5, 1.0))

    def half_width(self, phi: Floats) -> Floats:
        """Return the half width of the interval of each Φ."""
        return np.array(self.half_widths)[np.searchsorted(EDGES, phi, side='right')]


def with_past(values: Floats, task: str, times_s: Floats) -> Floats:
    """Return the values (n, 2) of a clip's frames with what happened before each of them."""
    if task in LATCHED:
        done = np.maximum.accumulate(values[:, 1] >= 0.5)
        return np.where(done[:, None], 1.0, values)
    if task in STILL_S:
        still = np.minimum.accumulate(values[:, 0] >= 0.5)
        share = np.clip((times_s - times_s[0]) / STILL_S[task], 0.0, 1.0)
        return np.stack([still * share, still * (share >= 1.0)], axis=1)
    return values


@dataclass(frozen=True)
class LocalModel:
    """Networks for known tasks, a head for all ``others``; ``instructions``: known wordings."""

    card: TrainingCard
    views: tuple[str, ...]
    networks: tuple[Network, ...]
    others: Head
    scale: Scale
    instructions: Mapping[str, tuple[str, ...]]
    test: PictureTest
    backdrops: Mapping[str, StartEdges] = field(default_factory=dict)

    def known(self, features: FrameFeatures, task: str, times_s: Floats) -> Floats:
        """Return (n, 2): smoothed Φ and probability of success of a known task."""
        values = np.mean([network.values(features, task) for network in self.networks], axis=0)
        values = with_past(values, task, times_s)
        smooth = np.stack([averaged(column) for column in values.T], axis=1)
        if task not in STILL_S:    # the clock needs no scale
            smooth[:, 0] = self.scale.phi(smooth[:, 0])
        return np.clip(smooth, 0.0, 1.0)

    def unlike(self, features: FrameFeatures, start: Mapping[str, Features]) -> list[str]:
        """Return how pictures differ from those of the training; ``start`` are edges by view."""
        why = []
        away = float(np.median(self.test.distances(features.pooled())))
        if away > self.test.limit:
            why.append(f'the pictures are unlike those of its training (distance {away:.3g}, '
                       f'limit {self.test.limit:.3g})')
        for name, drop in self.backdrops.items():
            if (gap := drop.distance(start[name])) > drop.limit:
                why.append(f'the start picture of the {name} camera is unlike those of its '
                           f'training (distance {gap:.3g}, limit {drop.limit:.3g}): has the '
                           'camera moved?')
        return why


def frame_features(frames: Mapping[str, Sequence[Pixels]], instruction: str,
                   views: Sequence[str], start: Mapping[str, Pixels] | None = None,
                   whole: bool = False) -> FrameFeatures:
    """
    Return the features of frames; ``start`` pictures come from elsewhere, or are the first.

    ``whole`` pictures are looked at, not what a view of the simulated station shows of the table.
    """
    seen: list[tuple[Features, ...]] = []
    for view in views:
        first = (start or {}).get(view)
        pictures = [table(picture, '' if whole else view) for picture in (
            *([first] if first is not None else []), *frames[view])]
        seen.append((*trunk_features(pictures), colour_maps(pictures, instruction)))
    coarse, fine, colour = (np.stack(blocks, axis=1) for blocks in zip(*seen, strict=True))
    skip = len(coarse) - len(frames[views[0]])
    return FrameFeatures(coarse[skip:], fine[skip:], colour[skip:],
                         (coarse[:1], fine[:1], colour[:1]))


def picture_test(clips: Sequence[FrameFeatures], rng: np.random.Generator) -> PictureTest:
    """Return the picture test: fitted on four fifths of the clips, its limit from the rest."""
    order = rng.permutation(len(clips)).tolist()
    apart = set(order[::TEST_APART])
    fit = np.concatenate([clips[k].part(TEST_EVERY).pooled() for k in order if k not in apart])
    middle = fit.mean(axis=0)
    centred = fit - middle
    values, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
    keep = values.argsort()[::-1][:min(BASIS, len(fit) - 1)]
    basis = (vectors[:, keep].T @ centred) / np.sqrt(np.maximum(values[keep], 1e-9))[:, None]
    test = PictureTest(middle, basis.astype(np.float32), 0.0)
    distances = [float(np.median(test.distances(clips[k].pooled()))) for k in apart]
    return PictureTest(middle, test.basis, MARGIN * max(distances))


def backdrop_of(pictures: Sequence[Features]) -> StartEdges:
    """Return what the edges of start pictures have in common, and their largest difference."""
    common = np.median(np.stack(pictures), axis=0)
    common = common - common.mean()
    edges = np.asarray(common / max(float(np.linalg.norm(common)), 1e-6), np.float32)
    distances = [StartEdges(edges, 0.0).distance(picture) for picture in pictures]
    return StartEdges(edges, max(BACKDROP_MARGIN * max(distances), LEAST_LIMIT))


def write_model(path: Path, model: LocalModel) -> None:
    """Write a model with its card into one ``.npz`` file, whole or not at all."""
    arrays: dict[str, Any] = {
        'about': np.array(json.dumps({
            'card': asdict(model.card), 'views': model.views, 'limit': model.test.limit,
            'instructions': {t: list(v) for t, v in model.instructions.items()},
            'tasks': model.networks[0].tasks, 'others': model.others.bias,
            'top': model.scale.top, 'half_widths': model.scale.half_widths,
            'backdrops': {view: b.limit for view, b in model.backdrops.items()}})),
        'middle': model.test.middle.astype(np.float16),
        'basis': model.test.basis.astype(np.float16),
        'others': model.others.weights.astype(np.float16)}
    for k, network in enumerate(model.networks):
        for name, weights in network.weights.items():
            arrays[f'network/{k}/{name}'] = weights.astype(np.float16)
    for view, drop in model.backdrops.items():
        arrays[f'backdrop/{view}'] = drop.edges.astype(np.float16)
    with replacing(path) as partial, partial.open('wb') as out:
        np.savez_compressed(out, **arrays)


def read_model(path: Path) -> LocalModel:
    """Return a model; DataError when the file is none, or of another version."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays['about']))
            if (version := about['card']['version']) != VERSION:
                raise ValueError(f'it has version {version}, this program reads {VERSION}')
            return LocalModel(
                build(TrainingCard, about['card'], f'{path}: card'), tuple(about['views']),
                _networks(tuple(about['tasks']), {
                    name: arrays[name].astype(np.float32)
                    for name in arrays.files if name.startswith('network/')}),
                Head(arrays['others'].astype(np.float32), float(about['others'])),
                Scale(float(about['top']), tuple(about['half_widths'])),
                {task: tuple(texts) for task, texts in about['instructions'].items()},
                PictureTest(arrays['middle'].astype(np.float32),
                            arrays['basis'].astype(np.float32), float(about['limit'])),
                {view: StartEdges(arrays[f'backdrop/{view}'].astype(np.float32), float(limit))
                 for view, limit in about['backdrops'].items()})
    except (OSError, EOFError, KeyError, ValueError, TypeError, BadZipFile,
            ConfigError) as error:
        raise DataError(f'{path} is no model of the local judge: {error}') from error


def _networks(tasks: tuple[str, ...], arrays: Mapping[str, Features]) -> tuple[Network, ...]:
    count = len({name.split('/')[1] for name in arrays})
    return tuple(Network(tasks, {name.split('/')[2]: weights for name, weights in arrays.items()
                                 if name.split('/')[1] == str(k)}) for k in range(count))
