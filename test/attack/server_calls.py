"""Calls of a server with bytes that are not theirs, and with tokens that nobody has."""

import random
from pathlib import Path

import grpc
from tally import Tally, mutated, timed

from arena_robot.core.clock import SystemClock
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import Station
from arena_robot.server.config import ServerConfig, ServerLimits
from arena_robot.server.proto import arena_server_pb2 as pb

SERVICE = 'arena.v1.ArenaService'
OPEN = ('Hello', 'Standings')
FAILED = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def server_calls(folder: Path, count: int, seed: int = 1) -> list[Tally]:
    """Return a tally of odd bytes with a station's token, and one of wrong tokens."""
    limits = ServerLimits(calls_per_s=1e6, burst=10**6, unknown_tokens_per_s=1e6,
                          wrong_tokens_per_s=1e6, wrong_tokens_burst=10**6)
    config = ServerConfig(data=folder, port=0, site_port=-1, probe_period_s=3600.0, limits=limits)
    with ArenaServer(config, SystemClock(), lambda _: '', lambda _: '') as server:
        token = server.accounts.issue(server.accounts.add_station(
            Station(0, 'bench', 'lab', 'fr3')))
        with grpc.insecure_channel(f'127.0.0.1:{server.port}') as channel:
            return [timed(lambda: _odd_bytes(channel, token, random.Random(seed), count)),
                    timed(lambda: _wrong_tokens(channel, random.Random(seed + 1), count))]


def _call(channel: grpc.Channel, name: str, data: bytes, token: str) -> grpc.StatusCode:
    method = channel.unary_unary(f'/{SERVICE}/{name}')
    try:
        method(data, timeout=10.0, metadata=(('authorization', f'Bearer {token}'),))
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def _unary() -> list[str]:
    service = pb.DESCRIPTOR.services_by_name['ArenaService']
    return [method.name for method in service.methods if not method.client_streaming]


def _odd_bytes(channel: grpc.Channel, token: str, rng: random.Random, count: int) -> Tally:
    tally, names = Tally('bytes of calls'), _unary()
    seeds = [pb.FileRequest(session_id='s' * 36, slot='A', path='x.mp4', size=3,
                            sha256='0' * 64).SerializeToString(),
             pb.AssignRequest(request='r' * 32, evaluator='ada',
                              prompt='wipe').SerializeToString(),
             pb.HolderRequest(name='ada', lifetime_s=float('nan')).SerializeToString()]
    for data in mutated(rng, seeds, count):
        tally.tried += 1
        name = rng.choice(names)
        code = _call(channel, name, data, token)
        if code in FAILED:
            tally.note('crashes', (name, data, code))
        elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
            tally.note('stuck', (name, data))
    return tally


def _wrong_tokens(channel: grpc.Channel, rng: random.Random, count: int) -> Tally:
    tally = Tally('calls with wrong tokens')
    names = [name for name in _unary() if name not in OPEN]
    for _ in range(count):
        tally.tried += 1
        name, token = rng.choice(names), 'arena_' + rng.randbytes(rng.choice([0, 8, 32])).hex()
        code = _call(channel, name, b'', token)
        if code is grpc.StatusCode.OK:
            tally.note('wrong', (name, token))
        elif code in FAILED:
            tally.note('crashes', (name, token, code))
        elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
            tally.note('stuck', (name, token))
    return tally
