"""
A synthetic episode as a bag, for examples, tests and the benchmark.

An arm moves to and fro, a gripper opens and closes, six images per tick show a moving square, and
there are 15 steps per second. Everything is computed from the numbers of :class:`SampleEpisode`;
nothing is random.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from arena_robot.core.episode import CONTROL_RATE_HZ, MAX_STEPS
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import ROLES, Pixels
from arena_robot.recording.bag.base import Message, Qos, Topic, read_definition, share_folders
from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.views import TF
from arena_robot.robots.arms import PANDA, ROBOTS, ArmLimits, Chain, Robot
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety import kinematics
from arena_robot.safety.urdf import CameraMount, camera_frames, matrix_of

_BASE = PANDA.base_frame()

LATCHED = Qos(durability='transient_local', depth=1)
TICK_NS = round(1e9 / CONTROL_RATE_HZ)
POTENTIAL_TOPIC = '/sim_station/potential'
VIEWS = ('left_left', 'left_right', 'right_left', 'right_right', 'wrist_left', 'wrist_right')


def arm_joints(q: Sequence[float], robot: Robot = PANDA) -> dict[str, Any]:
    """Return the fields of an ArmState message for an arm that rests at ``q`` (7,) rad."""
    still = [0.0] * len(q)
    return {'joint_names': robot.joint_names(), 'q': list(q), 'q_desired': list(q), 'dq': still,
            'tau': still, 'tau_ext': still}


def _pose(rng: np.random.Generator, reach_m: float = 0.3) -> tuple[float, ...]:
    """Return the 12 numbers of a random pose."""
    rows = np.column_stack([Rotation.random(random_state=int(rng.integers(2 ** 31))).as_matrix(),
                            rng.uniform(-reach_m, reach_m, 3)])
    return tuple(map(float, rows.ravel()))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


def random_arm(joints: int, seed: int) -> Robot:
    """Return the row of an arm that nobody built, which rests inside its workspace."""
    rng = np.random.default_rng([joints, seed])
    slides = rng.random(joints) < 0.3
    axes = rng.normal(size=(joints, 3))
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    low = np.where(slides, -rng.uniform(0.02, 0.6, joints), -rng.uniform(0.5, 3.0, joints))
    high = -low * rng.uniform(0.7, 1.3, joints)
    speed, spring = rng.uniform(0.3, 4.0, joints), rng.random() < 0.5
    chain = Chain(tuple(_pose(rng) for _ in range(joints)), tuple(map(tuple, axes.tolist())),
                  tuple(map(bool, slides)), _pose(rng), int(rng.integers(joints)))
    rest = low + rng.uniform(0.3, 0.7, joints) * (high - low)
    poses = kinematics.frames(rest, chain)
    box = {f'{name}_{end}': _floats(poses[link, :3, 3] + way * rng.uniform(0.05, 1.0))
           for name, link in (('workspace', kinematics.END), ('elbow', chain.elbow))
           for end, way in (('lower', -1.0), ('upper', 1.0))}
    limits = ArmLimits(
        joint_lower=_floats(low), joint_upper=_floats(high), hardware_lower=_floats(low - 0.01),
        hardware_upper=_floats(high + 0.01), velocity=_floats(0.9 * speed),
        torque=_floats(rng.uniform(5.0, 80.0, joints)), chain=chain, **box,
        stiffness=_floats(spring * rng.uniform(10.0, 60.0, joints)),
        flange_stiffness=_floats(spring * np.array([400.0] * 3 + [15.0] * 3)))
    return Robot('made', 'drawn arm', limits, _floats(speed), _floats(rng.uniform(2, 15, joints)),
                 _floats(1.1 * np.array(limits.torque)), reset_joints=_floats(rest),
                 own_joints=tuple(f'axis_{i}' for i in range(joints)))


@dataclass(frozen=True)
class SampleEpisode:
    """
    Settings of the synthetic episode.

    ``steps`` ticks of ``rate_hz`` of a ``robot``, a row or its name, arm states at ``state_hz``,
    pictures of ``width`` by ``height``; ``start_ns`` is the stamp of the first tick. With
    ``potential`` a simulated station's potential
    is recorded too: it rises, and falls by a quarter in the middle. With ``still`` arm and gripper
    rest at zero, that is requested, and all is dark. ``sent`` are hashes of observations, by step.
    With a ``layout`` the chunks are in that, whose numbers are a hundred times those of the steps.
    """

    steps: int = 30
    state_hz: int = 200
    width: int = 320
    height: int = 180
    slot: str = 'A'
    session_id: str = '6f0f5ad1-6d5a-4a9c-8c6e-0f6f3c1f2b10'
    prompt: str = 'put the red square into the bowl'
    start_ns: int = 1_790_000_000_000_000_000
    chunk_length: int = 8
    space: str = 'joint_position'
    potential: bool = False
    cameras: tuple[str, ...] = ROLES
    still: bool = False
    sent: Mapping[int, str] = field(default_factory=dict)
    robot: str | Robot = PANDA
    layout: str = ''
    rate_hz: float = CONTROL_RATE_HZ


class SampleMaker:
    """Makes the topics and the messages of a sample; ``folders`` hold the .msg files."""

    def __init__(self, sample: SampleEpisode, folders: Sequence[Path] | None = None) -> None:
        self.sample = sample
        self.robot = sample.robot if isinstance(sample.robot, Robot) else ROBOTS[sample.robot]
        self.tick_ns = round(1e9 / sample.rate_hz)
        self.folders = share_folders() if folders is None else folders
        self.codec = Codec()
        self._topics: dict[str, Topic] = {}

    def topics(self) -> dict[str, Topic]:
        """Return all topics by name."""
        if self._topics:
            return self._topics
        plain = {'/arm_node/arm_state': 'arena_msgs/msg/ArmState',
                 '/gripper_node/gripper_state': 'arena_msgs/msg/GripperState',
                 '/session_node/step': 'arena_msgs/msg/StepRecord',
                 '/session_node/action_chunk': 'arena_msgs/msg/ActionChunk',
                 '/joint_states': 'sensor_msgs/msg/JointState',
                 **{self.jpeg_topic(v): 'sensor_msgs/msg/CompressedImage' for v in VIEWS}}
        if self.sample.potential:
            plain[POTENTIAL_TOPIC] = 'std_msgs/msg/Float64'
        topics = {n: self._topic(n, t, Qos()) for n, t in plain.items()}
        name = '/session_node/episode_info'
        self._topics = {name: self._topic(name, 'arena_msgs/msg/EpisodeInfo', LATCHED), **topics}
        return self._topics

    def messages(self) -> Iterator[Message]:
        """Yield all messages by ``log_ns``, each 2 ms after it was published."""
        made = [*self._states(), *self._ticks(), *self._infos()]
        made.sort(key=lambda m: m[1])
        topics = self.topics()
        counts = dict.fromkeys(topics, 0)
        for name, stamp_ns, fields in made:
            counts[name] += 1
            data = self.codec.encode(topics[name].type, fields)
            yield Message(name, stamp_ns + 2_000_000, stamp_ns, counts[name], data)

    def write(self, folder: Path) -> None:
        """Write the bag, which must not exist yet, into ``folder``."""
        sample = self.sample
        with BagWriter(folder, {'session_id': sample.session_id, 'slot': sample.slot}) as bag:
            for topic in self.topics().values():
                bag.add_topic(topic)
            for message in self.messages():
                bag.write(message)

    def _topic(self, name: str, message_type: str, qos: Qos) -> Topic:
        definition = read_definition(message_type, self.folders)
        self.codec.teach(message_type, definition)
        return Topic(name, message_type, definition, self.codec.type_hash(message_type), (qos,))

    def _states(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        sample = self.sample
        for k in range(int(sample.steps * sample.state_hz / sample.rate_hz)):
            stamp = sample.start_ns + k * 10**9 // sample.state_hz
            q = self.q(stamp)
            yield '/arm_node/arm_state', stamp, {
                'header': header(stamp, _BASE), 'robot_mode': 2, **arm_joints(q, self.robot),
                'cartesian_position': [0.4, 0.0, 0.3 + 0.05 * q[0], 3.14, 0.0, q[-1]],
                'control_command_success_rate': 1.0}
            yield '/joint_states', stamp, {
                'header': header(stamp, ''), 'position': q,
                'name': self.robot.joint_names()}

    def _ticks(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        for k in range(self.sample.steps):
            stamp = self.sample.start_ns + k * self.tick_ns
            seen = stamp - 20_000_000 if k else stamp
            yield '/gripper_node/gripper_state', stamp, {
                'header': header(stamp, 'robotiq_85_base_link'), 'position': self.gripper(k),
                'width_m': ROBOTIQ_2F85.width_m(self.gripper(k))}
            for view in VIEWS:
                yield self.jpeg_topic(view), seen, {
                    'header': header(seen, f'{view}_optical'), 'data': self._jpeg(k, view),
                    'format': 'bgr8; jpeg compressed bgr8'}
            if k % self.sample.chunk_length == 0:
                yield '/session_node/action_chunk', stamp + 500_000, self._chunk(k, stamp)
            yield '/session_node/step', stamp + 1_000_000, self._step(k, stamp, seen)
            if self.sample.potential:
                share = k / max(self.sample.steps - 1, 1)
                yield POTENTIAL_TOPIC, stamp, {'data': share - 0.25 * (0.5 <= share < 0.7)}

    def _chunk(self, k: int, stamp: int) -> dict[str, Any]:
        length = self.sample.chunk_length
        return {'header': header(stamp, _BASE), 'slot': self.sample.slot, 'step': k,
                'chunk_index': k // length,
                'action_space': self.sample.layout or self.sample.space,
                'width': self.robot.joints + 1,
                'observation_sha256': self.sample.sent.get(k, ''),
                'actions': np.concatenate([self._action(k + j) for j in range(length)])
                * (100.0 if self.sample.layout else 1.0)}

    def _step(self, k: int, stamp: int, seen: int) -> dict[str, Any]:
        length = self.sample.chunk_length
        action = self._action(k)
        return {'header': header(stamp, _BASE), 'slot': self.sample.slot, 'index': k,
                'image_views': list(VIEWS), 'image_stamps': [_time(seen)] * len(VIEWS),
                'arm_stamp': _time(self.state_stamp(stamp)), 'gripper_stamp': _time(stamp),
                'observation_age_s': (stamp - seen) * 1e-9, 'skew_s': (stamp - seen) * 1e-9,
                'action_space': self.sample.space, 'requested': action,
                'chunk_index': k // length, 'chunk_step': k % length,
                'joint_names': self.robot.joint_names(), 'q_sent': action[:-1],
                'gripper_sent': action[-1], 'loop_s': self.tick_ns * 1e-9 if k else 0.0,
                'inference_s': 0.0 if k % length else 0.05,
                'clamps': [] if k % 10 else [{'reason': 'step_limit', 'asked': action,
                                              'sent': action, 'detail': 'made up'}]}

    def _infos(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        sample = self.sample
        end = sample.start_ns + (sample.steps - 1) * self.tick_ns
        base = {'session_id': sample.session_id, 'slot': sample.slot, 'prompt': sample.prompt,
                'station': 'sample', 'robot_type': self.robot.name, 'backend': 'sample',
                'control_rate_hz': sample.rate_hz, 'max_steps': MAX_STEPS,
                'started': _time(sample.start_ns)}
        name = '/session_node/episode_info'
        if sample.cameras != ROLES:
            base['views'] = [{'view': v, 'role': role_of(v), 'eye': v.removeprefix(
                f'{role_of(v)}_'), 'topic': self.image_topic(v)} for v in VIEWS]
        yield name, sample.start_ns, {**base, 'header': header(sample.start_ns, _BASE)}
        yield name, end + 5_000_000, {
            **base, 'header': header(end, _BASE), 'ended': _time(end),
            'steps': sample.steps, 'end_reason': 'stopped'}

    def image_topic(self, view: str) -> str:
        """Return the raw topic of a view, named as a ZED wrapper does."""
        return f"/{self.camera(role_of(view))}/zed_node/{view.rsplit('_', 1)[1]}/color/rect/image"

    def camera(self, role: str) -> str:
        """Return the name of the camera of a role."""
        return self.sample.cameras[ROLES.index(role)]

    def jpeg_topic(self, view: str) -> str:
        """Return the topic of a view's JPEGs."""
        return f'{self.image_topic(view)}/compressed'

    def state_stamp(self, stamp_ns: int) -> int:
        """Return the stamp of the newest arm state at a stamp."""
        start, rate = self.sample.start_ns, self.sample.state_hz
        return start + (stamp_ns - start) * rate // 10**9 * 10**9 // rate

    def q(self, stamp_ns: int) -> list[float]:
        """Return the joints (n,) in rad at a stamp."""
        if self.sample.still:
            return [0.0] * self.robot.joints
        t = (stamp_ns - self.sample.start_ns) * 1e-9
        return [0.3 * float(np.sin(t + i)) for i in range(self.robot.joints)]

    def gripper(self, k: int) -> float:
        """Return the gripper's position at a tick."""
        return 0.0 if self.sample.still else float(k // 15 % 2)

    def _action(self, k: int) -> list[float]:
        return [*self.q(self.sample.start_ns + k * self.tick_ns), self.gripper(k)]

    def _jpeg(self, k: int, view: str) -> np.ndarray:
        shown = picture(k, view, self.sample.width, self.sample.height)
        return _encode(shown * (not self.sample.still))


class MountedMaker(SampleMaker):
    """
    The sample of cameras with optical frames; ``poses`` are parent and pose in it by role.

    ``serials`` by role make each camera's node report its number and publish its CameraInfo.
    """

    def __init__(self, sample: SampleEpisode, folders: Sequence[Path],
                 poses: Mapping[str, tuple[str, Sequence[float]]],
                 serials: Mapping[str, str] | None = None) -> None:
        super().__init__(sample, folders)
        self.poses, self.serials = poses, serials or {}

    def topics(self) -> dict[str, Topic]:
        """Return the sample's topics, and those of transforms, numbers and CameraInfos."""
        more = {'/lab/tf_static': self._topic('/lab/tf_static', TF, LATCHED)}
        if self.serials:
            more['/diagnostics'] = self._topic(
                '/diagnostics', 'diagnostic_msgs/msg/DiagnosticArray', Qos())
            more |= {name: self._topic(name, 'sensor_msgs/msg/CameraInfo', Qos())
                     for view in VIEWS for name in (self.info_topic(view),)}
        return {**more, **super().topics()}

    def messages(self) -> Iterator[Message]:
        """Yield what is published once, then the sample's messages."""
        frames = [transform(frame) for role, (parent, pose) in self.poses.items()
                  for frame in camera_frames(role, CameraMount(parent, tuple(pose)),
                                             optical(role), 0.12)]
        once: list[tuple[str, dict[str, Any]]] = [('/lab/tf_static', {'transforms': frames})]
        if self.serials:
            once.append(('/diagnostics', {'status': [
                {'name': f'{self.camera(role)}/zed_node: images', 'hardware_id': f'lab/{number}'}
                for role, number in self.serials.items()]}))
            once += [(self.info_topic(view), {'k': [200.0, 0, 160, 0, 200.0, 90, 0, 0, 1]})
                     for view in VIEWS]
        topics, stamp = self.topics(), self.sample.start_ns
        for name, fields in once:
            yield Message(name, stamp, stamp, 1, self.codec.encode(topics[name].type, fields))
        yield from super().messages()

    def _infos(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        for name, stamp, fields in super()._infos():
            views = [{**named, 'frame_id': optical(role_of(named['view']))[named['eye']]}
                     for named in fields['views']]
            yield name, stamp, {**fields, 'views': views}

    def info_topic(self, view: str) -> str:
        """Return the topic of the CameraInfo of a view."""
        return self.image_topic(view).removesuffix('image') + 'camera_info'


def optical(role: str) -> dict[str, str]:
    """Return the optical frames of a camera by eye."""
    return {eye: f'{role}_{eye}_camera_frame_optical' for eye in ('left', 'right')}


def transform(frame: Any) -> dict[str, Any]:
    """Return the fields of a ``geometry_msgs/TransformStamped``."""
    pose = matrix_of(frame.pose)
    x, y, z, w = Rotation.from_matrix(pose[:3, :3]).as_quat()
    return {'header': {'frame_id': frame.parent}, 'child_frame_id': frame.child, 'transform': {
        'translation': dict(zip('xyz', pose[:3, 3], strict=True)),
        'rotation': {'x': x, 'y': y, 'z': z, 'w': w}}}


def picture(k: int, view: str, width: int, height: int) -> Pixels:
    """Return the RGB picture (height, width, 3) of a view at a tick."""
    pixels: Pixels = _background(width, height, VIEWS.index(view)).copy()
    x = (7 * k + 30 * VIEWS.index(view)) % (width - height // 4)
    y = height // 3
    pixels[y:y + height // 4, x:x + height // 4] = (220, 30, 30)
    return pixels


@lru_cache(maxsize=12)
def _background(width: int, height: int, tint: int) -> Pixels:
    ramp = np.linspace(0, 160, width * height).reshape(height, width)
    grain = 25 * np.sin(np.arange(width) * 0.9)[None, :] * np.cos(np.arange(height) * 0.7)[:, None]
    grey = np.clip(60 + ramp * 0.6 + grain, 0, 255)
    return np.stack([grey, grey * (1 - 0.1 * tint), grey * 0.8], axis=2).astype(np.uint8)


def _encode(pixels: Pixels) -> np.ndarray:
    return np.frombuffer(to_jpeg(pixels), np.uint8)


def role_of(view: str) -> str:
    """Return the role of the camera of a view."""
    return view.rsplit('_', 1)[0]


def header(stamp_ns: int, frame_id: str) -> dict[str, Any]:
    """Return the fields of a ``std_msgs/Header``."""
    return {'stamp': _time(stamp_ns), 'frame_id': frame_id}


def _time(stamp_ns: int) -> dict[str, int]:
    return {'sec': stamp_ns // 10**9, 'nanosec': stamp_ns % 10**9}


def rerun_rows(path):
    """Return what Rerun's own reader finds: by entity and component, (seconds, value) of rows."""
    reader = pytest.importorskip('rerun.chunk', reason="pip install 'droid-arena[rerun]'")
    rows = {}
    for chunk in reader.RrdReader(path).store().stream():
        batch = chunk.to_record_batch()
        times = batch.column(1).cast('int64').to_pylist() if not chunk.is_static else [None]
        for name in batch.schema.names[1 if chunk.is_static else 2:]:
            values = zip(times, batch.column(name).to_pylist(), strict=True)
            rows.setdefault((chunk.entity_path, name), []).extend(
                (None if ns is None else ns * 1e-9, value[0]) for ns, value in values)
    return rows
