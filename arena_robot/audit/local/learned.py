"""The features and labels of clips that the local judge learns from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena_robot.audit.local.features import Features, backdrop
from arena_robot.audit.local.model import FrameFeatures, frame_features
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats
from arena_robot.records.labelled_clip import LabelledClip, read_clip

VIEWS = ('right', 'wrist')
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Learned:
    """One clip's features and labels."""

    task: str
    instruction: str
    success: bool | None
    phi: Floats
    features: FrameFeatures
    start: Mapping[str, Features]


def nothing(done: int, total: int, label: str) -> None:
    """Show no progress."""


def load(files: Sequence[Path], views: Sequence[str] = VIEWS, progress: Progress = nothing
         ) -> list[Learned]:
    """Return the features of clips; DataError when one lacks a view."""
    found = []
    for number, path in enumerate(files, 1):
        clip = read_clip(path)
        found.append(learned(clip, views))
        progress(number, len(files), clip.source.name)
    return found


def learned(clip: LabelledClip, views: Sequence[str] = VIEWS) -> Learned:
    """Return the features of a clip, halved in size."""
    for view in views:
        if view not in clip.pictures:
            raise DataError(f'the clip {clip.source.name} has no view {view}')
    seen = clip.clip(views)
    features = frame_features(seen.frames, seen.instruction, views)
    source = clip.source
    return Learned(source.task or source.instruction, source.instruction, source.success,
                   clip.phi, FrameFeatures(features.head.astype(np.float16),
                                           features.pooled.astype(np.float16)),
                   {view: backdrop(seen.frames[view][0]) for view in views})
