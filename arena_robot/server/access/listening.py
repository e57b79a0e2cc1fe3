"""The gRPC port: its address and certificate, bounds on connections, and who is let in."""

import asyncio
import ssl
from collections.abc import Sequence
from concurrent.futures import Executor

import grpc
from grpc_health.v1 import health

from arena_robot.core.errors import ConfigError
from arena_robot.policy.grpc.channel import UNCOMPRESSED
from arena_robot.policy.proto import arena_policy_pb2 as policy_pb
from arena_robot.server.access.admission import Admission, Strangers, TokenCheck
from arena_robot.server.access.call_guard import BoundedAudit
from arena_robot.server.access.rates import AtOnce, Rates
from arena_robot.server.config import ServerConfig, ServerLimits, Tls
from arena_robot.server.counters import Counters
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.sessions import Slots
from arena_robot.server.threads import BatchedWork

# A revoked token opens no call after this; CallGuard refuses what it would do at once.
TOKEN_FRESH_S = 10.0
ARENA = pb.DESCRIPTOR.services_by_name['ArenaService'].full_name
POLICY = policy_pb.DESCRIPTOR.services_by_name['PolicyService'].full_name
OPEN_METHODS = frozenset({f'/{ARENA}/Hello', f'/{health.SERVICE_NAME}/Check'})


def admission(limits: ServerLimits, rates: Rates, stores: tuple[Accounts, Slots, BoundedAudit],
              threads: Executor, counters: Counters) -> Admission:
    """Return who may call: tokens of people, stations and slots; a few methods need no token."""
    accounts, slots, audit = stores
    of_slots: BatchedWork[str, None] = BatchedWork(slots.refusals, threads)

    async def of_people(token: str) -> object:
        return await asyncio.get_running_loop().run_in_executor(threads, accounts.caller, token)

    checks = {
        ARENA: TokenCheck(of_people, rates.calls, AtOnce(limits.calls_at_once),
                          TOKEN_FRESH_S),
        # The relay itself bounds the rate of a slot, also on its streams.
        POLICY: TokenCheck(of_slots.ask, None, AtOnce(limits.slot_calls_at_once))}
    strangers = Strangers(
        rates.unknown_tokens, rates.wrong_tokens, rates.open_calls, OPEN_METHODS,
        lambda method, error: audit.write('unknown', method[1:], '', error.code, str(error)),
        threads)
    return Admission(checks, strangers, counters)


def options(limits: ServerLimits) -> tuple[tuple[str, int], ...]:
    """Return the bounds on connections: messages, streams, handshakes, silence."""
    return (UNCOMPRESSED, ('grpc.max_receive_message_length', limits.message_bytes),
            ('grpc.max_send_message_length', limits.message_bytes),
            ('grpc.max_concurrent_streams', 1000),
            ('grpc.server_handshake_timeout_ms', int(1e3 * limits.handshake_s)),
            ('grpc.max_allowed_incoming_connections', limits.connections),
            ('grpc.max_connection_idle_ms', int(1e3 * limits.idle_s)),
            ('grpc.keepalive_time_ms', 60_000), ('grpc.keepalive_timeout_ms', 20_000),
            ('grpc.http2.min_ping_interval_without_data_ms', 5_000),
            ('grpc.keepalive_permit_without_calls', 1), ('grpc.so_reuseport', 0))


class Unregistered:
    """
    Takes a service's handlers from generated code, and registers none of its methods.

    For each registered method grpc.aio has a task that waits for a call, and for every call it
    looks at all of these tasks. This server has 30 of them, and most calls are of Infer.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Pass them on to the server."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: object) -> None:
        """Leave their calls to the generic handlers."""


LOOPBACK = ('127.0.0.1', 'localhost', '::1')


def require_encryption(config: ServerConfig) -> None:
    """Raise ConfigError when other machines could call without encryption, unless it is meant."""
    if config.tls is None and config.host not in LOOPBACK and not config.insecure:
        raise ConfigError(
            f'{config.host} can be reached from other machines, and tokens would travel there '
            'unencrypted; set tls: {certificate: FILE, key: FILE}, or listen on 127.0.0.1 behind '
            'a proxy that encrypts, or set insecure: true (--insecure)')


def bind(server: grpc.aio.Server, address: str, tls: Tls | None) -> int:
    """Listen at an address and return the port; ConfigError when that cannot be."""
    try:
        if tls is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, _credentials(tls)))
    except RuntimeError as error:
        raise ConfigError(f'cannot listen on {address}: is another server there?') from error


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    pair = (tls.key, tls.certificate)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
        ca = tls.client_ca.read_bytes() if tls.client_ca else None
        return grpc.ssl_server_credentials([tuple(file.read_bytes() for file in pair)], ca,
                                           ca is not None)
    except ssl.SSLError as error:
        raise ConfigError(f'tls: {tls.certificate} and {tls.key} are no certificate and its key '
                          'in PEM; write the chain into the first, its key into the second'
                          ) from error
    except OSError as error:
        missing = next((file for file in (*pair, tls.client_ca) if file and not file.exists()), '')
        raise ConfigError(f'tls: cannot read {missing or pair}: {error.strerror}') from error
