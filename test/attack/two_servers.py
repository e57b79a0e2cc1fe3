"""
Two servers on one PostgreSQL that are killed and paused at random instants, and their stations.

    python test/attack/two_servers.py --faults 100

Every call of a station goes to either server, and to the other one when it is not answered; some
go to both at once. The history of all calls, with what the database has at the end, must be
explained by one order (history.py): one pair for a request, no acknowledged verdict lost, names
only of sessions that count, none refused for good that counts later, a log that only grows.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent), str(HERE.parent / 'server')]
sys.path[:0] = [path for path in PATHS if path not in sys.path]

from arena_setting import NotingArena, episode, recorded  # noqa: E402
from history import NO_ANSWER, REFUSED, TAKEN, WAITS, History  # noqa: E402
from kills import Victim, check_once, fill, forks, free_port  # noqa: E402
from postgres import postgres  # noqa: E402
from rollout_bags import read_here  # noqa: E402
from tally import Tally, table  # noqa: E402
from victims import fine, policy, server, server_config  # noqa: E402

from arena_robot.core.clock import SystemClock  # noqa: E402
from arena_robot.core.episode import Preference, Slot  # noqa: E402
from arena_robot.core.errors import (  # noqa: E402
    Conflict,
    NotRevealed,
    PolicyError,
    ServerUnavailable,
)
from arena_robot.core.pair import commitment  # noqa: E402
from arena_robot.server.app import ArenaServer  # noqa: E402
from arena_robot.server.client import (  # noqa: E402
    Calls,
    ServerAddress,
    TokensInMemory,
)
from arena_robot.server.proto import arena_server_pb2 as pb  # noqa: E402
from arena_robot.server.store.schema import sessions  # noqa: E402
from arena_robot.server.transparency.keys import read_receipt  # noqa: E402
from arena_robot.server.transparency.merkle import MerkleTree, leaf_hash  # noqa: E402
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation  # noqa: E402

BORDER = 'kills and pauses of two servers'
NAMES = ('crimson-7b', 'azure-fast', 'viridian')
STATIONS = 2
# The longest pause is longer than the database lets a transaction stand idle.
PAUSES_S, LONGEST_S, CALL_S, STUCK_S = (0.3, 1.0, 3.0), 12.0, 2.5, 90.0
OTHER = dataclasses.replace(VERDICT, preference=Preference.B)


class Station(threading.Thread):
    """A station that calls either server, and writes down what it asked and was answered."""

    def __init__(self, targets: list[str], tokens: tuple[str, str], folder: Path,
                 history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self._history, self._folder, self._evaluator = history, folder, tokens[1]
        self._rng, self._slots = random.Random(seed), TokensInMemory()
        addresses = [ServerAddress(target, tokens[0], timeout_s=CALL_S) for target in targets]
        self._arenas = [NotingArena(address, SystemClock(), tokens=self._slots)
                        for address in addresses]
        self._calls = [Calls(address) for address in addresses]
        self.ending = threading.Event()
        self.whole: set[str] = set()
        self.commitments: dict[str, str] = {}
        self.heads: dict[int, str] = {}
        self.failure: Exception | None = None

    def run(self) -> None:
        """Run sessions until told to end."""
        try:
            while not self.ending.is_set():
                self._session()
        except Exception as error:
            self.failure = error
        for connection in (*self._arenas, *self._calls):
            connection.close()

    def _asked(self, subject: str, name: str, asked: Any, work: Callable[[int], Any],
               at: int) -> Any:
        """Return the answer to one call at a server."""
        begin_s, answer = time.monotonic(), NO_ANSWER
        with contextlib.suppress(ServerUnavailable, PolicyError):
            answer = work(at)
        if subject:
            self._history.add(subject, name, asked, answer, begin_s)
        return answer

    def _until_answered(self, subject: str, name: str, asked: Any,
                        work: Callable[[int], Any]) -> Any:
        """Repeat a call, at the other server each time, until it is answered."""
        at, end_s = self._rng.randrange(2), time.monotonic() + STUCK_S
        while (answer := self._asked(subject, name, asked, work, at)) is NO_ANSWER:
            if time.monotonic() > end_s:
                raise TimeoutError(f'{name} of {subject} is not answered for {STUCK_S:.0f} s')
            at = 1 - at
            time.sleep(0.05)    # a server that is not there refuses at once
        return answer

    def _at_both(self, subject: str, name: str, works: list[tuple[Any, Callable[[int], Any]]]
                 ) -> None:
        threads = [threading.Thread(target=self._asked, args=(subject, name, asked, work, at))
                   for at, (asked, work) in enumerate(works)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _session(self) -> None:
        request = pb.AssignRequest(request=uuid.uuid4().hex, evaluator='ada', prompt=PROMPT,
                                   evaluator_token=self._evaluator)

        def draw(at: int) -> tuple[str, ...]:
            reply = self._calls[at]('Assign', request)
            return reply.session_id, reply.commitment, reply.token_a, reply.token_b
        if self._rng.random() < 0.3:
            self._at_both(request.request, 'draw', [('', draw), ('', draw)])
        name, sealed, *tokens = self._until_answered(request.request, 'draw', '', draw)
        self.commitments[name] = sealed
        self._slots.keep(name, dict(zip('AB', tokens, strict=True)))
        slots = [Slot.A] if self._rng.random() < 0.1 else list(Slot)
        for slot in slots:
            self._roll(name, slot)
        if len(slots) == len(Slot):
            self.whole.add(name)
        self._judge(name)
        # What a server that is down noted of the rollouts comes with its next start.
        end_s = time.monotonic() + (STUCK_S if name in self.whole else 0.0)
        while self._until_answered(name, 'reveal', '', lambda at: self._reveal(name, at)) == WAITS:
            if time.monotonic() > end_s:
                if name in self.whole:
                    raise TimeoutError(f'session {name} does not count after {STUCK_S:.0f} s')
                return
            time.sleep(0.1)

    def _roll(self, name: str, slot: Slot) -> None:
        for step in (0, 8):
            seen = dataclasses.replace(observation(), step=step)
            self._until_answered('', 'infer', '', lambda at, seen=seen: self._arenas[at].policy(
                name, slot).infer(seen, 'e'))
        folder = recorded(self._folder / name / slot.value, name, slot)
        self._until_answered('', 'upload', '', lambda at: self._arenas[at].upload(
            name, episode(name, slot), folder) or TAKEN)

    def _judge(self, name: str) -> None:
        def judging(verdict: Any) -> Callable[[int], str]:
            def judge(at: int) -> str:
                try:
                    return TAKEN if self._arenas[at].feedback(name, verdict) else 'no promise'
                except Conflict:
                    return REFUSED
            return judge
        if self._rng.random() < 0.3:
            self._at_both(name, 'judge', [(verdict, judging(verdict))
                                          for verdict in (VERDICT, OTHER)])
        self._until_answered(name, 'judge', VERDICT, judging(VERDICT))

    def _reveal(self, name: str, at: int) -> Any:
        begin_s = time.monotonic()
        try:
            reply = self._calls[at]('Reveal', pb.SessionRequest(session_id=name))
        except NotRevealed:
            return REFUSED
        except Conflict:
            return WAITS
        if reply.receipt:
            head = read_receipt(json.loads(reply.receipt)).head
            self._history.add('log', 'log', '', head.size, begin_s)
            self.heads[head.size] = head.root
        return reply.nonce, reply.policy_a, reply.policy_b


class Arena:
    """Two servers, policies and stations of a campaign, in one folder and one database."""

    def __init__(self, folder: Path, url: str, seed: int) -> None:
        self.folder, self.url, self.history = folder, url, History()
        ports = [free_port() for _ in range(2 + len(NAMES))]
        with self.server() as made:
            tokens = fill(made, {name: f'grpc://127.0.0.1:{port}' for name, port in zip(
                NAMES, ports[2:], strict=True)}, STATIONS)
        context, log = forks(), folder / 'log'

        def run(target: Callable[..., None], *words: Any) -> Any:
            process = context.Process(target=target, args=(log, *words), daemon=True)
            process.start()
            return process
        self.policies = [Victim(f'policy {port}', lambda port=port: run(policy, port))
                         for port in ports[2:]]
        self.servers = [Victim(f'server {k}', lambda k=k: run(
            server, folder / 'data', ports[k], 0, url)) for k in range(2)]
        self.stations = [Station([f'127.0.0.1:{port}' for port in ports[:2]],
                                 (tokens[1 + k], tokens[0]), folder / f'station{k}', self.history,
                                 seed + k) for k in range(STATIONS)]

    def server(self) -> ArenaServer:
        """Return a server on the database and the files of the two."""
        return ArenaServer(server_config(self.folder / 'data', 0, self.url), SystemClock(), fine,
                           fine, read_recordings=read_here)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run everything; the stations finish what they have begun."""
        for victim in (*self.policies, *self.servers):
            victim.start()
        for station in self.stations:
            station.start()
        try:
            yield
            for station in self.stations:
                station.ending.set()
            for station in self.stations:
                station.join(2 * STUCK_S)
        finally:
            for victim in (*self.policies, *self.servers):
                victim.process.kill()
                victim.process.join(10.0)


def two_servers(folder: Path, url: str, count: int, seed: int = 1) -> Tally:
    """Return what ``count`` kills and pauses at random instants did."""
    tally, rng = Tally(BORDER), random.Random(seed)
    arena = Arena(folder, url, seed)
    pauses = 0
    with arena.running():
        while tally.tried < count and any(station.is_alive() for station in arena.stations):
            time.sleep(rng.uniform(0.1, 1.5))
            tally.tried += 1
            victim = rng.choice(arena.servers)
            if victim.died():
                tally.note('crashes', f'{victim.name}: {victim.process.exitcode}')
                victim.start()
            elif rng.random() < 0.4:
                victim.kill()
            else:
                pauses += 1
                os.kill(victim.process.pid, signal.SIGSTOP)
                time.sleep(LONGEST_S if pauses % 12 == 0 else rng.choice(PAUSES_S))
                os.kill(victim.process.pid, signal.SIGCONT)
    check(arena, tally)
    tally.remarks.append(f'{len(arena.history.calls)} calls; {pauses} pauses, kills: '
                         + ', '.join(f'{victim.name} {victim.kills}' for victim in arena.servers))
    return tally


def check(arena: Arena, tally: Tally) -> None:
    """Compare the history with what the database has; note what no order explains."""
    for station in arena.stations:
        if station.failure or station.is_alive():
            tally.note('stuck', station.failure or 'a station does not end')
    whole = set().union(*(station.whole for station in arena.stations))
    commitments = {name: sealed for station in arena.stations
                   for name, sealed in station.commitments.items()}
    now_s, history = time.monotonic(), arena.history
    with arena.server() as made:
        for name in commitments:
            session = made.sessions.get(name)
            counts = session.accepted_ns is not None
            history.add(name, 'look', '', (
                session.verdict if session.ended_ns else None, counts), now_s)
            if counts and name not in whole:
                tally.note('wrong', f'{name} counts, and B did not run')
        made.ledger.check()
        check_once(made, tally)
        entries = made.log.bundle()['entries']
        drawn = sum(made.database.count_by(sessions.c.state).values())
    tree = MerkleTree([leaf_hash(entry.encode()) for entry in entries])
    for size, root in {item for station in arena.stations for item in station.heads.items()}:
        if tree.root(size).hex() != root:
            tally.note('wrong', f'the log of {size} entries was another')
    for call in history.calls:
        if call.name == 'reveal' and isinstance(call.answer, tuple) and (
                commitment(*call.answer) != commitments[call.subject]):
            tally.note('wrong', f'{call.subject}: the names do not fit the commitment')
        if call.name == 'reveal' and call.answer == REFUSED and call.subject in whole:
            tally.note('losses', f'{call.subject} is whole, and its names are refused for good')
    for calls in history.unexplained():
        tally.note('losses', calls)
    if drawn != len(commitments):
        tally.note('wrong', f'{drawn} sessions for {len(commitments)} requests')
    tally.remarks.append(f'{len(commitments)} sessions')


def main() -> int:
    """Kill and pause, and print the table."""
    parser = argparse.ArgumentParser(description='kill and pause two servers on one PostgreSQL')
    parser.add_argument('--faults', type=int, default=100)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--json', action='store_true', help='the tally as JSON, on one line')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, postgres(durable=False) as url:
        tally = two_servers(Path(folder), url, args.faults, args.seed)
    sys.stdout.write((json.dumps(dataclasses.asdict(tally)) if args.json else table([tally]))
                     + '\n')
    return 1 if tally.bad else 0


if __name__ == '__main__':
    sys.exit(main())
