"""Diagnostics of nodes, with the keys of diagnostic_updater."""

from collections.abc import Callable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from arena_robot.nodes.lib.convert import header

OK, WARN, ERROR, STALE = (DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR,
                          DiagnosticStatus.STALE)
LIFECYCLE = 'lifecycle'
_TOLERANCE = 0.1    # as diagnostic_updater's default


class Rate:
    """Counts events; ``target_hz`` returns their expected rate, which may change."""

    def __init__(self, target_hz: Callable[[], float]) -> None:
        self._target_hz = target_hz
        self.total = 0
        self.actual_hz = 0.0
        self._seen = 0
        self._since_ns: int | None = None

    def tick(self) -> None:
        """Count one event."""
        self.total += 1

    def measure(self, now_ns: int) -> float:
        """Return events per second since the last call, in the time that ``now_ns`` counts."""
        if self._since_ns is not None and now_ns > self._since_ns:
            self.actual_hz = (self.total - self._seen) * 1e9 / (now_ns - self._since_ns)
        else:
            self.actual_hz = self.target_hz
        self._seen, self._since_ns = self.total, now_ns
        return self.actual_hz

    def values(self) -> dict[str, str]:
        """Return the keys that diagnostic_updater uses."""
        return {'Actual frequency (Hz)': f'{self.actual_hz:.2f}',
                'Target frequency (Hz)': f'{self.target_hz:.2f}',
                'Minimum acceptable frequency (Hz)': f'{self.minimum_hz:.2f}',
                'Events since startup': str(self.total)}

    @property
    def target_hz(self) -> float:
        """The expected rate."""
        return self._target_hz()

    @property
    def minimum_hz(self) -> float:
        """The rate below which the stream is too slow."""
        return self.target_hz * (1.0 - _TOLERANCE)

    @property
    def too_slow(self) -> bool:
        """Whether the last measurement was below the minimum."""
        return self.actual_hz < self.minimum_hz


def status(node: Node, task: str, hardware: str, level: bytes, message: str,
           values: Mapping[str, object]) -> DiagnosticStatus:
    """
    Return one status of a node's task; ``values`` are shown as text.

    Its name and hardware id are no other station's, such as ``left/arm_node: robot mode`` and
    ``left/172.16.0.2``: stations have the same addresses, ports and simulated serial numbers.
    """
    return DiagnosticStatus(
        level=level, name=f"{node.get_fully_qualified_name().strip('/')}: {task}",
        message=message,
        hardware_id='/'.join(filter(None, (node.get_namespace().strip('/'), hardware))),
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])


def report(stamp_ns: int, *statuses: DiagnosticStatus) -> DiagnosticArray:
    """Return the message for ``/diagnostics``."""
    return DiagnosticArray(header=header(stamp_ns, ''), status=list(statuses))
