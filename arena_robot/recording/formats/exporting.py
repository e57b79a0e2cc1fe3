"""Common parts of all exports: an episode's rows, and videos with one frame per step."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.episode import CONTROL_RATE_HZ, Slot
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.observation import Floats, Millimetres, view
from arena_robot.recording.bag.base import Decoder
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.clip import intrinsics
from arena_robot.recording.episode.derive import observed
from arena_robot.recording.episode.frames import depths, rgb_frame, video_frames, write_video
from arena_robot.recording.episode.tracks import ARM, EpisodeTracks, load_tracks, nearest
from arena_robot.recording.episode.views import JPEGS, STEP
from arena_robot.records.episode_file import episodes
from arena_robot.records.roboarena import said_of, solved
from arena_robot.records.session_file import SessionFile, has_session, read_session
from arena_robot.robots.arms import Chain, robot_of_joints
from arena_robot.safety.limits import robot_of


@dataclass(frozen=True)
class ExportSource:
    """One episode to export: its folder, its slot, and its session."""

    folder: Path
    slot: str
    session: SessionFile

    @property
    def success(self) -> bool | None:
        """Whether the rollout did its task: as was said, or by its progress; None: nobody said."""
        said: bool | None = said_of(self.session.verdict, Slot(self.slot))['success']
        return solved(self.session.progress(self.slot)) if said is None else said


def sources(place: Path) -> list[ExportSource]:
    """
    Return the episodes at ``place``, a session or an episode.

    Without a session file only the session's name is known. Raises DataError.
    """
    listed = []
    for folder in episodes(place):
        home = folder.absolute().parent
        session = read_session(home) if has_session(home) else SessionFile(home.name)
        listed.append(ExportSource(folder.absolute(), folder.name, session))
    return listed


def recorded_joints(bag: BagReader) -> int:
    """Return how many joints the first step or state of a bag names; 0 where there is neither."""
    topics = [topic.name for topic in bag.of_type(STEP, ARM)]
    first = next(iter(bag.decoded(Codec(), topics)), None) if topics else None
    return len(first[1].joint_names) if first else 0


class EpisodeExport:
    """One episode opened for export; use it with ``with``."""

    def __init__(self, source: ExportSource) -> None:
        self.source = source
        self.bag = BagReader(source.folder)
        self.codec: Decoder = Codec()
        self.tracks: EpisodeTracks

    def __enter__(self) -> 'EpisodeExport':
        self.bag.open()
        try:
            self.tracks = load_tracks(self.bag, self.codec)
            if not len(self.tracks.steps.index):
                raise DataError(f'{self.source.folder} has no steps, so there is nothing to '
                                'export')
        except BaseException:
            self.bag.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.bag.close()

    @property
    def prompt(self) -> str:
        """The instruction."""
        return str(self.tracks.info.get('prompt') or self.source.session.prompt)

    @property
    def rate_hz(self) -> float:
        """The nominal rate of the recorded control loop; DROID's where no EpisodeInfo says it."""
        return round(float(self.tracks.info.get('control_rate_hz') or CONTROL_RATE_HZ), 3)

    @property
    def robot(self) -> str:
        """The recorded robot's name in the table of arms; empty where nothing names it."""
        by_joints = robot_of_joints(self.tracks.arm.joint_names)
        return by_joints.name if by_joints else str(self.tracks.info.get('robot_type', ''))

    @property
    def chain(self) -> Chain | None:
        """The geometry of the recorded arm; None where this machine has no file of it."""
        try:
            robot = robot_of(self.robot)
        except ConfigError:
            return None
        return robot.limits.chain if robot.joints == self.tracks.arm.q.shape[1] else None

    def observed(self) -> dict[str, Floats]:
        """Return what each step saw of arm and gripper; DataError where one was not recorded."""
        seen = observed(self.tracks)
        if np.isnan(seen['joint_position']).any() or np.isnan(seen['gripper_position']).any():
            raise DataError(f'{self.source.folder} has steps whose arm or gripper state was not '
                            'recorded; `arena episode check` says more')
        return seen

    def views(self, right_eyes: bool = False) -> list[str]:
        """Return the views whose images every step used."""
        steps = self.tracks.steps
        return [name for column, name in enumerate(steps.views)
                if (right_eyes or name.endswith('_left')) and name in self.tracks.views
                and np.isin(steps.image_stamps[:, column], self.tracks.views[name].stamps).all()]

    def depths(self) -> list[str]:
        """Return the recorded depths, such as ``wrist_depth``."""
        return [name for name, track in self.tracks.depths.items() if len(track.stamps)]

    def step_depths(self, name: str) -> Iterator[Millimetres]:
        """Yield the depth (H, W) in mm at each step: the one nearest to the camera's image."""
        track, steps = self.tracks.depths[name], self.tracks.steps
        eye = view(track.view.role)
        used = steps.image_stamps[:, steps.views.index(eye)] if eye in steps.views \
            else steps.stamps
        wanted, row = nearest(track.stamps, used), 0
        for index, depth in enumerate(depths(self.bag, self.codec, track.topic)):
            while row < len(wanted) and wanted[row] == index:
                yield depth.millimetres
                row += 1

    def intrinsics(self, view: str) -> Floats | None:
        """Return the (3, 3) intrinsics of a view, None where no CameraInfo was recorded."""
        pictures = self.tracks.views[view].topic.name.removesuffix(JPEGS)
        info = f"{pictures.rpartition('/')[0]}/camera_info"
        return intrinsics(self.bag, info)[0] if self.bag.metadata.counts.get(info) else None

    def write_step_video(self, view: str, path: Path, size: tuple[int, int] | None = None,
                         beside: str = '') -> None:
        """
        Write a video at the recorded rate whose frame k is the image of step k; ``size`` (w, h).

        With ``beside`` each frame shows that view's image to the right of ``view``'s.
        """
        count, tick_ns = len(self.tracks.steps.index), 1e9 / self.rate_hz
        frames: Iterable[Any] = self._shown(view)
        if beside:
            frames = map(_side_by_side, frames, self._shown(beside))
        stamped = ((round(k * tick_ns), frame) for k, frame in enumerate(frames))
        if len(write_video(path, stamped, self.rate_hz, size=size)) != count:
            raise DataError(f'{self.source.folder}: the pictures of {view} do not follow the '
                            'steps')

    def _shown(self, view: str) -> Iterator[Any]:
        column = self.tracks.steps.views.index(view)
        wanted = self.tracks.steps.image_stamps[:, column]
        row = 0
        for stamp, frame in video_frames(self.bag, self.codec, self.tracks.views[view].topic):
            while row < len(wanted) and wanted[row] == stamp:
                yield frame
                row += 1


def _side_by_side(left: Any, right: Any) -> Any:
    return rgb_frame(np.hstack([frame.to_ndarray(format='rgb24') for frame in (left, right)]))


def new_folder(path: Path) -> Path:
    """Make a folder, which must be empty if it exists. Raises DataError."""
    if path.exists() and any(path.iterdir()):
        raise DataError(f'{path} is not empty; exports do not overwrite, name another --output')
    path.mkdir(parents=True, exist_ok=True)
    return path
