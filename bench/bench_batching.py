"""
Queries of many stations at a policy on one GPU: answered together, and one at a time.

The policy is a stand-in that sleeps as long as an H200 took for a call of its size, with a
flow-matching policy of 2.7e9 parameters and three pictures: COST_MS, the next larger size that is
there. Servers: ours with ``infer_batch``, ours without, and with --peers (a folder with a checkout
of openpi) openpi's unmodified one with its client. Stations ask flat out, or each 8 actions of
15 Hz; the rate is printed beside what the GPU can do, and the most stations whose p99 is at most
200 ms. Before its rows ours is asked for some seconds, in which it learns how long calls of each
size take: until then more queries are late. Sleeping takes no processor, so a busy machine counts
little.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
from bench_throughput import Same, asker
from peers_servers import SmallPolicy, add_peers

from arena_robot.core.tuning import keep_freed_memory
from arena_robot.policy.connect import SERVERS
from arena_robot.policy.options import ServeOptions

COST_MS = {1: 26.2, 2: 34.6, 4: 52.0, 8: 86.9, 16: 160.1}    # measured on 2026-11-26
FLAT_OUT, PERIOD_S, LIMIT_MS = 8, 8 / 15, 200.0
COUNTS = (8, 16, 24, 32, 36, 40, 44, 48)
LEARNS_WITH = 40    # stations, so many that calls of all sizes occur
PER_PROCESS = 8    # stations; more threads of one Python would wait for each other
KINDS = {'arena, infer_batch': 'batch', 'arena, one at a time': 'single',
         'openpi, its own server': 'theirs'}


class StandIn(Same):
    """Takes as long as the GPU, one call after the other."""

    def __init__(self):
        self._turn = threading.Lock()

    def infer(self, observation, episode=''):
        """Return 8 actions."""
        return self.calls([observation], [episode])[0]

    def calls(self, observations, episodes):
        """Return 8 actions for each."""
        size = next(size for size in COST_MS if size >= len(observations))
        with self._turn:
            time.sleep(COST_MS[size] / 1e3)
        return [super(StandIn, self).infer(seen) for seen in observations]


def serve(kind, port, peers):
    """Serve until killed."""
    policy = StandIn()
    if kind == 'theirs':
        add_peers(peers)
        from openpi.serving.websocket_policy_server import WebsocketPolicyServer
        small = SmallPolicy(False)
        small.infer = lambda request: {'actions': policy.infer(request).actions}
        return WebsocketPolicyServer(small, '127.0.0.1', port, metadata={}).serve_forever()
    keep_freed_memory()     # as `arena policy serve` does
    if kind == 'batch':
        policy.infer_batch = policy.calls
    with SERVERS['grpc'](policy, ServeOptions(port=port)) as server:
        server.wait()
    return None


def ask(kind, port, args):
    """Ask as the stations from ``--first`` on; print the seconds of each query."""
    client = 'theirs' if kind == 'theirs' else 'grpc'
    numbers = range(args.first, args.first + args.stations)
    calls = [asker(client, port, args.peers, number) for number in numbers]
    for call in calls:
        call()
    began_s, spent = time.perf_counter(), []

    def station(number, call):
        due_s = began_s + args.period * np.random.default_rng(number).uniform()
        while due_s < began_s + args.seconds:
            time.sleep(max(0.0, due_s - time.perf_counter()))
            asked_s = time.perf_counter()
            call()
            spent.append(time.perf_counter() - asked_s)
            due_s = max(due_s + args.period, asked_s + spent[-1] * (args.period == 0.0))

    threads = [threading.Thread(target=station, args=pair) for pair in zip(numbers, calls,
                                                                          strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(spent), flush=True)
    os._exit(0)    # clients of others do not close


def measured(own, kind, stations, period_s, seconds):
    """Return queries per second and the percentiles 50 and 99 of their time, in ms."""
    groups = [subprocess.Popen(
        [*own, '--ask', kind, '--first', str(first), '--seconds', str(seconds), '--period',
         str(period_s), '--stations', str(min(PER_PROCESS, stations - first))],
        stdout=subprocess.PIPE, text=True) for first in range(0, stations, PER_PROCESS)]
    spent = [took for group in groups for took in json.loads(group.communicate(timeout=120.0)[0])]
    return len(spent) / seconds, *(1e3 * np.percentile(spent, q) for q in (50, 99))


def table(own, name, kind, seconds):
    """Measure one server and print its rows; return its rate flat out, and how many it serves."""
    server = subprocess.Popen([*own, '--serve', kind], stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 60.0
        while time.monotonic() < end_s and server.poll() is None:
            try:
                socket.create_connection(('127.0.0.1', int(own[-1])), 1.0).close()
                break
            except OSError:
                time.sleep(0.1)
        flat, served = 0.0, 0
        if kind == 'batch':
            measured(own, kind, LEARNS_WITH, PERIOD_S, 2 * seconds)
        for stations, period_s in ((1, 0.0), (FLAT_OUT, 0.0), *((n, PERIOD_S) for n in COUNTS)):
            rate, p50, p99 = measured(own, kind, stations, period_s, seconds)
            print(f'  {name:<24} {stations:2d} stations {"paced" if period_s else "flat out":<8} '
                  f'{rate:6.1f} queries/s  p50 {p50:6.1f} ms  p99 {p99:6.1f} ms', flush=True)
            flat = flat if period_s else rate
            if period_s and p99 > LIMIT_MS:
                break
            served = stations if period_s else 0
        return flat, served
    finally:
        server.kill()
        server.wait()


def main():
    """Measure each server and print them beside each other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--peers', default=os.environ.get('ARENA_PEERS', ''),
                        help='folder with a checkout of openpi (default: $ARENA_PEERS)')
    parser.add_argument('--seconds', type=float, default=5.0, help='of each row')
    parser.add_argument('--serve', default='', help=argparse.SUPPRESS)
    parser.add_argument('--ask', default='', help=argparse.SUPPRESS)
    parser.add_argument('--first', type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument('--stations', type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument('--period', type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument('--port', type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve, args.port, args.peers)
    if args.ask:
        return ask(args.ask, args.port, args)
    there = os.path.isdir(os.path.join(args.peers, 'openpi'))
    limit = 1e3 * FLAT_OUT / COST_MS[FLAT_OUT]
    for name, kind in KINDS.items():
        if kind == 'theirs' and not there:
            print("openpi's own: not measured, no checkout (--peers)")
            continue
        with socket.create_server(('127.0.0.1', 0)) as free:
            port = free.getsockname()[1]
        own = [sys.executable, __file__, '--peers', str(args.peers), '--port', str(port)]
        flat, served = table(own, name, kind, args.seconds)
        print(f'{name}: {flat:.0f} of {limit:.0f} queries/s with {FLAT_OUT} stations flat out; '
              f'{served} stations a GPU at p99 <= {LIMIT_MS:g} ms')
    return None


if __name__ == '__main__':
    main()
