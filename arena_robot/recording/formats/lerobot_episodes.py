"""
Import of a local LeRobotDataset v3 folder as episodes: a bag with steps, states and pictures.

Of a robot in the table of arms, joints, gripper and actions are kept, where the state is seven
joints and a gripper. Of another robot only pictures, steps and requests are: its joint targets are
NaN, and `arena episode check` says so. Left eyes are written; a dataset of `arena episode export`
gets its sessions, slots and verdicts back. The format says no date, so each episode begins at
``BEGIN_NS``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arena_robot.core import jpeg
from arena_robot.core.action import ActionSpace
from arena_robot.core.errors import DataError
from arena_robot.core.observation import ROLES, Floats, Pixels, view
from arena_robot.core.pair import Reveal
from arena_robot.core.verdict import from_plain
from arena_robot.recording.bag.base import Message, Qos, Topic, read_definition, share_folders
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.frames import timed_frames
from arena_robot.recording.episode.tracks import ARM, GRIPPER, INFO, Stamps
from arena_robot.recording.episode.views import JPEG, JPEGS, STEP
from arena_robot.records.session_file import (
    DONE,
    SessionFile,
    Source,
    has_session,
    write_session,
)
from arena_robot.robots.action_spaces import joint_numbers
from arena_robot.robots.arms import PANDA, ROBOTS

INFO_FILE = 'meta/info.json'
BEGIN_NS = 10**18        # of every episode: the format has no date; 2001, in no real recording
WRIST = ('wrist', 'hand', 'gripper')    # words in the names of cameras on the hand
_IMAGES = 'observation.images.'
_LATCHED = Qos(durability='transient_local', depth=1)
_TOPICS = {INFO: '/lerobot/episode_info', STEP: '/lerobot/step', ARM: '/lerobot/arm_state',
           GRIPPER: '/lerobot/gripper_state'}


@dataclass(frozen=True)
class LeRobotDataset:
    """A dataset: its folder, ``info.json``, and the rows of its episodes with the first task."""

    root: Path
    info: Mapping[str, Any]
    episodes: Sequence[Mapping[str, Any]]

    @property
    def cameras(self) -> dict[str, str]:
        """The key of the pictures of each role; cameras that no role is left for are not in it."""
        keys = [key for key, feature in self.info['features'].items()
                if feature['dtype'] == 'video']
        wrist = [key for key in keys if any(word in key.lower() for word in WRIST)][:1]
        outside = sorted(set(keys) - set(wrist), key=lambda key: (
            key != f'{_IMAGES}{ROLES[0]}', 'left' not in key, keys.index(key)))
        return dict(zip(ROLES, [*outside[:2], *[''] * (2 - len(outside[:2])), *wrist],
                        strict=False))


def read_lerobot(root: Path) -> LeRobotDataset:
    """Return what a dataset of version 3 says of itself. Raises DataError."""
    try:
        info = json.loads((root / INFO_FILE).read_text(encoding='utf-8'))
        if not str(info['codebase_version']).startswith('v3.'):
            raise DataError(f"{root} is a LeRobotDataset {info['codebase_version']}; v3 is read: "
                            "convert it with LeRobot's convert_dataset_v21_to_v30")
        rows = pa.concat_tables([pq.read_table(path) for path in sorted(
            root.glob('meta/episodes/*/*.parquet'))], promote_options='default')
        wanted = [name for name in rows.column_names if not name.startswith('stats/')]
        return LeRobotDataset(root, info, rows.select(wanted).to_pylist())
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DataError(f'{root} is not a LeRobotDataset v3 that can be read: {error!r}'
                        ) from error


def import_lerobot(dataset: LeRobotDataset, output: Path) -> list[Path]:
    """
    Write each episode into ``<output>/<session>/<slot>``, and the sessions; return their folders.

    Raises DataError when a session is there already, or a table or video cannot be read.
    """
    codec, written = Codec(), []
    videos = {role: _Video(dataset, key) for role, key in dataset.cameras.items() if key}
    sessions: dict[str, list[Mapping[str, Any]]] = {}
    for row in dataset.episodes:
        name = str(row.get('session_id') or f"{dataset.root.name}_{row['episode_index']:06d}")
        if name not in sessions and has_session(output / name):
            raise DataError(f'{output / name} holds a session already; imports do not overwrite')
        sessions.setdefault(name, []).append(row)
        written.append(output / name / str(row.get('slot') or 'A'))
        _Episode(dataset, row, name, codec).write(written[-1], videos)
    for name, rows in sessions.items():
        write_session(output / name, _session(name, rows, dataset.root.name))
    return written


class _Video:
    """The pictures of one camera, episode by episode; a file is decoded once, in order."""

    def __init__(self, dataset: LeRobotDataset, key: str) -> None:
        self._dataset, self._key = dataset, key
        self._path = Path()
        self._frames: Iterator[tuple[int, int, Pixels]] = iter(())

    def of(self, row: Mapping[str, Any]) -> Iterator[Pixels]:
        """Yield the pictures of an episode. Raises DataError when the video has fewer."""
        column = f'videos/{self._key}'
        path = self._dataset.root / self._dataset.info['video_path'].format(
            video_key=self._key, chunk_index=row[f'{column}/chunk_index'],
            file_index=row[f'{column}/file_index'])
        if path != self._path:
            self._path, self._frames = path, timed_frames(path)
        begin_ns = (row[f'{column}/from_timestamp'] - 0.5 / self._dataset.info['fps']) * 1e9
        for count in range(row['length']):
            found = next((pixels for _, stamp_ns, pixels in self._frames
                          if stamp_ns >= begin_ns), None)
            if found is None:
                raise DataError(f"{path} has {count} of the {row['length']} pictures of episode "
                                f"{row['episode_index']}")
            yield found


class _Episode:
    """Writes one episode as a bag."""

    def __init__(self, dataset: LeRobotDataset, row: Mapping[str, Any], session: str,
                 codec: Codec) -> None:
        self._dataset, self._row, self._session, self._codec = dataset, row, session, codec
        self._slot = str(row.get('slot') or 'A')
        path = dataset.root / dataset.info['data_path'].format(
            chunk_index=row['data/chunk_index'], file_index=row['data/file_index'])
        try:
            table = pq.read_table(path, filters=[('episode_index', '=', row['episode_index'])])
            self._columns = {name: np.array(table[name].to_pylist()) for name in (
                'timestamp', 'true_timestamp', 'observation.state', 'action')
                if name in table.column_names}
            self._action = self._columns['action'].astype(np.float64)
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise DataError(f'{path} has no episode that can be read: {error!r}') from error
        seconds = self._columns.get('true_timestamp', self._columns['timestamp'])
        self._stamps: Stamps = BEGIN_NS + np.round(seconds * 1e9).astype(np.int64)
        robot = str(dataset.info.get('robot_type'))
        state = self._columns.get('observation.state', np.zeros((0, 0)))
        said = dict(dataset.info.get('features') or {}).get('observation.state') or {}
        count = state.shape[1] - 1 if state.ndim == 2 else 0
        franka = ROBOTS.get(robot)
        known = franka is not None and count == franka.joints
        numbers = list(joint_numbers(count))
        # As this package writes it.
        if franka is None and dataset.info.get('action_space') \
                and said.get('names') == [*numbers, 'gripper']:
            known, self._joints = True, numbers
        else:
            self._joints = (franka or PANDA).joint_names()
        self._state: Floats | None = state.astype(np.float64) if known else None
        self._space = str(dataset.info.get('action_space', '')) or (
            ActionSpace.JOINT_POSITION.value
            if known and self._action.shape[1] == len(self._joints) + 1 else '')

    def write(self, folder: Path, videos: Mapping[str, _Video]) -> None:
        """Write the bag."""
        with BagWriter(folder, {'session_id': self._session, 'slot': self._slot}) as bag:
            topics = {name: self._topic(name, kind) for kind, name in _TOPICS.items()}
            topics |= {_jpegs(role): self._topic(_jpegs(role), JPEG) for role in videos}
            for topic in topics.values():
                bag.add_topic(topic)
            counts = dict.fromkeys(topics, 0)
            for name, stamp_ns, fields in self._messages(videos):
                counts[name] += 1
                bag.write(Message(name, stamp_ns, stamp_ns, counts[name],
                                  self._codec.encode(topics[name].type, fields)))

    def _topic(self, name: str, kind: str) -> Topic:
        definition = read_definition(kind, share_folders())
        self._codec.teach(kind, definition)
        qos = _LATCHED if kind == INFO else Qos()
        return Topic(name, kind, definition, self._codec.type_hash(kind), (qos,))

    def _messages(self, videos: Mapping[str, _Video]
                  ) -> Iterator[tuple[str, int, dict[str, Any]]]:
        pictures = {role: video.of(self._row) for role, video in videos.items()}
        yield _TOPICS[INFO], int(self._stamps[0]), self._info(videos)
        for k, stamp_ns in enumerate(map(int, self._stamps)):
            for role, frames in pictures.items():
                yield _jpegs(role), stamp_ns, {
                    'header': _header(stamp_ns), 'format': 'rgb8; jpeg compressed bgr8',
                    'data': np.frombuffer(jpeg.to_jpeg(next(frames)), np.uint8)}
            if self._state is not None:
                yield from self._states(k, stamp_ns, self._state)
            yield _TOPICS[STEP], stamp_ns, self._step(k, stamp_ns, videos)
        yield _TOPICS[INFO], int(self._stamps[-1]), self._info(videos, ended=True)

    def _states(self, k: int, stamp_ns: int, state: Floats
                ) -> Iterator[tuple[str, int, dict[str, Any]]]:
        count = len(self._joints)
        still = [0.0] * count
        yield _TOPICS[ARM], stamp_ns, {
            'header': _header(stamp_ns), 'joint_names': self._joints,
            'q': state[k, :count], 'q_desired': state[k, :count], 'tau': still, 'tau_ext': still,
            'dq': (np.gradient(state[:, :count], axis=0)[k] * self._dataset.info['fps']
                   if len(state) > 1 else still)}
        yield _TOPICS[GRIPPER], stamp_ns, {
            'header': _header(stamp_ns), 'position': float(state[k, count])}

    def _step(self, k: int, stamp_ns: int, videos: Mapping[str, _Video]) -> dict[str, Any]:
        moves, joints = self._space == ActionSpace.JOINT_POSITION, len(self._joints)
        return {'header': _header(stamp_ns), 'slot': self._slot, 'index': k,
                'image_views': [view(role) for role in videos],
                'image_stamps': [_time(stamp_ns)] * len(videos), 'arm_stamp': _time(stamp_ns),
                'gripper_stamp': _time(stamp_ns), 'action_space': self._space,
                'requested': self._action[k], 'joint_names': self._joints,
                'q_sent': self._action[k, :joints] if moves else np.full(joints, np.nan),
                'gripper_sent': float(self._action[k, -1])}

    def _info(self, roles: Sequence[str] | Mapping[str, Any], ended: bool = False
              ) -> dict[str, Any]:
        begin_ns, end_ns = int(self._stamps[0]), int(self._stamps[-1])
        info = {'header': _header(end_ns if ended else begin_ns), 'session_id': self._session,
                'slot': self._slot, 'prompt': _prompt(self._row), 'started': _time(begin_ns),
                'robot_type': str(self._dataset.info.get('robot_type') or ''),
                'backend': 'lerobot', 'control_rate_hz': float(self._dataset.info['fps']),
                'max_steps': len(self._stamps), 'views': [
                    {'view': view(role), 'role': role, 'eye': 'left',
                     'topic': _jpegs(role).removesuffix(JPEGS)} for role in roles]}
        return {**info, 'ended': _time(end_ns), 'steps': len(self._stamps), 'end_reason': str(
            self._row.get('end_reason') or 'done')} if ended else info


def _session(name: str, rows: Sequence[Mapping[str, Any]], origin: str) -> SessionFile:
    """Return a session: with a verdict and names where `arena episode export` wrote them."""
    said: dict[str, Any] = {}
    policies = {'A': 'A', 'B': 'B'}
    for row in rows:
        slot = str(row.get('slot') or 'A')
        policies[slot] = str(row.get('policy') or slot)
        said |= {f'progress_{slot.lower()}': row.get('partial_success'),
                 f'notes_{slot.lower()}': row.get('notes') or '',
                 **{key: row[key] for key in ('preference', 'explanation', 'valid')
                    if row.get(key) is not None}}
    named = policies['A'] != 'A' and policies['B'] != 'B'
    return SessionFile(
        name, Source.IMPORT, DONE, prompt=_prompt(rows[0]), origin=origin,
        station=str(rows[0].get('station') or ''), verdict=from_plain(said),
        reveal=Reveal('', policies['A'], policies['B']) if named else None)


def _prompt(row: Mapping[str, Any]) -> str:
    return str(next(iter(row['tasks']), ''))


def _jpegs(role: str) -> str:
    return f'/lerobot/{role}/left/image{JPEGS}'


def _header(stamp_ns: int) -> dict[str, Any]:
    return {'stamp': _time(stamp_ns), 'frame_id': ''}


def _time(stamp_ns: int) -> dict[str, int]:
    return {'sec': stamp_ns // 10**9, 'nanosec': stamp_ns % 10**9}
