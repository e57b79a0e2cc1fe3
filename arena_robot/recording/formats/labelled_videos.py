"""
Episodes of real robots as videos with a label each, to measure judges on.

A folder is read in three ways, which may stand side by side:

- ``labels.csv``: a lab's own videos, or episodes in folders, see ``records/clip.py``;
- videos whose names are the instruction and the label, ``put_banana_on_plate_success.mp4``, as on
  Robometer's page; a frame more than four times as wide as high is a drawing whose first panel
  from the left is the camera's picture;
- folders named as the instruction with ``episode.mp4`` and ``step_metrics.csv``, as on the page of
  PRM-as-a-Judge: the published curve is kept, and what the judge said of the end is no label, so
  the label is of ``EpisodeSuccess``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from arena_robot.core.csv_tables import rows_of
from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.recording.episode.clip import read_clip
from arena_robot.recording.episode.frames import timed_frames
from arena_robot.records.clip import LABELS, LABELS_FILE, Clip, read_labels

EPISODE, STEPS = 'episode.mp4', 'step_metrics.csv'
VIEW = 'left'         # a single camera outside of the robot stands for the left one
DRAWING = 4.0         # width by height of a frame that is a drawing with several panels
WHITE = 250           # paper of a drawing: every channel at least this
MOST_SIDE = 640       # larger pictures are thinned: judges look at fewer pixels
MOST_FRAMES = 128     # of a clip in memory; a longer video is looked at less often


@dataclass(frozen=True)
class LabelledVideo:
    """An episode with its label; ``published`` is another judge's curve, empty without one."""

    path: Path
    instruction: str
    label: str
    published: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def name(self) -> str:
        """The name of the video, of its folder where all have the same."""
        return self.path.parent.name if self.path.name == EPISODE else self.path.stem

    def clip(self, interval_s: float) -> Clip:
        """
        Return pictures at least ``interval_s`` apart; of a video the last one is among them.

        An episode's folder has all its views, a video the left one.
        """
        if self.path.is_dir():
            return replace(read_clip(self.path, interval_s, max_frames=MOST_FRAMES),
                           instruction=self.instruction)
        kept: list[tuple[float, Pixels]] = []
        last: tuple[float, Pixels] | None = None
        for _, stamp_ns, pixels in timed_frames(self.path):
            last = (stamp_ns / 1e9, pixels)
            if not kept or last[0] - kept[-1][0] >= interval_s - 1e-6:
                kept.append((last[0], _picture(pixels)))
            if len(kept) > MOST_FRAMES:
                kept, interval_s = kept[::2], 2.0 * interval_s
        if last is None:
            raise DataError(f'{self.path} has no frames')
        if last[0] > kept[-1][0]:
            kept.append((last[0], _picture(last[1])))
        return Clip(self.instruction, np.array([time for time, _ in kept]),
                    {VIEW: [picture for _, picture in kept]}, name=self.name)


def read_labelled_videos(folder: Path) -> list[LabelledVideo]:
    """Return the episodes of a folder; DataError says what such a folder has to hold."""
    if not folder.is_dir():
        raise DataError(f'{folder} is no folder')
    labelled = [LabelledVideo(folder / row.file, row.instruction, row.label)
                for row in read_labels(folder).values() if row.label]
    found = [*labelled, *_steps(folder), *_named(folder)]
    if not found:
        raise DataError(
            f'{folder} has no labelled videos: {LABELS_FILE} with the columns file, instruction '
            f'and label; or videos named INSTRUCTION_LABEL.mp4 (labels: {", ".join(LABELS)}); or '
            f'folders with {EPISODE} and {STEPS}')
    return sorted(found, key=lambda video: video.path)


def _named(folder: Path) -> Iterator[LabelledVideo]:
    for path in sorted(folder.glob('*.mp4')):
        words, _, label = path.stem.rpartition('_')
        if label in LABELS and words:
            yield LabelledVideo(path, words.replace('_', ' '), label)


def _steps(folder: Path) -> Iterator[LabelledVideo]:
    for path in sorted(folder.rglob(STEPS)):
        video = path.parent / EPISODE
        if not video.is_file():
            raise DataError(f'{path} has no {EPISODE} beside it')
        rows = [row for _, row in rows_of(path, ('StepProgress', 'EpisodeSuccess'))]
        try:
            curve = np.array([float(row['StepProgress']) for row in rows])
            done = bool(rows) and float(rows[-1]['EpisodeSuccess']) > 0.0
        except ValueError as error:
            raise DataError(f'{path}: {error}') from error
        yield LabelledVideo(video, path.parent.name, LABELS[2] if done else LABELS[0], curve)


def _picture(pixels: Pixels) -> Pixels:
    """Return the camera's picture, thinned: of a drawing, the first panel below its title."""
    if pixels.shape[1] > DRAWING * pixels.shape[0]:
        pixels = _first_panel(pixels)
    step = -(-max(pixels.shape[:2]) // MOST_SIDE)
    return np.ascontiguousarray(pixels[::step, ::step])


def _first_panel(pixels: Pixels) -> Pixels:
    """Return the widest block of columns that is painted over half of the drawing's height."""
    painted = np.asarray((pixels < WHITE).any(axis=2))
    first, last = _longest(painted.mean(axis=0) > 0.5)
    top, bottom = _longest(painted[:, first:last].mean(axis=1) > 0.5)
    return pixels[top:bottom, first:last]


def _longest(there: 'np.ndarray[tuple[int], np.dtype[np.bool_]]') -> tuple[int, int]:
    """Return the longest run of what is there, (0, length) where nothing is."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], there, [False]]).astype(np.int8)))
    runs = edges.reshape(-1, 2)
    if not len(runs):
        return 0, len(there)
    first, last = runs[np.argmax(runs[:, 1] - runs[:, 0])]
    return int(first), int(last)
