"""Endpoints of other nodes in the ROS graph: who publishes, subscribes to and offers what."""

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSDurabilityPolicy, QoSProfile, QoSReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.topic_endpoint_info import TopicEndpointInfo

from arena_robot.core.errors import RecordingError
from arena_robot.nodes.lib import diagnostics

PLAYER = 'rosbag2_player'
UNKNOWN = '_NODE_NAME_UNKNOWN_'


class Way(Enum):
    """What a node does at an endpoint."""

    PUBLISHES = 'publish'
    SUBSCRIBES = 'subscribe to'
    SERVES = 'offer the service'
    ACTS = 'offer the action'


@dataclass(frozen=True)
class NodeEndpoint:
    """
    An endpoint that a node must have: its name, relative to the asking node's namespace, and type.

    ``profile`` is the QoS of the other side of a topic, ``hint`` what to do when it is missing.
    """

    way: Way
    name: str
    kind: str
    hint: str = ''
    profile: QoSProfile | None = None


def type_name(kind: type) -> str:
    """Return the ROS name of a message, service or action class, such as std_msgs/msg/Empty."""
    package, folder, *_ = kind.__module__.split('.')
    return f'{package}/{folder}/{kind.__name__}'


def message_class(message_type: str) -> type:
    """Return the Python class of ``pkg/msg/Type``; RecordingError when it is not installed."""
    package, _, short = message_type.split('/')
    try:
        return getattr(importlib.import_module(f'{package}.msg'), short)  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise RecordingError(f'{message_type} cannot be imported ({error}); install {package} '
                             'and source its workspace') from error


def owner(info: TopicEndpointInfo) -> str:
    """Return the full name of the node that has an endpoint."""
    return f"{info.node_namespace.rstrip('/')}/{info.node_name}"


def full_name(node: Node, other: str) -> str:
    """Return the full name of the node that ``node`` calls ``other``."""
    return other if other.startswith('/') else f"{node.get_namespace().rstrip('/')}/{other}"


def ends(node: Node, topic: str, way: Way) -> Sequence[TopicEndpointInfo]:
    """Return the publishers or the subscribers of a topic; names are resolved as for ``node``."""
    name = node.resolve_topic_name(topic)
    look: Callable[[str], Sequence[TopicEndpointInfo]] = (
        node.get_publishers_info_by_topic if way is Way.PUBLISHES
        else node.get_subscriptions_info_by_topic)
    return look(name)


def has(node: Node, other: str, topic: str, way: Way) -> bool:
    """Return whether the node ``other`` publishes or subscribes to a topic."""
    wanted = full_name(node, other)
    return any(owner(info) == wanted for info in ends(node, topic, way))


def strangers(node: Node, topic: str, own: str) -> list[str]:
    """Return the nodes that publish a topic that only the node ``own`` shall publish."""
    publishers = (owner(info) for info in ends(node, topic, Way.PUBLISHES)
             if info.node_name != UNKNOWN)
    return sorted({name for name in publishers if name != own})


def runs(node: Node, other: str) -> bool:
    """Return whether a node of this name is in the graph."""
    wanted = full_name(node, other)
    return any(f"{space.rstrip('/')}/{name}" == wanted
               for name, space in node.get_node_names_and_namespaces())


def problems(node: Node, other: str, wanted: Iterable[NodeEndpoint]) -> list[str]:
    """Return, as sentences, what the node ``other`` lacks of the endpoints ``wanted``."""
    name = full_name(node, other)
    if not runs(node, other):
        return [f'there is no node {name}; start it, in the same ROS domain and namespace']
    services = _named(node.get_service_names_and_types_by_node, name)
    sentences = (_topic_problem(node, name, endpoint)
                 if endpoint.way in (Way.PUBLISHES, Way.SUBSCRIBES)
                 else _service_problem(node, name, endpoint, services) for endpoint in wanted)
    return [words for words in sentences if words]


def _named(look: Callable[[str, str], Any], name: str) -> dict[str, list[str]]:
    space, _, short = name.rpartition('/')
    return dict(look(short, space or '/'))


def _service_problem(node: Node, name: str, endpoint: NodeEndpoint,
                     services: dict[str, list[str]]) -> str:
    full = node.resolve_service_name(endpoint.name)
    if endpoint.way is Way.ACTS:
        full, kind = f'{full}/_action/send_goal', f'{endpoint.kind}_SendGoal'
    else:
        kind = endpoint.kind
    types = services.get(full)
    if types is None:
        return _lacks(name, endpoint)
    if kind not in types:
        return f'{name} has {endpoint.name} with the type {types[0]}, wanted is {endpoint.kind}'
    return ''


def _topic_problem(node: Node, name: str, endpoint: NodeEndpoint) -> str:
    endpoints = ends(node, endpoint.name, endpoint.way)
    own = [info for info in endpoints if owner(info) == name]
    if not own:
        return _lacks(name, endpoint)
    if own[0].topic_type != endpoint.kind:
        return (f'{name} has {endpoint.name} with the type {own[0].topic_type}, '
                f'wanted is {endpoint.kind}')
    others = strangers(node, endpoint.name, name) if endpoint.way is Way.PUBLISHES else []
    if others:
        return (f"{endpoint.name} is also published by {', '.join(others)}; stop that, or play a "
                'bag with the remaps of `arena episode replay DIR --remaps`')
    return _qos_problem(endpoint, own[0].qos_profile)


def _qos_problem(endpoint: NodeEndpoint, theirs: QoSProfile) -> str:
    """Compare what can differ here; graph information has other deadlines than profiles."""
    if endpoint.profile is None:
        return ''
    sends, hears = ((theirs, endpoint.profile) if endpoint.way is Way.PUBLISHES
                    else (endpoint.profile, theirs))
    mismatches = []
    if (sends.reliability == QoSReliabilityPolicy.BEST_EFFORT
            and hears.reliability == QoSReliabilityPolicy.RELIABLE):
        mismatches.append('the publisher is best effort and the subscriber reliable')
    if (sends.durability == QoSDurabilityPolicy.VOLATILE
            and hears.durability == QoSDurabilityPolicy.TRANSIENT_LOCAL):
        mismatches.append('the publisher is volatile and the subscriber transient local')
    if not mismatches:
        return ''
    return (f"the QoS of {endpoint.name} does not fit: {' and '.join(mismatches)}; change it with "
            'qos_overrides in the parameter file of either node')


def _lacks(name: str, endpoint: NodeEndpoint) -> str:
    sentence = f'{name} does not {endpoint.way.value} {endpoint.name} ({endpoint.kind})'
    return f'{sentence}; {endpoint.hint}' if endpoint.hint else sentence


class PlayedInto:
    """
    Finds other publishers on a node's own topics, as when a bag is played into a live station.

    ``made`` are the node's own publishers and subscriptions, now and later. ``problem`` says who
    it is and what to do; it is empty while there is none.
    """

    def __init__(self, node: Node, made: Sequence[Any]) -> None:
        self._node, self._made = node, made
        self.problem = ''

    def look(self) -> str:
        """Look at the graph; return :attr:`problem`."""
        intruder = self._intruder(list(self._made))
        problem = intruder and (
            f'{intruder}; is a bag played into this station? Commands are refused. Stop it, or '
            'play it with the remaps of `arena episode replay DIR --remaps`')
        if problem and problem != self.problem:
            self._node.get_logger().error(problem)
        self.problem = problem
        return problem

    def report(self) -> list[DiagnosticStatus]:
        """Return a status while there is a problem."""
        return [diagnostics.status(self._node, 'foreign publishers', '', diagnostics.ERROR,
                                   self.problem, {})] if self.problem else []

    def _intruder(self, made: Sequence[Any]) -> str:
        own = self._node.get_fully_qualified_name()
        for entity in made:
            if not isinstance(entity, Publisher | Subscription):
                continue
            topic, sends = entity.topic_name, isinstance(entity, Publisher)
            if not topic.startswith(f'{own}/') or self._node.count_publishers(topic) <= sends:
                continue
            others = [name for name in strangers(self._node, topic, own)
                      if sends or PLAYER in name]
            if others:
                return f"{', '.join(others)} publishes {topic}, a topic of this node"
        return ''
