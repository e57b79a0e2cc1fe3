"""Any policy on a websocket, as openpi and RoboArena clients expect it."""

import asyncio
import itertools
import logging
import threading
import time
from concurrent.futures import Executor
from types import TracebackType
from typing import Any

from arena_robot.core.errors import ArenaError, DataError, PolicyRefused
from arena_robot.policy.base import Policy
from arena_robot.policy.grpc.server import workers_for
from arena_robot.policy.openpi import wire
from arena_robot.policy.openpi.passing import FrameServer, LoopThread, Message
from arena_robot.policy.options import ServeOptions
from arena_robot.policy.serving import Answer, ServedPolicy

logger = logging.getLogger(__name__)
OPEN_S = 30.0    # to bind a port, however busy the machine is


class OpenpiCaller:
    """One connection; requests without a session id belong to an episode of its own."""

    def __init__(self, served: ServedPolicy, name: str, max_call_s: float) -> None:
        self._served = served
        self._name = name
        self._max_call_s = max_call_s
        self._used = False

    def answer(self, frame: Message) -> bytes | str:
        """Return the reply to one frame; errors are strings that begin with their code."""
        try:
            return self._answer(frame)
        except ArenaError as error:
            return f'[{error.code}] {error}'

    def leave(self) -> None:
        """Clear the episode that only this connection could continue."""
        if self._used:
            self._served.reset(self._name, self._max_call_s)
            self._used = False

    def _answer(self, frame: Message) -> bytes | str:
        request = self._request(frame)
        session = wire.session_of(request)
        endpoint = request.get('endpoint', 'infer')
        if endpoint == 'infer' and wire.is_connection_test(request):
            return self._test()
        if endpoint == 'infer':
            return self._infer(request, session)
        if endpoint == 'reset':
            self.leave()
            if session:
                self._served.reset(session, self._max_call_s)
            return 'reset successful'
        raise PolicyRefused(f"'endpoint' must be 'infer' or 'reset', found {endpoint!r}")

    def _infer(self, request: dict[Any, Any], session: str) -> bytes:
        spec = self._served.spec
        observation = wire.observation_of(request, time.time_ns(), spec.image_size, spec.joints)
        self._used = self._used or not session
        return wire.pack(_reply(self._served.infer(
            observation, session or self._name, self._max_call_s)))

    def _test(self) -> bytes:
        """Answer a request without an observation in an episode of its own, and say so."""
        logger.warning('%s sent no observation: answered as a test of the connection', self._name)
        episode = f'{self._name}-test'
        answer = self._served.infer(
            wire.test_observation(self._served.spec, time.time_ns()), episode,
            self._max_call_s)
        self._served.reset(episode, self._max_call_s)
        return wire.pack(_reply(answer) | {'connection_test': True})

    def _request(self, frame: Message) -> dict[Any, Any]:
        if isinstance(frame, str):
            raise PolicyRefused('requests are binary frames of msgpack, found text')
        try:
            request = wire.unpack(frame)
        except DataError as error:
            raise PolicyRefused(str(error)) from error
        if not isinstance(request, dict):
            raise PolicyRefused(f'a request is a map, found a {type(request).__name__}')
        return request


def _reply(answer: Answer) -> dict[str, Any]:
    return {
        'actions': answer.chunk.actions,
        'server_timing': {'infer_ms': answer.infer_s * 1e3, 'queue_ms': answer.queue_s * 1e3},
    }


class OpenpiPolicyServer:
    """
    Serves one policy on one port, with ``/healthz`` beside it.

    One thread reads and writes all connections, others call the policy. ``open`` binds and starts;
    ``close`` closes all connections and stops.
    """

    def __init__(self, policy: Policy, options: ServeOptions | None = None) -> None:
        self._policy = policy
        self._options = options or ServeOptions()
        self._numbers = itertools.count(1)
        self._callers: dict[str, OpenpiCaller] = {}
        self._closed = threading.Event()
        self.port = 0

    @property
    def address(self) -> str:
        """Where clients find it, such as ``openpi://127.0.0.1:8000``."""
        return f"openpi{'s' if self._options.tls_cert else ''}://{self._options.host}:{self.port}"

    def open(self) -> 'OpenpiPolicyServer':
        """Start serving; raises ConfigError when the port or a TLS file cannot be used."""
        self._served = ServedPolicy(self._policy, self._options.parallel)
        self._workers: Executor = workers_for(self._served, self._options)
        self._frames = FrameServer(wire.pack(wire.metadata_of(self._served.spec)),
                                   self._answer, self._left, logger.info, self._options)
        self._loop = LoopThread('openpi-server')
        try:
            self._loop.run(self._frames.open(), OPEN_S)
        except BaseException:
            self._end()
            raise
        self.port = self._frames.port
        logger.info('serving %s at %s', type(self._policy).__name__, self.address)
        return self

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when the server has stopped, or after ``timeout_s``."""
        self._closed.wait(timeout_s)

    def close(self, grace_s: float = 5.0) -> None:
        """Stop accepting, close all connections, wait ``grace_s`` for running calls."""
        if self.port and not self._closed.is_set():
            self._loop.run(self._frames.close(grace_s), grace_s + OPEN_S)
            self._end()

    def __enter__(self) -> 'OpenpiPolicyServer':
        """Open."""
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def _end(self) -> None:
        self._closed.set()
        self._loop.close()
        self._workers.shutdown(wait=False)

    async def _answer(self, name: str, frame: Message) -> Message:
        caller = self._callers.get(name)
        if caller is None:
            caller = OpenpiCaller(self._served, f'connection-{next(self._numbers)}',
                                  self._options.max_call_s)
            self._callers[name] = caller
        return await asyncio.get_running_loop().run_in_executor(
            self._workers, caller.answer, frame)

    def _left(self, name: str) -> None:
        logger.info('%s left', name)
        caller = self._callers.pop(name, None)
        if caller is not None:
            self._workers.submit(self._leave, caller)

    def _leave(self, caller: OpenpiCaller) -> None:
        try:
            caller.leave()
        except ArenaError as error:
            logger.warning('the policy did not forget a caller who left: %s', error)
