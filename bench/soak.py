"""
A server and stations over many sessions in hurried time: does anything grow?

    python bench/soak.py                 10 minutes, 4 stations
    python bench/soak.py --minutes 60 --stations 8

Stations without a robot run one session after another as fast as they can, and after each their
clocks go on by 48 minutes: 30 sessions a day and station, so ten minutes are some days. Every
few seconds memory, descriptors, threads, tables and queues of the process are noted: server,
policies and stations are all in it.
Memory that is freed and that the C library keeps for later is given back before memory is noted
(``--keep-free``: it is not). The first third is left out: caches fill. The slope of the rest
is per 1000 sessions; the exit code is 1 when one is above its limit and the growth is more than
chance. Tables must grow with the sessions, and with nothing else.
"""

import argparse
import ctypes
import os
import resource
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'test' / part)
                for part in ('attack', 'session')]

import numpy as np  # noqa: E402
import sqlalchemy as sa  # noqa: E402
from kills import NAMES, fill  # noqa: E402
from victims import BusyStation, fine, server_config  # noqa: E402

from arena_robot.core.clock import SystemClock  # noqa: E402
from arena_robot.core.errors import ArenaError  # noqa: E402
from arena_robot.policy.examples.simple import Echo  # noqa: E402
from arena_robot.policy.grpc.server import GrpcPolicyServer  # noqa: E402
from arena_robot.server.app import ArenaServer  # noqa: E402
from arena_robot.server.client import RemoteArena, ServerAddress  # noqa: E402
from arena_robot.session.arena.sealed import SealedTokens  # noqa: E402

SESSIONS_PER_DAY = 30
BETWEEN_NS = 24 * 3600 * 10**9 // SESSIONS_PER_DAY
PERIOD_S = 5.0
# Growth per 1000 sessions that is accepted: memory in MB, the others in number.
LIMITS = {'RSS (MB)': 12.0, 'descriptors': 2.0, 'threads': 2.0, 'rollouts in memory': 2.0,
          'spool files': 2.0, 'sessions running': 2.0}
CHANCE = {'RSS (MB)': 15.0}
CHANCE_OF_NUMBERS = 8.0
PAGE_MB = resource.getpagesize() / 1e6


class Quiet:
    """Takes what a station tells, and counts its sessions."""

    def __init__(self) -> None:
        self.sessions = 0

    def send(self, told: tuple[str, str, object]) -> None:
        """Count a session that was submitted."""
        self.sessions += told[1] == 'submitted'


@dataclass
class Soak:
    """The server under load, and rows of numbers."""

    server: ArenaServer
    folder: Path
    rows: list[dict[str, float]] = field(default_factory=list)
    keep_free: bool = False

    def look(self) -> None:
        """Note one row."""
        if not self.keep_free:
            ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path('/proc/self/statm').read_text().split()[1])
        with self.server.database.read() as connection:
            counts = {name: float(connection.execute(sa.text(
                f'SELECT count(*) FROM {name}')).scalar_one())
                for name in ('sessions', 'episodes', 'relayed', 'files', 'entries', 'audit',
                             'log')}
            running = float(connection.execute(sa.text(
                "SELECT count(*) FROM sessions WHERE state = 'running'")).scalar_one())
        self.rows.append({
            'RSS (MB)': pages * PAGE_MB, 'descriptors': float(len(os.listdir('/proc/self/fd'))),
            'threads': float(threading.active_count()), 'sessions running': running,
            'rollouts in memory': float(self.server.record.held()),
            'spool files': float(sum(1 for _ in (self.folder / 'spool').glob('*'))),
            **{f'table {name}': value for name, value in counts.items()}})

    def slopes(self) -> dict[str, float]:
        """Return the growth of each number per 1000 sessions, without the first third."""
        rows = self.rows[len(self.rows) // 3:]
        done = np.array([row['table sessions'] for row in rows]) / 1000.0
        return {name: float(np.polyfit(done, [row[name] for row in rows], 1)[0])
                for name in rows[0]}


def station(soak: Soak, tokens: tuple[str, str], folder: Path, seed: int,
            over: threading.Event) -> None:
    """Run sessions until ``over``."""
    folder.mkdir()
    arena = RemoteArena(ServerAddress(f'127.0.0.1:{soak.server.port}', tokens[0]), SystemClock(),
                        1e9, SealedTokens(folder / 'arena'))
    arena.sign_in(tokens[1])
    quiet = Quiet()
    busy = BusyStation(quiet, arena, folder, seed)
    busy.conductor.open()
    done = 0
    while not over.is_set():
        try:
            busy.turn()
            if busy.conductor.record.state.is_final and quiet.sessions > done:
                done = quiet.sessions
                busy.clock.skipped_ns += BETWEEN_NS
        except ArenaError:
            time.sleep(0.05)
    busy.conductor.close()
    arena.close()


def run(soak: Soak, tokens: list[str], stations: int, minutes: float, folder: Path) -> None:
    """Run the stations and note the numbers."""
    over = threading.Event()
    threads = [threading.Thread(target=station, args=(
        soak, (tokens[1 + k], tokens[0]), folder / f'station{k}', k, over))
        for k in range(stations)]
    for thread in threads:
        thread.start()
    end_s = time.monotonic() + 60.0 * minutes
    try:
        while time.monotonic() < end_s:
            time.sleep(PERIOD_S)
            soak.look()
    finally:
        over.set()
        for thread in threads:
            thread.join(30.0)


def report(soak: Soak, minutes: float, stations: int) -> int:
    """Print the table; return 1 when something grew."""
    slopes, last = soak.slopes(), soak.rows[-1]
    span = (last['table sessions'] - soak.rows[len(soak.rows) // 3]['table sessions']) / 1000.0
    days = last['table sessions'] / SESSIONS_PER_DAY / stations
    print(f"{last['table sessions']:.0f} sessions in {minutes:g} minutes: {days:.1f} days of "
          f'{stations} stations with {SESSIONS_PER_DAY} sessions a day')
    print(f"{'':22}{'first':>10}{'last':>10}{'per 1000 sessions':>20}{'limit':>8}")
    bad = 0
    for name, slope in slopes.items():
        limit = LIMITS.get(name)
        above = (limit is not None and slope > limit
                 and slope * span > CHANCE.get(name, CHANCE_OF_NUMBERS))
        bad += above
        print(f'{name:22}{soak.rows[0][name]:10.1f}{last[name]:10.1f}{slope:20.2f}'
              f"{'' if limit is None else limit:>8}{'  grows' if above else ''}")
    print(f"soak: {'nothing grows' if not bad else f'{bad} grow'} beyond the sessions themselves")
    return 1 if bad else 0


def main() -> int:
    """Run the soak."""
    parser = argparse.ArgumentParser(description='does anything grow?')
    parser.add_argument('--minutes', type=float, default=10.0)
    parser.add_argument('--stations', type=int, default=4)
    parser.add_argument('--keep-free', action='store_true', help='give no freed memory back')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with GrpcPolicyServer(Echo()) as one, GrpcPolicyServer(Echo()) as two, \
                GrpcPolicyServer(Echo()) as three, ArenaServer(
                    server_config(folder / 'server', 0), SystemClock(), fine, fine) as server:
            addresses = [policy.address for policy in (one, two, three)]
            tokens = fill(server, dict(zip(NAMES, addresses, strict=True)), args.stations)
            soak = Soak(server, folder / 'server', keep_free=args.keep_free)
            run(soak, tokens, args.stations, args.minutes, folder)
            return report(soak, args.minutes, args.stations)


if __name__ == '__main__':
    sys.exit(main())
