"""Contents of a report's sessions, read from their folders."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.episode import Comparison, Slot
from arena_robot.core.errors import ArenaError, DataError
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.records.episode_file import EpisodeFile, has_episode, read_episode
from arena_robot.records.session_file import SessionFile, read_session, session_origin

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
    """
    A finished session, its pair revealed.

    ``verified`` is checked by this reader and not taken from the file; it is None for sessions
    whose pair nobody committed to.
    """

    session: SessionFile
    folder: Path
    verdict: Comparison
    verified: bool | None
    rollouts: tuple[RolloutRow, ...]

    def comparison(self) -> Comparison:
        """Return the verdict as the ranking takes it."""
        return self.verdict


def read_record(folder: Path) -> Record:
    """Return the session in ``folder``; DataError when it is not a finished and revealed one."""
    session = read_session(folder)
    # The reveal is checked below, so that a report can show that it does not fit.
    verdict = dataclasses.replace(session, verified=None).comparison()
    if verdict is None:
        raise DataError(f"{folder}: the session is '{session.state}' and not a finished, valid, "
                        'judged and revealed one; leave it out')
    verdict = dataclasses.replace(verdict, origin=session_origin(session, folder))
    return Record(session, folder, verdict, session.fits(),
                  tuple(_rollout(folder / slot.value, slot, session) for slot in Slot))


def _rollout(folder: Path, slot: Slot, session: SessionFile) -> RolloutRow:
    numbers = read_episode(folder) if has_episode(folder) else EpisodeFile()
    told = session.slots[slot.value]
    videos = {view: folder / f'{view}.mp4' for view in VIEWS if (folder / f'{view}.mp4').exists()}
    return RolloutRow(slot.value, session.policy(slot.value), session.progress(slot.value),
                      told.steps, told.end.value if told.end else '', told.detail,
                      progress_curve(folder, told.started_ns, told.ended_ns), videos,
                      numbers.control.mean_hz, numbers.clamps.steps,
                      (told.ended_ns - told.started_ns) * 1e-9)


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
