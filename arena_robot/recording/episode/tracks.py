"""
An episode's bag as arrays: steps, arm, gripper, chunks, and stamps of images.

Topics are found by message type, images by what the episode's metadata says. Units are SI and
radians, stamps integer nanoseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arena_robot.core.errors import DataError
from arena_robot.core.observation import DEPTH, Floats
from arena_robot.recording.bag.base import Decoder, Topic
from arena_robot.recording.bag.topic_stats import header_stamp_ns
from arena_robot.recording.episode.views import (
    STEP,
    EpisodeView,
    episode_views,
    fixed_frames,
    mount_of,
)
from arena_robot.robots.arms import DOF, MOST_JOINTS, are_of_an_arm
from arena_robot.safety.urdf import CameraMount

if TYPE_CHECKING:    # videos are written where no bag is read, without mcap
    from arena_robot.recording.bag.reader import BagReader

Stamps = NDArray[np.int64]

CHUNK = 'arena_msgs/msg/ActionChunk'
ARM = 'arena_msgs/msg/ArmState'
GRIPPER = 'arena_msgs/msg/GripperState'
INFO = 'arena_msgs/msg/EpisodeInfo'


@dataclass(frozen=True)
class ArmTrack:
    """
    Arm states: ``stamps`` (N,), joints (N, n), ``pose`` (N, 6) flange, ``mode`` (N,).

    ``joint_names`` are those of the columns; empty where no state was recorded.
    """

    stamps: Stamps
    q: Floats
    dq: Floats
    tau: Floats
    tau_ext: Floats
    q_desired: Floats
    pose: Floats
    mode: Stamps
    joint_names: tuple[str, ...]


@dataclass(frozen=True)
class GripperTrack:
    """Gripper states: ``stamps`` (N,), ``position`` (N,) 0 open to 1 closed, ``width_m`` (N,)."""

    stamps: Stamps
    position: Floats
    width_m: Floats


@dataclass(frozen=True)
class ChunkRecord:
    """
    One recorded inference: ``actions`` (N, size) requested at step ``step``.

    ``observation_sha256`` is of the observation that was sent to the policy.
    """

    index: int
    step: int
    space: str
    actions: Floats
    observation_sha256: str = ''


@dataclass(frozen=True)
class ViewTrack:
    """The images of one view: capture ``stamps`` and arrival ``log`` (N,), in order."""

    view: EpisodeView
    stamps: Stamps
    log: Stamps

    @property
    def topic(self) -> Topic:
        """The recorded topic of the images."""
        return self.view.topic


@dataclass(frozen=True)
class Steps:
    """
    Observation, request and command, one row per step.

    ``requested`` is (N, size); ``q_sent`` (N, n); ``image_stamps`` (N, V) by ``views``,
    0 where a step used no such image; ``clamps`` the reasons, joined by commas.
    """

    index: Stamps
    stamps: Stamps
    arm_stamps: Stamps
    gripper_stamps: Stamps
    views: tuple[str, ...]
    image_stamps: Stamps
    space: str
    requested: Floats
    q_sent: Floats
    gripper_sent: Floats
    chunk_index: Stamps
    chunk_step: Stamps
    clamps: tuple[str, ...]
    loop_s: Floats
    late_s: Floats
    inference_s: Floats
    observation_age_s: Floats
    skew_s: Floats


@dataclass(frozen=True)
class EpisodeTracks:
    """
    All data of an episode except the images; ``info`` the fields of its last EpisodeInfo.

    A bag can begin with the latched EpisodeInfo of the rollout before, which is left out.

    ``views`` have colours, ``depths`` are of cameras that measure depth, such as ``wrist_depth``.
    ``mounts`` says where the cameras of the views were, as far as tf_static does.
    """

    info: Mapping[str, Any]
    steps: Steps
    arm: ArmTrack
    gripper: GripperTrack
    chunks: tuple[ChunkRecord, ...]
    views: Mapping[str, ViewTrack] = field(default_factory=dict)
    mounts: Mapping[str, CameraMount] = field(default_factory=dict)
    depths: Mapping[str, ViewTrack] = field(default_factory=dict)


def load_tracks(bag: 'BagReader', decoder: Decoder) -> EpisodeTracks:
    """Read an episode. Raises DataError when a message does not fit its type."""
    rows: dict[str, list[Any]] = {STEP: [], CHUNK: [], ARM: [], GRIPPER: [], INFO: []}
    names = [t.name for t in bag.of_type(*rows)]
    for message, value in bag.decoded(decoder, names):
        rows[bag.topics[message.topic].type].append(value)
    views = _views(bag, rows[INFO][-1].views if rows[INFO] else ())
    custom = bag.metadata.custom
    infos = [info for info in rows[INFO] if (info.session_id, info.slot) == (
        custom.get('session_id', info.session_id), custom.get('slot', info.slot))]
    frames = fixed_frames(bag, decoder)
    mounts = {name: mount for name, track in views.items()
              if (mount := mount_of(frames, track.view.frame_id))}
    return EpisodeTracks(
        info=_info(infos), steps=_steps(rows[STEP]), arm=_arm(rows[ARM]),
        gripper=_gripper(rows[GRIPPER]), chunks=tuple(_chunk(c) for c in rows[CHUNK]),
        views={name: track for name, track in views.items() if track.view.eye != DEPTH},
        mounts=mounts,
        depths={name: track for name, track in views.items() if track.view.eye == DEPTH})


def time_ns(stamp: Any) -> int:
    """Return a ``builtin_interfaces/Time`` in nanoseconds."""
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def nearest(stamps: Stamps, wanted: Stamps) -> Stamps:
    """Return for each ``wanted`` the row of the nearest of ``stamps``, which are sorted."""
    after = np.searchsorted(stamps, wanted).clip(1, max(1, len(stamps) - 1))
    if len(stamps) < 2:
        return np.zeros(len(wanted), np.int64)
    left, right = stamps[after - 1], stamps[after]
    return np.asarray(np.where(wanted - left <= right - wanted, after - 1, after), np.int64)


def _views(bag: 'BagReader', named: Iterable[Any]) -> dict[str, ViewTrack]:
    views = episode_views(bag, named)
    stamps: dict[str, list[tuple[int, int]]] = {view.topic.name: [] for view in views.values()}
    for message in bag.messages(stamps):
        stamps[message.topic].append((header_stamp_ns(message.data), message.log_ns))
    return {name: ViewTrack(view, *_columns(stamps[view.topic.name]))
            for name, view in views.items()}


def _columns(pairs: list[tuple[int, int]]) -> tuple[Stamps, Stamps]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _info(messages: list[Any]) -> dict[str, Any]:
    if not messages:
        return {}
    last = messages[-1]
    words = ('session_id', 'slot', 'prompt', 'station', 'robot_type', 'backend', 'end_reason',
             'detail', 'third_person')
    return {**{w: str(getattr(last, w)) for w in words},
            'control_rate_hz': float(last.control_rate_hz), 'max_steps': int(last.max_steps),
            'steps': int(last.steps), 'started_ns': time_ns(last.started),
            'ended_ns': time_ns(last.ended)}


def _chunk(c: Any) -> ChunkRecord:
    actions = np.asarray(c.actions, np.float64).reshape(-1, max(1, int(c.width)))
    return ChunkRecord(int(c.chunk_index), int(c.step), str(c.action_space), actions,
                       str(c.observation_sha256))


def _arm(messages: list[Any]) -> ArmTrack:
    pose = np.array([m.cartesian_position for m in messages], np.float64).reshape(-1, 6)
    return ArmTrack(
        _stamps(messages), pose=pose, mode=_numbers(messages, 'robot_mode'),
        joint_names=_joint_names(messages), **{
            name: _per_joint(messages, name) for name in ('q', 'dq', 'tau', 'tau_ext',
                                                          'q_desired')})


def _joint_names(messages: list[Any]) -> tuple[str, ...]:
    """Return the joints that all messages name; DataError unless they are one arm's."""
    joint_names = {tuple(map(str, m.joint_names)) for m in messages}
    for names in joint_names:
        if len(joint_names) > 1 or not are_of_an_arm(names):
            raise DataError(f"the bag has messages about the joints {', '.join(names) or '(none)'}"
                            f', expected are always the same 1 to {MOST_JOINTS} of one arm')
    return joint_names.pop() if joint_names else ()


def _per_joint(messages: list[Any], field_name: str) -> Floats:
    """Return (N, joints); DataError where a message has another count."""
    width = len(_joint_names(messages)) or DOF
    rows = [getattr(m, field_name) for m in messages]
    for row in rows:
        if len(row) != width:
            raise DataError(f'the bag has {len(row)} numbers of {field_name} for {width} joints')
    return np.array(rows, np.float64).reshape(-1, width)


def _gripper(messages: list[Any]) -> GripperTrack:
    return GripperTrack(_stamps(messages), _floats(messages, 'position'),
                        _floats(messages, 'width_m'))


def _steps(messages: list[Any]) -> Steps:
    views = tuple(sorted({str(v) for m in messages for v in m.image_views}))
    seen = np.zeros((len(messages), len(views)), np.int64)
    for row, m in enumerate(messages):
        for name, stamp in zip(m.image_views, m.image_stamps, strict=False):
            seen[row, views.index(name)] = time_ns(stamp)
    width = max((len(m.requested) for m in messages), default=8)
    requested = np.full((len(messages), width), np.nan)
    for row, m in enumerate(messages):
        requested[row, :len(m.requested)] = m.requested
    return Steps(
        index=_numbers(messages, 'index'), stamps=_stamps(messages),
        arm_stamps=np.array([time_ns(m.arm_stamp) for m in messages], np.int64),
        gripper_stamps=np.array([time_ns(m.gripper_stamp) for m in messages], np.int64),
        views=views, image_stamps=seen, requested=requested,
        space=str(messages[0].action_space) if messages else '',
        q_sent=_per_joint(messages, 'q_sent'),
        clamps=tuple(','.join(dict.fromkeys(str(c.reason) for c in m.clamps)) for m in messages),
        chunk_index=_numbers(messages, 'chunk_index'), chunk_step=_numbers(messages, 'chunk_step'),
        **{name: _floats(messages, name) for name in (
            'gripper_sent', 'loop_s', 'late_s', 'inference_s', 'observation_age_s', 'skew_s')})


def _stamps(messages: list[Any]) -> Stamps:
    return np.array([time_ns(m.header.stamp) for m in messages], np.int64)


def _numbers(messages: list[Any], name: str) -> Stamps:
    return np.array([getattr(m, name) for m in messages], np.int64)


def _floats(messages: list[Any], name: str) -> Floats:
    return np.array([getattr(m, name) for m in messages], np.float64)
