"""
What Prometheus reads: counts of calls and refusals, states of the database, the process itself.

No label names a policy, a station or a person, so that the page tells nothing of open sessions.
"""

import shutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from arena_robot.core.errors import ConfigError
from arena_robot.server.counters import BOUNDS_S, Counters

COUNTERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    'calls': ('gRPC calls that ended', ('call', 'outcome')),
    'refused': ('gRPC calls that were refused from their headers', ('why',)),
    'audit_lines': ('lines written to the audit log', ()),
    'audit_omitted': ('lines that a caller had no share of the audit log left for', ()),
    'chore_failures': ('runs of a chore that failed', ('chore',))}


@dataclass(frozen=True)
class Gauges:
    """What is read at each look: sessions and policies by state, whether this server leads."""

    sessions: Callable[[], Mapping[str, int]]
    policies: Callable[[], Mapping[str, int]]
    housekeeper: Callable[[], bool]
    data: Path


class ArenaCollector(Collector):
    """Turns the server's counters and gauges into Prometheus' families."""

    def __init__(self, counters: Counters, gauges: Gauges) -> None:
        self._counters = counters
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """Yield every family."""
        for name, (text, labels) in COUNTERS.items():
            family = CounterMetricFamily(f'arena_{name}', text, labels=labels)
            for values, count in self._counters.counts(name):
                family.add_metric(values, count)
            yield family
        yield self._durations()
        yield self._by_state('arena_sessions', 'sessions by state', self._gauges.sessions())
        yield self._by_state('arena_policies', 'policies by state', self._gauges.policies())
        yield GaugeMetricFamily('arena_housekeeper', 'whether this server does the chores',
                                float(self._gauges.housekeeper()))
        yield GaugeMetricFamily('arena_data_free_bytes', 'free space of the data folder',
                                float(shutil.disk_usage(self._gauges.data).free))

    def _durations(self) -> Metric:
        family = HistogramMetricFamily('arena_call_seconds', 'duration of gRPC calls',
                                       labels=('call',))
        bounds = [*(f'{bound:g}' for bound in BOUNDS_S), '+Inf']
        for values, duration in self._counters.durations('call'):
            family.add_metric(values, list(zip(bounds, accumulate(map(float, duration.counts)),
                                               strict=True)), duration.sum_s)
        return family

    @staticmethod
    def _by_state(name: str, text: str, counts: Mapping[str, int]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=('state',))
        for state, count in sorted(counts.items()):
            family.add_metric((state,), float(count))
        return family


class MetricsPage:
    """Serves the metrics at ``/metrics`` on a port of this machine alone; 0 uses a free one."""

    def __init__(self, counters: Counters, gauges: Gauges) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ArenaCollector(counters, gauges))
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def open(self, port: int) -> int:
        """Listen and return the port; ConfigError when it is taken."""
        ProcessCollector(registry=self._registry)
        try:
            self._server, self._thread = start_http_server(port, '127.0.0.1', self._registry)
        except OSError as error:
            raise ConfigError(f'cannot serve metrics on 127.0.0.1:{port}: {error.strerror}; '
                              'choose another metrics_port, or -1 for none') from error
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop; can be called twice."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            server.server_close()
            self._thread.join(5.0)
