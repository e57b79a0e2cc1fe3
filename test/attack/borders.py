"""What comes in from outside, border by border: replies, observations, names, files, journals."""

import ipaddress
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tally import Tally, mutated, parse, timed

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.errors import DataError
from arena_robot.core.observation import ArmState, GripperState, Observation
from arena_robot.policy.address import SCHEMES
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.openpi import wire as openpi_wire
from arena_robot.policy.proto import arena_policy_pb2 as pb
from arena_robot.records.episode_file import EpisodeFile, read_episode, write_episode
from arena_robot.records.session_file import SessionFile, read_session, write_session
from arena_robot.server.files import checked_path
from arena_robot.server.pool.policy_pool import addresses
from arena_robot.session.protocol.salvage import read_record

SPEC = PolicySpec(action_space=ActionSpace.JOINT_POSITION, chunk_length=4)
ZEROS = np.zeros(7)
MOVES = (
    ('checked', {'station': 'lab', 'evaluator': 'ada', 'checks': []}),
    ('task', {'evaluator': 'ada', 'prompt': 'put the cube in the bowl', 'third_person': 'left'}),
    ('assigned', {'session_id': 's1', 'commitment': 'ff', 'equal_latency': False, 'promise': ''}),
    ('photographed', {'views': ['left_left']}), ('started_a', {}), ('ticked', {'steps': 15}),
    ('ended', {'end': 'done', 'detail': '', 'steps': 20}))
# Networks that no policy's address may lead to; the guard itself decides by other means.
INSIDE = [ipaddress.ip_network(text) for text in (
    '0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12',
    '192.168.0.0/16', '224.0.0.0/4', '240.0.0.0/4')]
# Files are written by the thousand: in memory, where there is such a folder.
MEMORY = '/dev/shm' if Path('/dev/shm').is_dir() else None
PREFIXES = ('::', '::ffff:', '::ffff:0:', '64:ff9b::')


def all_borders(count: int, seed: int = 1) -> list[Tally]:
    """Return a tally of ``count`` inputs at each border."""
    borders: tuple[Callable[[random.Random, int], Tally], ...] = (
        replies, grpc_replies, observations, policy_addresses, inner_addresses, file_names,
        session_files, episode_files, journals)
    return [timed(lambda k=k, border=border: border(random.Random(seed + k), count))
            for k, border in enumerate(borders)]


def _finite(given: object, chunk: Chunk) -> bool:
    return bool(np.isfinite(chunk.actions).all()) and chunk.actions.ndim == 2


def replies(rng: random.Random, count: int) -> Tally:
    """Send replies of openpi policies."""
    seeds = [openpi_wire.pack({'actions': np.zeros((4, 8), np.float32)}),
             openpi_wire.pack({'actions': np.full((4, 8), 0.3)})]
    return parse('replies of openpi policies', mutated(rng, seeds, count),
                 lambda data: openpi_wire.chunk_of(openpi_wire.unpack(data), SPEC), _finite)


def grpc_replies(rng: random.Random, count: int) -> Tally:
    """Send replies of gRPC policies."""
    chunk = Chunk(np.zeros((4, 8), np.float32), ActionSpace.JOINT_POSITION)
    seeds = [wire.chunk_to_wire(chunk, 0.0, 0.0).SerializeToString()]

    def read(data: bytes) -> Chunk:
        try:
            message = pb.InferReply.FromString(data)
        except Exception as error:  # gRPC itself refuses these
            raise DataError(str(error)) from error
        return wire.chunk_from_wire(message, SPEC)
    return parse('replies of gRPC policies', mutated(rng, seeds, count), read, _finite)


def observations(rng: random.Random, count: int) -> Tally:
    """Send observations of stations."""
    arm = ArmState(1, ZEROS, ZEROS, ZEROS, ZEROS, np.zeros(6), ZEROS)
    seen = Observation(1, arm, GripperState(1, 0.0, 0.085, 0.0), 'put the cube away')
    return parse('observations of stations',
                 mutated(rng, [wire.observation_to_bytes(seen)], count),
                 wire.observation_from_bytes)


def policy_addresses(rng: random.Random, count: int) -> Tally:
    """Submit addresses of policies."""
    seeds = [b'grpc://8.8.8.8:8000', b'grpcs://gpu.example.org:443', b'openpi://[2001:db8::1]:80',
             b'openpis://gpu.example.org:443/v1/policy?action_space=joint_velocity&token=x']
    return parse('addresses of policies', (data.decode('utf-8', 'replace') for data in
                                           mutated(rng, seeds, count)), addresses.parse,
                 lambda given, out: 0 < out.port < 65536 and out.scheme in SCHEMES)


def inner_addresses(rng: random.Random, count: int) -> Tally:
    """Ask for addresses that lead into networks of the server, in every disguise."""
    def given() -> str:
        network = rng.choice(INSIDE)
        inner = ipaddress.IPv4Address(int(network.network_address)
                                      + rng.randrange(network.num_addresses))
        word = f'{int(inner) >> 16:x}:{int(inner) & 0xFFFF:x}'
        return rng.choice([str(inner), *(f'{prefix}{inner}' for prefix in PREFIXES),
                           f'2002:{word}::{rng.randrange(1, 9)}', f'64:ff9b:1::{inner}'])
    return parse('addresses that lead inside', (given() for _ in range(count)),
                 lambda text: addresses.is_public(ipaddress.ip_address(text)),
                 lambda text, public: not public)


def file_names(rng: random.Random, count: int) -> Tally:
    """Announce names of files."""
    seeds = [b'A_0.mcap', b'frames/left.mp4', b'../../etc/passwd', b'/etc/passwd', b'.ssh/x',
             b'a/./../b', 'größe.mp4'.encode()]
    root = Path('/srv/arena/blobs')

    def inside(name: str, out: str) -> bool:
        path = (root / out).resolve()
        return root in path.parents and not any(p.startswith('.') for p in Path(out).parts)
    return parse('names of files', (data.decode('utf-8', 'replace') for data in
                                    mutated(rng, seeds, count)), checked_path, inside)


def _record_files(name: str, rng: random.Random, count: int, file: str,
                  write: Callable[[Path], None], read: Callable[[Path], object]) -> Tally:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / file
        write(Path(folder))
        seed = path.read_bytes()

        def look(data: bytes) -> object:
            path.write_bytes(data)
            return read(Path(folder))
        return parse(name, mutated(rng, [seed], count), look)


def session_files(rng: random.Random, count: int) -> Tally:
    """Read session files."""
    return _record_files('session.json', rng, count, 'session.json',
                         lambda folder: write_session(folder, SessionFile('s1')), read_session)


def episode_files(rng: random.Random, count: int) -> Tally:
    """Read episode files."""
    return _record_files('episode.json', rng, count, 'episode.json',
                         lambda folder: write_episode(folder, EpisodeFile('s1')), read_episode)


def journals(rng: random.Random, count: int) -> Tally:
    """Read journals with damaged lines; what the other lines say must not be lost."""
    lines = [json.dumps({'n': n, 't': n + 1, 'move': move, 'data': data}).encode() + b'\n'
             for n, (move, data) in enumerate(MOVES)]
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / 'journal.jsonl'
        hit = [0]

        def read(data: bytes) -> str:
            hit[0] = rng.randrange(len(lines))
            path.write_bytes(b''.join([*lines[:hit[0]], data.replace(b'\n', b' ') + b'\n',
                                       *lines[hit[0] + 1:]]))
            return read_record(path).prompt
        return parse('journals with a damaged line', mutated(rng, lines, count), read,
                     lambda data, prompt: hit[0] == 1 or prompt.startswith('put')
                     or b'task' in data)
