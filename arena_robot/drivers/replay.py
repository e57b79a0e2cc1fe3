"""
Drivers that replay a recording: recorded states and images, on a given clock.

Playback begins when a :class:`Player` is made or rewound; stamps are shifted to the clock, so ages
are as in the recording. Commands are checked and stored, but have no effect. What was recorded is
a :class:`Recorded`: arrays of arm and gripper readings, and images by stamp.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from arena_robot.core.action import ArmCommand, GripperCommand
from arena_robot.core.clock import Clock
from arena_robot.core.errors import DataError, DriverError, ReadTimeout, StaleData
from arena_robot.core.observation import (
    EYES,
    ArmState,
    CameraInfo,
    Floats,
    GripperState,
    Image,
    Pixels,
    view,
)
from arena_robot.drivers.base import StereoFrame
from arena_robot.drivers.grabbing import KEPT
from arena_robot.drivers.part import Opened
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.filter import clipped, finite

_KEPT = 1000    # commands; nothing moves by them
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
    An episode in arrays; stamps in ns ascending, shapes of the arm's (N, n) and pose (N, 6).

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
        joints = max(1, self.joints)
        for name, width in (('q', joints), ('dq', joints), ('tau', joints), ('pose', 6),
                            ('q_desired', joints)):
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
    def joints(self) -> int:
        """The number of joints of the recorded arm; 0 where its ``q`` is no table."""
        return int(np.shape(self.q)[1]) if np.ndim(self.q) == 2 else 0

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
            read, frame = self._capture.read()
            if not read:
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
    views = {eye: recorded.views[view(role, eye)] for eye in ('left', 'right')
             if view(role, eye) in recorded.views}
    if 'left' not in views:
        raise DataError(f"the recording has no view '{view(role, 'left')}'; it has "
                        f"{', '.join(sorted(recorded.views)) or 'none'}")
    return views


class Player:
    """Maps a clock's time to a recording's; parts of one episode share a player."""

    def __init__(self, recorded: Recorded, clock: Clock) -> None:
        self.recorded, self.clock = recorded, clock
        self.rewind()

    def rewind(self) -> None:
        """Restart at the current time."""
        self.offset_ns = self.clock.now_ns() - self.recorded.start_ns

    def newest(self, stamps: Stamps) -> int:
        """Return the row of the newest reading, 0 before the first."""
        now_ns = self.clock.now_ns() - self.offset_ns
        return max(0, int(np.searchsorted(stamps, now_ns, side='right')) - 1)

    def next(self, stamps: Stamps, timeout_s: float, what: str) -> int:
        """Wait for the next reading and return its row; ReadTimeout when it comes too late."""
        row = self.newest(stamps) + 1
        end_ns = self.clock.now_ns() + round(timeout_s * 1e9)
        due_ns = int(stamps[row]) + self.offset_ns if row < len(stamps) else end_ns + 1
        self.clock.sleep_until_ns(min(due_ns, end_ns))
        if due_ns > end_ns:
            raise ReadTimeout(f'no {what} in the recording within {timeout_s} s')
        return row

    def fresh(self, stamps: Stamps, max_age_s: float, what: str) -> int:
        """Return the row of the newest reading; StaleData when it is too old."""
        row = self.newest(stamps)
        age_s = (self.clock.now_ns() - self.offset_ns - int(stamps[row])) * 1e-9
        if age_s > max_age_s:
            raise StaleData(f'newest {what} is {age_s:.3f} s old, accepted are {max_age_s} s; '
                            'has the recording ended?')
        return row


def open_recorded(folder: str | Path, clock: Clock) -> Player:
    """Read an episode folder and begin to play it; DataError when it cannot be read."""
    return Player(read_recorded(folder), clock)


def replayed(kind: str, player: Player, role: str = '', focal: float = 0.414,
             ) -> 'ReplayArm | ReplayGripper | ReplayCamera':
    """
    Return the part of ``kind`` ('arm', 'gripper', 'camera') that plays a recording.

    A recording does not hold the geometry of its cameras: ``focal`` is their focal length as a
    share of the width. Raises DataError when there are no pictures of the camera's role.
    """
    if kind != 'camera':
        return ReplayArm(player) if kind == 'arm' else ReplayGripper(player)
    tracks = views_of(role, player.recorded)
    height, width = next(iter(tracks.values())).picture(0).shape[:2]
    f = focal * width
    k = np.array([[f, 0.0, (width - 1) / 2], [0.0, f, (height - 1) / 2], [0.0, 0.0, 1.0]])
    return ReplayCamera(player, role, dict.fromkeys(EYES, CameraInfo(width, height, k, 0.0, '')))


class ReplayArm(Opened):
    """A recorded arm; ``commands`` has the newest commands sent to it."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.commands: deque[ArmCommand] = deque(maxlen=_KEPT)

    def state(self, max_age_s: float = 0.1) -> ArmState:
        """Return the newest recorded state."""
        self._require_open('the replayed arm')
        return self._state(self._player.fresh(self._stamps, max_age_s, 'arm state'))

    def wait_state(self, timeout_s: float) -> ArmState:
        """Return the next recorded state."""
        self._require_open('the replayed arm')
        return self._state(self._player.next(self._stamps, timeout_s, 'arm state'))

    def command(self, command: ArmCommand) -> ArmCommand:
        """Store a command; return the recording's target."""
        self._require_open('the replayed arm')
        finite(command.q, self._player.recorded.joints, 'arm target')
        self.commands.append(command)
        row = self._player.newest(self._stamps)
        return ArmCommand(self._player.recorded.q_desired[row].copy(), command.stamp_ns)

    def move_to(self, q: Floats, duration_s: float | None = None) -> float:
        """Raise DriverError: a recording cannot be moved."""
        self._require_open('the replayed arm')
        finite(q, self._player.recorded.joints, 'goal')
        raise DriverError('a replayed arm does not move; use the simulated one to try motions')

    def stop(self) -> None:
        """Do nothing: nothing moves."""

    def recover(self) -> None:
        """Do nothing: a recording needs no recovery."""
        self._require_open('the replayed arm')

    @property
    def _stamps(self) -> Stamps:
        return self._player.recorded.arm_stamps

    def _state(self, row: int) -> ArmState:
        r = self._player.recorded
        return ArmState(int(self._stamps[row]) + self._player.offset_ns, q=r.q[row].copy(),
                        dq=r.dq[row].copy(), tau=r.tau[row].copy(), tau_ext=np.zeros(r.joints),
                        pose=r.pose[row].copy(), q_desired=r.q_desired[row].copy())


class ReplayGripper(Opened):
    """A recorded gripper; ``commands`` has the newest commands sent to it."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.commands: deque[GripperCommand] = deque(maxlen=_KEPT)

    def state(self, max_age_s: float = 0.2) -> GripperState:
        """Return the newest recorded state."""
        self._require_open('the replayed gripper')
        return self._state(self._player.fresh(self._stamps, max_age_s, 'gripper state'))

    def wait_state(self, timeout_s: float) -> GripperState:
        """Return the next recorded state."""
        self._require_open('the replayed gripper')
        return self._state(self._player.next(self._stamps, timeout_s, 'gripper state'))

    def command(self, command: GripperCommand) -> GripperCommand:
        """Store a command clipped to 0..1."""
        self._require_open('the replayed gripper')
        sent = clipped(command)
        self.commands.append(sent)
        return sent

    def stop(self) -> None:
        """Do nothing: nothing moves."""

    def activate(self) -> None:
        """Do nothing: a recording needs no activation."""
        self._require_open('the replayed gripper')

    @property
    def _stamps(self) -> Stamps:
        return self._player.recorded.gripper_stamps

    def _state(self, row: int) -> GripperState:
        position = float(self._player.recorded.gripper[row])
        return GripperState(int(self._stamps[row]) + self._player.offset_ns, position,
                            ROBOTIQ_2F85.width_m(position), requested_position=position)


class ReplayCamera(Opened):
    """The recorded views of one camera role; an eye that was not recorded is (0, 0, 3)."""

    def __init__(self, player: Player, role: str, infos: Mapping[str, CameraInfo],
                 ) -> None:
        self._player, self.role, self.serial = player, role, 'replay'
        self._infos = dict(infos)
        self._eyes: dict[str, Track] = {}
        self._reading = threading.Lock()

    def open(self) -> None:
        """Find the views; DataError when the recording has none of this role."""
        self._eyes = views_of(self.role, self._player.recorded)
        super().open()

    def info(self) -> Mapping[str, CameraInfo]:
        """Return the geometry given to the constructor."""
        return dict(self._infos)

    def frame(self, max_age_s: float = 0.2) -> StereoFrame:
        """Return the newest recorded frame."""
        self._require_open(f'the replayed {self.role} camera')
        return self._frame(self._player.fresh(self._stamps, max_age_s, f'{self.role} frame'))

    def wait_frame(self, timeout_s: float) -> StereoFrame:
        """Return the next recorded frame."""
        self._require_open(f'the replayed {self.role} camera')
        return self._frame(self._player.next(self._stamps, timeout_s, f'{self.role} frame'))

    def arrivals(self) -> Sequence[tuple[int, int]]:
        """Return the stamps of the newest frames; they arrive without delay."""
        self._require_open(f'the replayed {self.role} camera')
        end = self._player.newest(self._stamps) + 1
        shown = self._stamps[max(end - KEPT, 0):end] + self._player.offset_ns
        return [(stamp, stamp) for stamp in shown.tolist()]

    @property
    def _stamps(self) -> Stamps:
        return self._eyes['left'].stamps

    def _frame(self, row: int) -> StereoFrame:
        stamp_ns = int(self._stamps[row])
        images = {}
        for eye in EYES:
            track = self._eyes.get(eye)
            at = int(np.searchsorted(track.stamps, stamp_ns)) if track is not None else 0
            seen = track is not None and at < len(track.stamps) and track.stamps[at] == stamp_ns
            pixels: Pixels = np.zeros((0, 0, 3), np.uint8)
            if track is not None and seen:
                with self._reading:
                    pixels = track.picture(at)
            images[eye] = Image(pixels, stamp_ns + self._player.offset_ns)
        return StereoFrame(images['left'], images['right'], row)
