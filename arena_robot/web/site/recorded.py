"""What the files of a session say of its rollouts: curves, numbers, scene match, audits."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.audit.aggregate import Marks, marks_of
from arena_robot.core.bounded import BoundedWorker
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError, DataError, NotComputed
from arena_robot.core.observation import STILL_RAD_S
from arena_robot.ranking.pairwise.progress import MARGIN
from arena_robot.recording.episode.frames import first_picture
from arena_robot.records.audit_file import FOLDER, EpisodeAudit, audit_from_json
from arena_robot.records.episode_file import (
    EPISODE_FILE,
    SCENE_MATCH_FILE,
    STEPS_FILE,
    EpisodeFile,
    SceneMatch,
    parse_episode,
    parse_scene_match,
    read_arrays,
)
from arena_robot.reports.audit_agreement import audit_winner
from arena_robot.server.files import FileId
from arena_robot.server.renewed_values import FIRST_S
from arena_robot.server.store.blobs import Blobs
from arena_robot.server.store.browse import Browse
from arena_robot.session.loop.match import compare

FILE_BYTES = 8 << 20    # of an uploaded steps.npz; the longest rollout has a tenth of it
ROWS = 20_000           # of an array; 200 arm states a second for 100 s
POINTS = 300            # of a curve, which is as many pixels wide
KEPT = 200              # sessions whose curves are in memory: those of a few pages

Curve = tuple[tuple[float, float], ...]
Arrays = Mapping[str, NDArray[Any]]
AUDIT_BYTES = 1 << 20
MOST_JUDGES = 4    # of an episode; more curves cannot be told apart


@dataclass(frozen=True)
class AuditNote:
    """
    What a page says of a judge's audit of one slot.

    ``metrics`` are shares by name; ``refused`` those that the judge cannot say, with the reasons.
    """

    calibrated: bool
    convention: str
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)
    refused: Mapping[str, str] = field(default_factory=dict)


def label(audit: EpisodeAudit) -> str:
    """Return how a judge is named on pages."""
    return audit.judge[:40] + ('' if audit.calibrated else ', not calibrated')


def shifted(marks: Marks, by_s: float) -> Marks:
    """Return marks in the time of the videos."""
    def moved(spans: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        return tuple((a + by_s, b + by_s) for a, b in spans)
    return Marks(tuple((t + by_s, q) for t, q in marks.milestones), moved(marks.falls),
                 moved(marks.still))


class AuditCurves:
    """
    Reads audits, as `arena audit` and the server's own worker write them beside the episodes.

    Audits that a station uploaded are left out: a station does not judge its own session.
    """

    def __init__(self, blobs: Blobs, browse: Browse) -> None:
        self._blobs = blobs
        self._browse = browse

    def names(self, session_id: str, slot: str) -> tuple[str, ...]:
        """Return the audit files of a slot, up to four."""
        names = [name for name in self._blobs.names(f'{session_id}/{slot}/{FOLDER}')
                 if name.endswith('.json')]
        if not names:
            return ()
        sent = self._browse.sent(session_id, slot)
        return tuple(n for n in names if f'{FOLDER}/{n}' not in sent)[:MOST_JUDGES]

    def audit(self, session_id: str, slot: str, name: str) -> EpisodeAudit | None:
        """Return an audit, without the judge's replies; None when it has none to show."""
        try:
            key = FileId(session_id, slot, f'{FOLDER}/{name}').key
            if self._blobs.size(key) > AUDIT_BYTES:
                return None
            audit = audit_from_json(json.loads(b''.join(self._blobs.read(key))), key)
        except (ArenaError, OSError, ValueError, RecursionError):
            return None
        phi = np.array(audit.phi, float)
        if not audit.valid or len(phi) != len(audit.times_s) or not np.isfinite(phi).any():
            return None
        return replace(audit, phi=tuple(np.clip(phi, 0.0, 1.0).tolist()), raw=())


@dataclass(frozen=True)
class RecordedRollout:
    """
    One slot as it was recorded; what no file tells is empty or None.

    Curves are (seconds of the video, value): ``gripper`` 0 open to 1 closed, ``speed`` of the
    fastest joint in rad/s, ``progress`` 0 to 1 as a simulator told it, ``judges`` as judges did,
    by name, with ``audits`` of each. ``still`` is the share of the time that no joint moved,
    ``longest_still_s`` the longest time without a pause of it.
    """

    numbers: EpisodeFile | None = None
    gripper: Curve = ()
    speed: Curve = ()
    progress: Curve = ()
    still: float | None = None
    longest_still_s: float = 0.0
    judges: Mapping[str, Curve] = field(default_factory=dict)
    audits: Mapping[str, AuditNote] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Return the time of the last point, 0 without one."""
        return max((curve[-1][0] for curve in (
            self.gripper, self.speed, self.progress, *self.judges.values()) if curve), default=0.0)


@dataclass(frozen=True)
class RecordedSession:
    """
    Both slots, and how alike the first pictures of A and B are (0 to 1) by view.

    ``station_match`` is what the station measured before B, None where it did not tell.
    ``winners`` are A, B or TIE by judge, as its audits of both slots say.
    """

    rollouts: Mapping[str, RecordedRollout]
    matches: Mapping[str, float]
    station_match: SceneMatch | None = None
    winners: Mapping[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Return the time of the last point of either slot."""
        return max(rollout.seconds for rollout in self.rollouts.values())


class RecordedFiles:
    """
    Reads uploaded files, which never change, and audits; the last 200 sessions are kept.

    A thread reads them, as the first pictures of videos are decoded too.
    """

    def __init__(self, blobs: Blobs, audits: AuditCurves) -> None:
        self._blobs = blobs
        self._audits = audits
        self._worker = BoundedWorker()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, 'recorded files')
        self._kept: OrderedDict[str, Future[RecordedSession]] = OrderedDict()

    def session(self, session_id: str, videos: Mapping[str, Sequence[str]],
                wait_s: float = FIRST_S) -> RecordedSession:
        """
        Return what the files of a session say; ``videos`` are its video files by slot.

        NotComputed where they are not read within ``wait_s``.
        """
        audits = {slot.value: self._audits.names(session_id, slot.value) for slot in Slot}
        key = f'{session_id} {videos} {audits}'
        with self._lock:
            if key not in self._kept or (self._kept[key].done() and self._kept[key].exception()):
                self._kept[key] = self._thread.submit(self._whole, session_id, videos, audits)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)[1].cancel()
            self._kept.move_to_end(key)
            reading = self._kept[key]
        try:
            return reading.result(wait_s)
        except NotInTime:
            raise NotComputed('the recordings of this session are being read, which takes some '
                              'seconds; ask for it again') from None

    def _rollout(self, session_id: str, slot: str) -> RecordedRollout:
        numbers = None
        with suppress(ArenaError):    # not uploaded, or written by a broken station
            numbers = parse_episode(self._read(session_id, slot, EPISODE_FILE), EPISODE_FILE)
        try:
            return rollout_of(self._worker.call(
                read_arrays, self._read(session_id, slot, STEPS_FILE), STEPS_FILE), numbers)
        except ArenaError:
            return RecordedRollout(numbers)

    def _whole(self, session_id: str, videos: Mapping[str, Sequence[str]],
               names: Mapping[str, Sequence[str]]) -> RecordedSession:
        audits = {slot: {audit.judge: audit for name in files if (
            audit := self._audits.audit(session_id, slot, name))} for slot, files in names.items()}
        a, b = (audits[slot.value] for slot in Slot)
        return RecordedSession(
            {slot: _judged(self._rollout(session_id, slot), list(audits_by_judge.values()))
             for slot, audits_by_judge in audits.items()},
            self._matches(session_id, videos), self._station_match(session_id),
            {judge: winner for judge in a if judge in b
             and (winner := audit_winner(a[judge], b[judge], MARGIN)[0])})

    def _station_match(self, session_id: str) -> SceneMatch | None:
        with suppress(ArenaError):    # not uploaded, or written by a broken station
            return parse_scene_match(self._read(session_id, Slot.B.value, SCENE_MATCH_FILE),
                                     SCENE_MATCH_FILE)
        return None

    def _read(self, session_id: str, slot: str, name: str) -> bytes:
        key = FileId(session_id, slot, name).key
        size = self._blobs.size(key)
        if size > FILE_BYTES:
            raise DataError(f'{key} has {size} bytes; up to {FILE_BYTES} are read')
        return b''.join(self._blobs.read(key))

    def _matches(self, session_id: str, videos: Mapping[str, Sequence[str]]) -> dict[str, float]:
        matches = {}
        for name in videos.get('A', ()):
            paths = [self._blobs.local_path(f'{session_id}/{slot}/{name}') for slot in 'AB']
            if name not in videos.get('B', ()) or None in paths:
                continue
            try:
                first, second = (self._worker.call(first_picture, path) for path in paths
                                 if path is not None)
                matches[name.removesuffix('.mp4')] = compare(first, second).score
            except ArenaError:    # no video, or of two sizes
                continue
        return matches


def _judged(rollout: RecordedRollout, audits: Sequence[EpisodeAudit]) -> RecordedRollout:
    first_s = rollout.speed[0][0] if rollout.speed else 0.0    # a judge counts from the first step
    return replace(
        rollout,
        judges={label(a): curve(np.array(a.times_s) + first_s, np.array(a.phi)) for a in audits},
        audits={label(a): AuditNote(a.calibrated, a.convention, a.metrics,
                                   shifted(marks_of(a), first_s), a.refused) for a in audits})


def rollout_of(arrays: Arrays, numbers: EpisodeFile | None = None) -> RecordedRollout:
    """Return the curves of a ``steps.npz``; DataError when it lacks what they need."""
    try:
        stamps = np.asarray(arrays['stamp_ns'], np.int64).reshape(-1)
        grip = np.asarray(arrays['gripper_position'], float).reshape(-1)
        speed = np.abs(np.asarray(arrays['joint_velocity'], float)).reshape(len(stamps), -1)
        if not 0 < len(stamps) <= ROWS or len(grip) != len(stamps) or not speed.shape[1]:
            raise ValueError(f'{len(stamps)} steps, {len(grip)} gripper positions')
        seconds = (stamps - _start_ns(arrays, stamps)) * 1e-9
        fastest = speed.max(axis=1)
        progress_ns = np.asarray(arrays.get('progress/stamp_ns', ()), np.int64).reshape(-1)[:ROWS]
        values = np.asarray(arrays.get('progress/value', ()), float).reshape(-1)[:ROWS]
        progress = curve((progress_ns - _start_ns(arrays, stamps)) * 1e-9, values)
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f'{STEPS_FILE} does not hold the steps of a rollout: {error!r}') from error
    share, longest = still(seconds, fastest)
    return RecordedRollout(numbers, curve(seconds, grip), curve(seconds, fastest), progress,
                           share, longest)


def curve(seconds: NDArray[Any], values: NDArray[Any]) -> Curve:
    """Return up to 300 points in order of time, without those that are not numbers."""
    if len(seconds) != len(values):
        raise ValueError(f'{len(seconds)} times and {len(values)} values')
    valid = np.flatnonzero(np.isfinite(values) & (seconds >= 0))
    valid = valid[np.argsort(seconds[valid], kind='stable')]
    valid = valid[np.unique(np.linspace(0, len(valid) - 1, min(POINTS, len(valid))).astype(int))]
    return tuple((round(float(seconds[k]), 3), round(float(values[k]), 4)) for k in valid)


def still(seconds: NDArray[Any], speed: NDArray[Any]) -> tuple[float | None, float]:
    """Return the share of the time that no joint moved, and the longest such time in seconds."""
    total = float(seconds[-1] - seconds[0])
    if total <= 0 or not np.isfinite(speed).all():
        return None, 0.0
    at_rest_s, longest, run = 0.0, 0.0, 0.0
    for step_s, moved in zip(np.diff(seconds), speed[:-1] >= STILL_RAD_S, strict=True):
        run = 0.0 if moved else run + float(step_s)
        at_rest_s += 0.0 if moved else float(step_s)
        longest = max(longest, run)
    return at_rest_s / total, longest


def _start_ns(arrays: Arrays, stamps: NDArray[np.int64]) -> int:
    """Return when the videos begin, or the first step without any."""
    starts = [int(np.ravel(values)[0]) for name, values in arrays.items()
              if name.startswith('frames/') and np.size(values)]
    return min(starts, default=int(stamps[0]))
