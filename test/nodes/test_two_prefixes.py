"""Two stations, each with its prefix: no frame, status name or hardware id is both's."""

import threading
from importlib import import_module

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from session_rig import Rig, until

from arena_robot.core.episode import Slot
from arena_robot.nodes.lib import qos
from arena_robot.session.protocol.states import State

PREFIXES = ('left', 'right')
PARTS = ('arm_node', 'gripper_node', 'left_camera', 'right_camera', 'wrist_camera')
TOPICS = {'session_node/step', 'session_node/episode_info', 'session_node/action_chunk',
          'session_node/reset_reference', 'arm_node/arm_state', 'arm_node/current_pose',
          'gripper_node/gripper_state', 'joint_states', 'tf', 'tf_static',
          'left_camera/left/color/rect/camera_info', 'left_camera/left/color/rect/image',
          'wrist_camera/right/color/rect/image/compressed'}
REPORTS = {'arm_node: joint states', 'arm_node: robot mode', 'gripper_node: gripper',
           'left_camera: images', 'wrist_camera: images', 'sim_station: simulation',
           'session_node: session', 'recorder_node: recording'}


def frames_in(message):
    """Return every ``frame_id`` and ``child_frame_id`` in a message."""
    frames = set()
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        if name in ('frame_id', 'child_frame_id'):
            frames.add(value)
        for part in value if isinstance(value, list | tuple) else (value,):
            frames |= frames_in(part) if '_fields_and_field_types' in dir(part) else set()
    return frames - {''}


class Heard:
    """The frames of every topic of a namespace, and every status of /diagnostics."""

    def __init__(self, node, namespace):
        self._node, self._space = node, f'/{namespace}/'
        self._guard, self._subscribed = threading.Lock(), set()
        self.frames, self.status = {}, {}
        qos.subscription(node, DiagnosticArray, '/diagnostics', self._keep_status, qos.STREAM)

    def look(self):
        """Subscribe to what is new, with each publisher's own profile."""
        for topic, (kind, *_) in self._node.get_topic_names_and_types():
            infos = self._node.get_publishers_info_by_topic(topic)
            if (topic.startswith(self._space) and '/msg/' in kind and infos
                    and topic not in self._subscribed):
                self._subscribed.add(topic)
                self._hear(topic, kind, all(
                    info.qos_profile.durability is DurabilityPolicy.TRANSIENT_LOCAL
                    for info in infos))

    def _hear(self, topic, kind, latched):
        def keep(message):
            with self._guard:
                self.frames.setdefault(topic.removeprefix(self._space), set()).update(
                    frames_in(message))
        package, _, name = kind.split('/')
        qos.subscription(
            self._node, getattr(import_module(f'{package}.msg'), name), topic, keep,
            QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL) if latched
            else QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT))

    def _keep_status(self, message):
        with self._guard:
            self.status.update({status.name: status.hardware_id for status in message.status
                                if f'/{status.name}'.startswith(self._space)})

    def missing(self):
        """Return the topics and statuses that have not been heard yet."""
        self.look()
        with self._guard:
            return (TOPICS - {topic for topic, frames in self.frames.items() if frames}) | (
                REPORTS - {name.removeprefix(self._space[1:]) for name in self.status})


@pytest.fixture
def heard(processes, observer, tmp_path):
    """Return what two stations published up to the end of a rollout in each."""
    out = []
    for prefix in PREFIXES:
        folder = tmp_path / prefix
        folder.mkdir()
        with Rig(processes, folder, sim={'image_width': 64, 'image_height': 36},
                 parts={name: {'arm_prefix': prefix} for name in PARTS}) as rig, \
                rig.desk() as desk:
            out.append(Heard(observer, rig.namespace))
            rollout(desk, out[-1])
            out[-1].namespace = rig.namespace
    return out


def rollout(desk, heard):
    desk.take('page')
    until(desk, lambda s: s.ready or (desk.press('check') and desk.state().ready),
          'the station is not ready', 60.0)
    desk.open_session('ada', 'put the yellow cube in the bowl')
    desk.press('photograph')
    desk.start(Slot.A)
    until(desk, lambda _: not heard.missing(), f'missing: {heard.missing()}', 60.0)
    desk.stop()
    until(desk, lambda s: s.state is State.SCORING_A, 'it does not stop')


def test_two_stations_share_no_frame_status_or_hardware(heard):
    for prefix, station in zip(PREFIXES, heard, strict=True):
        wrong = {topic: sorted(foreign) for topic, frames in station.frames.items()
                 if (foreign := {name for name in frames if not name.startswith(f'{prefix}_')})}
        assert not wrong, 'frames without the prefix'
        assert station.frames['session_node/step'] == {f'{prefix}_panda_link0'}
        assert station.frames['session_node/action_chunk'] == {f'{prefix}_panda_link0'}
        assert {f'{prefix}_panda_link0', f'{prefix}_wrist_left_camera_frame_optical'} <= \
            station.frames['session_node/episode_info']
        assert all(hardware.split('/')[0] == station.namespace
                   for hardware in station.status.values())
    left, right = heard
    assert not set(left.status) & set(right.status)
    assert not set(left.status.values()) & set(right.status.values())
