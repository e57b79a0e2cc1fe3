"""
How every gRPC client of the suite connects: limits, keepalive, TLS and the bearer token.

:class:`PolicyEndpoint` is what the blocking and the asyncio client share: address, options, spec.
"""

from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from arena_robot.core.errors import ConfigError, PolicyUnavailable
from arena_robot.core.observation import Observation
from arena_robot.policy.base import PROTOCOL_VERSION, PolicySpec, seed_of
from arena_robot.policy.grpc import wire
from arena_robot.policy.options import CallOptions
from arena_robot.policy.proto import arena_policy_pb2 as pb

Metadata = tuple[tuple[str, str], ...]
# A compressed message is refused from its headers: gRPC would make up to a message's limit of
# memory of a few bytes, for as many calls as there are at once. Bit 0: not compressed.
UNCOMPRESSED = ('grpc.compression_enabled_algorithms_bitset', 1)
SERVICE = pb.DESCRIPTOR.services_by_name['PolicyService'].full_name


def open_channel(target: str, secure: bool, options: CallOptions,
                 keeps_alive: bool = True) -> grpc.Channel:
    """
    Return a channel to ``host:port``; it connects by itself. Raises ConfigError.

    With ``keeps_alive`` it sends pings, for which a server that does not allow them hangs up.
    """
    settings = _settings(options) + _names(target, options)
    if not keeps_alive:
        settings = [item for item in settings if 'keepalive' not in item[0]]
    if secure:
        return grpc.secure_channel(_place(target, options), _credentials(options), settings)
    return grpc.insecure_channel(_place(target, options), settings)


def open_aio_channel(target: str, secure: bool, options: CallOptions) -> grpc.aio.Channel:
    """Return the same for asyncio."""
    settings = _settings(options) + _names(target, options)
    if secure:
        return grpc.aio.secure_channel(_place(target, options), _credentials(options), settings)
    return grpc.aio.insecure_channel(_place(target, options), settings)


def headers(options: CallOptions) -> Metadata:
    """Return the headers of a call: the bearer token, where there is one."""
    return (('authorization', f'Bearer {options.token}'),) if options.token else ()


def _place(target: str, options: CallOptions) -> str:
    """Return where to connect: the host, or the IP address to use instead of it."""
    ip, port = options.connect_to, target.rpartition(':')[2]
    if not ip:
        return target
    return f'ipv6:[{ip}]:{port}' if ':' in ip else f'ipv4:{ip}:{port}'


def _names(target: str, options: CallOptions) -> list[tuple[str, Any]]:
    """Return the settings that keep the host's name when an IP address is called instead."""
    if not options.connect_to:
        return []
    return [('grpc.default_authority', target),
            ('grpc.ssl_target_name_override', target.rpartition(':')[0].strip('[]'))]


def _settings(options: CallOptions) -> list[tuple[str, Any]]:
    """Bounded messages, keepalive, no hidden retries; a connection is shared with nobody."""
    return [
        UNCOMPRESSED,
        ('grpc.use_local_subchannel_pool', 1),
        ('grpc.max_receive_message_length', options.max_message_bytes),
        ('grpc.max_send_message_length', options.max_message_bytes),
        ('grpc.keepalive_time_ms', 20_000),
        ('grpc.keepalive_timeout_ms', 10_000),
        ('grpc.keepalive_permit_without_calls', 1),
        ('grpc.enable_retries', 0),
        ('grpc.initial_reconnect_backoff_ms', 100),
        ('grpc.min_reconnect_backoff_ms', 5_000),     # how long one attempt may take
        ('grpc.max_reconnect_backoff_ms', 2_000),
    ]


def _credentials(options: CallOptions) -> grpc.ChannelCredentials:
    """Trust the authority of the options, or the system's."""
    if options.tls_ca_pem:
        return grpc.ssl_channel_credentials(options.tls_ca_pem.encode())
    return grpc.ssl_channel_credentials(_read(options.tls_ca) if options.tls_ca else None)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f'cannot read {path}: {error.strerror or error}') from error


class PolicyEndpoint:
    """A policy behind ``host:port``, and the requests that it understands."""

    def __init__(self, target: str, secure: bool = False,
                 options: CallOptions | None = None) -> None:
        self._target = target
        self._secure = secure
        self._options = options or CallOptions()
        self._spec: PolicySpec | None = None
        self.address = f"grpc{'s' if secure else ''}://{target}"

    @property
    def spec(self) -> PolicySpec:
        """Required input and output of the policy, as it said when the connection was opened."""
        if self._spec is None:
            raise PolicyUnavailable(f'{self.address} is not open')
        return self._spec


def spec_request() -> pb.GetSpecRequest:
    """Return the request for the spec."""
    return pb.GetSpecRequest(protocol_version=PROTOCOL_VERSION)


def infer_request(observation: bytes, episode: str, step: int = 0, episode_seed: int = 0,
                  left_over: pb.LeftOver | None = None) -> pb.InferRequest:
    """Return the request for the next chunk; the observation is already serialized."""
    return pb.InferRequest(protocol_version=PROTOCOL_VERSION, episode=episode, step=step,
                           observation=observation, episode_seed=episode_seed,
                           left_over=left_over)


def query_request(observation: Observation, episode: str, spec: PolicySpec) -> pb.InferRequest:
    """Return the request for the next chunk of a policy with this spec."""
    left = observation.left_over
    return infer_request(
        wire.observation_to_bytes(observation, spec.jpeg_quality), episode, observation.step,
        observation.episode_seed or seed_of(episode),
        None if left is None else wire.left_over_to_wire(left))


def reset_request(episode: str) -> pb.ResetRequest:
    """Return the request to clear an episode."""
    return pb.ResetRequest(protocol_version=PROTOCOL_VERSION, episode=episode)
