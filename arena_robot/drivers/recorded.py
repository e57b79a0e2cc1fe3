"""A recorded episode for replay: arrays of arm and gripper readings, and images by stamp."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats, Pixels, view
from arena_robot.robots.arms import DOF

Stamps = NDArray[np.int64]
Picture = Callable[[int], Pixels]
_PICTURES = ('.png', '.jpg', '.jpeg')


@dataclass(frozen=True)
class Track:
    """Pictures of one camera eye: ``stamps`` (N,) ns ascending, ``picture(i)`` (H, W, 3) RGB."""

    stamps: Stamps
    picture: Picture

    @classmethod
    def of(cls, stamps: Stamps, pictures: NDArray[np.uint8]) -> 'Track':
        """Return a track over an array (N, H, W, 3)."""
        return cls(np.asarray(stamps, np.int64), lambda i: np.asarray(pictures[i], np.uint8))


@dataclass(frozen=True)
class Recorded:
    """
    An episode in arrays; stamps in ns ascending, shapes of the arm's (N, 7) and pose (N, 6).

    ``views`` is keyed like an observation's images, such as ``'wrist_left'``. Raises DataError
    when lengths or shapes do not fit.
    """

    arm_stamps: Stamps
    q: Floats
    dq: Floats
    tau: Floats
    pose: Floats
    q_desired: Floats
    gripper_stamps: Stamps
    gripper: Floats
    views: Mapping[str, Track] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.arm_stamps)
        for name, width in (('q', DOF), ('dq', DOF), ('tau', DOF), ('pose', 6),
                            ('q_desired', DOF)):
            shape = np.shape(getattr(self, name))
            if shape != (count, width):
                raise DataError(f"recorded arm '{name}' must be ({count}, {width}) like its "
                                f'stamps, found {shape}')
        if np.shape(self.gripper) != np.shape(self.gripper_stamps):
            raise DataError(f'recorded gripper has {len(self.gripper)} positions for '
                            f'{len(self.gripper_stamps)} stamps')
        for name, stamps in (('arm', self.arm_stamps), ('gripper', self.gripper_stamps),
                             *((name, track.stamps) for name, track in self.views.items())):
            if len(stamps) == 0 or np.any(np.diff(stamps) <= 0):
                raise DataError(f'recorded {name} stamps must be ascending and not empty')

    @property
    def start_ns(self) -> int:
        """The earliest stamp."""
        return int(min(self.arm_stamps[0], self.gripper_stamps[0],
                       *(track.stamps[0] for track in self.views.values())))

    @property
    def end_ns(self) -> int:
        """The latest stamp."""
        return int(max(self.arm_stamps[-1], self.gripper_stamps[-1],
                       *(track.stamps[-1] for track in self.views.values())))


def read_recorded(folder: str | Path) -> Recorded:
    """
    Read an episode folder: ``steps.npz`` and pictures.

    The pictures of a view are files named by their stamp in ns in a folder of the view's name
    (``wrist_left/1700000000066000000.png``), or its derived video (``wrist.mp4``) with the stamps
    from ``steps.npz``. Raises DataError when something is missing or does not fit.
    """
    folder = Path(folder)
    path = folder / 'steps.npz'
    try:
        with np.load(path, allow_pickle=False) as npz:
            arrays = {name: npz[name] for name in npz.files}
    except (OSError, ValueError) as error:
        raise DataError(f'cannot read {path}: {error}') from error
    missing = [name for name in ('arm/stamp_ns', 'arm/q', 'gripper/stamp_ns', 'gripper/position')
               if name not in arrays]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; found {', '.join(sorted(arrays))}")
    return _from_arrays(arrays, {**_videos(folder, arrays), **_folders(folder)})


def _from_arrays(arrays: Mapping[str, NDArray[Any]], views: Mapping[str, Track]) -> Recorded:
    stamps, q = arrays['arm/stamp_ns'].astype(np.int64), arrays['arm/q'].astype(float)
    nothing = np.zeros_like(q)
    return Recorded(
        stamps, q, arrays.get('arm/dq', nothing), arrays.get('arm/tau', nothing),
        arrays.get('arm/pose', np.zeros((len(q), 6))), arrays.get('arm/q_desired', q),
        arrays['gripper/stamp_ns'].astype(np.int64), arrays['gripper/position'].astype(float),
        views)


def _folders(folder: Path) -> dict[str, Track]:
    tracks = {}
    for below in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted((path for path in below.iterdir()
                        if path.suffix in _PICTURES and path.stem.isdigit()),
                       key=lambda path: int(path.stem))
        if files:
            stamps = np.array([int(path.stem) for path in files], np.int64)
            tracks[below.name] = Track(stamps, _FileReader(files))
    return tracks


def _videos(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Track]:
    tracks = {}
    for name in arrays:
        words = name.split('/')
        if words[0] == 'frames' and words[-1] == 'stamp_ns' and len(words) == 3:
            video = folder / f"{words[1].removesuffix('_left')}.mp4"
            if video.is_file() and len(arrays[name]):
                tracks[words[1]] = Track(arrays[name].astype(np.int64), _VideoReader(video))
    return tracks


@dataclass(frozen=True)
class _FileReader:
    files: list[Path]

    def __call__(self, index: int) -> Pixels:
        return _rgb(cv2.imread(str(self.files[index])), self.files[index])


class _VideoReader:
    """Reads frames of a video in order; a jump backwards starts again from the beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = 0
        self._last: Pixels | None = None
        self._capture: cv2.VideoCapture | None = None

    def __call__(self, index: int) -> Pixels:
        if self._last is not None and index == self._next - 1:
            return self._last
        if self._capture is None or index < self._next:
            self._capture, self._next = cv2.VideoCapture(str(self._path)), 0
        frame = None
        while self._next <= index:
            found, frame = self._capture.read()
            if not found:
                raise DataError(f'{self._path} ends at frame {self._next}, wanted {index}')
            self._next += 1
        self._last = _rgb(frame, self._path)
        return self._last


def _rgb(picture: Any, path: Path) -> Pixels:
    if picture is None:
        raise DataError(f'{path} is not a readable picture')
    return np.ascontiguousarray(picture[..., ::-1])


def views_of(role: str, recorded: Recorded) -> dict[str, Track]:
    """Return the eyes of a camera role; DataError lists the available views."""
    found = {eye: recorded.views[view(role, eye)] for eye in ('left', 'right')
             if view(role, eye) in recorded.views}
    if 'left' not in found:
        raise DataError(f"the recording has no view '{view(role, 'left')}'; it has "
                        f"{', '.join(sorted(recorded.views)) or 'none'}")
    return found
