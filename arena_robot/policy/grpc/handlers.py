"""The four calls of ``arena.policy.v1`` on a server, which reads queries without copying them."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc

from arena_robot.policy.grpc.endpoint import SERVICE
from arena_robot.policy.grpc.pieces import query_of, serialized, stream_query_of
from arena_robot.policy.proto import arena_policy_pb2 as pb


def add_policy(server: Any, servicer: Any, for_streams: ThreadPoolExecutor | None = None) -> None:
    """
    Serve the four calls; the generated function would parse whole queries.

    Streams have the threads ``for_streams``, where these are given.
    """
    readers = {'GetSpec': pb.GetSpecRequest.FromString, 'Infer': query_of,
               'Reset': pb.ResetRequest.FromString}
    calls = {name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name), reader, serialized)
             for name, reader in readers.items()}
    stream: Any = servicer.Stream
    if for_streams is not None:
        stream = partial(stream)
        stream.experimental_thread_pool = for_streams    # as gRPC calls it
    calls['Stream'] = grpc.stream_stream_rpc_method_handler(stream, stream_query_of, serialized)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))
