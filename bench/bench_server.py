"""
The arena server under load: 200 stations, the relay, uploads, the site with 100 000 sessions.

Each is a process of its own on this machine. The relay is compared with direct calls, same rate.
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
import sqlalchemy as sa

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.core.task_categories import CATEGORIES
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.grpc import wire
from arena_robot.policy.proto import arena_policy_pb2 as policy_pb
from arena_robot.policy.proto import arena_policy_pb2_grpc as policy_grpc
from arena_robot.policy.resizing import shown
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.proto import arena_server_pb2_grpc as arena_grpc
from arena_robot.server.store import log
from arena_robot.server.store.accounts import Accounts
from arena_robot.server.store.database import Database
from arena_robot.server.store.policies import NewPolicy, Policies
from arena_robot.server.store.schema import accounts, policies, sessions, stations
from arena_robot.session.arena.contract import PROMPT, observation

STATIONS, PACE_S = 200, 8.0    # no session is as short as that
RATE_HZ = 2.0
LIMITS = {'assignment p99': 100.0, 'relay overhead p50': 2.0, 'relay overhead p99': 10.0,
          'site p95': 100.0, 'snapshot to leaderboard': 5.0}
REAL = Path(__file__).parents[2] / 'shared' / 'data' / 'roboarena'


def start(*arguments, ready):
    process = subprocess.Popen([sys.executable, '-m', 'arena_robot.cli.main', *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if ready in line:
            return process, line
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


def fill(folder, count):
    """Add synthetic finished sessions straight to the database."""
    rng = np.random.default_rng(0)
    words = ('put the cup on the plate', 'open the drawer', 'stack the blocks', 'press the button')
    with Database(f'sqlite:///{folder}/arena.db') as database, database.write() as connection:
        owner = connection.execute(sa.select(accounts.c.id)).scalars().first()
        station = connection.execute(sa.select(stations.c.id)).scalars().first()
        base = dict(connection.execute(sa.select(policies)).mappings().first())
        base.pop('id')
        connection.execute(sa.insert(policies), [
            {**base, 'name': f'policy-{k:02}', 'state': 'retired'} for k in range(20)])
        numbers = connection.execute(sa.select(policies.c.id).where(
            policies.c.state == 'retired')).scalars().all()
        rows = []
        for k in range(count):
            a, b = rng.choice(len(numbers), 2, replace=False)
            win = rng.random() < 1 / (1 + np.exp(-(a - b) / 8))
            rows.append({
                'id': f'{k:036}', 'request': f'fill:{k}', 'station_id': station,
                'evaluator_id': owner, 'institution': f'lab {k % 12}', 'state': 'done',
                'prompt': f'{words[k % 4]} number {k % 997}', 'category': CATEGORIES[k % 9],
                'policy_a_id': numbers[a], 'policy_b_id': numbers[b], 'probation': False,
                'token_a': f'fill:{k}:a', 'token_b': f'fill:{k}:b', 'rollouts': 2, 'valid': True,
                **dict.fromkeys(('created_ns', 'seen_ns', 'ended_ns', 'accepted_ns'), k * 10**9),
                'revealed_ns': k, 'imported': True,
                'preference': 'TIE' if k % 7 == 0 else 'A' if win else 'B',
                'progress_a': 0.5, 'progress_b': 0.25, 'explanation': 'it was better',
                **dict.fromkeys(('invalid_reason', 'notes', 'notes_a', 'notes_b', 'lighting',
                                 'clutter', 'incomplete', 'conflict', 'nonce', 'commitment'), '')})
        for start_row in range(0, count, 5000):
            connection.execute(sa.insert(sessions), rows[start_row:start_row + 5000])
        log.append(connection, [(row['id'], '{}') for row in rows], 0)


def pages(address, rounds):
    """Seconds of page loads, each page in turn, with the slowest page's own p95."""
    paths = ('/', '/matrix', '/evaluations', '/evaluations?text=drawer',
             '/evaluations?text=number+996', '/evaluations?policy=policy-03&outcome=A',
             '/evaluations?institution=lab+3&category=Find+%2F+Search', '/policies/policy-03',
             '/evaluations?before=50000000000000_', '/evaluations?text=nothing+like+this',
             f'/evaluations/{5:036}', '/api/evaluations?limit=100', '/categories/find-search')
    spent = {path: [] for path in paths}
    with httpx.Client(base_url=address, timeout=60.0) as client:
        for path in paths:
            client.get(path).raise_for_status()
        for _ in range(rounds):
            for path in paths:
                started = time.perf_counter()
                client.get(path).raise_for_status()
                spent[path].append(time.perf_counter() - started)
    worst = max(paths, key=lambda p: float(np.percentile(spent[p], 95)))
    return np.concatenate(list(spent.values())), worst, spent[worst]


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


def line(what, value, unit, limit=None):
    mark = '' if limit is None else (
        f'limit {limit:g} {unit}: {"met" if value <= limit else "MISSED"}')
    print(f'{what:34} {value:10.2f} {unit:5} {mark}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=15.0, help='of inference load')
    parser.add_argument('--sessions', type=int, default=100_000)
    parser.add_argument('--megabytes', type=int, default=200, help='per uploading station')
    parser.add_argument('--snapshot', type=Path, default=REAL, help='folder of tables to import')
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
        measure(args, folder, target, address, tokens, addresses)
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


def measure(args, folder, target, address, tokens, addresses):
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
    fill(folder, args.sessions)
    started = time.perf_counter()
    httpx.get(address, timeout=120.0).raise_for_status()
    line(f'first standings of {args.sessions}', time.perf_counter() - started, 's')
    every, worst, its = pages(address, 20)
    line('site p95, all pages', 1e3 * float(np.percentile(every, 95)), 'ms', LIMITS['site p95'])
    line('site p95, slowest page', 1e3 * float(np.percentile(its, 95)), 'ms', LIMITS['site p95'])
    print(f'the slowest page: {worst}')


if __name__ == '__main__':
    main()
