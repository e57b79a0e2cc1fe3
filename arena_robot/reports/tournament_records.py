"""What a report shows of each session, read from its folder on the disk."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_robot.core.episode import Comparison, Preference
from arena_robot.core.errors import ArenaError, DataError
from arena_robot.core.pair import commitment
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader

SLOTS = ('A', 'B')
PROGRESS = '/progress'
VIEWS = ('left', 'right', 'wrist')


@dataclass(frozen=True)
class RolloutRow:
    """
    One slot: ``progress`` 0 to 1 as it was scored, ``curve`` of (seconds, progress) as recorded.

    ``videos`` are the files of the left eyes by camera role; ``rate_hz`` the control rate held.
    """

    slot: str
    policy: str
    progress: float | None
    steps: int
    end: str
    detail: str
    curve: tuple[tuple[float, float], ...]
    videos: dict[str, Path]
    rate_hz: float | None
    clamped: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """A finished session, its pair revealed; ``verified`` by this reader, not by the file."""

    session_id: str
    folder: Path
    prompt: str
    evaluator: str
    station: str
    created: str
    preference: str
    explanation: str
    match: float | None
    commitment: str
    nonce: str
    verified: bool
    rollouts: tuple[RolloutRow, ...]

    def comparison(self) -> Comparison:
        """Return the verdict as the ranking takes it."""
        a, b = self.rollouts
        nan = float('nan')
        return Comparison(self.session_id, a.policy, b.policy, Preference(self.preference),
                          nan if a.progress is None else a.progress,
                          nan if b.progress is None else b.progress, self.evaluator,
                          self.station, self.prompt, self.created)


def read_record(folder: Path) -> Record:
    """Return the session in ``folder``; DataError when it is not a finished and revealed one."""
    path = folder / 'session.json'
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        if data['state'] != 'done' or not data['reveal'] or not data['valid']:
            raise DataError(f"{path}: the session is '{data['state']}' and not a finished, valid "
                            'one; leave it out')
        return _record(folder, data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f'{path} is not the record of a session: {error!r}') from error


def _record(folder: Path, data: dict[str, Any]) -> Record:
    names = dict(zip(SLOTS, (data['reveal']['policy_a'], data['reveal']['policy_b']),
                     strict=True))
    nonce = str(data['reveal']['nonce'])
    return Record(
        data['session_id'], folder, data['prompt'], data['evaluator'], data['station'],
        data['created'], data['preference'], data['explanation'], data['match'],
        data['commitment'], nonce,
        commitment(nonce, names['A'], names['B']) == data['commitment'],
        tuple(_rollout(folder / slot, slot, names[slot], data['slots'][slot]) for slot in SLOTS))


def _rollout(folder: Path, slot: str, policy: str, told: dict[str, Any]) -> RolloutRow:
    summary = _summary(folder)
    videos = {view: folder / f'{view}.mp4' for view in VIEWS if (folder / f'{view}.mp4').exists()}
    seconds = (told['ended_ns'] - told['started_ns']) * 1e-9
    return RolloutRow(slot, policy, told['progress'], told['steps'], told['end'], told['detail'],
                   progress_curve(folder, told['started_ns'], told['ended_ns']), videos,
                   (summary.get('control') or {}).get('mean_hz'),
                   (summary.get('clamps') or {}).get('steps', 0), seconds)


def _summary(folder: Path) -> dict[str, Any]:
    path = folder / 'episode.json'
    return dict(json.loads(path.read_text(encoding='utf-8'))) if path.exists() else {}


def progress_curve(folder: Path, start_ns: int, end_ns: int) -> tuple[tuple[float, float], ...]:
    """
    Return (seconds since ``start_ns``, progress) as a simulator told it; empty without one.

    Stamps are those of arrival. A bag that cannot be read gives an empty curve as well.
    """
    codec, found = Codec(), []
    try:
        with BagReader(folder) as bag:
            topics = [n for n, t in bag.topics.items()
                      if n.endswith(PROGRESS) and t.type == 'std_msgs/msg/Float64']
            for message in bag.messages(topics) if topics else ():
                if start_ns <= message.log_ns <= end_ns:
                    value = float(codec.decode(bag.topics[message.topic], message.data).data)
                    found.append(((message.log_ns - start_ns) * 1e-9, value))
    except ArenaError:
        return ()
    return tuple(found)


def read_records(folders: Sequence[Path]) -> tuple[Record, ...]:
    """Return the sessions in ``folders``, oldest first."""
    return tuple(sorted((read_record(f) for f in folders), key=lambda r: r.created))
