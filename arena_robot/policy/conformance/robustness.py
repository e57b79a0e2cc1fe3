"""Checks of a policy server's speed, and that bad input and broken connections do not harm it."""

import dataclasses
import socket
import threading
import time

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from arena_robot.core.conformance import CheckFailed, CheckSkipped
from arena_robot.core.errors import PolicyError, PolicyRefused, PolicyTimeout, PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.address import CONNECT_TO, parse_address
from arena_robot.policy.base import PROTOCOL_VERSION
from arena_robot.policy.conformance.probe import (
    Nature,
    Probe,
    Remote,
    advice,
    ask,
    attempt,
    forget,
    gap,
    same,
    told,
)
from arena_robot.policy.grpc.channel import headers, open_channel
from arena_robot.policy.grpc.client import GrpcPolicy
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.policy.timing import Latency, summarise

ODD_SIZES = ((1, 1), (37, 53), (480, 3))
GARBAGE = b'\xc1\xff\x00 this is no request ' * 8
WRONG_VERSION = 99
REFUSE_STATE = 'check that joint positions are finite and refuse others with a sentence'
REFUSE = 'check the images before using them and refuse with a sentence that names what is wrong'
SLOWEST_S = 1.0         # even a one-step policy may take so long: a step waits for it
WARM_UP_CALLS = 3       # compilation and caches; they do not count
PARALLEL_QUERIES = 5    # of each caller
APART = 100             # between the seeds of callers, so that their queries differ


def odd_images_are_survived(probe: Probe) -> str:
    """Images of 1x1 and other odd sizes are answered or refused; the next query works."""
    if not probe.spec.views():
        raise CheckSkipped('the policy wants no images')
    outcomes = []
    for size in ODD_SIZES:
        sent = f'images of {size[0]}x{size[1]} (height x width)'
        outcomes.append(_survived(probe, probe.observation(size=size), sent))
        probe.still_works(sent)
    return ', '.join(outcomes)


def missing_camera_is_survived(probe: Probe) -> str:
    """A query without a required image is answered or refused; the next query works."""
    if not probe.spec.views():
        raise CheckSkipped('the policy wants no images')
    outcomes = []
    for name in probe.spec.views():
        sent = f"a query without image '{name}'"
        outcomes.append(_survived(probe, probe.without(probe.observation(), name), sent))
        probe.still_works(sent)
    return ', '.join(outcomes)


def bad_state_is_survived(probe: Probe) -> str:
    """Joint positions of NaN are refused, or answered with finite actions."""
    normal = probe.observation()
    if probe.is_openpi:
        raise CheckSkipped('the openpi protocol does not promise that a server looks at them; the '
                           'relay refuses actions that are not finite')
    arm = dataclasses.replace(normal.arm, q=np.full(len(normal.arm.q), np.nan))
    sent = 'joint positions of NaN'
    outcome = _survived(probe, dataclasses.replace(normal, arm=arm), sent, REFUSE_STATE)
    probe.still_works(sent)
    return outcome


def garbage_is_survived(probe: Probe) -> str:
    """Invalid bytes are refused without a traceback; the next query works."""
    sent = 'bytes that are no request'
    replies: list[object] = []
    with probe.connect() as policy:
        if isinstance(policy, GrpcPolicy):
            error = attempt(lambda: replies.append(policy.infer_bytes(GARBAGE, 'garbage')))
        else:
            error = attempt(lambda: replies.append(policy.exchange_bytes(GARBAGE, 10.0)))
    if isinstance(error, PolicyTimeout):
        raise CheckFailed(sent, told(error), 'reply with an error at once, or hang up')
    if replies and not isinstance(replies[0], str):
        raise CheckFailed(sent, 'a normal answer', 'read the request strictly and refuse the rest')
    if error is not None and 'Traceback' in str(error):
        raise CheckFailed(sent, 'a traceback',
                          "keep tracebacks in the server's log; send one sentence")
    probe.still_works(sent)
    return 'refused'


def broken_connections_are_survived(probe: Probe) -> str:
    """After a connection was cut, before or during a call, the next one works."""
    place = parse_address(probe.address)
    host = dict(place.options).get(CONNECT_TO, place.host)
    with socket.create_connection((host, place.port), timeout=5.0) as raw:
        raw.sendall(b'GET / HTTP/1.1\r\n')
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\x01\0\0\0\0\0\0\0')
    policy = probe.connect()
    asking = threading.Thread(
        target=lambda: attempt(lambda: policy.infer(probe.observation(), 'cut')), daemon=True)
    asking.start()
    policy.close()
    asking.join(probe.limits.options.infer_timeout_s)
    probe.still_works('a connection cut during a call')
    return 'recovered'


def other_versions_are_refused(probe: Probe) -> str:
    """A request in another protocol version is refused (gRPC)."""
    channel = _channel(probe)
    with channel:
        call = channel.unary_unary(
            '/arena.policy.v1.PolicyService/GetSpec',
            request_serializer=pb.GetSpecRequest.SerializeToString,
            response_deserializer=pb.Spec.FromString)
        try:
            call(pb.GetSpecRequest(protocol_version=WRONG_VERSION), timeout=5.0,
                 metadata=headers(probe.limits.options))
        except grpc.RpcError:
            return 'refused'
    raise CheckFailed(f'a request in protocol version {WRONG_VERSION}', 'a normal answer',
                      f'refuse versions other than {PROTOCOL_VERSION} with '
                      'INVALID_ARGUMENT or FAILED_PRECONDITION')


def health_is_reported(probe: Probe) -> str:
    """The standard gRPC health service says SERVING."""
    with _channel(probe) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(), timeout=5.0,
                metadata=headers(probe.limits.options))
        except grpc.RpcError as error:
            raise CheckFailed('a standard gRPC health check', error.code().name.lower(),
                              'add the grpc.health.v1 service to the server') from error
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    if status != 'SERVING':
        raise CheckFailed('a standard gRPC health check', status, 'set the status to SERVING')
    return 'SERVING'


def _survived(probe: Probe, observation: Observation, sent: str,
              change: str = REFUSE) -> str:
    policy: Remote
    with probe.connect() as policy:
        error: PolicyError | None = attempt(lambda: policy.infer(observation, 'odd'))
        attempt(lambda: policy.reset('odd'))
    if isinstance(error, PolicyTimeout):
        raise CheckFailed(sent, told(error), f'{change}; never wait for what will not come')
    if isinstance(error, PolicyUnavailable):
        raise CheckFailed(sent, told(error), f'{change}; the server must keep running')
    if error is not None and error.code == 'policy_bad_reply':
        raise CheckFailed(sent, told(error), change)
    if error is None:
        return 'answered'
    return 'refused' if isinstance(error, PolicyRefused) else 'refused by an exception'


def _channel(probe: Probe) -> grpc.Channel:
    place = parse_address(probe.address)
    if place.is_openpi:
        raise CheckSkipped('the openpi protocol has no such thing')
    return open_channel(place.target, place.secure, place.applied(probe.limits.options))


def latency_is_bearable(probe: Probe) -> str:
    """One caller's queries are answered in time for the robot."""
    observation = probe.observation()
    seconds: list[float] = []
    with probe.connect() as policy:
        for _ in range(max(WARM_UP_CALLS, probe.spec.warm_up)):
            length = len(ask(policy, observation, 'latency'))
        limit_s = probe.limits.latency_s or max(SLOWEST_S, length / probe.spec.control_rate_hz)
        # Once so much time was spent, it is certain that the limit is exceeded.
        while len(seconds) < probe.limits.calls and sum(seconds) <= limit_s * probe.limits.calls:
            started = time.perf_counter()
            ask(policy, observation, 'latency')
            seconds.append(time.perf_counter() - started)
        forget(policy, 'latency')
    times = summarise(seconds)
    probe.query_s = seconds
    if times.p99_s > limit_s:
        raise CheckFailed(
            f'{times.count} queries, one after the other', shown(times),
            f'p99 must stay within {limit_s:.3g} s or the robot stands still longer than it '
            'moves: compile and warm up the model, use fewer denoising steps, or longer chunks')
    return shown(times)


def parallel_callers_are_served(probe: Probe) -> str:
    """Four callers at once each get the answers they would get alone."""
    names = [f'caller-{number}' for number in range(probe.limits.clients)]
    firsts = {name: APART * number for number, name in enumerate(names)}
    alone = {name: probe.rollout(name, PARALLEL_QUERIES, firsts[name]) for name in names}
    together: dict[str, list[np.ndarray] | Exception] = {}
    seconds: list[float] = []
    threads = [threading.Thread(target=_call, args=(probe, name, firsts[name], together, seconds),
                                daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PARALLEL_QUERIES * probe.limits.options.infer_timeout_s + 10.0)
    for name in names:
        _compare(probe, name, alone[name], together.get(name))
    return f'{len(names)} callers, {shown(summarise(seconds))}'


def _call(probe: Probe, name: str, first: int,
          together: dict[str, list[np.ndarray] | Exception], seconds: list[float]) -> None:
    answers = []
    try:
        with probe.connect() as policy:
            for seed in range(first, first + PARALLEL_QUERIES):
                observation = probe.observation(seed)
                started = time.perf_counter()
                answers.append(policy.infer(observation, name).actions)
                seconds.append(time.perf_counter() - started)
            policy.reset(name)
        together[name] = answers
    except PolicyError as error:
        together[name] = error


def _compare(probe: Probe, name: str, alone: list[np.ndarray],
             together: 'list[np.ndarray] | Exception | None') -> None:
    sent = f'{PARALLEL_QUERIES} queries each from {probe.limits.clients} callers at once'
    if isinstance(together, PolicyError):
        raise CheckFailed(sent, f'{name}: {told(together)}',
                          f'serve several callers, in turn if need be; {advice(together)}')
    if not isinstance(together, list):
        raise CheckFailed(sent, f'{name}: no answers', 'serve several callers, in turn if need be')
    repeats = probe.nature in (Nature.REPEATS, Nature.SEEDED)
    for expected, answer in zip(alone, together, strict=True):
        if repeats and not same(expected, answer, probe.limits.tolerance):
            raise CheckFailed(sent, f'{name} got an answer it does not get alone: '
                              f'{gap(expected, answer)}',
                              'guard what calls share with a lock, keep state by episode, or '
                              'serve without --parallel')


def shown(latency: Latency) -> str:
    """Return a latency in milliseconds, for a report."""
    return (f'p50 {latency.p50_s * 1e3:.1f} ms, p99 {latency.p99_s * 1e3:.1f} ms, '
            f'jitter {latency.jitter_s * 1e3:.1f} ms')
