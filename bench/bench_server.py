"""
The arena server under load: 200 stations, the relay, uploads, the site with 100 000 sessions.

All on this machine. The relay is compared with direct calls at the same rate, one way after the
other in ROUNDS rounds: the median round's p50, the worst round's p99, and each. The same is
printed for relays that only pass bytes on (bare_relay.py): what gRPC itself takes on this machine.
--servers 3 runs three server processes on their own PostgreSQL, without the site. --site measures
the site alone. On a machine that does other work as well, look at the processor time of a request.
"""

import argparse
import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from arena_robot.core.tuning import poll_sockets_in_one_thread

if __name__ == '__main__':
    # Before gRPC is imported; the processes that are started here inherit it.
    poll_sockets_in_one_thread()
sys.path.insert(0, str(Path(__file__).parents[1] / 'test'))

import grpc
import httpx
import numpy as np
from postgres import postgres
from server_relays import RATE_HZ, bare_relays, overhead, percentiles
from server_site import LIMITS, line, processor_s, site

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.grpc.channel import SERVICE, infer_request
from arena_robot.policy.resizing import shown
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.proto import arena_server_pb2_grpc as arena_grpc
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import NewPolicy, Policies
from arena_robot.session.arena.contract import PROMPT, observation

PACE_S = 8.0    # no session is as short as that
CHUNK = 8       # steps from one query of a station to the next
ROUNDS = 3
REAL = Path(__file__).parents[2] / 'shared' / 'data' / 'roboarena'


def start(*arguments, ready):
    process = subprocess.Popen([sys.executable, '-m', 'arena_robot.cli.main', *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for text in process.stdout:
        if ready in text:
            return process, text
    raise SystemExit(f'{arguments} did not start')


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        return listener.getsockname()[1]


def start_servers(folder, url, count):
    """Start servers of one database and folder; the process and printed line of each."""
    for k in range(count):
        config = folder / f'server-{k}.yaml'
        config.write_text(f'data: {folder}\ndatabase: {url}\nport: {free_port()}\nsite_port: 0\n'
                          'probe_period_s: 3600.0\nevaluator_sign_in: false\n'
                          'redraws_per_day: 1000000\nconflicts: []\n'
                          'evaluator_sessions_per_day: 1000000\n'
                          'station_sessions_per_day: 1000000\n'
                          'limits: {calls_per_s: 1000.0, burst: 1000}\n')
        yield start('server', '--config', config, ready='arena server on')


def prepared(url, addresses, stations):
    """A database with stations and policies that are in the pool already; tokens by station."""
    with Database(url) as database:
        people, pool = Accounts(database, SystemClock()), Policies(database, SystemClock())
        owner = people.add_account('olga', 'lab', [Role.OWNER])
        people.add_account('ada', 'lab', [Role.EVALUATOR])
        for name, address in addresses.items():
            record = pool.add(NewPolicy(name, address), owner.id, PolicyState.POOL)
            pool.set_health(record.id, True)
        return [people.issue(people.add_station(Station(0, f's{k}', 'lab', 'fr3')))
                for k in range(stations)]


async def assignments(targets, tokens):
    """Each station asks for a pair every PACE_S, four times; seconds each, and its last pair."""
    channels = {target: grpc.aio.insecure_channel(target) for target in targets}
    spent, pairs = [], []

    async def ask(stub, token, call, message):
        started = time.perf_counter()
        reply = await getattr(stub, call)(message, timeout=20.0, metadata=(
            ('authorization', f'Bearer {token}'),))
        return reply, time.perf_counter() - started

    async def station(target, token, delay_s):
        stub = arena_grpc.ArenaServiceStub(channels[target])
        await asyncio.sleep(delay_s)
        for turn in range(4):
            reply, took = await ask(stub, token, 'Assign', pb.AssignRequest(
                request=uuid.uuid4().hex, evaluator='ada', prompt=PROMPT))
            spent.append(took)
            if turn < 3:
                await ask(stub, token, 'Abort', pb.AbortRequest(
                    session_id=reply.session_id, reason='bench'))
            await asyncio.sleep(PACE_S)
        pairs.append((target, token, reply))

    await asyncio.gather(*(station(targets[k % len(targets)], token, PACE_S * k / len(tokens))
                           for k, token in enumerate(tokens)))
    for channel in channels.values():
        await channel.close()
    return spent, pairs


async def inference(targets, seconds):
    """One caller per (target, token) at 2 Hz; seconds of each one's first call, and of others."""
    data = wire.observation_to_bytes(shown(observation(), PolicySpec(image_size=(224, 224))))
    channels = {t: grpc.aio.insecure_channel(t, (('grpc.use_local_subchannel_pool', 1),))
                for t in {t for t, _ in targets}}
    first, spent = [], []

    async def caller(k, target, token):
        infer = channels[target].unary_unary(f'/{SERVICE}/Infer')
        due = time.perf_counter() + k / len(targets) / RATE_HZ
        for turn in range(int(seconds * RATE_HZ)):
            await asyncio.sleep(max(0.0, due + turn / RATE_HZ - time.perf_counter()))
            request = infer_request(data, f'e{k}', CHUNK * turn).SerializeToString()
            started = time.perf_counter()
            await infer(request, timeout=10.0, metadata=(
                ('authorization', f'Bearer {token}'),))
            (spent if turn else first).append(time.perf_counter() - started)

    await asyncio.gather(*(caller(k, *t) for k, t in enumerate(targets)))
    for channel in channels.values():
        await channel.close()
    return first, spent, len(data)


def uploads(pairs, megabytes):
    """Four stations upload at once; MB/s through hashing, the wire and the checked store."""
    folder = Path(tempfile.mkdtemp(prefix='arena-bench-'))
    (folder / 'x.mcap').write_bytes(os.urandom(1 << 20) * megabytes)

    def send(target, token, reply):
        arena = RemoteArena(ServerAddress(target, token), SystemClock())
        episode = Episode(reply.session_id, Slot.A, PROMPT, 1, EndReason.DONE, 1, 2)
        arena.upload(reply.session_id, episode, folder)
        arena.close()

    threads = [threading.Thread(target=send, args=pair) for pair in pairs[:4]]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shutil.rmtree(folder)
    return 4 * megabytes * 1.048576 / (time.perf_counter() - started)


def snapshot(tables):
    """Seconds that a new server needs from a snapshot's tables to its leaderboard, by parts."""
    with tempfile.TemporaryDirectory(prefix='arena-bench-') as folder:
        started = time.perf_counter()
        subprocess.run([sys.executable, '-m', 'arena_robot.cli.main', 'episode', 'import', tables,
                        '--output', f'{folder}/records', '--server-data', folder],
                       check=True, stdout=subprocess.DEVNULL)
        imported = time.perf_counter()
        Path(folder, 'server.yaml').write_text(f'data: {folder}\nport: 0\nsite_port: 0\n')
        process, text = start('server', '--config', f'{folder}/server.yaml',
                              ready='arena server on')
        ready = time.perf_counter()
        try:
            address = [word.rstrip(',') for word in text.split() if ':' in word][1]
            page = httpx.get(address, timeout=60.0).raise_for_status().text
            shown = time.perf_counter()
        finally:
            process.terminate()
            process.wait(30.0)
    if 'paligemma' not in page:
        raise SystemExit('the leaderboard does not show the imported policies')
    return imported - started, ready - imported, shown - ready


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=15.0, help='of inference load')
    parser.add_argument('--stations', type=int, default=200)
    parser.add_argument('--servers', type=int, default=1, help='more than one: on PostgreSQL')
    parser.add_argument('--sessions', type=int, default=100_000)
    parser.add_argument('--megabytes', type=int, default=200, help='per uploading station')
    parser.add_argument('--snapshot', type=Path, default=REAL, help='folder of tables to import')
    parser.add_argument('--site', action='store_true', help='measure the site alone')
    parser.add_argument('--load', action='store_true', help='measure the stations alone')
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix='arena-bench-'))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = stack.enter_context(postgres()) if args.servers > 1 else (
            f'sqlite:///{folder}/arena.db')
        load(args, stack, folder, url)
    if args.load or args.servers > 1:
        return
    if not args.snapshot.exists():
        raise SystemExit(f'no snapshot to import: {args.snapshot} is not there')
    parts = snapshot(args.snapshot)
    for what, seconds in zip(('import', 'start of the server', 'first leaderboard'), parts,
                             strict=True):
        line(f'snapshot: {what}', seconds, 's')
    line('snapshot to leaderboard', sum(parts), 's', LIMITS['snapshot to leaderboard'])


def load(args, stack, folder, url):
    process = subprocess.Popen([sys.executable, Path(__file__).with_name('two_policies.py')],
                               stdout=subprocess.PIPE, text=True)
    stack.callback(end, process)
    pids, targets = {'policies': [process.pid]}, []
    addresses = dict(zip(('one', 'two'), process.stdout.readline().split(), strict=True))
    tokens = prepared(url, addresses, args.stations)
    for process, text in start_servers(folder, url, args.servers):
        stack.callback(end, process)
        pids.setdefault('servers', []).append(process.pid)
        target, address = (word.rstrip(',') for word in text.split() if ':' in word)
        targets.append(target)
    pids['callers'] = [os.getpid()]
    if not args.site:
        bare = list(bare_relays(args, stack, addresses, pids))
        measure(args, targets, tokens, addresses, pids, bare)
    if args.servers == 1 and not args.load:
        site(args, folder, address, pids['servers'][0])


def end(process):
    process.terminate()
    process.wait(30.0)


@contextlib.contextmanager
def processor(what, pids, calls):
    """Print the processor time of a call, by who spent it."""
    def now():
        return {name: sum(map(processor_s, its)) for name, its in pids.items()}
    before = now()
    yield
    for name, its in now().items():
        line(f'{what}: processor of the {name}', 1e3 * (its - before[name]) / calls, 'ms')


def measure(args, targets, tokens, addresses, pids, bare):
    print(f'{args.stations} stations at once, {args.servers} servers, {os.cpu_count()} cores, '
          f'load {os.getloadavg()[0]:.1f} before')
    with processor('assignment', pids, 4 * args.stations):
        spent, pairs = asyncio.run(assignments(targets, tokens))
    line('assignment p50', percentiles(spent)[0], 'ms')
    line('assignment p99', percentiles(spent)[1], 'ms', LIMITS['assignment p99'])
    policy = [a.split('://')[1] for a in addresses.values()]
    ways = {'direct': [(policy[k % 2], 'x') for k in range(args.stations)],
            'bare': [(bare[k % len(bare)], 'x') for k in range(args.stations)],
            'relayed': [(target, reply.token_a) for target, _, reply in pairs]}
    found, seconds = [], args.seconds / ROUNDS
    for number in range(ROUNDS):
        took = {}
        for way, calls in ways.items():
            with processor(f'{way} {number + 1}', pids,
                           args.stations * int(seconds * RATE_HZ)):
                first, spent, size = asyncio.run(inference(calls, seconds))
            took[way] = (*percentiles(first + spent), percentiles(spent)[1])
        found.append([took[way] for way in ways])
    overhead(np.array(found), args.stations, size)
    rate = uploads(pairs, args.megabytes)
    print(f'uploads, four at once {rate:23.2f} MB/s  limit 100' + ': MISSED' * (rate < 100.0))


if __name__ == '__main__':
    main()
