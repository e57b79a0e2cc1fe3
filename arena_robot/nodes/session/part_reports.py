"""What the nodes of parts say on /diagnostics about why they are not ready."""

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node

from arena_robot.nodes import diagnostics, qos
from arena_robot.nodes.endpoints import full_name


class PartReports:
    """Keeps the newest bad status of every task of every node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bad: dict[str, dict[str, str]] = {}
        qos.subscription(node, DiagnosticArray, '/diagnostics', self.take, qos.STREAM)

    def take(self, message: DiagnosticArray) -> None:
        """Take a message of /diagnostics."""
        for one in message.status:
            name, _, task = one.name.partition(': ')
            kept = self._bad.setdefault(name, {})
            kept.pop(task, None)
            if one.level in (diagnostics.ERROR, diagnostics.STALE):
                kept[task] = one.message
            if task != diagnostics.LIFECYCLE:
                kept.pop(diagnostics.LIFECYCLE, None)

    def words(self, other: str) -> str:
        """Return what is wrong with the node that this one calls ``other``; or ''."""
        name = full_name(self._node, other).strip('/')
        return '; '.join(dict.fromkeys(self._bad.get(name, {}).values()))
