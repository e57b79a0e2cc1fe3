"""What surrounds the calls on a gRPC port: health, reflection, versions, deadlines, relays."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from policy_samples import Noted, observation, pictures

from arena_robot.core.errors import PolicyError, PolicyUnavailable
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import connect
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc import client, wire
from arena_robot.policy.grpc.errors import CODE_KEY
from arena_robot.policy.grpc.server import SERVICE, GrpcPolicyServer
from arena_robot.policy.options import CallOptions, ServeOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as pb_grpc


@pytest.fixture
def channel():
    with GrpcPolicyServer(Echo()) as server, \
            grpc.insecure_channel(f'127.0.0.1:{server.port}') as channel:
        yield channel


@pytest.mark.parametrize('service', ['', SERVICE])
def test_health(channel, service):
    reply = health_pb2_grpc.HealthStub(channel).Check(
        health_pb2.HealthCheckRequest(service=service), timeout=5)
    assert reply.status == health_pb2.HealthCheckResponse.SERVING


def test_health_needs_no_token():
    with GrpcPolicyServer(Echo(), ServeOptions(token='t')) as server, \
            grpc.insecure_channel(f'127.0.0.1:{server.port}') as channel:
        assert health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(), timeout=5).status == 1


def test_reflection_lists_the_service(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services='')
    reply = next(iter(stub.ServerReflectionInfo(iter([request]), timeout=5)))
    names = {service.name for service in reply.list_services_response.service}
    assert {'arena.policy.v1.PolicyService', 'grpc.health.v1.Health'} <= names


@pytest.mark.parametrize(('method', 'request_type'), [
    ('GetSpec', pb.GetSpecRequest), ('Infer', pb.InferRequest), ('Reset', pb.ResetRequest)])
def test_another_protocol_version_is_refused_with_a_code(channel, method, request_type):
    with pytest.raises(grpc.RpcError) as caught:
        getattr(pb_grpc.PolicyServiceStub(channel), method)(
            request_type(protocol_version=2), timeout=5)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert dict(caught.value.trailing_metadata())[CODE_KEY] == 'policy_refused'
    assert 'version 2 was asked for, this server speaks 1' in caught.value.details()


def test_a_compressed_request_is_refused_from_its_headers(channel):
    """Otherwise a few kB become as many MB as a message may have, once for each call."""
    stub = pb_grpc.PolicyServiceStub(channel)
    for call, kind in ((stub.Infer, pb.InferRequest), (stub.Reset, pb.ResetRequest)):
        with pytest.raises(grpc.RpcError) as caught:
            call(kind(episode='e' * 100_000), timeout=5, compression=grpc.Compression.Gzip)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert 'gzip' in caught.value.details()


def test_a_compressed_answer_is_refused():
    server = grpc.server(ThreadPoolExecutor(1), compression=grpc.Compression.Gzip)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {
        'GetSpec': grpc.unary_unary_rpc_method_handler(
            lambda request, context: bytes(1 << 20))}),))
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    with pytest.raises(PolicyError, match='gzip'):
        connect(f'grpc://127.0.0.1:{port}')
    server.stop(None)


def test_a_failed_request_does_not_end_a_stream(channel):
    good = wire.observation_to_bytes(observation(pictures(PolicySpec())))
    requests = [
        pb.StreamRequest(id=1, infer=pb.InferRequest(protocol_version=1, observation=b'\xff')),
        pb.StreamRequest(id=2, infer=pb.InferRequest(
            protocol_version=1, step=7, observation=good)),
        pb.StreamRequest(id=3, reset=pb.ResetRequest(protocol_version=1, episode='e')),
        pb.StreamRequest(id=4),
    ]
    replies = list(pb_grpc.PolicyServiceStub(channel).Stream(iter(requests), timeout=10))
    assert [(reply.id, reply.WhichOneof('result')) for reply in replies] == [
        (1, 'error'), (2, 'infer'), (3, 'reset'), (4, 'error')]
    assert replies[0].error.code == 'policy_refused'


def test_a_relay_passes_observations_on_unopened():
    inner = Noted(PolicySpec(image_size=(24, 32), chunk_length=4))
    data = wire.observation_to_bytes(observation(pictures(inner.spec, 24, 32)))
    with GrpcPolicyServer(inner) as server, connect(server.address) as policy:
        reply = policy.infer_bytes(data, 'another-token', step=7)
    assert inner.asked[0][1] == 'another-token'
    assert (reply.rows, reply.columns) == (4, 8)
    assert reply.timings.infer_s > 0.0


def test_threads_share_one_client():
    for stream in (False, True):
        inner = Noted(PolicySpec(image_size=(24, 32)))
        sent = observation(pictures(inner.spec, 24, 32))
        firsts = []
        with GrpcPolicyServer(inner) as server, \
                connect(server.address, CallOptions(stream=stream)) as policy:
            def call(policy=policy, sent=sent, firsts=firsts):
                for _ in range(10):
                    firsts.append(policy.infer(sent).actions[0, 0])

            threads = [threading.Thread(target=call) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(10)
        assert sorted(firsts) == [100.0 * n for n in range(1, 41)]


def test_closing_twice_and_calling_after():
    with GrpcPolicyServer(Echo()) as server:
        policy = connect(server.address)
        policy.close()
        policy.close()
        with pytest.raises(PolicyUnavailable, match='is not open'):
            policy.infer(observation())


def test_a_call_while_another_thread_closes_is_refused(monkeypatch):
    translated = client._translated
    with GrpcPolicyServer(Echo()) as server:
        policy = connect(server.address)
        monkeypatch.setattr(client, '_translated', lambda what, address: (
            policy.close(), translated(what, address))[1])
        with pytest.raises(PolicyUnavailable, match='closed'):
            policy.infer(observation())


def test_a_call_without_a_deadline_is_bounded_by_the_server():
    class Sleepy(Noted):
        def infer(self, observation, episode=''):
            time.sleep(0.6)
            return super().infer(observation, episode)

    inner = Sleepy(PolicySpec(image_size=(24, 32)))
    data = wire.observation_to_bytes(observation(pictures(inner.spec, 24, 32)))
    request = pb.InferRequest(protocol_version=1, step=7, observation=data)
    with GrpcPolicyServer(inner, ServeOptions(max_call_s=0.2)) as server, \
            grpc.insecure_channel(f'127.0.0.1:{server.port}') as channel:
        stub = pb_grpc.PolicyServiceStub(channel)
        calls = [stub.Infer.future(request) for _ in range(3)]
        codes = sorted(call.code().name for call in calls)
    assert 'DEADLINE_EXCEEDED' in codes
    assert 'OK' in codes


def test_an_unread_word_in_a_request_is_no_crash(channel):
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary('/arena.policy.v1.PolicyService/Infer')(b'\xff\xff', timeout=5)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
