"""Errors of the server to gRPC statuses and back, so that both ends raise the same errors."""

import grpc

from arena_robot.core.errors import (
    ArenaError,
    ConfigError,
    Conflict,
    DataError,
    NotComputed,
    NotRevealed,
    RankingError,
    ServerError,
    ServerUnavailable,
    Unauthorised,
)
from arena_robot.policy.grpc.errors import CODE_KEY, code_of
from arena_robot.policy.grpc.errors import status_of as policy_status_of
from arena_robot.server.base import NoPair, TooManyCalls, UnknownSession

STATUS = {
    TooManyCalls: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Unauthorised: grpc.StatusCode.PERMISSION_DENIED, Conflict: grpc.StatusCode.ABORTED,
    DataError: grpc.StatusCode.INVALID_ARGUMENT, ServerUnavailable: grpc.StatusCode.UNAVAILABLE,
    UnknownSession: grpc.StatusCode.NOT_FOUND, NoPair: grpc.StatusCode.FAILED_PRECONDITION,
    RankingError: grpc.StatusCode.FAILED_PRECONDITION,
    NotComputed: grpc.StatusCode.FAILED_PRECONDITION,
    ConfigError: grpc.StatusCode.INVALID_ARGUMENT}
BY_CODE: dict[str, type[ArenaError]] = {
    kind.code: kind for kind in (Conflict, NotRevealed, DataError, Unauthorised, NoPair,
                                 UnknownSession, TooManyCalls, ServerUnavailable, NotComputed,
                                 ServerError)}
SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED,
          grpc.StatusCode.CANCELLED)


def status_of(error: ArenaError) -> grpc.StatusCode:
    """Return the gRPC status of an error; its code is sent beside it, see :func:`headers_of`."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)),
                policy_status_of(error))


def headers_of(error: ArenaError) -> tuple[tuple[str, str], ...]:
    """Return the trailing headers of a call that ends with an error."""
    return ((CODE_KEY, error.code),)


def error_of(rpc: grpc.RpcError, name: str, target: str) -> ArenaError:
    """Return the error of a failed call ``name`` of the server at ``target``."""
    code = code_of(rpc)
    if code in BY_CODE:
        return BY_CODE[code](rpc.details() or name)
    if rpc.code() in SILENT:
        return ServerUnavailable(f'{name}: the arena server at {target} does not answer '
                                 f'({rpc.details()}); check the address and the network')
    return ServerError(f'{name} at {target}: {rpc.code().name.lower()}: {rpc.details()}')
