"""Summary of an episode: rates, gaps, losses, skew, clamps, latencies, end reason."""

import json
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.inferences import waited_share
from arena_robot.recording.bag.base import Topic
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.recorder import STATISTICS
from arena_robot.recording.bag.topic_stats import TopicCounter
from arena_robot.recording.episode.tracks import EpisodeTracks, Stamps, ViewTrack
from arena_robot.records.episode_file import (
    BagReport,
    ClampReport,
    ControlReport,
    EpisodeFile,
    InferenceReport,
    Spread,
    TopicNumbers,
    ViewReport,
)
from arena_robot.safety.camera_frames import CameraMount


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
