"""
The campaign of `make attack`, on this machine only: odd inputs, damaged bags, shams, kills,
pauses, full disks, and the attacks that a test holds.

    python test/attack/campaign.py                    all of it, up to 40 minutes
    python test/attack/campaign.py --only B C         results, and the server, that are attacked
    python test/attack/campaign.py --inputs 500 --bags 20 --kills 20 --faults 0 --node-kills 0

Each part says on standard error when it begins, and its result. The last line of the table sums
it up; the exit code is 1 when anything went wrong.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bags import damaged_bags, growing_bags, recovery_speed
from borders import all_borders
from held import ATTACKS, held
from server_calls import server_calls
from shams import shams
from tally import Tally, table, timed

HERE = Path(__file__).resolve().parent
# Of a part that runs in a process of its own.
MOST_S = 900.0
Part = tuple[str, Callable[[], list[Tally]]]


def alone(script: str, *words: str) -> Tally:
    """Return the tally of a script that runs in a process of its own; its failure is a crash."""
    def run() -> Tally:
        done = subprocess.run([sys.executable, '-W', 'ignore', HERE / script, '--json', *words],
                              capture_output=True, text=True, timeout=MOST_S, check=False)
        return Tally(**json.loads(done.stdout.splitlines()[-1]))

    try:
        return timed(run)
    except (subprocess.TimeoutExpired, ValueError, IndexError, TypeError) as error:
        tally = Tally(f'{script} {" ".join(words)}')
        tally.note('crashes', error)
        return tally


def parts(args: argparse.Namespace, folder: Path) -> Iterator[Part]:
    """Yield the parts of the campaign by name, each a function that returns its tallies."""
    letters, seed = args.only or ['B', 'C'], str(args.seed)
    if not args.only:
        yield 'inputs of every border', lambda: all_borders(args.inputs, args.seed)
    if 'B' in letters:
        yield 'shams', lambda: [timed(lambda: shams(folder / 'shams', args.shams, args.seed))]
    if 'C' in letters:
        yield 'calls of a server', lambda: server_calls(folder / 'server', args.inputs, args.seed)
    for row in ATTACKS:
        if row[0] in letters:
            yield row, lambda row=row: [held(row)]
    if 'C' in letters and args.faults:
        yield 'two servers', lambda: [alone('two_servers.py', '--faults', str(args.faults),
                                            '--seed', seed)]
    if not args.only:
        yield from damages(args, folder)


def damages(args: argparse.Namespace, folder: Path) -> Iterator[Part]:
    """Yield the parts with damaged bags, kills and full disks."""
    seed = str(args.seed)

    def bags() -> list[Tally]:
        tally = timed(lambda: damaged_bags(folder / 'damaged', args.bags, args.seed))
        if args.megabytes:
            tally.remarks.append(recovery_speed(folder / 'large', args.megabytes))
        return [tally]
    yield 'damaged bags', bags
    yield 'growing bags', lambda: [timed(lambda: growing_bags(
        folder / 'growing', args.bags // 2, args.seed))]
    if args.kills:
        yield 'kills', lambda: [alone('kills.py', '--kills', str(args.kills), '--seed', seed)]
        yield 'full disks', lambda: [alone('kills.py', '--kills', str(args.kills // 4), '--seed',
                                           seed, '--full-disks')]
    if args.node_kills:
        yield 'kills of nodes', lambda: [alone('node_kills.py', '--kills', str(args.node_kills),
                                               '--seed', seed)]


def reported(name: str, part: Callable[[], list[Tally]]) -> list[Tally]:
    """Return the tallies of a part; lines on standard error say that it begins, and its result."""
    sys.stderr.write(f'{name} ...\n')
    begin_s = time.monotonic()
    tallies = part()
    sys.stderr.write(f'{name}: {time.monotonic() - begin_s:.0f} s, '
                     f'{sum(tally.tried for tally in tallies)} tried, '
                     f'{sum(tally.bad for tally in tallies)} wrong\n')
    return tallies


def main() -> int:
    """Run the parts and print their table."""
    parser = argparse.ArgumentParser(description='attack every border on this machine')
    parser.add_argument('--inputs', type=int, default=10_000, help='inputs per border')
    parser.add_argument('--shams', type=int, default=60, help='verdicts that were made up')
    parser.add_argument('--bags', type=int, default=240, help='damaged bags')
    parser.add_argument('--megabytes', type=int, default=300, help='size of a large damaged bag')
    parser.add_argument('--kills', type=int, default=250,
                        help='kills of server, policies and stations')
    parser.add_argument('--faults', type=int, default=100,
                        help='kills and pauses of two servers on one PostgreSQL')
    parser.add_argument('--node-kills', type=int, default=60,
                        help="kills of a simulated station's nodes, in real time")
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', nargs='+', choices=['B', 'C'], default=[],
                        help='B: results that are shammed; C: a server that is leaned on')
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        tallies = [tally for name, part in parts(args, Path(folder))
                   for tally in reported(name, part)]
    sys.stdout.write(table(tallies) + f' in {time.monotonic() - begin_s:.0f} s\n')
    return 1 if any(t.bad for t in tallies) else 0


if __name__ == '__main__':
    sys.exit(main())
