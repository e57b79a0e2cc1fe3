"""
Quality of service: publishers reliable, subscribers of sensor streams best effort (REP 2003).

Every endpoint made here can be overridden in a parameter file, by keys such as
``qos_overrides./station/joint_states.publisher.reliability``.

The QoS of bags and of override files is converted here too.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    QoSDurabilityPolicy,
    QoSHistoryPolicy,
    QoSLivelinessPolicy,
    QoSProfile,
    QoSReliabilityPolicy,
    qos_profile_sensor_data,
)
from rclpy.qos_overriding_options import QoSOverridingOptions
from rclpy.subscription import Subscription

from arena_robot.core.config import nearest, read_yaml
from arena_robot.core.errors import ConfigError
from arena_robot.recording.bag.base import INFINITE_NS, Qos

STREAM = QoSProfile(depth=10)
STATE = QoSProfile(depth=5)
LATCHED = QoSProfile(depth=1, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL)
COMMAND = QoSProfile(depth=1)    # a newer command replaces one that waits
# A command that is late by a period and a half of the control loop is not delivered.
COMMAND_SENT = QoSProfile(depth=1, lifespan=Duration(nanoseconds=100_000_000))
CLOCK = QoSProfile(depth=1, reliability=QoSReliabilityPolicy.BEST_EFFORT)
SENSOR = qos_profile_sensor_data
_POLICIES: dict[str, Any] = {
    'history': QoSHistoryPolicy, 'reliability': QoSReliabilityPolicy,
    'durability': QoSDurabilityPolicy, 'liveliness': QoSLivelinessPolicy}
_TIMES = {'deadline': 'deadline', 'lifespan': 'lifespan',
          'liveliness_lease_duration': 'liveliness_lease_duration'}
_OTHER = ('depth', 'avoid_ros_namespace_conventions')


def publisher(node: Node, kind: type, topic: str, qos: QoSProfile = STREAM) -> Publisher:
    """Return a publisher whose QoS a parameter file may override."""
    return node.create_publisher(
        kind, topic, qos,
        qos_overriding_options=QoSOverridingOptions.with_default_policies())


def subscription(node: Node, kind: type, topic: str, callback: Callable[[Any], None],
                 qos: QoSProfile = SENSOR, group: CallbackGroup | None = None) -> Subscription:
    """Return a subscription whose QoS a parameter file may override."""
    return node.create_subscription(
        kind, topic, callback, qos, callback_group=group,
        qos_overriding_options=QoSOverridingOptions.with_default_policies())


def offered(profile: QoSProfile) -> Qos:
    """Return a publisher's QoS as reported by the ROS graph."""
    return Qos(
        reliability=_word(profile.reliability), durability=_word(profile.durability),
        history=_word(profile.history), depth=int(profile.depth),
        deadline_ns=_time_ns(profile.deadline), lifespan_ns=_time_ns(profile.lifespan),
        liveliness=_word(profile.liveliness),
        liveliness_lease_ns=_time_ns(profile.liveliness_lease_duration),
        avoid_ros_namespace_conventions=bool(profile.avoid_ros_namespace_conventions))


def wanted(offers: Sequence[Qos], depth: int) -> QoSProfile:
    """
    Return a subscriber's profile that every publisher can serve.

    Reliable when all are, latched when all are; otherwise the weaker one, because a subscriber
    that requests more than is offered receives nothing.
    """
    reliable = all(q.reliability == 'reliable' for q in offers)
    latched = bool(offers) and all(q.is_latched for q in offers)
    return QoSProfile(
        depth=depth,
        reliability=(QoSReliabilityPolicy.RELIABLE if reliable
                     else QoSReliabilityPolicy.BEST_EFFORT),
        durability=(QoSDurabilityPolicy.TRANSIENT_LOCAL if latched
                    else QoSDurabilityPolicy.VOLATILE))


def to_profile(qos: Qos, depth: int = 10) -> QoSProfile:
    """Return a publisher's profile that offers ``qos``; what the graph left open is ``depth``."""
    def policy(kind: str, word: str, otherwise: str) -> Any:
        names = {m.name.lower(): m for m in _POLICIES[kind]}
        return names.get(word if word != 'unknown' else otherwise, names[otherwise])

    profile = QoSProfile(
        depth=qos.depth or depth, history=policy('history', qos.history, 'keep_last'),
        reliability=policy('reliability', qos.reliability, 'reliable'),
        durability=policy('durability', qos.durability, 'volatile'))
    if qos.lifespan_ns < INFINITE_NS:
        profile.lifespan = Duration(nanoseconds=qos.lifespan_ns)
    return profile


def read_overrides(path: str) -> dict[str, QoSProfile]:
    """
    Return the profiles of a ``qos_profile_overrides_path`` file, by topic; none for no path.

    The file is the one that ``ros2 bag record`` takes. Raises ConfigError.
    """
    if not path:
        return {}
    return {str(topic): _override(entry, f'{path}: {topic}')
            for topic, entry in read_yaml(Path(path).expanduser()).items()}


def _override(entry: Any, where: str) -> QoSProfile:
    if not isinstance(entry, Mapping):
        raise ConfigError(f'{where} must be a mapping of policies, found {entry!r}')
    known = [*_POLICIES, *_TIMES, *_OTHER]
    values: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown key '{key}'.{nearest(str(key), known)}")
        values[key] = _policy(key, value, f'{where}.{key}')
    if values.get('history', QoSHistoryPolicy.KEEP_LAST) is QoSHistoryPolicy.KEEP_LAST:
        values.setdefault('depth', 10)
    return QoSProfile(**values)


def _policy(key: str, value: Any, where: str) -> Any:
    if key in _POLICIES:
        names = {m.name.lower(): m for m in _POLICIES[key]}
        if str(value).lower() not in names:
            raise ConfigError(f"{where}: unknown value '{value}'.{nearest(str(value), names)}")
        return names[str(value).lower()]
    try:
        if key in _TIMES:
            return Duration(nanoseconds=int(value['sec']) * 10**9 + int(value['nsec']))
        return bool(value) if key == 'avoid_ros_namespace_conventions' else int(value)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f'{where}: cannot read {value!r}: times are {{sec: 1, nsec: 0}}, depth '
                          'is a number') from error


def _word(policy: Any) -> str:
    return str(policy.name).lower()


def _time_ns(duration: Duration) -> int:
    return min(int(duration.nanoseconds), INFINITE_NS) or INFINITE_NS
