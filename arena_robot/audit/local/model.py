"""
The local judge's model: a ridge regression per known task, one for all others, and a picture test.

What a head sees of a frame, per view: the network's features minus those of the start, and where
the instruction's colours are, now and minus the start. There is no time in it. The picture test
says whether frames are like those of the training (camera, light, scene): a subspace of the
pooled features, and how far from it the training's own held-out frames lie.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from arena_robot.audit.local.features import (
    Features,
    colour_maps,
    trunk_features,
)
from arena_robot.core.config import build
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import replacing
from arena_robot.core.observation import Pixels

VERSION = 1
TRUNK_SCALE, MAP_SCALE, NOW_SCALE = 0.05, 2.0, 1.0
OTHERS = ''


@dataclass(frozen=True)
class TrainingCard:
    """
    What a model was trained on and how good it was on episodes left out of a fold.

    ``quality`` are means over folds, of every second frame: error of Φ, sign accuracy of falls
    and rises within 0.8 s, AUC of success by the final Φ; ``sigma`` is the noise on still frames.
    """

    version: int
    tasks: tuple[str, ...]
    episodes: int
    frames: int
    seed: int
    ridge: float
    interval_s: float
    package: str
    trunk: str
    quality: Mapping[str, float] = field(default_factory=dict)
    sigma: float = 0.0


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
class LocalModel:
    """Heads by task (``OTHERS`` for all unknown ones); ``instructions`` are the known wordings."""

    card: TrainingCard
    views: tuple[str, ...]
    heads: Mapping[str, Head]
    instructions: Mapping[str, tuple[str, ...]]
    test: PictureTest
    backdrops: Mapping[str, StartEdges] = field(default_factory=dict)


@dataclass(frozen=True)
class FrameFeatures:
    """Of n frames: ``head`` (n, D) for the heads and ``pooled`` (n, P) for the picture test."""

    head: Features
    pooled: Features


def frame_features(frames: Mapping[str, Sequence[Pixels]], instruction: str,
                   views: Sequence[str], start: Mapping[str, Pixels] | None = None
                   ) -> FrameFeatures:
    """Return the features of frames; ``start`` pictures come from elsewhere, or are the first."""
    head, pooled = [], []
    for view in views:
        first = (start or {}).get(view)
        pictures = [*([first] if first is not None else []), *frames[view]]
        trunk, maps = trunk_features(pictures), colour_maps(pictures, instruction)
        skip = len(pictures) - len(frames[view])
        for block, scale in ((trunk, TRUNK_SCALE), (maps, MAP_SCALE)):
            head.append((scale * (block - block[:1])[skip:]).reshape(len(frames[view]), -1))
        head.append(NOW_SCALE * maps[skip:].reshape(len(frames[view]), -1))
        n, channels, rows, columns = trunk[skip:].shape
        pooled.append(trunk[skip:].reshape(n, channels, rows // 2, 2, columns // 2, 2)
                      .mean(axis=(3, 5)).reshape(n, -1))
    return FrameFeatures(np.concatenate(head, axis=1), np.concatenate(pooled, axis=1))


def write_model(path: Path, model: LocalModel) -> None:
    """Write a model with its card into one ``.npz`` file, whole or not at all."""
    arrays: dict[str, Any] = {
        'about': np.array(json.dumps({
            'card': asdict(model.card), 'views': model.views, 'limit': model.test.limit,
            'instructions': {t: list(v) for t, v in model.instructions.items()},
            'bias': {task: head.bias for task, head in model.heads.items()},
            'backdrops': {view: b.limit for view, b in model.backdrops.items()}})),
        'middle': model.test.middle.astype(np.float16),
        'basis': model.test.basis.astype(np.float16)}
    for task, head in model.heads.items():
        arrays[f'head/{task}'] = head.weights.astype(np.float16)
    for view, drop in model.backdrops.items():
        arrays[f'backdrop/{view}'] = drop.edges.astype(np.float16)
    with replacing(path) as partial, partial.open('wb') as out:
        np.savez_compressed(out, **arrays)


def read_model(path: Path) -> LocalModel:
    """Return a model; DataError when the file is none, or of another version."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays['about']))
            card = build(TrainingCard, about['card'], f'{path}: card')
            if card.version != VERSION:
                raise ValueError(f'it has version {card.version}, this program reads {VERSION}')
            heads = {task: Head(arrays[f'head/{task}'].astype(np.float32), float(bias))
                     for task, bias in about['bias'].items()}
            return LocalModel(
                card, tuple(about['views']), heads,
                {task: tuple(texts) for task, texts in about['instructions'].items()},
                PictureTest(arrays['middle'].astype(np.float32),
                            arrays['basis'].astype(np.float32), float(about['limit'])),
                {view: StartEdges(arrays[f'backdrop/{view}'].astype(np.float32), float(limit))
                 for view, limit in about['backdrops'].items()})
    except (OSError, EOFError, KeyError, ValueError, TypeError, BadZipFile,
            ConfigError) as error:
        raise DataError(f'{path} is no model of the local judge: {error}') from error
