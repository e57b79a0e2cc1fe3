"""Bags of the steps that a station without ROS made; they outlive the program that made them."""

import pickle
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sample_episodes import (
    VIEWS,
    SampleEpisode,
    SampleMaker,
    arm_joints,
    header,
)

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.episode import EndReason, Slot, Step
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import Observation
from arena_robot.recording.bag.base import Message
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.robots.arms import PANDA
from arena_robot.server.sessions.recorded_rollout import read_claims, why_unproven
from arena_robot.session.base import NoRecorder

MAKER = SampleMaker(SampleEpisode())
Fields = tuple[str, int, dict[str, Any]]


def stamp(ns: int) -> dict[str, int]:
    """Return the fields of a time."""
    return {'sec': ns // 10**9, 'nanosec': ns % 10**9}


class RolloutBags(NoRecorder):
    """
    A recorder, and the steps of an audience: the bag is written when a rollout stops.

    Each step is in a file beside the episode's folder at once, so :meth:`write` makes the bag of a
    rollout whose program was killed.
    """

    def __init__(self, sessions: Path) -> None:
        super().__init__(sessions)
        self._place: Path | None = None

    def start(self, session_id: str, slot: Slot) -> None:
        """Begin a rollout."""
        super().start(session_id, slot)
        self._place = self._sessions / session_id / slot.value
        self._kept(self._place).unlink(missing_ok=True)

    def step(self, step: Step, observation: Observation) -> None:
        """Keep one step."""
        self._keep(step, observation)

    def chunk(self, index: int, step: int, chunk: Chunk) -> None:
        """Keep one inference."""
        self._keep(index, step, chunk)

    def _keep(self, *values: Any) -> None:
        assert self._place is not None
        with self._kept(self._place).open('ab') as file:
            pickle.dump(values, file)

    def stop(self, end: EndReason, detail: str, steps: int = 0) -> None:
        """Write the bag."""
        if self._place is not None:
            self.write(self._place, end)

    def write(self, folder: Path, end: EndReason = EndReason.INTERRUPTED) -> int:
        """Write the bag of the steps that are kept of an episode; return their number."""
        recorded = list(self._read(self._kept(folder)))
        steps = [row for row in recorded if len(row) == 2]
        chunks = [_chunk_fields(*row, folder.name) for row in recorded if len(row) == 3]
        made = folder.with_name(f'{folder.name}.made') / folder.name
        shutil.rmtree(made.parent, ignore_errors=True)
        with BagWriter(made, {}) as bag:
            for topic in MAKER.topics().values():
                bag.add_topic(topic)
            for message in self._messages(steps, chunks, folder, end):
                bag.write(message)
        for file in made.iterdir():
            file.replace(folder / file.name)
        shutil.rmtree(made.parent)
        return len(steps)

    @staticmethod
    def _kept(folder: Path) -> Path:
        return folder.with_name(f'{folder.name}.steps')

    @staticmethod
    def _read(path: Path) -> Iterator[tuple[Any, ...]]:
        if not path.exists():
            return
        with path.open('rb') as file:
            while True:
                try:
                    yield pickle.load(file)
                except (EOFError, pickle.UnpicklingError):    # the last one was cut off
                    return

    def _messages(self, steps: list[tuple[Any, ...]], chunks: list[dict[str, Any]],
                  folder: Path, end: EndReason) -> Iterator[Message]:
        made = [row for step in steps for row in _fields(*step, folder.name)]
        first_ns, last_ns = (steps[0][0].stamp_ns, steps[-1][0].stamp_ns) if steps else (1, 2)
        made += [('/session_node/action_chunk', last_ns, chunk) for chunk in chunks]
        info = {'session_id': folder.parent.name, 'slot': folder.name, 'station': 'made up',
                'control_rate_hz': 15.0, 'started': stamp(first_ns), 'ended': stamp(last_ns),
                'steps': len(steps), 'end_reason': end.value}
        made.append(('/session_node/episode_info', last_ns + 1, info))
        topics = MAKER.topics()
        for number, (name, at_ns, fields) in enumerate(sorted(made, key=lambda row: row[1])):
            yield Message(name, at_ns, at_ns, number,
                          MAKER.codec.encode(topics[name].type, fields))


def _chunk_fields(index: int, step: int, chunk: Chunk, slot: str) -> dict[str, Any]:
    return {'slot': slot, 'chunk_index': index, 'step': step, 'action_space': chunk.space.value,
            'width': chunk.actions.shape[1], 'actions': chunk.actions.ravel(),
            'observation_sha256': chunk.observation_sha256}


def _fields(step: Step, seen: Observation, slot: str) -> Iterator[Fields]:
    yield '/arm_node/arm_state', step.arm_stamp_ns, {
        'header': header(step.arm_stamp_ns, 'base'), 'robot_mode': 2,
        **arm_joints(list(seen.arm.q))}
    for view in VIEWS:
        if view in seen.images:
            image = seen.images[view]
            yield MAKER.jpeg_topic(view), image.stamp_ns, {
                'header': header(image.stamp_ns, view), 'format': 'jpeg',
                'data': np.frombuffer(to_jpeg(image.pixels), np.uint8)}
    yield '/session_node/step', step.stamp_ns, {
        'header': header(step.stamp_ns, 'base'), 'slot': slot, 'index': step.index,
        'action_space': ActionSpace.JOINT_POSITION.value,
        'image_views': list(step.image_stamps_ns),
        'image_stamps': [stamp(ns) for ns in step.image_stamps_ns.values()],
        'arm_stamp': stamp(step.arm_stamp_ns), 'gripper_stamp': stamp(step.gripper_stamp_ns),
        'joint_names': PANDA.joint_names(),
        'requested': list(map(float, step.requested)), 'q_sent': list(map(float, step.q_sent)),
        'gripper_sent': float(step.gripper_sent), 'chunk_index': step.chunk_index,
        'chunk_step': step.chunk_step}


def read_here(home: Path) -> Mapping[str, str]:
    """Return what a server finds in the recordings of a session, without a process of its own."""
    return {slot: why_unproven(home / slot, claim) for slot, claim in read_claims(home).items()}
