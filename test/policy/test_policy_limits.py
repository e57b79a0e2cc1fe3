"""Policy servers and callers that send much, or nothing."""

import contextlib
import socket
import struct
import threading

import grpc
import pytest
from websockets.sync.client import connect

from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc import server as grpc_server
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.passing import CONNECTIONS_PER_ADDRESS
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import ServeOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc


def dial(server):
    return socket.create_connection(('127.0.0.1', server.port), 5.0)


def test_a_frame_of_a_gigabyte_is_refused_by_its_header():
    with OpenpiPolicyServer(Echo()) as server, connect(
            f'ws://127.0.0.1:{server.port}') as line:
        line.recv(5.0)
        # A masked binary frame that announces 1 GB.
        line.socket.sendall(struct.pack('!BBQ', 0x82, 0xFF, 10**9) + b'\0\0\0\0')
        with pytest.raises(Exception, match='1009'):
            line.recv(5.0)


def test_an_address_has_few_connections_to_an_openpi_server():
    with OpenpiPolicyServer(Echo()) as server, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(dial(server)) for _ in range(CONNECTIONS_PER_ADDRESS + 40)]
        for line in lines[CONNECTIONS_PER_ADDRESS:]:
            with contextlib.suppress(ConnectionError):
                assert line.recv(1) == b''
        for line in lines:
            line.close()
        with connect(f'ws://127.0.0.1:{server.port}', open_timeout=15.0) as line:
            assert line.recv(5.0)


def test_a_call_without_the_token_is_refused_before_its_message_comes():
    never = threading.Event()

    def message():
        never.wait(20.0)
        yield b''

    with GrpcPolicyServer(Echo(), ServeOptions(token='t')) as server, \
            grpc.insecure_channel(f'127.0.0.1:{server.port}') as channel:
        call = channel.stream_unary('/arena.policy.v1.PolicyService/Infer')
        with pytest.raises(grpc.RpcError) as error:
            call(message(), timeout=5.0)
        never.set()
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_idle_streams_leave_threads_for_calls_and_health():
    options = ServeOptions(workers=2, streams=3)
    with GrpcPolicyServer(Echo(), options) as server, contextlib.ExitStack() as stack:
        stub = pb_grpc.PolicyServiceStub(stack.enter_context(
            grpc.insecure_channel(f'127.0.0.1:{server.port}')))
        end = threading.Event()
        stack.callback(end.set)

        def idle():
            yield pb.StreamRequest(id=1, reset=pb.ResetRequest(protocol_version=1))
            end.wait(20.0)

        streams = [stub.Stream(idle(), timeout=20.0) for _ in range(3)]
        assert [next(stream).id for stream in streams] == [1, 1, 1]
        with pytest.raises(grpc.RpcError) as error:
            next(stub.Stream(idle(), timeout=20.0))
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stub.GetSpec(pb.GetSpecRequest(protocol_version=1), timeout=10.0).wrist_camera


def test_a_half_open_connection_is_closed(monkeypatch):
    monkeypatch.setattr(grpc_server, 'HANDSHAKE_MS', 300)
    with GrpcPolicyServer(Echo()) as server, dial(server) as line, \
            contextlib.suppress(ConnectionError):
        while line.recv(4096):
            pass
