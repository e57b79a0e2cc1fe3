"""
Derived files of an episode: ``steps.npz``, one MP4 per view, ``episode.json``.

Everything is derived from the bag, never the other way round, and can be derived again. Each file
is written atomically.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.files import replacing
from arena_robot.recording.bag.base import Decoder
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.episode.frames import video_frames, write_video
from arena_robot.recording.episode.potential import read_potential
from arena_robot.recording.episode.summary import mean_rate, summarise
from arena_robot.recording.episode.tracks import EpisodeTracks, Stamps, load_tracks, nearest
from arena_robot.records.episode_file import EpisodeFile, write_episode
from arena_robot.records.episode_files import STEPS_FILE

Progress = Callable[[int, int, str], None]


def nothing(done: int, total: int, label: str) -> None:
    """Show no progress."""


def derive(folder: Path, videos: bool = True, progress: Progress = nothing) -> EpisodeFile:
    """
    Derive all files of the episode in ``folder`` and return what ``episode.json`` holds.

    ``progress`` is called with frames done, frames in all, and the file in the making. Raises
    RecordingError or DataError when the bag cannot be read.
    """
    with BagReader(folder) as bag:
        codec = codec_of(bag.topics.values())
        tracks = load_tracks(bag, codec)
        summary = summarise(bag, tracks)
        told = read_potential(bag, codec)
        views = dict(summary.views)
        frames: dict[str, Stamps] = {n: v.stamps for n, v in tracks.views.items()}
        if videos:
            frames = _videos(bag, codec, tracks, progress)
        for name, stamps in frames.items():
            made = videos and len(stamps) > 0
            views[name] = replace(
                views[name], file=video_name(name) if made else None, video_frames=len(stamps),
                start_ns=int(stamps[0]) if len(stamps) else None)
    progress_arrays = {} if told is None else {
        'progress/stamp_ns': told.stamps, 'progress/value': told.values}
    write_arrays(folder / STEPS_FILE, {**step_arrays(tracks, frames), **progress_arrays})
    summary = replace(summary, views=views)
    write_episode(folder, summary)
    return summary


def video_name(view: str) -> str:
    """Return a view's file: ``wrist.mp4`` for its left eye, ``wrist_right.mp4`` for the right."""
    return f"{view.removesuffix('_left')}.mp4"


def _videos(bag: BagReader, decoder: Decoder, tracks: EpisodeTracks, progress: Progress
            ) -> dict[str, Stamps]:
    total, done = sum(len(v.stamps) for v in tracks.views.values()), 0
    stamps = {}
    for name, track in tracks.views.items():
        file = video_name(name)

        def count(label: str = file) -> None:
            nonlocal done
            done += 1
            progress(done, total, label)

        kept = write_video(bag.folder / file, video_frames(bag, decoder, track.topic),
                           mean_rate(track.stamps) or 15.0, on_frame=count)
        stamps[name] = np.array(kept, np.int64)
    return stamps


def step_arrays(tracks: EpisodeTracks, frames: dict[str, Stamps]) -> dict[str, NDArray[Any]]:
    """
    Return the arrays of ``steps.npz``: one row a step, and ``<track>/…`` as recorded.

    ``frame_index`` (N, V) is the frame of the view's video that a step used, -1 for none.
    """
    s = tracks.steps
    rows = {
        'index': s.index, 'stamp_ns': s.stamps, 'arm_stamp_ns': s.arm_stamps,
        'gripper_stamp_ns': s.gripper_stamps, 'views': np.array(s.views, np.str_),
        'image_stamp_ns': s.image_stamps, 'frame_index': frame_index(tracks, frames),
        'action_space': np.array(s.space), 'requested': s.requested, 'q_sent': s.q_sent,
        'gripper_sent': s.gripper_sent, 'chunk_index': s.chunk_index, 'chunk_step': s.chunk_step,
        'clamps': np.array(s.clamps, np.str_), 'loop_s': s.loop_s, 'late_s': s.late_s,
        'inference_s': s.inference_s, 'observation_age_s': s.observation_age_s,
        'skew_s': s.skew_s, **observed(tracks)}
    arm = {f'arm/{name}': getattr(tracks.arm, name)
           for name in ('q', 'dq', 'tau', 'tau_ext', 'q_desired', 'pose', 'mode')}
    return {**rows, **arm, 'arm/stamp_ns': tracks.arm.stamps,
            'gripper/stamp_ns': tracks.gripper.stamps, 'gripper/position': tracks.gripper.position,
            **{f'frames/{name}/stamp_ns': stamps for name, stamps in frames.items()}}


def observed(tracks: EpisodeTracks) -> dict[str, NDArray[Any]]:
    """Return the arm and gripper state of each step, by stamp; NaN where nothing was recorded."""
    count = len(tracks.steps.index)
    q, dq, tau = (np.full((count, 7), np.nan) for _ in range(3))
    pose, grip = np.full((count, 6), np.nan), np.full(count, np.nan)
    if count and len(tracks.arm.stamps):
        rows = nearest(tracks.arm.stamps, tracks.steps.arm_stamps)
        q, dq, tau, pose = (a[rows] for a in (tracks.arm.q, tracks.arm.dq, tracks.arm.tau,
                                              tracks.arm.pose))
    if count and len(tracks.gripper.stamps):
        grip = tracks.gripper.position[nearest(tracks.gripper.stamps,
                                               tracks.steps.gripper_stamps)]
    return {'joint_position': q, 'joint_velocity': dq, 'joint_torque': tau,
            'cartesian_position': pose, 'gripper_position': grip}


def frame_index(tracks: EpisodeTracks, frames: dict[str, Stamps]) -> Stamps:
    """Return (N, V): the frame of each view that each step used, -1 for none."""
    wanted = tracks.steps.image_stamps
    found = np.full(wanted.shape, -1, np.int64)
    for column, name in enumerate(tracks.steps.views):
        stamps = frames.get(name, np.zeros(0, np.int64))
        if len(stamps):
            rows = nearest(stamps, wanted[:, column])
            hit = stamps[rows] == wanted[:, column]
            found[hit, column] = rows[hit]
    return found


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write a compressed .npz atomically."""
    with replacing(path) as partial, partial.open('wb') as out:
        np.savez_compressed(out, **arrays)  # type: ignore[arg-type]
