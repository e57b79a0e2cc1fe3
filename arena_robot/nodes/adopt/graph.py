"""A look at a running ROS graph: topics with their owners, QoS, rates and joints; services."""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from rclpy.qos import QoSReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from arena_robot.core.errors import DriverError
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.endpoints import UNKNOWN, Way, ends, owner
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin
from arena_robot.nodes.vendor.controllers import LISTENERS, jtc_values
from arena_robot.recording.episode.views import IMAGE, JPEG

JOINTS = 'sensor_msgs/msg/JointState'
TRAJECTORY, TRAJECTORIES = 'trajectory_msgs/msg/JointTrajectory', '/joint_trajectory'
KINDS: dict[str, type] = {JOINTS: JointState, IMAGE: Image, JPEG: CompressedImage}
STRING, DESCRIPTION = 'std_msgs/msg/String', '/robot_description'
GOAL = '/_action/send_goal'
LONGEST_S = 15.0    # a graph that still changes then is taken as it is
ALONE_S = 5.0    # a busy machine finds the first other node late

T = TypeVar('T')


@dataclass(frozen=True)
class FoundTopic:
    """A topic; ``rate_hz`` and ``joints`` are None and () where it was not listened to."""

    name: str
    kind: str
    publishers: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()
    best_effort: bool = False
    rate_hz: float | None = None
    joints: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundGraph:
    """
    Topics by name; types of actions and of services by name; the namespace looked from.

    ``controllers`` has the parameters of each joint_trajectory_controller that told them,
    ``descriptions`` the URDFs on topics ``robot_description`` that no arm_node publishes.
    """

    topics: Mapping[str, FoundTopic]
    actions: Mapping[str, str] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ''
    controllers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    descriptions: tuple[str, ...] = ()

    def of(self, kind: str) -> list[FoundTopic]:
        """Return the topics of a type, in the order of their names."""
        return [topic for _, topic in sorted(self.topics.items()) if topic.kind == kind]

    def relative(self, name: str) -> str:
        """Return a name as it is written in the station file: relative in the namespace."""
        space = f"/{self.namespace.strip('/')}/" if self.namespace.strip('/') else '/'
        return name.removeprefix(space) if name.startswith(space) else name

    def near(self, found: Iterable[T], name: Callable[[T], str] = str) -> list[T]:
        """Return what is in the namespace, where another arm has its own; all if nothing is."""
        every = list(found)
        return [one for one in every if self.relative(name(one)) != name(one)] or every


class _Listener:
    """Keeps when the messages of topics arrive, and the joints' names."""

    def __init__(self) -> None:
        self.arrived_s: dict[str, list[float]] = {}
        self.joints: dict[str, set[str]] = {}

    def listen(self, node: Listening, name: str, kind: str) -> None:
        """Subscribe; images are counted without being read."""
        self.arrived_s[name], self.joints[name] = [], set()
        raw = kind != JOINTS

        def take(message: Any) -> None:
            self.arrived_s[name].append(time.monotonic())
            if not raw:
                self.joints[name] |= set(message.name)
        node.create_subscription(KINDS[kind], name, take, qos.SENSOR, raw=raw)

    def rate_hz(self, name: str) -> float | None:
        """Return the rate between first and last message; None where nobody listened."""
        if name not in self.arrived_s:
            return None
        times = self.arrived_s[name]
        return (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0


def look(namespace: str = '', quiet_s: float = 1.5, listen_s: float = 2.0) -> FoundGraph:
    """Return the graph, once nothing new has been found for ``quiet_s``; listen ``listen_s``."""
    with Spin() as spin:
        node = Listening(f'arena_adopt_{uuid.uuid4().hex[:6]}', namespace=namespace,
                         context=spin.context)
        spin.add(node, threads=1)
        _discovered(node, quiet_s)
        kinds = {name: types[0] for name, types in node.get_topic_names_and_types() if types}
        listener = _Listener()
        for name, kind in kinds.items():
            # Raw images only where there are no JPEGs: listening to six costs a core.
            if kind in KINDS and not (kind == IMAGE and f'{name}/compressed' in kinds):
                listener.listen(node, name, kind)
        urdfs: dict[str, str] = {}
        for name, kind in kinds.items():
            if kind == STRING and name.endswith(DESCRIPTION):
                qos.subscription(node, String, name, partial(_keep, urdfs, name), qos.LATCHED)
        time.sleep(listen_s)
        topics = {name: _topic(node, name, kind, listener) for name, kind in kinds.items()}
        services = {name: types[0] for name, types in node.get_service_names_and_types() if types}
        controllers = dict(_controllers(node, topics))
    actions = {name.removesuffix(GOAL): kind.removesuffix('_SendGoal')
               for name, kind in services.items() if name.endswith(GOAL)}
    return FoundGraph(topics, actions, {name: kind for name, kind in services.items()
                                        if '/_action/' not in name}, namespace,
                      controllers, tuple(
                          text for name, text in sorted(urdfs.items())
                          if not any('arm_node' in who for who in topics[name].publishers)))


def _keep(urdfs: dict[str, str], name: str, message: String) -> None:
    urdfs[name] = message.data


def _controllers(node: Listening, topics: Mapping[str, FoundTopic]
                 ) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Ask every controller that takes a trajectory for its parameters."""
    for topic in topics.values():
        if topic.kind == TRAJECTORY and topic.name.endswith(TRAJECTORIES):
            for other in topic.subscribers:
                with suppress(DriverError):    # it stays unknown, and the proposal says so
                    yield other, jtc_values(node, other)


def _discovered(node: Listening, quiet_s: float) -> None:
    """
    Return once topics and services have stayed the same for ``quiet_s``, or after LONGEST_S.

    While no other node is known this takes ``ALONE_S`` at least.
    """
    begin_s = since_s = time.monotonic()
    before: Any = None
    while True:
        now = (node.get_topic_names_and_types(), node.get_service_names_and_types())
        now_s = time.monotonic()
        if now != before:
            before, since_s = now, now_s
        least_s = quiet_s if _others(node) else max(quiet_s, ALONE_S)
        if now_s - since_s >= least_s or now_s - begin_s >= LONGEST_S:
            return
        time.sleep(0.05)


def _others(node: Listening) -> bool:
    own = (node.get_name(), node.get_namespace())
    return any(node_name != own for node_name in node.get_node_names_and_namespaces())


def _topic(node: Listening, name: str, kind: str, listener: _Listener) -> FoundTopic:
    own = node.get_fully_qualified_name()
    senders = ends(node, name, Way.PUBLISHES)

    def named(infos: Any) -> tuple[str, ...]:
        return tuple(sorted({owner(info) for info in infos if info.node_name != UNKNOWN
                             and owner(info) != own
                             and not any(word in info.node_name for word in LISTENERS)}))
    return FoundTopic(
        name, kind, named(senders), named(ends(node, name, Way.SUBSCRIBES)),
        any(info.qos_profile.reliability == QoSReliabilityPolicy.BEST_EFFORT
            for info in senders),
        listener.rate_hz(name),
        tuple(sorted(listener.joints.get(name, ()))))
