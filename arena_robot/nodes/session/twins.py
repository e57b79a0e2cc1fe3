"""Finds a second station under the same names: two session nodes, two arms, two cameras."""

import os
import socket
import time
import uuid
from collections.abc import Sequence

from rclpy.node import Node
from std_msgs.msg import String

from arena_robot.nodes import qos
from arena_robot.nodes.endpoints import full_name
from arena_robot.session.ports import Check

# A killed node stays in the graph until its lease ends, 20 s with Fast DDS.
LEASE_S = 25.0
HEARD_S = 5.0
CHECK = 'one station'


class Twins:
    """
    Notices nodes that another process runs under the names of this station's.

    Session nodes publish their identity on ``~/instance``. A part's name that is in the ROS
    graph twice, for longer than a killed node stays there, belongs to two parts.
    """

    def __init__(self, node: Node, parts: Sequence[str]) -> None:
        self._node, self._parts = node, parts
        self._id = f'{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex[:8]}'
        self._heard: dict[str, float] = {}
        self._since: dict[str, float] = {}
        self._said = qos.publisher(node, String, '~/instance')
        qos.subscription(node, String, '~/instance', self._hear)

    def look(self) -> None:
        """Publish this node's identity and look at the graph; call it about every two seconds."""
        self._said.publish(String(data=self._id))
        names = [f"{space.rstrip('/')}/{name}"
                 for name, space in self._node.get_node_names_and_namespaces()]
        now_s = time.monotonic()
        for part in (full_name(self._node, one) for one in self._parts):
            if names.count(part) > 1:
                self._since.setdefault(part, now_s)
            else:
                self._since.pop(part, None)

    def check(self) -> Check:
        """Return a check that fails while there is a second station."""
        now_s = time.monotonic()
        others = [who for who, at_s in list(self._heard.items()) if now_s - at_s < HEARD_S]
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

    def _hear(self, message: String) -> None:
        if message.data != self._id and message.data.count(' ') == 2:
            self._heard[message.data] = time.monotonic()
