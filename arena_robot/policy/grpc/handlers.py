"""The four calls of ``arena.policy.v1`` on a server, which reads queries without copying them."""

from typing import Any

import grpc

from arena_robot.policy.grpc.endpoint import SERVICE
from arena_robot.policy.grpc.pieces import query_of, serialized, stream_query_of
from arena_robot.policy.proto import arena_policy_pb2 as pb


def add_policy(server: Any, servicer: Any) -> None:
    """Serve the four calls; the generated function would parse whole queries."""
    readers = {'GetSpec': pb.GetSpecRequest.FromString, 'Infer': query_of,
               'Reset': pb.ResetRequest.FromString}
    calls = {name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name), reader, serialized)
             for name, reader in readers.items()}
    calls['Stream'] = grpc.stream_stream_rpc_method_handler(
        servicer.Stream, stream_query_of, serialized)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, calls),))
