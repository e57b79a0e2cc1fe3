"""A policy behind any openpi or RoboArena websocket server."""

import logging
import socket
import ssl
import threading
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    WebSocketException,
)
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect

from arena_robot.core.action import Chunk
from arena_robot.core.errors import (
    BadReply,
    ConfigError,
    DataError,
    PolicyError,
    PolicyRefused,
    PolicyTimeout,
    PolicyUnavailable,
)
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PolicySpec, seed_of
from arena_robot.policy.grpc.errors import BY_CODE
from arena_robot.policy.openpi import wire as openpi_codec
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.openpi.shared_tls import SharedSslSocket
from arena_robot.policy.options import CallOptions

logger = logging.getLogger(__name__)
# At DEBUG the library logs headers, and with them the token.
LINE_LOGGER = logging.getLogger('arena_robot.policy.openpi.client.line')
LINE_LOGGER.setLevel(logging.INFO)

TRACEBACK = 'Traceback (most recent call last)'
# Ten times what any server known sends first, and a chunk of 1024 actions with all beside it.
METADATA_BYTES, METADATA_ITEMS, REPLY_BYTES = 64 * 1024, 256, 1 << 20


class OpenpiPolicy:
    """
    A remote policy: ``open`` reads the server's metadata, then calls go one at a time.

    ``target`` is ``host:port``, with a path where the server has one.

    ``secure`` allows only TLS; otherwise ws is tried first and wss after it. A connection that
    broke fails its call and is made anew for the next one.
    """

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        self._target = target
        self._secure = secure
        self._options = options or CallOptions()
        self._turn = threading.Lock()
        self._socket: ClientConnection | None = None
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
        self._connected()
        return self

    def infer(self, observation: Observation, episode: str = '',
              timeout_s: float | None = None) -> Chunk:
        """Send the observation with all of its images; return the checked chunk."""
        spec = self.spec
        request = openpi_wire.request_of(observation, episode or uuid.uuid4().hex, spec)
        if self._options.episode_seed:
            request[openpi_wire.SEED_KEY] = observation.episode_seed or seed_of(episode)
        reply = self._exchange('infer', request, timeout_s or self._options.infer_timeout_s)
        if isinstance(reply, str):
            raise self._told(reply)
        try:
            return openpi_wire.chunk_of(openpi_codec.unpack(reply, REPLY_BYTES), spec)
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
            raise self._told(reply)

    def close(self) -> None:
        """Close the connection; can be called twice."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> 'OpenpiPolicy':
        """Open, unless it is."""
        return self if self._socket is not None else self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Close."""
        self.close()

    def exchange_bytes(self, data: bytes, timeout_s: float) -> bytes | str:
        """Send one frame as it is and return the reply as it is; raises PolicyError."""
        if not self._turn.acquire(timeout=timeout_s):
            raise PolicyTimeout(f'{self.address} is busy with another call')
        try:
            connection = self._connected()
            connection.send(data)
            reply = connection.recv(timeout=timeout_s)
            if isinstance(reply, str) and TRACEBACK in reply:
                self._drop()   # the reference server then closes the connection
            return reply
        except TimeoutError as error:
            self._drop()
            raise PolicyTimeout(f'{self.address}: no reply within {timeout_s:.3g} s') from error
        except (OSError, WebSocketException) as error:
            self._drop()
            raise PolicyUnavailable(f'{self.address}: the connection broke: {error}') from error
        finally:
            self._turn.release()

    def _exchange(self, what: str, request: dict[str, Any], timeout_s: float) -> bytes | str:
        try:
            data = openpi_codec.pack(request)
        except DataError as error:
            raise PolicyRefused(f'{what} at {self.address}: {error}') from error
        limit = self._options.max_message_bytes
        if len(data) > limit:
            raise PolicyRefused(f'{what} at {self.address}: the request has {len(data)} bytes, '
                                f'the limit is {limit}')
        return self.exchange_bytes(data, timeout_s)

    def _told(self, reply: str) -> PolicyError:
        """Return the error in a string reply; of a traceback only the last line is shown."""
        logger.debug('%s replied: %s', self.address, reply)
        lines = reply.strip().splitlines() or ['an empty error']
        code = code_of(lines[0])
        text = lines[0][len(code) + 2:].strip() if code else lines[-1]
        return BY_CODE.get(code, PolicyError)(f'{self.address}: {text}')

    def _connected(self) -> ClientConnection:
        if self._socket is None or self._socket.state is not State.OPEN:
            connection = self._dial()
            try:
                self._spec = self._metadata(connection)
            except BaseException:
                connection.close()
                raise
            self._socket = connection
        return self._socket

    def _metadata(self, connection: ClientConnection) -> PolicySpec:
        try:
            frame = connection.recv(timeout=self._options.connect_timeout_s)
            if isinstance(frame, str):
                raise self._told(frame)
            metadata = openpi_codec.unpack(frame, METADATA_BYTES, METADATA_ITEMS)
            spec = openpi_wire.completed(
                openpi_wire.spec_of(metadata, self.address, self._options.action_space),
                self._options, self.address)
            self._resets = 'needs_session_id' in metadata
            return spec
        except TimeoutError as error:
            raise BadReply(f'{self.address} sent no metadata within '
                           f'{self._options.connect_timeout_s:.3g} s') from error
        except DataError as error:
            raise BadReply(f'the metadata of {self.address}: {error}') from error
        except ConnectionClosed as error:
            raise PolicyUnavailable(f'{self.address} hung up before its metadata: {error}'
                                    ) from error

    def _dial(self) -> ClientConnection:
        failures = []
        for scheme in ('wss',) if self._secure else ('ws', 'wss'):
            try:
                return self._dialled(scheme)
            except InvalidStatus as error:
                raise refusal(error, self.address) from error
            except (OSError, InvalidHandshake, EOFError) as error:
                failures.append(f'{scheme}: {error or type(error).__name__}')
        raise silence(self.address, failures)

    def _dialled(self, scheme: str) -> ClientConnection:
        options = self._options
        return connect(
            f'{scheme}://{self._target}', compression=None, max_size=options.max_message_bytes,
            open_timeout=options.connect_timeout_s, close_timeout=1.0, ping_interval=None,
            legacy=True, additional_headers=authorization(options), proxy=None, logger=LINE_LOGGER,
            ssl=tls_context(options) if scheme == 'wss' else None, sock=self._reached())

    def _reached(self) -> socket.socket | None:
        """Return a connection to the IP address to use instead of the host, if there is one."""
        if not self._options.connect_to:
            return None
        port = int(self._target.partition('/')[0].rpartition(':')[2])
        return socket.create_connection((self._options.connect_to, port),
                                        self._options.connect_timeout_s)

    def _drop(self) -> None:
        """Cut a connection whose next frame could belong to a call that was given up."""
        connection, self._socket = self._socket, None
        if connection is not None:
            try:
                connection.socket.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                logger.debug('%s was closed already: %s', self.address, error)
            connection.close()


def authorization(options: CallOptions) -> dict[str, str] | None:
    """Return the headers that show a policy's token, None without one."""
    word = 'Bearer' if options.auth == 'bearer' else 'Api-Key'
    return {'Authorization': f'{word} {options.token}'} if options.token else None


def refusal(error: InvalidStatus, address: str) -> PolicyError:
    """Return the error for a server that answered without opening a websocket."""
    status = error.response.status_code
    kind = PolicyRefused if status in (401, 403) else PolicyUnavailable
    return kind(f'{address} answered HTTP {status} instead of opening a websocket')


def silence(address: str, failures: Sequence[str]) -> PolicyUnavailable:
    """Return the error for a server that no attempt could reach."""
    return PolicyUnavailable(f"{address} does not answer ({'; '.join(failures)}); is the "
                             'server running there, and does it speak websocket?')


def code_of(reply: str) -> str:
    """Return the code in ``[code] message``, empty when it is not one of ours."""
    code = reply[1:].split(']', 1)[0] if reply.startswith('[') else ''
    return code if code in BY_CODE else ''


def tls_context(options: CallOptions) -> ssl.SSLContext:
    """Return what a connection over TLS trusts. Raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=options.tls_ca,
                                             cadata=options.tls_ca_pem or None)
    except OSError as error:
        place = options.tls_ca or 'the certificate of the authority'
        raise ConfigError(f'cannot read {place}: {error}') from error
    context.sslsocket_class = SharedSslSocket
    return context
