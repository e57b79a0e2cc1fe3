"""What a session node needs of the station's other nodes, and whether they have it."""

import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import String
from std_srvs.srv import Trigger

from arena_msgs.action import MoveToJoints
from arena_msgs.msg import (
    ArmDecision,
    ArmState,
    CameraView,
    GripperState,
    GripperTarget,
    PolicyAction,
)
from arena_robot.core.errors import DriverError
from arena_robot.core.observation import DEPTH, view
from arena_robot.drivers.base import Camera
from arena_robot.nodes.lib import diagnostics, qos
from arena_robot.nodes.lib.endpoints import (
    NodeEndpoint,
    Way,
    full_name,
    problems,
    runs,
    strangers,
    type_name,
)
from arena_robot.nodes.lib.images import RAW, eyes_of, message_kind, topic_of
from arena_robot.nodes.session.params import SessionParams
from arena_robot.robots.cameras import topics_of
from arena_robot.session.base import Check

RIGHT_IS_OFF = ('switch it on: video.publish_left_right of the ZED wrapper is off by default; or '
                "let the session use eyes: ['left']")
OTHER_STYLE = 'compare topic_style and cameras of session_node with what it publishes'
# A killed node stays in the graph until its lease ends, 20 s with Fast DDS.
LEASE_S = 25.0
HEARD_S = 5.0    # a running namesake says its name every second
CHECK = 'one station'


def image_topic(style: str, camera: str, eye: str) -> str:
    """Return the raw image topic of one eye of a camera node."""
    return f'{camera}/{topic_of(style, eye)}'


def arm_endpoints(arm: str) -> list[NodeEndpoint]:
    """Return what a session needs of an arm node."""
    return [
        NodeEndpoint(Way.PUBLISHES, f'{arm}/arm_state', type_name(ArmState), profile=qos.SENSOR),
        NodeEndpoint(Way.PUBLISHES, f'{arm}/decision', type_name(ArmDecision), profile=qos.STREAM),
        NodeEndpoint(Way.SUBSCRIBES, f'{arm}/arm_action', type_name(PolicyAction),
                 profile=qos.COMMAND_SENT),
        NodeEndpoint(Way.ACTS, f'{arm}/go_home', type_name(MoveToJoints)),
        *(NodeEndpoint(Way.SERVES, f'{arm}/{name}', type_name(Trigger))
          for name in ('hold', 'session_stop', 'session_resume', 'error_recovery'))]


def gripper_endpoints(gripper: str) -> list[NodeEndpoint]:
    """Return what a session needs of a gripper node."""
    return [
        NodeEndpoint(Way.PUBLISHES, f'{gripper}/gripper_state', type_name(GripperState),
                 profile=qos.SENSOR),
        NodeEndpoint(Way.SUBSCRIBES, f'{gripper}/target', type_name(GripperTarget),
                 profile=qos.COMMAND_SENT),
        *(NodeEndpoint(Way.SERVES, f'{gripper}/{name}', type_name(Trigger))
          for name in ('stop', 'reactivate_gripper'))]


def camera_endpoints(camera: str, style: str, eyes: Sequence[str],
                     transport: str = RAW) -> list[NodeEndpoint]:
    """Return what a session needs of a camera node."""
    return [NodeEndpoint(Way.PUBLISHES, f'{camera}/{topic}', type_name(kind),
                         RIGHT_IS_OFF if eye == 'right' else OTHER_STYLE, qos.SENSOR)
            for eye in eyes for topic, kind in (
                (topic_of(style, eye, transport), message_kind(transport, eye)),
                (topics_of(style, eye)[1].removeprefix('~/'), CameraInfo))]


class Connections:
    """The nodes that a session node works with, by its parameters."""

    def __init__(self, node: Node, params: SessionParams, cameras: Mapping[str, Camera]) -> None:
        self._node, self._params, self._cameras = node, params, cameras
        self._reports = PartReports(node)

    def checks(self) -> list[Check]:
        """Return a check of each node: every endpoint by its type and its owner."""
        v = self._params
        checks = [self._check('arm node', v.arm, arm_endpoints(v.arm)),
                 self._check('gripper node', v.gripper, gripper_endpoints(v.gripper))]
        checks += [self._check(f'{role} camera node', camera,
                              camera_endpoints(camera, style, eyes, v.image_transport))
                  for role, camera, style, eyes in v.used()]
        return checks

    def streams(self) -> list[str]:
        """Return the topics that an episode needs recorded; images by their raw topics."""
        v = self._params
        states = (f'{v.arm}/arm_state', f'{v.gripper}/gripper_state')
        return [*(self._node.resolve_topic_name(name) for name in states),
                *(camera_view.topic for camera_view in self.views())]

    def views(self) -> list[CameraView]:
        """Return which camera and topic each view is; depth is recorded, also unused."""
        return [CameraView(
            view=view(role, eye), role=role, eye=eye, frame_id=self._frame(role, eye),
            topic=self._node.resolve_topic_name(image_topic(style, camera, eye)))
            for role, camera, style, eyes in self._params.used()
            for eye in dict.fromkeys((*eyes, *(eye for eye in eyes_of(style) if eye == DEPTH)))]

    def _frame(self, role: str, eye: str) -> str:
        with suppress(DriverError):
            info = self._cameras[role].info().get(eye)
            return info.frame_id if info else ''
        return ''

    def _check(self, name: str, other: str, wanted: Sequence[NodeEndpoint]) -> Check:
        lacks = problems(self._node, other, wanted)
        if lacks and runs(self._node, other) and (why := self._reports.words(other)):
            return Check(name, False, f'{name}: {other} is {why}' if why.startswith('not ')
                         else f'{name}: {why}')
        if lacks:
            return Check(name, False, f"{name}: {'; '.join(lacks)}")
        own = self._node.get_fully_qualified_name()
        commanders = sorted({who for endpoint in wanted if endpoint.way is Way.SUBSCRIBES
                       for who in strangers(self._node, endpoint.name, own)})
        if commanders:
            return Check(name, True, f"{', '.join(commanders)} can command it too; end what does "
                                     'not belong to the session', warning=True)
        return Check(name, True, other)


class Namesakes:
    """
    Notices nodes that another process runs under the names of this station's.

    Session nodes publish their identity on ``~/instance``. A part's name that is in the ROS
    graph twice, for longer than a killed node stays there, belongs to two parts.
    """

    def __init__(self, node: Node, parts: Sequence[str]) -> None:
        self._node, self._parts = node, parts
        self._id = f'{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:8]}'
        self._others: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._instance = qos.publisher(node, String, '~/instance')
        qos.subscription(node, String, '~/instance', self._on_instance)

    def look(self) -> None:
        """Publish this node's identity and look at the graph; call it about every two seconds."""
        self._instance.publish(String(data=self._id))
        names = [f"{space.rstrip('/')}/{name}"
                 for name, space in self._node.get_node_names_and_namespaces()]
        now_s = time.monotonic()
        for part in (full_name(self._node, name) for name in self._parts):
            if names.count(part) > 1:
                self._since.setdefault(part, now_s)
            else:
                self._since.pop(part, None)

    def check(self) -> Check:
        """Return a check that fails while there is a second station."""
        now_s = time.monotonic()
        others = [who for who, at_s in list(self._others.items()) if now_s - at_s < HEARD_S]
        twice = [part for part, at_s in list(self._since.items()) if now_s - at_s > LEASE_S]
        if others:
            host, number, _ = others[0].split(' ')
            return Check(CHECK, False, (
                f'another {self._node.get_fully_qualified_name()} runs as process {number} on '
                f'{host}: two stations would be mixed. End one of them, or give each its own '
                '--namespace or ROS_DOMAIN_ID'))
        if twice:
            return Check(CHECK, False, f"two nodes are called {', '.join(twice)}; end one of "
                         'them, or give each station its own --namespace or ROS_DOMAIN_ID')
        return Check(CHECK, True, 'no other station has these names')

    def _on_instance(self, message: String) -> None:
        if message.data != self._id and message.data.count(' ') == 2:
            self._others[message.data] = time.monotonic()


class PartReports:
    """Keeps the newest bad status of every task of every node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bad: dict[str, dict[str, str]] = {}
        qos.subscription(node, DiagnosticArray, '/diagnostics', self.take, qos.STREAM)

    def take(self, message: DiagnosticArray) -> None:
        """Take a message of /diagnostics."""
        for status in message.status:
            name, _, task = status.name.partition(': ')
            bad = self._bad.setdefault(name, {})
            bad.pop(task, None)
            if status.level in (diagnostics.ERROR, diagnostics.STALE):
                bad[task] = status.message
            if task != diagnostics.LIFECYCLE:
                bad.pop(diagnostics.LIFECYCLE, None)

    def words(self, other: str) -> str:
        """Return what is wrong with the node that this one calls ``other``; or ''."""
        name = full_name(self._node, other).strip('/')
        return '; '.join(dict.fromkeys(self._bad.get(name, {}).values()))
