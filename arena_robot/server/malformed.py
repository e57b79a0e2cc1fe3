"""Requests that are not messages: refused with a sentence, without a traceback."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from arena_robot.core.errors import DataError
from arena_robot.server.call_guard import refuse

Handler = Any


class _Malformed:
    """Stands for bytes that could not be read as the message of a call."""


class MalformedRequests(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Ends calls whose bytes are not the call's message with INVALID_ARGUMENT."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Handler]],
                                details: Any) -> Handler:
        """Return the call's handler with a reader of requests that never raises."""
        handler = await continuation(details)
        if handler is None or handler.request_deserializer is None:
            return handler
        read = handler.request_deserializer
        changed: dict[str, Callable[..., Any]] = {
            'request_deserializer': lambda data: _read(read, data)}
        if handler.unary_unary is not None:
            changed['unary_unary'] = _one(handler.unary_unary)
        elif handler.stream_unary is not None:
            changed['stream_unary'] = _many(handler.stream_unary)
        elif handler.stream_stream is not None:
            changed['stream_stream'] = _many_to_many(handler.stream_stream)
        else:
            return handler
        return handler._replace(**changed)


def _read(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except Exception:  # protobuf's own error, and whatever else odd bytes lead to
        return _Malformed()


async def _refuse(context: Any) -> None:
    await refuse(context, DataError('the request is not the message of this call'))


def _one(call: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def checked(request: Any, context: Any) -> Any:
        if isinstance(request, _Malformed):
            await _refuse(context)
        return await call(request, context)
    return checked


async def _checked(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, _Malformed):
            await _refuse(context)
        yield request


def _many(call: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def checked(requests: Any, context: Any) -> Any:
        return await call(_checked(requests, context), context)
    return checked


def _many_to_many(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def checked(requests: Any, context: Any) -> AsyncIterator[Any]:
        async for reply in call(_checked(requests, context), context):
            yield reply
    return checked
