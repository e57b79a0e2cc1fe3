"""
Check of an episode's folder: rates, skew, losses, stamps, journal, and every file.

Each finding is ok, a warning (usable, should be inspected) or a failure (do not use it).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.errors import ArenaError, DataError
from arena_robot.core.jpeg import from_jpeg
from arena_robot.recording.bag.base import Decoder, Message, Topic
from arena_robot.recording.bag.codec import codec_of
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.topic_stats import TopicCounter
from arena_robot.recording.episode.derive import summarise, video_name
from arena_robot.recording.episode.frames import depth_of, read_video
from arena_robot.recording.episode.tracks import EpisodeTracks, ViewTrack, load_tracks
from arena_robot.recording.episode.views import JPEG, PNGS
from arena_robot.records.episode_file import (
    EPISODE_FILE,
    STEPS_FILE,
    EpisodeFile,
    has_episode,
    read_episode,
)
from arena_robot.records.session_file import JOURNAL, Entry, read_journal

_PICTURES_DECODED = 3    # of each view, then each fiftieth: decoding all of them takes long
_TORN_STEPS = 45         # three seconds, between the last entry of a journal and a power cut


class FindingLevel(str, Enum):
    """Severity of a finding."""

    OK = 'ok'
    WARNING = 'warning'
    FAILURE = 'failure'


@dataclass(frozen=True)
class Finding:
    """Result of one check: ``what`` was checked, ``text`` says what was found and expected."""

    level: FindingLevel
    what: str
    text: str


@dataclass(frozen=True)
class CheckLimits:
    """
    Limits of the check; rates in hertz, times in seconds.

    Arm states at less than ``fail_arm_hz``, or with a gap of ``fail_arm_gap_s``, are a failure.
    ``max_late_pictures`` is the share of a view's pictures that may be older than
    ``max_picture_lag_s`` when they come.
    """

    min_arm_hz: float = 40.0
    fail_arm_hz: float = 15.0
    fail_arm_gap_s: float = 0.5
    min_camera_share: float = 0.9
    max_camera_gap_s: float = 0.2
    max_arm_gap_s: float = 0.1
    max_age_p99_s: float = 0.08
    max_skew_p99_s: float = 0.08
    max_picture_lag_s: float = 0.2
    max_late_pictures: float = 0.1
    max_period_error_p99_s: float = 0.008
    max_lost_share: float = 0.001


@dataclass(frozen=True)
class CheckReport:
    """All findings on one folder, and the numbers behind them."""

    folder: Path
    findings: tuple[Finding, ...]
    summary: EpisodeFile = field(default_factory=EpisodeFile)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(f.level is not FindingLevel.FAILURE for f in self.findings)


def check(folder: Path, limits: CheckLimits = CheckLimits()) -> CheckReport:
    """Check everything in ``folder``; an unreadable file is a finding, not an error."""
    findings: list[Finding] = []
    summary = EpisodeFile()
    try:
        with BagReader(folder) as bag:
            codec = codec_of(bag.topics.values())
            tracks = load_tracks(bag, codec)
            summary = summarise(bag, tracks)
            findings += _bag(bag, summary)
            findings += [*_steps(tracks), *_numbers(tracks, summary, limits)]
            findings += message_findings(bag, codec)
            findings += journal_findings(folder, summary)
            findings += _derived(folder, bag, tracks)
    except ArenaError as error:
        findings.append(Finding(FindingLevel.FAILURE, 'bag', str(error)))
    return CheckReport(folder, tuple(findings), summary)


def _finding(good: bool, what: str, text: str) -> Finding:
    return Finding(FindingLevel.OK if good else FindingLevel.FAILURE, what, text)


def _warn(good: bool, what: str, text: str) -> Finding:
    return Finding(FindingLevel.OK if good else FindingLevel.WARNING, what, text)


def _bag(bag: BagReader, summary: EpisodeFile) -> Iterator[Finding]:
    inside = sum(t.count for t in summary.topics.values())
    declared = bag.metadata.message_count
    yield _finding(inside == declared, 'bag', f'{inside} messages are in the files, metadata.yaml '
                   f'says {declared}')
    nameless = [t.name for t in bag.topics.values() if not t.definition or not t.qos]
    yield _finding(not nameless, 'topics', f'{len(bag.topics)} topics with definition and QoS'
                   if not nameless else f"no definition or QoS: {', '.join(nameless)}")
    source = bag.metadata.custom.get('recovered_from')
    if source:
        yield _warn(False, 'recovered', f'this bag was cut off and recovered from {source}')


def _steps(tracks: EpisodeTracks) -> Iterator[Finding]:
    s, count = tracks.steps, len(tracks.steps.index)
    yield _finding(count > 0, 'steps', f'{count} steps')
    if not count:
        return
    yield _finding(bool((s.index == np.arange(count)).all()), 'step numbers',
                   f'numbered {s.index[0]} to {s.index[-1]}, {count} of them')
    announced = tracks.info.get('steps', 0)
    ended = bool(tracks.info.get('end_reason'))
    yield _finding(not ended or announced == count, 'episode info',
                   f'the episode ended with {announced} steps, {count} were recorded' if ended else
                   'the episode has no end')
    if not ended:
        yield _warn(False, 'end', 'nobody said how the episode ended')
    yield _arm_states(tracks)
    yield from _pictures_used(tracks)
    yield _chunks_agree(tracks)


def _arm_states(tracks: EpisodeTracks) -> Finding:
    missing = int((~np.isin(tracks.steps.arm_stamps, tracks.arm.stamps)).sum())
    return _finding(missing == 0, 'arm stamps', 'the arm state of every step is in the bag'
                    if not missing else f'the arm states of {missing} steps are not in the bag')


def _pictures_used(tracks: EpisodeTracks) -> Iterator[Finding]:
    for column, name in enumerate(tracks.steps.views):
        used = tracks.steps.image_stamps[:, column]
        track = tracks.views.get(name)
        recorded = track.stamps if track else np.zeros(0, np.int64)
        missing = int((~np.isin(used[used > 0], recorded)).sum())
        yield _finding(missing == 0, f'pictures {name}', f'all {len(used)} pictures used are in '
                       'the bag' if not missing else f'{missing} pictures used by steps are not '
                       'in the bag')


def _chunks_agree(tracks: EpisodeTracks) -> Finding:
    chunks, wrong = {c.index: c for c in tracks.chunks}, 0
    for row, requested in enumerate(tracks.steps.requested):
        chunk = chunks.get(int(tracks.steps.chunk_index[row]))
        place = int(tracks.steps.chunk_step[row])
        if chunk is None or place >= len(chunk.actions):
            wrong += 1
        else:
            action = chunk.actions[place]
            if chunk.space != tracks.steps.space:
                continue    # in a layout, of which the station made an action in the steps' space
            wrong += not np.allclose(action, requested[:len(action)], atol=1e-5)
    return _finding(wrong == 0, 'chunks', f'{len(chunks)} inferences explain every step'
                    if not wrong else f'{wrong} steps do not follow from the recorded inferences')


def _numbers(tracks: EpisodeTracks, summary: EpisodeFile,
             limits: CheckLimits) -> Iterator[Finding]:
    yield from _losses(summary, limits)
    yield _arm_rate(tracks, limits)
    rate = summary.control.nominal_hz
    for name, view in summary.views.items():
        if not len(tracks.views[name].stamps) and name not in tracks.steps.views:
            continue    # a topic that was never in use, such as the right eye of a mono station
        good = (view.rate_hz or 0.0) >= limits.min_camera_share * rate
        yield _warn(good and (view.max_gap_s or 0.0) <= limits.max_camera_gap_s, f'rate {name}',
                    f'{view.rate_hz or 0.0:.2f} Hz, longest gap {view.max_gap_s} s, '
                    f'{view.missing} frames missing (wanted {rate:g} Hz, gaps up to '
                    f'{limits.max_camera_gap_s} s)')
        yield from _lag(tracks.views[name], name, summary, limits)
    error = summary.control.period_error_s
    if error:
        yield _warn(error.p99 <= limits.max_period_error_p99_s, 'control rate',
                    f'{summary.control.mean_hz or 0.0:.2f} Hz of {rate:g}, tick error p50 '
                    f'{1e3 * error.p50:.1f} ms, p99 {1e3 * error.p99:.1f} ms, '
                    f'{summary.control.missed_ticks} missed')
    for spread, name, most in (
            (summary.observation_age_s, 'observation age', limits.max_age_p99_s),
            (summary.skew_s, 'camera to arm skew', limits.max_skew_p99_s)):
        if spread:
            yield _warn(spread.p99 <= most, name, f'p50 {1e3 * spread.p50:.0f} ms, '
                        f'p99 {1e3 * spread.p99:.0f} ms (wanted {1e3 * most:.0f} ms)')


def _lag(track: ViewTrack, name: str, summary: EpisodeFile,
         limits: CheckLimits) -> Iterator[Finding]:
    """Name a view whose pictures came late for a part of the rollout that counts."""
    lag_s = (track.log - track.stamps) * 1e-9
    late = lag_s[lag_s > limits.max_picture_lag_s]
    if not len(late) or len(late) <= limits.max_late_pictures * len(lag_s):
        return
    rate, wanted = summary.control.mean_hz, summary.control.nominal_hz
    waited = rate is not None and rate < limits.min_camera_share * wanted
    yield _warn(False, f'lag {name}', f'{len(late)} of {len(lag_s)} pictures were '
                f'{1e3 * float(np.median(late)):.0f} ms old when they came (wanted '
                f'{1e3 * limits.max_picture_lag_s:.0f} ms)' + (
                    f': the control loop waited for them and ran at {rate} Hz instead of '
                    f'{wanted:g}' if waited else ''))


def _losses(summary: EpisodeFile, limits: CheckLimits) -> Iterator[Finding]:
    lossy = {n: t for n, t in summary.topics.items() if t.lost}
    for name, topic in lossy.items():
        share = topic.lost / (topic.lost + topic.count)
        level = FindingLevel.FAILURE if share > limits.max_lost_share else FindingLevel.WARNING
        yield Finding(level, 'losses', f'{name}: {topic.lost} of '
                      f'{topic.lost + topic.count} messages were lost')
    if not lossy:
        yield Finding(FindingLevel.OK, 'losses', 'no message was lost')


def _arm_rate(tracks: EpisodeTracks, limits: CheckLimits) -> Finding:
    periods = np.diff(tracks.arm.stamps) * 1e-9
    if not len(periods):
        return _finding(False, 'arm rate', f'{len(tracks.arm.stamps)} arm states were recorded')
    rate, gap = 1.0 / max(periods.mean(), 1e-9), periods.max()
    level = FindingLevel.OK
    if rate < limits.fail_arm_hz or gap > limits.fail_arm_gap_s:
        level = FindingLevel.FAILURE
    elif rate < limits.min_arm_hz or gap > limits.max_arm_gap_s:
        level = FindingLevel.WARNING
    return Finding(level, 'arm rate', f'{rate:.0f} Hz, longest gap {gap:.3f} s (wanted '
                   f'{limits.min_arm_hz:g} Hz, gaps up to {limits.max_arm_gap_s} s)')


def _derived(folder: Path, bag: BagReader, tracks: EpisodeTracks) -> Iterator[Finding]:
    if not has_episode(folder):
        yield _warn(False, 'derived', f'no {EPISODE_FILE}: run `arena episode derive {folder}`')
        return
    yield _readable(folder / EPISODE_FILE, lambda p: _summary_agrees(p.parent, bag))
    yield _readable(folder / STEPS_FILE, lambda p: _steps_agree(p, len(tracks.steps.index)))
    for name, track in tracks.views.items():
        path = folder / video_name(name)
        if len(track.stamps) and path.exists():
            yield _readable(path, _video_plays)
        elif len(track.stamps):
            yield _warn(False, path.name, 'missing: run `arena episode derive`')


def _readable(path: Path, look: Callable[[Path], str]) -> Finding:
    try:
        return _finding(True, path.name, look(path))
    except (OSError, ValueError, KeyError, ArenaError) as error:
        return _finding(False, path.name, f'{error}; run `arena episode derive` again')


def _summary_agrees(folder: Path, bag: BagReader) -> str:
    declared = read_episode(folder).bag.messages
    if declared != bag.metadata.message_count:
        raise DataError(f'derived from {declared} messages, the bag has '
                        f'{bag.metadata.message_count}')
    return f'derived from {declared} messages'


def _steps_agree(path: Path, count: int) -> str:
    with np.load(path) as arrays:
        rows = len(arrays['index'])
    if rows != count:
        raise DataError(f'{rows} rows for {count} steps')
    return f'{rows} rows'


def _video_plays(path: Path) -> str:
    first = next(iter(read_video(path)), None)
    if first is None:
        raise DataError('no frame in it')
    return f'{first.shape[1]}×{first.shape[0]}'


def message_findings(bag: BagReader, decoder: Decoder) -> Iterator[Finding]:
    """
    Check that every message can be decoded, and the order of stamps.

    On topics with several publishers, as shown by their counts, stamps may be out of order.
    """
    broken: dict[str, str] = {}
    last: dict[str, int] = {}
    mixed: set[str] = set()
    backwards: dict[str, int] = {}
    counters = {name: TopicCounter(topic) for name, topic in bag.topics.items()}
    for message in bag.messages():
        topic, counter = bag.topics[message.topic], counters[message.topic]
        before = counter.last_stamp_ns
        counter.wrote(message)
        if message.sequence <= last.get(topic.name, -1):
            mixed.add(topic.name)
        last[topic.name] = message.sequence
        if counter.stamped and counter.last_stamp_ns < before and len(topic.qos) < 2:
            backwards[topic.name] = backwards.get(topic.name, 0) + 1
        problem = _problem(topic, message, decoder, counter.written)
        if problem:
            broken.setdefault(topic.name, problem)
    backwards = {n: k for n, k in backwards.items() if n not in mixed}
    yield _finding(not broken, 'decoding', 'every message is of its type' if not broken
                   else '; '.join(broken.values()))
    yield _finding(not backwards, 'stamps', 'stamps never run backwards' if not backwards
                   else '; '.join(f'{n} runs backwards {k} times' for n, k in backwards.items()))


def _problem(topic: Topic, message: Message, decoder: Decoder, count: int) -> str:
    """Return what is wrong with a message; only some images are decoded."""
    if topic.is_image and count > _PICTURES_DECODED and count % 50:
        return ''
    try:
        value = decoder.decode(topic, message.data)
    except DataError as error:
        return str(error)
    try:
        if topic.name.endswith(PNGS):
            depth_of(topic, value)
        elif topic.type == JPEG:
            from_jpeg(value.data)
    except DataError:
        return f'{topic.name}: picture {count} cannot be decoded'
    return ''


def journal_findings(folder: Path, summary: EpisodeFile) -> Iterator[Finding]:
    """
    Check that the journal beside ``folder`` and the bag agree; nothing where there is none.

    An incomplete last line is what a power failure leaves, and is ignored. A rollout that was cut
    off is in the journal up to its last entry, so the number of its steps may differ.
    """
    path = folder.absolute().parent / JOURNAL
    if not path.exists():
        return
    try:
        end = _end(list(read_journal(path)), summary)
    except (DataError, ValueError, KeyError, TypeError) as error:
        yield _finding(False, 'journal', f'{path} is damaged: {error}')
        return
    if end is None:
        yield _finding(False, 'journal', f'{path} does not say how slot {summary.slot} ended')
        return
    apart = abs(end['steps'] - summary.steps)
    yield _finding(apart <= (_TORN_STEPS if end.get('torn') else 0), 'journal',
                   f"{end['steps']} steps in the journal, {summary.steps} in the bag")
    if summary.end_reason:
        yield _finding(end['end'] == summary.end_reason, 'journal', f"ended '{end['end']}' in the "
                       f"journal, '{summary.end_reason}' in the bag")


def _end(entries: Sequence[Entry], summary: EpisodeFile) -> Mapping[str, Any] | None:
    """Return how the rollout of a recording ended; a slot that was run again has several."""
    ends = list(_ends(entries, summary.slot))
    begin_ns = summary.started_ns
    if begin_ns is None:
        return ends[-1] if ends else None
    return min(ends, key=lambda end: abs(end['start_ns'] - begin_ns), default=None)


def _ends(entries: Sequence[Entry], slot: str) -> Iterator[Mapping[str, Any]]:
    running, start_ns = '', 0
    for entry in entries:
        move = entry.move
        if move.startswith('started_'):
            running, start_ns = move[-1].upper(), entry.stamp_ns
        elif move == 'ended' and running == slot:
            yield {'steps': int(entry.data['steps']), 'end': str(entry.data['end']),
                   'start_ns': int(entry.data.get('started_ns', start_ns))}
            running = ''
        elif move == 'recovered' and running == slot:
            yield {'steps': _last_tick(entries, entry), 'end': 'interrupted', 'torn': True,
                   'start_ns': start_ns}
            running = ''


def _last_tick(entries: Sequence[Entry], until: Entry) -> int:
    ticks = [e.data['steps'] for e in entries if e.move == 'ticked' and e.n < until.n]
    return int(ticks[-1]) if ticks else 0
