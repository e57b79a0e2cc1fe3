"""
Queries per second of one policy server with 8 stations flat out, beside openpi's own.

Each server, and each 8 stations together, is a process of its own; a query has two pictures of
224x224. With --peers (a folder with a checkout of openpi) openpi's unmodified server and client
are measured in the same run, in turns, so that a busy machine is as busy for all; processor time
a query depends less on what else runs. Stations of the
openpi protocol are openpi's own clients where they are there.
"""

import argparse
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from peers_servers import SmallPolicy, add_peers

from arena_robot.core.action import ActionSpace, Chunk
from arena_robot.core.observation import ArmState, GripperState, Image, Observation
from arena_robot.core.tuning import keep_freed_memory
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import SERVERS, connect
from arena_robot.policy.options import CallOptions, ServeOptions

STATIONS, SIZE = 8, (224, 224)
OURS = {'arena gRPC': ('grpc', 'grpc'), 'arena gRPC, streams': ('grpc', 'stream'),
        'arena openpi, arena client': ('openpi', 'openpi'),
        'arena openpi, openpi client': ('openpi', 'theirs')}
THEIRS = {'openpi, openpi client': ('theirs', 'theirs')}


class Same:
    """Answers a constant chunk, as the peers' policy of this measurement does."""

    spec = PolicySpec(action_space=ActionSpace.JOINT_VELOCITY, image_size=SIZE)

    def infer(self, observation, episode=''):
        """Return 8 actions."""
        return Chunk(np.zeros((8, 8), np.float32), self.spec.action_space)

    def reset(self, episode=''):
        """Forget nothing."""


def serve(kind, port, peers):
    """Serve until killed."""
    if kind != 'theirs':
        keep_freed_memory()     # as `arena policy serve` does
        with SERVERS[kind](Same(), ServeOptions(port=port)) as server:
            server.wait()
        return
    add_peers(peers)
    from openpi.serving.websocket_policy_server import WebsocketPolicyServer
    policy = SmallPolicy(False)
    policy.infer = lambda request: {'actions': np.zeros((8, 8), np.float32)}
    WebsocketPolicyServer(policy, '127.0.0.1', port, metadata={}).serve_forever()


def seen():
    """Return an observation with two pictures."""
    pictures = np.random.default_rng(0).integers(0, 256, (2, *SIZE, 3), np.uint8)
    state, now = np.zeros(7), time.time_ns()
    images = {name: Image(pixels, now)
              for name, pixels in zip(('left_left', 'wrist_left'), pictures, strict=True)}
    return Observation(now, ArmState(now, state, state, state, state, np.zeros(6), state),
                       GripperState(now, 0.0, 0.085, 0.0), 'tidy up', 0, images)


def asker(kind, port, peers, number):
    """Return a call that asks once."""
    if kind == 'theirs':
        add_peers(peers)
        from openpi_client.websocket_client_policy import WebsocketClientPolicy
        client, shown = WebsocketClientPolicy('127.0.0.1', port), seen()
        request = {'observation/joint_position': np.zeros(7), 'prompt': 'tidy up',
                   'observation/gripper_position': np.zeros(1),
                   'observation/exterior_image_1_left': shown.images['left_left'].pixels,
                   'observation/wrist_image_left': shown.images['wrist_left'].pixels}
        return lambda: client.infer(request)
    scheme = 'openpi' if kind == 'openpi' else 'grpc'
    policy = connect(f'{scheme}://127.0.0.1:{port}', CallOptions(stream=kind == 'stream'))
    shown = seen()
    return lambda: policy.infer(shown, f'station-{number}')


def stations(kind, port, peers, seconds):
    """Ask from 8 threads for some seconds; print the queries per second."""
    if kind != 'theirs':
        keep_freed_memory()     # as the nodes of a station do
    calls = [asker(kind, port, peers, number) for number in range(STATIONS)]
    counts = [0] * STATIONS
    end_s = 0.0

    def ask(number):
        while time.perf_counter() < end_s:
            calls[number]()
            counts[number] += 1

    for call in calls:
        call()
    began_s, spent_s = time.perf_counter(), time.process_time()
    end_s = began_s + seconds
    threads = [threading.Thread(target=ask, args=(k,), daemon=True) for k in range(STATIONS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print(sum(counts) / (time.perf_counter() - began_s), min(counts), max(counts),
          time.process_time() - spent_s, sum(counts), flush=True)
    os._exit(0)    # clients of others do not close


def processor_s(pid):
    """Return the seconds of processor time of a process."""
    words = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK')


def measured(server, client, args):
    """Return queries/s, fewest and most of a station, and ms of server and stations a query."""
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    own = [sys.executable, __file__, '--peers', str(args.peers), '--port', str(port)]
    process = subprocess.Popen([*own, '--serve', server], stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + 60.0
        while time.monotonic() < end_s:
            try:
                socket.create_connection(('127.0.0.1', port), 1.0).close()
                break
            except OSError:
                time.sleep(0.1)
        before_s = processor_s(process.pid)
        done = subprocess.run([*own, '--ask', client, '--seconds', str(args.seconds)], check=True,
                              capture_output=True, text=True, timeout=120.0 + args.seconds)
        rate, fewest, most, own_s, count = map(float, done.stdout.split()[-5:])
        spent_s = processor_s(process.pid) - before_s
        return rate, fewest, most, 1e3 * spent_s / count, 1e3 * own_s / count
    finally:
        process.kill()
        process.wait()


def main():
    """Measure in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--peers', default=os.environ.get('ARENA_PEERS', ''),
                        help='folder with a checkout of openpi (default: $ARENA_PEERS)')
    parser.add_argument('--seconds', type=float, default=5.0, help='of each turn')
    parser.add_argument('--turns', type=int, default=3)
    parser.add_argument('--port', type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument('--serve', default='', help=argparse.SUPPRESS)
    parser.add_argument('--ask', default='', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve, args.port, args.peers)
    if args.ask:
        return stations(args.ask, args.port, args.peers, args.seconds)
    there = bool(args.peers) and Path(args.peers, 'openpi').is_dir()
    rows = {name: row for name, row in {**OURS, **THEIRS}.items() if there or 'theirs' not in row}
    found = {name: [] for name in rows}
    for _ in range(args.turns):
        for name, (server, client) in rows.items():
            found[name].append(measured(server, client, args))
    print(f'{STATIONS} stations flat out, two {SIZE[0]}x{SIZE[1]} pictures a query, '
          f'median of {args.turns} turns of {args.seconds:g} s')
    for name, turns in found.items():
        rate, fewest, most, server_ms, own_ms = np.median(turns, axis=0)
        print(f'  {name:<30} {rate:5.0f} queries/s  processor time a query: server '
              f'{server_ms:.2f} ms, stations {own_ms:.2f} ms; fewest/most {fewest / most:.0%}')
    if not there:
        print("  openpi's own: not measured, no checkout (--peers)")
    return None


if __name__ == '__main__':
    main()
