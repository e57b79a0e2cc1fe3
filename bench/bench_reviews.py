"""
Ten policies under load, one killed, one paused, one slowed: what that costs the other seven.

Ten policy servers (seven gRPC, three openpi) are processes of their own. An arena server in this
process probes and reviews them and relays queries of ten stations, one after the other for each
slot, at --rate. After an undisturbed phase the first policy is killed, the second stopped
(SIGSTOP) and the third answers 8 s late; all three are submitted for a review too. In both phases
three new policies are submitted. Printed per phase, of the seven others alone, with their budgets:
queries through the relay, times between two probes of a policy, reviews of new policies; and how
soon the dead one was seen. Ends with 1 when a budget was missed.
"""

import argparse
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.pair import StationInfo
from arena_robot.core.process import Process, wait_until
from arena_robot.demo.arena import arena_command
from arena_robot.demo.run import ports
from arena_robot.policy.base import PolicySpec
from arena_robot.policy.resizing import shown
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import RemoteArena, ServerAddress
from arena_robot.server.config import Approval, ServerConfig
from arena_robot.server.pool import policy_pool as checks
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import PROMPT, observation

HERE = Path(__file__).parent
POLICIES, STATIONS, NEW = 10, 10, 3
KILLED, PAUSED, SLOWED = 'p0', 'p1', 'p2'
PERIOD_S, LATE_S, REVIEW_S = 2.0, 8.0, checks.BUDGET_S
QUERY_S, CONNECT_S = 10.0, 3.0    # the deadline of a query, that of a probe's connection
missed = []


class Bench:
    """The server, its policies and the load; what was measured, by phase."""

    def __init__(self, folder, rate_hz):
        self.folder, self.period_s = folder, 1.0 / rate_hz
        self.probed, self.queries = defaultdict(list), defaultdict(list)
        self.failed = defaultdict(list)
        self.phase, self.over = 'warm', threading.Event()
        self.names = {}

    def start_policies(self):
        """Start ten servers; keep their processes and addresses."""
        self.processes, self.addresses = {}, {}
        for k, port in enumerate(ports(None, POLICIES).policies):
            name, protocol = f'p{k}', 'openpi' if k % 4 == 3 else 'grpc'
            self.addresses[name] = f'{protocol}://127.0.0.1:{port}'
            self.names[port] = name
            self.processes[name] = Process(name, arena_command(
                'policy', 'serve', 'delayed_policy:Delayed', '--protocol', protocol, '--port',
                port, '--kwargs', f'file={self.folder / name}.delay', f'number={k}'),
                self.folder / f'{name}.log', {'PYTHONPATH': f'{HERE}:{HERE.parent}',
                                              'OPENBLAS_NUM_THREADS': '1'})
            self.processes[name].start()
        for process in self.processes.values():
            process.wait_for('serving', 120.0)

    def start_server(self):
        """Start the arena with the ten in its pool."""
        config = ServerConfig(
            data=self.folder / 'server', port=0, site_port=0, seed=1, max_pace=0.0,
            probation_sessions=0, approve_policies=Approval.NONE,
            redraws_per_day=10_000, evaluator_sessions_per_day=10_000,
            station_sessions_per_day=10_000, conflicts=(), probe_period_s=PERIOD_S,
            evaluator_sign_in=False)
        self.server = ArenaServer(config, SystemClock(), checks.conformance, self._probe,
                                  checks.spec)
        self.server.open()
        self.owner = self.server.accounts.add_account('olga', 'lab', [Role.OWNER])
        self.server.accounts.add_account('ada', 'other lab', [Role.EVALUATOR])
        for name, address in self.addresses.items():
            record = self.server.policies.add(NewPolicy(name, address), self.owner.id,
                                              PolicyState.POOL)
            self.server.policies.set_health(record.id, True)

    def _probe(self, target):
        wrong = checks.probe(target)
        port = int(target.address.partition('?')[0].rpartition(':')[2])
        self.probed[self.names[port]].append((self.phase, time.monotonic()))
        return wrong

    def start_load(self):
        """Begin to query every slot of ten sessions; a thread for each."""
        info = StationInfo('bench', 'fr3')
        self.threads = []
        seen = shown(observation(), PolicySpec(image_size=(224, 224)))
        for k in range(STATIONS):
            station = self.server.accounts.add_station(Station(0, f's{k}', 'other lab', 'fr3'))
            arena = RemoteArena(ServerAddress(f'127.0.0.1:{self.server.port}',
                                              self.server.accounts.issue(station)), SystemClock())
            pair = arena.assign(info, 'ada', PROMPT)
            for slot in Slot:
                thread = threading.Thread(target=self._ask, daemon=True, args=(
                    arena.policy(pair.session_id, slot), f'{pair.session_id}-{slot}', seen))
                self.threads.append(thread)
                thread.start()

    def _ask(self, policy, episode, seen):
        name = f'p{100.0 * policy.infer(seen, episode).actions[0, -1]:.0f}'    # who answers
        while not self.over.wait(self.period_s):
            phase, began_s = self.phase, time.perf_counter()
            try:
                policy.infer(seen, episode)
                self.queries[phase, name].append(time.perf_counter() - began_s)
            except ArenaError as error:
                self.failed[phase, name].append(str(error))

    def submit(self, number, name):
        """Submit the address of a policy under a new name; return its record's name."""
        new = f'{self.phase}-{number}'
        self.server.pool.submit(self.owner, NewPolicy(new, self.addresses[name]))
        return new

    def run_phase(self, phase, seconds):
        """Let the load run and have new policies reviewed; return the seconds of the reviews."""
        self.phase = phase
        began_s, done = time.monotonic(), {}
        waiting = {self.submit(k, f'p{5 + k}') for k in range(NEW)}
        while waiting or time.monotonic() < began_s + seconds:
            for name in tuple(waiting):
                state = self.server.policies.get(name).state
                if state is not PolicyState.SUBMITTED:
                    done[name] = (time.monotonic() - began_s, state)
                    waiting.remove(name)
            if time.monotonic() > began_s + REVIEW_S:
                break
            time.sleep(0.1)
        for name, (_, state) in done.items():
            if state is PolicyState.SUSPENDED:
                missed.append(f'{name} was suspended: {self.server.policies.get(name).reason}')
        return [took_s for took_s, _ in done.values()] + [REVIEW_S] * len(waiting)

    def disturb(self):
        """Kill one, pause one, slow one, and have all three reviewed."""
        self.phase = 'ill'
        (self.folder / f'{SLOWED}.delay').write_text(str(LATE_S))
        os.kill(self.processes[PAUSED].pid, signal.SIGSTOP)
        self.processes[KILLED].kill()
        killed_s = time.monotonic()
        for number, name in enumerate((KILLED, PAUSED, SLOWED)):
            self.submit(f'submitted-{number}', name)
        wait_until(lambda: not self.server.policies.get(KILLED).healthy, 60.0)
        return time.monotonic() - killed_s

    def close(self):
        """End everything."""
        self.over.set()
        self.server.close()
        for name, process in self.processes.items():
            if name == PAUSED:
                os.kill(process.pid, signal.SIGCONT)
            process.kill()


def line(what, value, unit, limit):
    """Print a row and keep whether its budget was missed."""
    good = value <= limit
    print(f'  {what:<46} {value:9.2f} {unit:3} budget {limit:g}: {"met" if good else "MISSED"}',
          flush=True)
    if not good:
        missed.append(what)


def show(bench, phase, reviews):
    """Print what the seven others got in a phase."""
    others = [name for name in bench.addresses if name not in (KILLED, PAUSED, SLOWED)]
    spent = np.concatenate([bench.queries[phase, name] for name in others])
    failed = [why for name in others for why in bench.failed[phase, name]]
    gaps = [b - a for name in others
            for (_, a), (at, b) in zip(bench.probed[name], bench.probed[name][1:], strict=False)
            if at == phase]
    print(f'{phase}: {len(spent)} queries of {len(others)} policies, p50 '
          f'{1e3 * np.median(spent):.0f} ms, p99 {1e3 * np.percentile(spent, 99):.0f} ms')
    line('slowest query', float(spent.max()), 's', QUERY_S)
    line(f'failed queries {failed[:1]}'[:46], len(failed), '', 0)
    line('longest time between two probes of one', max(gaps), 's', 2 * PERIOD_S + CONNECT_S)
    line(f'slowest of {NEW} reviews', max(reviews), 's', REVIEW_S)
    return float(np.percentile(spent, 99)), max(reviews)


def main():
    """Run both phases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=30.0, help='of each phase at least')
    parser.add_argument('--rate', type=float, default=2.0, help='queries per second of a slot')
    args = parser.parse_args()
    logging.getLogger('arena_robot').setLevel(logging.CRITICAL)    # of the three that are ill
    folder = Path(tempfile.mkdtemp(prefix='arena-reviews-'))
    bench = Bench(folder, args.rate)
    bench.start_policies()
    bench.start_server()
    try:
        bench.start_load()
        time.sleep(3.0 * PERIOD_S)
        before = show(bench, 'well', bench.run_phase('well', args.seconds))
        seen_s = bench.disturb()
        after = show(bench, 'ill', bench.run_phase('ill', args.seconds))
        line('until the dead one was seen', seen_s, 's', 2 * PERIOD_S)
        print(f'  others while three are ill: p99 {1e3 * (after[0] - before[0]):+.0f} ms, slowest '
              f'review {after[1] - before[1]:+.1f} s')
    finally:
        bench.close()
    shutil.rmtree(folder, ignore_errors=True)
    print('; '.join(missed) or 'every budget met')
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
