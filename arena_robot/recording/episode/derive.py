"""
Derived files of an episode: ``steps.npz``, one MP4 per view, ``episode.json``.

Everything is derived from the bag, never the other way round, and can be derived again. Each file
is written atomically. ``episode.json`` is the summary: rates, gaps, losses, skew, clamps,
latencies, end reason.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.files import replacing
from arena_robot.core.inferences import waited_share
from arena_robot.core.observation import view
from arena_robot.core.parallel import Progress, nothing
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recorder import STATISTICS
from arena_robot.recording.bag.topic_stats import TopicCounter
from arena_robot.recording.episode.clip import clip_span, read_potential
from arena_robot.recording.episode.frames import video_frames, write_video
from arena_robot.recording.episode.tracks import (
    EpisodeTracks,
    Stamps,
    ViewTrack,
    load_tracks,
    nearest,
)
from arena_robot.records.episode_file import (
    STEPS_FILE,
    BagReport,
    ClampReport,
    ControlReport,
    EpisodeFile,
    InferenceReport,
    Spread,
    TopicNumbers,
    ViewReport,
    write_episode,
)
from arena_robot.safety.urdf import CameraMount


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
        potential = read_potential(bag, codec)
        views = dict(summary.views)
        frames: dict[str, Stamps] = {n: v.stamps for n, v in tracks.views.items()}
        if videos:
            frames = _videos(bag, codec, tracks, progress)
        for name, stamps in frames.items():
            made = videos and len(stamps) > 0
            views[name] = replace(
                views[name], file=video_name(name) if made else None, video_frames=len(stamps),
                start_ns=int(stamps[0]) if len(stamps) else None)
    progress_arrays = {} if potential is None else {
        'progress/stamp_ns': potential.stamps, 'progress/value': potential.values}
    write_arrays(folder / STEPS_FILE, {**step_arrays(tracks, frames), **progress_arrays})
    summary = replace(summary, views=views)
    write_episode(folder, summary)
    return summary


@dataclass(frozen=True)
class PlayableEpisode:
    """
    An episode whose videos can be played in step, in the time of its clip.

    ``info`` are the fields of its EpisodeInfo; ``ahead_s`` says by role how long before the clip
    each video begins.
    """

    info: Mapping[str, Any]
    duration_s: float
    ahead_s: Mapping[str, float]


def playable(folder: Path) -> PlayableEpisode:
    """Write the videos of left eyes that an episode lacks, and nothing else. As :func:`derive`."""
    with BagReader(folder) as bag:
        codec = codec_of(bag.topics.values())
        tracks = load_tracks(bag, codec)
        span = clip_span(tracks, folder)
        for role in span.logs:
            track, path = tracks.views[view(role)], folder / video_name(view(role))
            if not path.exists():
                write_video(path, video_frames(bag, codec, track.topic),
                            mean_rate(track.stamps) or CONTROL_RATE_HZ)
    return PlayableEpisode(tracks.info, span.duration_s,
                           {role: span.ahead_s(role) for role in span.logs})


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

        written = write_video(bag.folder / file, video_frames(bag, decoder, track.topic),
                              mean_rate(track.stamps) or CONTROL_RATE_HZ, on_frame=count)
        stamps[name] = np.array(written, np.int64)
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
        'skew_s': s.skew_s, 'joint_names': np.array(tracks.arm.joint_names, np.str_),
        **observed(tracks)}
    arm = {f'arm/{name}': getattr(tracks.arm, name)
           for name in ('q', 'dq', 'tau', 'tau_ext', 'q_desired', 'pose', 'mode')}
    return {**rows, **arm, 'arm/stamp_ns': tracks.arm.stamps,
            'gripper/stamp_ns': tracks.gripper.stamps, 'gripper/position': tracks.gripper.position,
            **{f'frames/{name}/stamp_ns': stamps for name, stamps in frames.items()}}


def observed(tracks: EpisodeTracks) -> dict[str, NDArray[Any]]:
    """Return the arm and gripper state of each step, by stamp; NaN where nothing was recorded."""
    count = len(tracks.steps.index)
    q, dq, tau = (np.full(tracks.steps.q_sent.shape, np.nan) for _ in range(3))
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
    rows_of_frames = np.full(wanted.shape, -1, np.int64)
    for column, name in enumerate(tracks.steps.views):
        stamps = frames.get(name, np.zeros(0, np.int64))
        if len(stamps):
            rows = nearest(stamps, wanted[:, column])
            hit = stamps[rows] == wanted[:, column]
            rows_of_frames[hit, column] = rows[hit]
    return rows_of_frames


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write a compressed .npz atomically."""
    with replacing(path) as partial, partial.open('wb') as out:
        np.savez_compressed(out, **arrays)  # type: ignore[arg-type]


def summarise(bag: BagReader, tracks: EpisodeTracks) -> EpisodeFile:
    """Return everything of an episode file but what depends on the derived files."""
    info, custom = dict(tracks.info), bag.metadata.custom
    for key in ('session_id', 'slot', 'end_reason', 'detail'):
        info[key] = info.get(key) or custom.get(key, '')
    metadata = bag.metadata
    return EpisodeFile(**{
        **info, 'steps': len(tracks.steps.index), 'control': control(tracks),
        'observation_age_s': spread(tracks.steps.observation_age_s),
        'skew_s': spread(tracks.steps.skew_s), 'inference': inference(tracks),
        'clamps': clamps(tracks), 'topics': topic_numbers(bag),
        'views': {name: view_report(v, tracks.mounts.get(name))
                  for name, v in tracks.views.items()},
        'bag': BagReport(tuple(f.path for f in metadata.files), metadata.message_count,
                         metadata.start_ns, metadata.duration_ns * 1e-9,
                         'recovered_from' in custom)})


def spread(values: Any, scale: float = 1.0) -> Spread | None:
    """Return median, 99th percentile and maximum of the finite values; None without any."""
    numbers = np.asarray(values, np.float64) * scale
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return None
    p50, p99 = np.percentile(numbers, [50, 99])
    return Spread(rounded(p50), rounded(p99), rounded(numbers.max()))


def rounded(value: float) -> float:
    """Return a number of seconds or hertz to the microsecond, as reports show it."""
    return round(float(value), 6)


def control(tracks: EpisodeTracks) -> ControlReport:
    """Return how well the control rate was held."""
    rate = tracks.info.get('control_rate_hz') or CONTROL_RATE_HZ
    loops = np.diff(tracks.steps.stamps) * 1e-9
    return ControlReport(
        rounded(rate), rounded(1.0 / loops.mean()) if len(loops) and loops.mean() > 0 else None,
        spread(loops), spread(np.abs(loops - 1.0 / rate)), spread(tracks.steps.late_s),
        int((loops > 1.5 / rate).sum()))


def inference(tracks: EpisodeTracks) -> InferenceReport:
    """Return the number of inferences and how long the arm waited for them."""
    waits = tracks.steps.inference_s
    rate_hz = tracks.info.get('control_rate_hz') or CONTROL_RATE_HZ
    share = rounded(waited_share(waits.tolist(), len(waits), rate_hz)) if len(waits) else None
    return InferenceReport(len(tracks.chunks), spread(waits[waits > 0.0]), share)


def clamps(tracks: EpisodeTracks) -> ClampReport:
    """Return how many steps were changed by the safety layer, and how often for which reason."""
    reasons = Counter(r for words in tracks.steps.clamps for r in words.split(',') if r)
    return ClampReport(sum(map(bool, tracks.steps.clamps)), dict(sorted(reasons.items())))


def view_report(track: ViewTrack, mount: CameraMount | None = None) -> ViewReport:
    """Return rate, gaps and latency of one view, and where its camera was."""
    periods = np.diff(track.stamps) * 1e-9
    usual = float(np.median(periods)) if len(periods) else 0.0
    missing = int(np.maximum(0, np.round(periods / usual) - 1).sum()) if usual > 0 else 0
    return ViewReport(track.topic.name, len(track.stamps), mean_rate(track.stamps), missing,
                      rounded(periods.max()) if len(periods) else None,
                      spread((track.log - track.stamps) * 1e-9), role=track.view.role,
                      eye=track.view.eye, frame_id=track.view.frame_id,
                      extrinsics_frame=mount.parent if mount else '',
                      extrinsics=tuple(round(v, 6) for v in mount.pose) if mount else ())


def mean_rate(stamps: Stamps) -> float | None:
    """Return the mean rate of sorted stamps in hertz; None below two."""
    if len(stamps) < 2 or stamps[-1] <= stamps[0]:
        return None
    return rounded((len(stamps) - 1) * 1e9 / (stamps[-1] - stamps[0]))


def topic_numbers(bag: BagReader) -> dict[str, TopicNumbers]:
    """Return count, rate, gaps, latency and losses of every topic, from the bag itself."""
    counters = {name: TopicCounter(topic) for name, topic in bag.topics.items()}
    sequences: dict[str, list[int]] = {name: [] for name in bag.topics}
    first: dict[str, int] = {}
    for message in bag.messages():
        counters[message.topic].wrote(message)
        first.setdefault(message.topic, message.log_ns)
        sequences[message.topic].append(message.sequence)
    recorded = recorder_statistics(bag.metadata.custom)
    return {name: _topic_numbers(counter, first.get(name, 0), sequences[name],
                                 recorded.get(name, {}))
            for name, counter in sorted(counters.items())}


def _topic_numbers(counter: TopicCounter, first_ns: int, sequence: list[int],
                   recorded: Mapping[str, Any]) -> TopicNumbers:
    report = counter.report(0)
    span_s = (counter.last_log_ns - first_ns) * 1e-9
    lost = max(int(recorded.get('lost', 0)), sequence_losses(counter.topic, sequence))
    return TopicNumbers(
        counter.topic.type, counter.written, counter.bytes,
        rounded((counter.written - 1) / span_s) if span_s > 0 else None,
        rounded(report.max_gap_s), lost, rounded(report.max_latency_s)
        if isfinite(report.max_latency_s) and not counter.topic.is_latched else None)


def sequence_losses(topic: Topic, sequence: list[int]) -> int:
    """Return how many numbers are missing in a publisher's count; 0 with several publishers."""
    if len(topic.qos) != 1 or topic.is_latched or not sequence or not all(sequence):
        return 0
    steps = np.diff(np.array(sequence, np.int64))
    if (steps <= 0).any():
        return 0
    return int((steps - 1).sum())


def recorder_statistics(custom: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the recorder's counters by topic; empty for recovered and foreign bags."""
    try:
        counted = json.loads(custom.get(STATISTICS, '{}'))
    except json.JSONDecodeError:
        return {}
    return counted if isinstance(counted, dict) else {}
