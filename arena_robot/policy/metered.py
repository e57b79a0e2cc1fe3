"""A policy whose use is counted: for the live view, the log of queries and Prometheus."""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TextIO

from arena_robot.core.action import Chunk
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import Observation
from arena_robot.policy.base import Policy, PolicySpec
from arena_robot.policy.serving import BatchCall, batch_call
from arena_robot.policy.timing import Latency, summarise

NEWEST = 1000    # queries kept for the latencies of the last minute
RECENT_S = 60.0
STATM = Path('/proc/self/statm')


@dataclass(frozen=True)
class PolicyUse:
    """
    Use of a policy until now.

    ``rate_hz`` and ``rollouts`` are of the last minute, ``latency`` is that of the newest
    answers; ``resident_bytes`` 0: not known on this system.
    """

    queries: int
    errors: int
    rate_hz: float
    rollouts: int
    latency: Latency
    resident_bytes: int

    def line(self) -> str:
        """Return it for a terminal."""
        return (f'{self.queries} queries, {self.rate_hz:.1f}/s, p50 {self.latency.p50_s * 1e3:.0f}'
                f' ms, p99 {self.latency.p99_s * 1e3:.0f} ms, {self.rollouts} rollouts, '
                f'{self.errors} errors, {self.resident_bytes / 1e6:.0f} MB')

    def metrics(self) -> str:
        """Return it as Prometheus reads it."""
        rows = (('queries_total', 'counter', self.queries),
                ('errors_total', 'counter', self.errors),
                ('rollouts', 'gauge', self.rollouts),
                ('resident_bytes', 'gauge', self.resident_bytes),
                ('latency_p50_seconds', 'gauge', self.latency.p50_s),
                ('latency_p99_seconds', 'gauge', self.latency.p99_s),
                ('latency_max_seconds', 'gauge', self.latency.max_s))
        return ''.join(f'# TYPE arena_policy_{name} {kind}\narena_policy_{name} {value:g}\n'
                       for name, kind, value in rows)


class MeteredPolicy:
    """
    Passes calls on and counts them; ``log`` gets a line of JSON for each query.

    A line has ``stamp_ns``, ``step``, ``seconds``, ``actions`` and ``error``: neither prompts,
    pictures, nor the tokens of episodes.
    """

    def __init__(self, policy: Policy, log: TextIO | None = None) -> None:
        self._policy = policy
        self._log = log
        self._lock = threading.Lock()
        self._newest: deque[tuple[float, float]] = deque(maxlen=NEWEST)    # when, how long
        self._seen_s: dict[str, float] = {}
        self._queries = self._errors = 0

    @property
    def spec(self) -> PolicySpec:
        """The inner policy's."""
        return self._policy.spec

    def infer(self, observation: Observation, episode: str = '') -> Chunk:
        """Query and count."""
        started, actions, error = time.perf_counter(), 0, ''
        try:
            chunk = self._policy.infer(observation, episode)
            actions = len(chunk.actions)
            return chunk
        except Exception as raised:
            error = type(raised).__name__
            raise
        finally:
            self._note(episode, observation.step, time.perf_counter() - started, actions, error)

    @property
    def infer_batch(self) -> BatchCall | None:
        """The inner policy's, counted; None where it has none."""
        return None if batch_call(self._policy) is None else self._infer_batch

    def reset(self, episode: str = '') -> None:
        """Pass on."""
        self._policy.reset(episode)

    def use(self) -> PolicyUse:
        """Return its use until now."""
        with self._lock:
            since_s = time.monotonic() - RECENT_S
            self._seen_s = {name: at for name, at in self._seen_s.items() if at >= since_s}
            recent = [at for at, _ in self._newest if at >= since_s]
            span_s = max(time.monotonic() - recent[0], 1.0) if recent else 1.0
            return PolicyUse(self._queries, self._errors, len(recent) / span_s,
                             len(self._seen_s), summarise(took for _, took in self._newest),
                             resident_bytes())

    def _infer_batch(self, observations: Sequence[Observation],
                     episodes: Sequence[str]) -> Sequence[Chunk | Exception]:
        call, started = batch_call(self._policy), time.perf_counter()
        assert call is not None
        answers: list[Chunk | Exception] = []
        try:
            answers = list(call(observations, episodes))
            return answers
        except Exception as raised:
            # Several are then asked again, each alone, and counted there.
            answers = [raised] if len(observations) == 1 else []
            raise
        finally:
            took_s = time.perf_counter() - started
            for seen, episode, answer in zip(observations, episodes, answers, strict=False):
                failed = isinstance(answer, Exception)
                self._note(episode, seen.step, took_s,
                           len(answer.actions) if isinstance(answer, Chunk) else 0,
                           type(answer).__name__ if failed else '')

    def _note(self, episode: str, step: int, seconds: float, actions: int, error: str) -> None:
        with self._lock:
            now_s = time.monotonic()
            self._newest.append((now_s, seconds))
            self._seen_s[episode] = now_s
            self._queries += 1
            self._errors += bool(error)
            if self._log is not None:
                self._log.write(json.dumps({
                    'stamp_ns': time.time_ns(), 'step': step, 'seconds': round(seconds, 6),
                    'actions': actions, 'error': error}) + '\n')
                self._log.flush()


def resident_bytes() -> int:
    """Return the memory of this process; 0 where Linux's /proc is not there."""
    if not STATM.exists():
        return 0
    return os.sysconf('SC_PAGE_SIZE') * int(STATM.read_text(encoding='ascii').split()[1])


class MetricsServer:
    """Serves ``/metrics`` to this machine; ``port`` 0 takes a free one."""

    def __init__(self, use: Callable[[], PolicyUse], port: int) -> None:
        class Page(BaseHTTPRequestHandler):
            timeout = 5.0

            def do_GET(self) -> None:
                """Answer with the use of the policy until now."""
                text = use().metrics().encode() if self.path == '/metrics' else b''
                self.send_response(200 if text else 404)
                self.send_header('Content-Type', 'text/plain; version=0.0.4')
                self.send_header('Content-Length', str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_request(self, code: object = '-', size: object = '-') -> None:
                """Write nothing about a page that is read every few seconds."""

        try:
            self._server = ThreadingHTTPServer(('127.0.0.1', port), Page)
        except OSError as error:
            raise ConfigError(f'cannot serve metrics at port {port}: {error}') from error
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> 'MetricsServer':
        """Start."""
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
