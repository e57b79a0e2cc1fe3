"""
What `arena blind` adds to a query with two pictures of 224x224, beside a bare relay.

An echo policy, the router and the bare relay run in processes of their own on this machine. Each
round asks the policy directly, through the relay and through the router, in turn.
"""

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from arena_robot.policy.base import PolicySpec
from arena_robot.policy.connect import connect
from arena_robot.policy.grpc import wire
from arena_robot.policy.timing import made_up_observation

TARGET_P50_MS = 1.5
HERE = Path(__file__).parent
ARENA = [sys.executable, '-m', 'arena_robot.cli.main']


def started(stack, command, pattern, **more):
    """Start a program; return the address that it prints."""
    process = stack.enter_context(subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more))
    stack.callback(process.terminate)
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found[1]
    raise SystemExit(f'{command} ended')


def router(stack, address, folder):
    """Start a study of one policy against itself, and its first trial; return the addresses."""
    process = stack.enter_context(subprocess.Popen(
        [*ARENA, 'blind', f'a={address}', f'b={address}', '--instruction', 'x', '--port', '0',
         '--grpc-port', '0', '--page-port', '0', '--page-host', '127.0.0.1', '--folder', folder],
        stdout=subprocess.PIPE, text=True, env={'XDG_DATA_HOME': f'{folder}_seed'}))
    stack.callback(process.terminate)
    found = {}
    for line in process.stdout:
        for name, pattern in (('openpi', r'RoboArena: ws://(\S+)'), ('grpc', r'gRPC: grpc://(\S+)'),
                              ('page', r'for the phone: (\S+)')):
            if match := re.search(pattern, line):
                found[name] = match[1]
        if 'page' in found:
            break
    request = urllib.request.Request(f"{found['page']}api/move", json.dumps(
        {'move': 'start'}).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=20.0):
        return found


def measure(protocol, rounds, count):
    """Return the p50 (s) of (round, way): directly, bare relay, router."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        policy = started(stack, [*ARENA, 'policy', 'serve', 'echo', '--port', '0', '--protocol',
                                 protocol], r'://(\S+);')
        bare = started(stack, [sys.executable, HERE / 'bare_relay.py',
                               f"{'ws://' * (protocol == 'openpi')}{policy}"], r'(\d+)')
        routed = router(stack, f'{protocol}://{policy}', f'{folder}/study')[protocol]
        spec = PolicySpec()
        seen = made_up_observation(spec)
        # A bare relay of gRPC knows no GetSpec: the client is opened beside it.
        ways = [stack.enter_context(connect(f'{protocol}://{policy}')),
                _through(stack, protocol, policy, f'127.0.0.1:{bare}'),
                stack.enter_context(connect(f'{protocol}://{routed}'))]
        return np.array([[_p50(way, seen, count) for way in ways] for _ in range(rounds)])


def _through(stack, protocol, policy, bare):
    if protocol == 'openpi':
        return stack.enter_context(connect(f'openpi://{bare}'))
    way = stack.enter_context(connect(f'grpc://{policy}'))
    spec = way.spec
    way.close()
    way._target = bare
    way._ask_spec = lambda: spec
    return stack.enter_context(way.open())


def _p50(way, seen, count):
    for _ in range(5):
        way.infer(seen, 'e')
    seconds = []
    for _ in range(count):
        began_s = time.perf_counter()
        way.infer(seen, 'e')
        seconds.append(time.perf_counter() - began_s)
    return float(np.median(seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--count', type=int, default=100, help='queries in each round, each way')
    args = parser.parse_args()
    size = len(wire.observation_to_bytes(made_up_observation(PolicySpec())))
    print(f'a query has {size} bytes')
    for protocol in ('openpi', 'grpc'):
        found = 1e3 * measure(protocol, args.rounds, args.count)
        direct, bare, routed = np.median(found, axis=0)
        added = np.median(found[:, 2] - found[:, 0])
        print(f'{protocol}: p50 {direct:.2f} ms directly, {bare:.2f} through a bare relay, '
              f'{routed:.2f} through the router')
        print(f'  the bare relay adds {np.median(found[:, 1] - found[:, 0]):.2f} ms, the router '
              f'{added:.2f} ms; at most {TARGET_P50_MS:g}: '
              f'{"met" if added <= TARGET_P50_MS else "MISSED"}')


if __name__ == '__main__':
    main()
