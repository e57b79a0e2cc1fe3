"""Repeat recorded inferences with a policy, compare the actions, write them beside the bag."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.action import Chunk
from arena_robot.core.errors import DataError
from arena_robot.core.observation import (
    ArmState,
    DepthImage,
    Floats,
    GripperState,
    Image,
    Observation,
    RobotMode,
    view,
)
from arena_robot.recording.bag.base import REQUERY, Decoder
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.topic_stats import header_stamp_ns
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.frames import depth_of, pixels_of
from arena_robot.recording.episode.tracks import (
    CHUNK,
    ChunkRecord,
    EpisodeTracks,
    load_tracks,
    nearest,
)
from arena_robot.recording.episode.views import STEP

Ask = Callable[[Observation], Chunk]


@dataclass(frozen=True)
class Compared:
    """
    One repeated inference.

    ``recorded`` and ``asked`` are (N, 8) or (N, 7); ``arm_mean`` and ``arm_max`` the distance of
    the arm's numbers over the actions both have, ``gripper_share`` how often the grippers differ.
    """

    index: int
    step: int
    recorded: Floats
    asked: Floats
    arm_mean: float
    arm_max: float
    gripper_share: float


def recorded_observations(bag: BagReader, decoder: Decoder, tracks: EpisodeTracks
                          ) -> Iterator[tuple[ChunkRecord, Observation]]:
    """
    Yield each recorded inference with its observation.

    Raises DataError when the steps or the arm were not recorded.
    """
    rows = {int(n): row for row, n in enumerate(tracks.steps.index)}
    inferences = [(c, rows[c.step]) for c in tracks.chunks if c.step in rows]
    if not inferences or not len(tracks.arm.stamps) or not len(tracks.gripper.stamps):
        raise DataError(f'{bag.folder} has {len(tracks.chunks)} inferences, {len(rows)} steps and '
                        f'{len(tracks.arm.stamps)} arm states; all three are needed to ask again')
    pictures = _pictures(bag, tracks, [row for _, row in inferences])
    for chunk, row in inferences:
        images, depths = {}, {}
        for name, stamp in _used(tracks, row).items():
            if (name, stamp) not in pictures:
                continue
            topic = {**tracks.views, **tracks.depths}[name].topic
            value = decoder.decode(topic, pictures[name, stamp])
            if name in tracks.depths:
                depths[name] = DepthImage(depth_of(topic, value), stamp)
            else:
                images[name] = Image(pixels_of(topic, value), stamp)
        yield chunk, Observation(
            int(tracks.steps.stamps[row]), _arm(tracks, row), _gripper(tracks, row),
            str(tracks.info.get('prompt', '')), chunk.step, images, depths=depths)


def ask_again(bag: BagReader, decoder: Decoder, ask: Ask,
              on_chunk: Callable[[int, int, str], None] = lambda *_: None) -> list[Compared]:
    """Repeat every recorded inference and compare. Raises what ``ask`` raises."""
    tracks = load_tracks(bag, decoder)
    compared = []
    for chunk, observation in recorded_observations(bag, decoder, tracks):
        answer = ask(observation)
        compared.append(compare(chunk, answer))
        on_chunk(len(compared), len(tracks.chunks), f'inference {chunk.index}')
    return compared


def compare(recorded: ChunkRecord, answer: Chunk) -> Compared:
    """Return the differences of two chunks. Raises DataError when their spaces differ."""
    repeated = np.asarray(answer.actions, np.float64)
    other = '/' not in recorded.space and answer.space.value != recorded.space    # or in a layout
    if other or repeated.shape[1:] != recorded.actions.shape[1:]:
        raise DataError(f'the policy answers {answer.space.value} of width {repeated.shape[-1]}, '
                        f'recorded was {recorded.space} of width {recorded.actions.shape[-1]}: '
                        'they cannot be compared')
    count = min(len(repeated), len(recorded.actions))
    gap = np.abs(repeated[:count] - recorded.actions[:count])
    closed = (repeated[:count, -1] > 0.5) != (recorded.actions[:count, -1] > 0.5)
    return Compared(recorded.index, recorded.step, recorded.actions, repeated,
                    float(gap[:, :-1].mean()), float(gap[:, :-1].max()), float(closed.mean()))


def write_beside(bag: BagReader, codec: Codec, compared: Sequence[Compared],
                 folder: Path) -> None:
    """
    Write a bag with every recorded message and, below REQUERY, what the policy answers now.

    Each ActionChunk and StepRecord is there again, with the times of the recorded one and the new
    actions; what only a robot can tell, such as ``q_sent``, is empty. A step for which the new
    chunk is too short, or in a layout, is left out. Raises RecordingError where ``folder`` has a
    bag.
    """
    again = {topic.name: replace(topic, name=f'{REQUERY}{topic.name}')
             for topic in bag.of_type(CHUNK, STEP)}
    answers = {each.index: each.asked for each in compared}
    with BagWriter(folder, bag.metadata.custom) as writer:
        for topic in (*bag.topics.values(), *again.values()):
            writer.add_topic(topic)
        for message in bag.messages():
            writer.write(message)
            if message.topic in again:
                topic = bag.topics[message.topic]
                decoded = codec.decode(topic, message.data)
                fields = _answered(decoded, answers)
                if '/' in decoded.action_space:    # what a station makes of it is not known
                    answers.pop(int(decoded.chunk_index), None)
                if fields:
                    writer.write(message._replace(topic=again[topic.name].name,
                                                  data=codec.encode(topic.type, fields)))


def _answered(message: Any, answers: Mapping[int, Floats]) -> dict[str, Any]:
    """Return the fields of a chunk or step with the new actions; {} where there are none."""
    stamp, actions = message.header.stamp, answers.get(int(message.chunk_index))
    if actions is None:
        return {}
    fields = {'header': {'stamp': {'sec': stamp.sec, 'nanosec': stamp.nanosec},
                         'frame_id': message.header.frame_id},
              **{name: getattr(message, name) for name in ('slot', 'action_space', 'chunk_index')}}
    if message.__msgtype__ == CHUNK:
        return {**fields, 'step': message.step, 'width': actions.shape[1],
                'actions': actions.ravel()}
    if message.chunk_step >= len(actions):
        return {}
    return {**fields, 'index': message.index, 'chunk_step': message.chunk_step,
            'requested': actions[message.chunk_step]}


def _pictures(bag: BagReader, tracks: EpisodeTracks, rows: list[int]
              ) -> dict[tuple[str, int], bytes]:
    wanted = {item for row in rows for item in _used(tracks, row).items()}
    names = {track.topic.name: name for name, track in (*tracks.views.items(),
                                                        *tracks.depths.items())}
    pictures = {}
    for message in bag.messages(names):
        key = (names[message.topic], header_stamp_ns(message.data))
        if key in wanted:
            pictures[key] = message.data
    return pictures


def _used(tracks: EpisodeTracks, row: int) -> dict[str, int]:
    """Return the stamps of a step's images by view, and of depths, which have their eye's."""
    stamps = dict(zip(tracks.steps.views, tracks.steps.image_stamps[row].tolist(), strict=True))
    return stamps | {name: stamps.get(view(track.view.role), 0)
                     for name, track in tracks.depths.items()}


def _arm(tracks: EpisodeTracks, row: int) -> ArmState:
    arm = tracks.arm
    k = int(nearest(arm.stamps, tracks.steps.arm_stamps[row:row + 1])[0])
    return ArmState(int(arm.stamps[k]), arm.q[k], arm.dq[k], arm.tau[k], arm.tau_ext[k],
                    arm.pose[k], arm.q_desired[k], RobotMode(int(arm.mode[k])))


def _gripper(tracks: EpisodeTracks, row: int) -> GripperState:
    track = tracks.gripper
    k = int(nearest(track.stamps, tracks.steps.gripper_stamps[row:row + 1])[0])
    position = float(track.position[k])
    return GripperState(int(track.stamps[k]), position, float(track.width_m[k]), position)
