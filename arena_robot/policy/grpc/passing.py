"""
Messages of ``arena.policy.v1`` passed on as they are: a server and a client for asyncio programs.

Requests and replies stay bytes, but for those of a stream, which are taken out of their frames.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from arena_robot.core.errors import ArenaError
from arena_robot.policy.address import PolicyAddress
from arena_robot.policy.grpc.channel import SERVICE, UNCOMPRESSED, headers, open_aio_channel
from arena_robot.policy.grpc.errors import CODE_KEY, error_of, status_of
from arena_robot.policy.grpc.server import bind
from arena_robot.policy.grpc.wire import parsed
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb

METHODS = ('GetSpec', 'Infer', 'Reset')
AnswerCall = Callable[[str, str, bytes], Awaitable[bytes]]


class CallServer:
    """
    Serves one port; ``answer`` gets the caller, the method and the request's bytes.

    The caller is the address and port from which a channel is connected. ``answer`` returns the
    reply's bytes or raises an ArenaError, which a client of this package raises again.
    """

    def __init__(self, answer: AnswerCall, options: ServeOptions) -> None:
        self._answer = answer
        self._options = options
        self._server: Any = None
        self.port = 0

    async def open(self) -> None:
        """Start serving; ConfigError when the port cannot be used."""
        limit = self._options.max_message_bytes
        server = grpc.aio.server(options=[
            UNCOMPRESSED, ('grpc.so_reuseport', 0), ('grpc.max_receive_message_length', limit),
            ('grpc.max_send_message_length', limit),
            ('grpc.http2.min_recv_ping_interval_without_data_ms', 5_000)])
        calls = {name: grpc.unary_unary_rpc_method_handler(self._handler(name))
                 for name in METHODS}
        calls['Stream'] = grpc.stream_stream_rpc_method_handler(self._stream)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))
        self.port = bind(server, self._options)
        await server.start()
        self._server = server

    async def close(self) -> None:
        """Stop; can be called twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(0.5)

    def _handler(self, name: str) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def handle(request: bytes, context: Any) -> bytes:
            try:
                return await self._answer(context.peer(), name, request)
            except ArenaError as error:
                await context.abort(status_of(error), str(error),
                                    trailing_metadata=((CODE_KEY, error.code),))
                raise AssertionError('abort always raises') from error
        return handle

    async def _stream(self, requests: AsyncIterator[bytes], context: Any
                      ) -> AsyncIterator[bytes]:
        """Answer each request in turn; a failed one does not end the stream."""
        async for data in requests:
            yield (await self._stream_reply(data, context.peer())).SerializeToString()

    async def _stream_reply(self, data: bytes, caller: str) -> pb.StreamReply:
        number = 0
        try:
            request = parsed(pb.StreamRequest, data, 'request')
            number = request.id
            if request.HasField('infer'):
                reply = await self._answer(caller, 'Infer', request.infer.SerializeToString())
                return pb.StreamReply(id=number, infer=pb.InferReply.FromString(reply))
            await self._answer(caller, 'Reset', request.reset.SerializeToString())
            return pb.StreamReply(id=number, reset=pb.ResetReply())
        except ArenaError as error:
            return pb.StreamReply(id=number, error=pb.Error(code=error.code, message=str(error)))


class CallLine:
    """A channel to a gRPC policy server."""

    def __init__(self, address: PolicyAddress, options: CallOptions) -> None:
        self._address = address
        self._options = address.applied(options)
        self._channel: Any = None
        self._calls: dict[str, Any] = {}

    async def open(self) -> None:
        """Make the channel anew; it connects with the first call."""
        await self.close()
        self._channel = open_aio_channel(self._address.target, self._address.secure,
                                         self._options)
        self._calls = {name: self._channel.unary_unary(f'/{SERVICE}/{name}') for name in METHODS}

    async def call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        """Return the reply's bytes; raises PolicyError."""
        try:
            reply: bytes = await self._calls[method](request, timeout=timeout_s,
                                                     metadata=headers(self._options))
            return reply
        except grpc.aio.AioRpcError as error:
            raise error_of(error, method, str(self._address)) from error

    async def close(self) -> None:
        """Close the channel; can be called twice."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
