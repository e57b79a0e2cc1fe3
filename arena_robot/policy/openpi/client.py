"""A policy behind any openpi or RoboArena websocket server."""

import functools
import uuid
from types import TracebackType
from typing import Any

from arena_robot.core.action import Chunk
from arena_robot.core.errors import BadReply, DataError, PolicyRefused, PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.address import parse_address
from arena_robot.policy.base import PolicySpec, seed_of
from arena_robot.policy.openpi import wire
from arena_robot.policy.openpi.passing import TRACEBACK, FrameLine, LoopThread, code_of, told
from arena_robot.policy.options import CallOptions

# Ten times what any server known sends first, and a chunk of 1024 actions with all beside it.
METADATA_BYTES, METADATA_ITEMS, REPLY_BYTES = 64 * 1024, 256, 1 << 20
CLOSE_S = 5.0    # five times what the closing of a websocket may take


@functools.cache
def _loop() -> LoopThread:
    """Return the event loop of all connections of this process."""
    return LoopThread('openpi-policies')


class OpenpiPolicy:
    """
    A remote policy: ``open`` reads the server's metadata, then calls go one at a time.

    ``target`` is ``host:port``, with a path where the server has one.

    ``secure`` allows only TLS; otherwise ws is tried first and wss after it. A connection that
    broke fails its call and is made anew for the next one.
    """

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        self._options = options or CallOptions()
        self._loop: LoopThread | None = None
        self._spec: PolicySpec | None = None
        self._resets = True
        self.address = f"openpi{'s' if secure else ''}://{target}"

    @property
    def spec(self) -> PolicySpec:
        """Required input and output of the policy, as far as this protocol describes them."""
        if self._spec is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        return self._spec

    def open(self) -> 'OpenpiPolicy':
        """Connect and read the metadata; raises PolicyError."""
        self._line = FrameLine(parse_address(self.address), self._options, self._met)
        self._loop = _loop()
        try:
            self._loop.run(self._line.open(), 4.0 * self._options.connect_timeout_s)
        except BaseException:
            self.close()
            raise
        return self

    def infer(self, observation: Observation, episode: str = '',
              timeout_s: float | None = None) -> Chunk:
        """Send the observation with all of its images; return the checked chunk."""
        spec = self.spec
        request = wire.request_of(observation, episode or uuid.uuid4().hex, spec)
        if self._options.episode_seed:
            request[wire.SEED_KEY] = observation.episode_seed or seed_of(episode)
        reply = self._exchange('infer', request, timeout_s or self._options.infer_timeout_s)
        if isinstance(reply, str):
            raise told(self.address, reply)
        try:
            return wire.chunk_of(wire.unpack(reply, REPLY_BYTES), spec)
        except DataError as error:
            raise BadReply(f'infer at {self.address}: {error}') from error

    def reset(self, episode: str = '', timeout_s: float | None = None) -> None:
        """
        Let the policy forget an episode; any string is the reply this protocol expects.

        Servers of openpi itself, told by their metadata, know no reset and are not asked.
        """
        if not self._resets:
            return
        request = {'session_id': episode, 'endpoint': 'reset'}
        reply = self._exchange('reset', request, timeout_s or self._options.reset_timeout_s)
        if isinstance(reply, str) and (code_of(reply) or TRACEBACK in reply):
            raise told(self.address, reply)

    def close(self) -> None:
        """Close the connection; can be called twice."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run(self._line.close(), CLOSE_S)

    def __enter__(self) -> 'OpenpiPolicy':
        """Open, unless it is."""
        return self if self._loop is not None else self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def exchange_bytes(self, data: bytes, timeout_s: float) -> bytes | str:
        """Send one frame as it is and return the reply as it is; raises PolicyError."""
        if self._loop is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        # The wait for another call and the exchange itself both have this time.
        return self._loop.run(self._line.exchange(data, timeout_s), 2.0 * timeout_s + CLOSE_S)

    def _exchange(self, what: str, request: dict[str, Any], timeout_s: float) -> bytes | str:
        try:
            data = wire.pack(request)
        except DataError as error:
            raise PolicyRefused(f'{what} at {self.address}: {error}') from error
        limit = self._options.max_message_bytes
        if len(data) > limit:
            raise PolicyRefused(f'{what} at {self.address}: the request has {len(data)} bytes, '
                                f'the limit is {limit}')
        return self.exchange_bytes(data, timeout_s)

    def _met(self, first: bytes) -> None:
        """Read the metadata."""
        try:
            metadata = wire.unpack(first, METADATA_BYTES, METADATA_ITEMS)
            self._spec = wire.completed(
                wire.spec_of(metadata, self.address, self._options.action_space),
                self._options, self.address)
            self._resets = 'needs_session_id' in metadata
        except DataError as error:
            raise BadReply(f'the metadata of {self.address}: {error}') from error
