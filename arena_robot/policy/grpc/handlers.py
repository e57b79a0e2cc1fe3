"""The four calls of ``arena.policy.v1`` on a server."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc

from arena_robot.policy.grpc.endpoint import SERVICE
from arena_robot.policy.proto import arena_policy_pb2 as pb


def add_policy(server: Any, servicer: Any, for_streams: ThreadPoolExecutor | None = None) -> None:
    """
    Serve the four calls; streams have the threads ``for_streams``, where these are given.

    The generated function has no threads for streams alone.
    """
    kinds = {'GetSpec': pb.GetSpecRequest, 'Infer': pb.InferRequest, 'Reset': pb.ResetRequest}
    calls = {name: grpc.unary_unary_rpc_method_handler(
        getattr(servicer, name), kind.FromString, _written) for name, kind in kinds.items()}
    stream: Any = servicer.Stream
    if for_streams is not None:
        stream = partial(stream)
        stream.experimental_thread_pool = for_streams    # as gRPC calls it
    calls['Stream'] = grpc.stream_stream_rpc_method_handler(
        stream, pb.StreamRequest.FromString, _written)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))


def _written(message: Any) -> bytes:
    return bytes(message.SerializeToString())
