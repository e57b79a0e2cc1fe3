"""What relays add to calls of a policy: those of the servers, and bare ones beside them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from server_site import LIMITS, line

RATE_HZ = 2.0    # of each station


def percentiles(seconds):
    return tuple(1e3 * float(np.percentile(seconds, q)) for q in (50, 99))


def bare_relays(args, stack, addresses, pids):
    """Start as many bare relays as servers; yield where each listens."""
    for number in range(args.servers):
        policy = list(addresses.values())[number % 2].split('://')[1]
        process = subprocess.Popen([sys.executable, Path(__file__).with_name('bare_relay.py'),
                                    policy], stdout=subprocess.PIPE, text=True)
        stack.callback(process.terminate)
        pids.setdefault('bare relays', []).append(process.pid)
        yield f'127.0.0.1:{process.stdout.readline().strip()}'


def overhead(found, stations, size):
    """
    Print p50, p99, and p99 without first queries of (round, way), and what the relay adds.

    Of p50 it is the median round; of p99 the worst, which has the first queries.
    """
    print(f'inference at {RATE_HZ:g} Hz x {stations} stations, {size / 1e3:.0f} kB a request')
    for k, (q, chosen) in enumerate(((50, np.median), (99, np.max))):
        direct, _, relayed = chosen(found[..., k], axis=0)
        line(f'direct p{q}', direct, 'ms')
        line(f'relayed p{q}', relayed, 'ms')
        for way, what, limit in ((1, 'bare relay adds', None), (
                2, 'relay overhead', LIMITS[f'relay overhead p{q}'])):
            added = found[:, way, k] - found[:, 0, k]
            line(f'{what} p{q}', chosen(added), 'ms', limit)
            print('  in each round ' + ', '.join(f'{one:.2f}' for one in added))
    # A first query finds its session in the database, and counts the rollout.
    line('the same without first queries', np.max(found[:, 2, 2] - found[:, 0, 2]), 'ms')
