"""
The arena server under load: 200 stations, the relay, uploads, the site with 100 000 sessions.

Each is a process of its own on this machine. The relay is compared with direct calls, same rate.
--site measures the site alone. On a machine that does other work as well, look at the processor
time of a request.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import grpc
import httpx
import numpy as np
from server_site import LIMITS, line, site

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.proto import arena_policy_pb2 as policy_pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as policy_grpc
from arena_robot.policy.resizing import shown
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.proto import arena_server_pb2_grpc as arena_grpc
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import NewPolicy, Policies
from arena_robot.session.arena.contract import PROMPT, observation

STATIONS, PACE_S = 200, 8.0    # no session is as short as that
RATE_HZ = 2.0
REAL = Path(__file__).parents[2] / 'shared' / 'data' / 'roboarena'


def start(*arguments, ready):
    process = subprocess.Popen([sys.executable, '-m', 'arena_robot.cli.main', *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for text in process.stdout:
        if ready in text:
            return process, text
    raise SystemExit(f'{arguments} did not start')


def prepared(folder, addresses):
    """A database with stations and policies that are in the pool already; tokens by station."""
    with Database(f'sqlite:///{folder}/arena.db') as database:
        people, pool = Accounts(database, SystemClock()), Policies(database, SystemClock())
        owner = people.add_account('olga', 'lab', [Role.OWNER])
        people.add_account('ada', 'lab', [Role.EVALUATOR])
        for name, address in addresses.items():
            record = pool.add(NewPolicy(name, address), owner.id, PolicyState.POOL)
            pool.set_health(record.id, True)
        return [people.issue(people.add_station(Station(0, f's{k}', 'lab', 'fr3')))
                for k in range(STATIONS)]


def percentiles(seconds):
    return tuple(1e3 * float(np.percentile(seconds, q)) for q in (50, 99))


async def assignments(target, tokens):
    """Each station asks for a pair every PACE_S, four times; seconds each, and its last pair."""
    channel = grpc.aio.insecure_channel(target)
    stub = arena_grpc.ArenaServiceStub(channel)
    spent, pairs = [], []

    async def ask(token, call, message):
        started = time.perf_counter()
        reply = await getattr(stub, call)(message, timeout=20.0, metadata=(
            ('authorization', f'Bearer {token}'),))
        return reply, time.perf_counter() - started

    async def station(token, delay_s):
        await asyncio.sleep(delay_s)
        for turn in range(4):
            reply, took = await ask(token, 'Assign', pb.AssignRequest(
                request=uuid.uuid4().hex, evaluator='ada', prompt=PROMPT))
            spent.append(took)
            if turn < 3:
                await ask(token, 'Abort', pb.AbortRequest(session_id=reply.session_id,
                                                          reason='bench'))
            await asyncio.sleep(PACE_S)
        pairs.append((token, reply))

    await asyncio.gather(*(
        station(token, PACE_S * k / STATIONS) for k, token in enumerate(tokens)))
    await channel.close()
    return spent, pairs


async def inference(targets, seconds):
    """One caller per (target, token) at 2 Hz; seconds of each call."""
    data = wire.observation_to_bytes(shown(observation(), PolicySpec(image_size=(224, 224))))
    channels = {t: grpc.aio.insecure_channel(t, (('grpc.use_local_subchannel_pool', 1),))
                for t in {t for t, _ in targets}}
    spent = []

    async def caller(k, target, token):
        stub = policy_grpc.PolicyServiceStub(channels[target])
        due = time.perf_counter() + k / len(targets) / RATE_HZ
        request = policy_pb.InferRequest(protocol_version=1, episode=f'e{k}', observation=data)
        for turn in range(int(seconds * RATE_HZ)):
            await asyncio.sleep(max(0.0, due + turn / RATE_HZ - time.perf_counter()))
            started = time.perf_counter()
            await stub.Infer(request, timeout=10.0, metadata=(
                ('authorization', f'Bearer {token}'),))
            spent.append(time.perf_counter() - started)

    await asyncio.gather(*(caller(k, *t) for k, t in enumerate(targets)))
    for channel in channels.values():
        await channel.close()
    return spent, len(data)


def uploads(target, pairs, megabytes):
    """Four stations upload at once; MB/s through hashing, the wire and the checked store."""
    folder = Path(tempfile.mkdtemp(prefix='arena-bench-'))
    (folder / 'x.mcap').write_bytes(os.urandom(1 << 20) * megabytes)

    def send(token, reply):
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
        subprocess.run([sys.executable, '-m', 'arena_robot.cli.main', 'import', tables,
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
    parser.add_argument('--sessions', type=int, default=100_000)
    parser.add_argument('--megabytes', type=int, default=200, help='per uploading station')
    parser.add_argument('--snapshot', type=Path, default=REAL, help='folder of tables to import')
    parser.add_argument('--site', action='store_true', help='measure the site alone')
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix='arena-bench-'))
    running = []
    try:
        addresses = {}
        for name in ('one', 'two'):
            process, text = start('policy', 'serve', 'echo', '--port', '0', ready='serving')
            running.append(process)
            addresses[name] = next(w for w in text.split() if '://' in w).rstrip(';')
        tokens = prepared(folder, addresses)
        config = folder / 'server.yaml'
        config.write_text(f'data: {folder}\nport: 0\nsite_port: 0\nprobe_period_s: 3600.0\n'
                          'evaluator_sign_in: false\nredraws_per_day: 1000000\n'
                          'conflicts: []\nlimits: {calls_per_s: 1000.0, burst: 1000}\n')
        process, text = start('server', '--config', config, ready='arena server on')
        running.append(process)
        target, address = (word.rstrip(',') for word in text.split() if ':' in word)
        if args.site:
            site(args, folder, address, process.pid)
            return
        measure(args, folder, target, address, tokens, addresses, process.pid)
    finally:
        for process in running:
            process.terminate()
        shutil.rmtree(folder, ignore_errors=True)
    if not args.snapshot.exists():
        raise SystemExit(f'no snapshot to import: {args.snapshot} is not there')
    parts = snapshot(args.snapshot)
    for what, seconds in zip(('import', 'start of the server', 'first leaderboard'), parts,
                             strict=True):
        line(f'snapshot: {what}', seconds, 's')
    line('snapshot to leaderboard', sum(parts), 's', LIMITS['snapshot to leaderboard'])


def measure(args, folder, target, address, tokens, addresses, pid):
    print(f'{STATIONS} stations at once')
    spent, pairs = asyncio.run(assignments(target, tokens))
    line('assignment p50', percentiles(spent)[0], 'ms')
    line('assignment p99', percentiles(spent)[1], 'ms', LIMITS['assignment p99'])
    policy = [a.split('://')[1] for a in addresses.values()]
    direct, size = asyncio.run(inference(
        [(policy[k % 2], 'x') for k in range(STATIONS)], args.seconds))
    calls = [(target, reply.token_a) for _, reply in pairs]
    relayed, _ = asyncio.run(inference(calls, args.seconds))
    print(f'inference at {RATE_HZ:g} Hz x {STATIONS} stations, {size / 1e3:.0f} kB a request')
    for q, a, b in zip((50, 99), percentiles(direct), percentiles(relayed), strict=True):
        line(f'direct p{q}', a, 'ms')
        line(f'relayed p{q}', b, 'ms')
        line(f'relay overhead p{q}', b - a, 'ms', LIMITS[f'relay overhead p{q}'])
    rate = uploads(target, pairs, args.megabytes)
    print(f'uploads, four at once {rate:23.2f} MB/s  limit 100' + ': MISSED' * (rate < 100.0))
    site(args, folder, address, pid)


if __name__ == '__main__':
    main()
