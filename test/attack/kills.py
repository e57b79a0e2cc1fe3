"""
Kills at random instants: server, policies and stations over full sessions, hurried.

    python test/attack/kills.py --kills 200

Afterwards every entry that a station took must be in the server's database, every session must be
there once, with its files, its credit and one entry in the log, and nothing may wait.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATHS = [str(HERE), str(HERE.parent), str(HERE.parent / 'session'), str(ROOT)]
sys.path[:0] = [path for path in PATHS if path not in sys.path]

import sqlalchemy as sa  # noqa: E402
from http_server import free_port  # noqa: E402
from tally import Tally, table  # noqa: E402
from victims import fine, policy, server, server_config, station  # noqa: E402

from arena_robot.core.clock import SystemClock  # noqa: E402
from arena_robot.records.session_file import read_session  # noqa: E402
from arena_robot.server.app import ArenaServer  # noqa: E402
from arena_robot.server.base import PolicyState, Role, Station  # noqa: E402
from arena_robot.server.files import FileId  # noqa: E402
from arena_robot.server.store.policies import NewPolicy  # noqa: E402

BORDER = 'kills of server, policy, station'
FULL = 'the same on full disks'
NAMES = ('crimson-7b', 'azure-fast', 'viridian')
STATIONS = 2
END_S = 60.0
# Around the sizes of the server's database and of a session's journal.
SERVER_BYTES, STATION_BYTES = (300_000, 900_000), (300, 6000)


def forks(*modules: str) -> multiprocessing.context.ForkServerContext:
    """Return a fork server that has imported the victims and ``modules``."""
    os.environ['PYTHONPATH'] = os.pathsep.join(PATHS)
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload(['victims', *modules])
    return context


def fill(made: ArenaServer, addresses: dict[str, str], stations: int) -> list[str]:
    """Add people, policies and stations; return the tokens of the evaluator and the stations."""
    owner = made.accounts.add_account('olga', 'upenn', [Role.OWNER])
    tokens = [made.accounts.issue(made.accounts.add_account('ada', 'nyu', [Role.EVALUATOR]))]
    for k in range(stations):
        tokens.append(made.accounts.issue(made.accounts.add_station(
            Station(0, f'bench-{k}', 'nyu', 'fr3'))))
    for name, address in addresses.items():
        record = made.policies.add(NewPolicy(name, address), owner.id, PolicyState.POOL)
        made.policies.set_health(record.id, True)
    return tokens


class Victim:
    """A process that is started again after each kill."""

    def __init__(self, name: str, start: Callable[[], Any]) -> None:
        self.name, self._start = name, start
        self.process: Any = None
        self.kills = 0

    def start(self) -> None:
        """Start it."""
        self.process = self._start()

    def kill(self) -> None:
        """Kill it, as the kernel does when the memory is full, and start it again."""
        self.process.kill()
        self.process.join(10.0)
        self.kills += 1
        self.start()

    def died(self) -> bool:
        """Whether it ended by itself."""
        return self.process.exitcode not in (None, 0)


class Arena:
    """Server, policies and stations of a campaign, in one folder."""

    def __init__(self, folder: Path, seed: int, full_disks: bool = False) -> None:
        self.folder, self.seed = folder, seed
        self.full_disks, self._rng = full_disks, random.Random(seed)
        self.context = forks()
        self.port, *self.policy_ports = (free_port() for _ in range(1 + len(NAMES)))
        self.told: list[tuple[str, str, Any]] = []
        self._pipes: list[Connection] = []
        self.tokens = self._fill()
        self.victims = [
            Victim('server', lambda: self._run(
                server, folder / 'server', self.port, self._most(*SERVER_BYTES))),
            *(Victim(f'policy {port}', lambda port=port: self._run(policy, port))
              for port in self.policy_ports),
            *(Victim(f'station {k}', lambda k=k: self._station(k)) for k in range(STATIONS))]

    def _fill(self) -> list[str]:
        addresses = {name: f'grpc://127.0.0.1:{port}'
                     for name, port in zip(NAMES, self.policy_ports, strict=True)}
        with ArenaServer(server_config(self.folder / 'server', 0), SystemClock(), fine,
                         fine) as made:
            return fill(made, addresses, STATIONS)

    def _most(self, least: int, most: int) -> int:
        """Return the largest size of a file for a program that is started now; 0: any."""
        full = self.full_disks and self._rng.random() < 0.6
        return self._rng.randint(least, most) if full else 0

    def _run(self, target: Callable[..., None], *args: Any) -> Any:
        process = self.context.Process(target=target, args=(self.folder / 'log', *args),
                                       daemon=True)
        process.start()
        return process

    def _station(self, k: int) -> Any:
        hear, say = self.context.Pipe(duplex=False)
        folder = self.folder / f'station{k}'
        folder.mkdir(exist_ok=True)
        self.seed += 1
        process = self._run(station, say, f'127.0.0.1:{self.port}',
                            (self.tokens[1 + k], self.tokens[0]), folder, self.seed,
                            self._most(*STATION_BYTES))
        say.close()
        self._pipes.append(hear)
        return process

    def listen(self) -> None:
        """Take what the stations have told."""
        for pipe in list(self._pipes):
            try:
                while pipe.poll():
                    self.told.append(pipe.recv())
            except (EOFError, OSError):
                pipe.close()
                self._pipes.remove(pipe)

    def finish(self) -> bool:
        """Let the stations finish what they have begun; False when that does not end."""
        if self.full_disks:
            self.full_disks = False
            for victim in self.victims:
                victim.kill()
        for k in range(STATIONS):
            (self.folder / f'station{k}' / 'finish').touch()
        end_s = time.monotonic() + END_S
        stations = [victim.process for victim in self.victims if victim.name.startswith('station')]
        while any(process.exitcode is None for process in stations) and time.monotonic() < end_s:
            self.listen()
            time.sleep(0.05)
        self.listen()
        return all(process.exitcode == 0 for process in stations)

    def close(self) -> None:
        """Kill everything."""
        for victim in self.victims:
            victim.process.kill()
            victim.process.join(10.0)


def kills(folder: Path, count: int, seed: int = 1, full_disks: bool = False) -> Tally:
    """
    Return what ``count`` kills at random instants did.

    With ``full_disks`` six in ten of the servers and stations cannot let a file grow beyond a
    random size, until they are killed.
    """
    tally, rng = Tally(FULL if full_disks else BORDER), random.Random(seed)
    arena = Arena(folder, seed, full_disks)
    for victim in arena.victims:
        victim.start()
    try:
        while tally.tried < count:
            time.sleep(rng.uniform(0.02, 0.7))
            arena.listen()
            for victim in arena.victims:
                if victim.died():
                    if not full_disks:    # nothing can start without a disk
                        tally.note('crashes', f'{victim.name}: {victim.process.exitcode}')
                    victim.start()
            for victim in rng.sample(arena.victims, rng.choice([1, 1, 1, 2])):
                victim.kill()
                tally.tried += 1
        if not arena.finish():
            tally.note('stuck', [f'{v.name}: {v.process.exitcode}' for v in arena.victims])
    finally:
        arena.close()
    check(arena, tally)
    if not full_disks:
        log = (folder / 'log').read_text(errors='replace')
        for part in log.split('Traceback')[1:]:
            tally.note('crashes', part[-600:])
    return tally


def check(arena: Arena, tally: Tally) -> None:
    """Compare what the stations told with what they and the server have kept."""
    kept = {path.parent.name: read_session(path.parent)
            for path in arena.folder.glob('station*/sessions/*/session.json')}
    said: dict[str, dict[str, Any]] = {}
    for session_id, key, value in arena.told:
        said.setdefault(session_id, {})[key] = value
    with ArenaServer(server_config(arena.folder / 'server', 0), SystemClock(), fine, fine) as made:
        made.verdicts.cancel_overdue(-1.0)
        for session_id, words in said.items():
            if session_id not in kept:
                tally.note('losses', f'{session_id} is not at its station: {words}')
                continue
            check_session(arena, made, tally, session_id, words, kept[session_id])
        made.ledger.check()
        check_once(made, tally)
    done = sum(session.state == 'done' for session in kept.values())
    tally.remarks.append(f'{done} sessions done, {len(arena.told)} entries told; kills: '
                         + ', '.join(f'{v.name} {v.kills}' for v in arena.victims))


def check_session(arena: Arena, made: ArenaServer, tally: Tally, session_id: str,
                  words: dict[str, Any], kept: Any) -> None:
    """Note what is lost of one session, at its station or at the server."""
    mine = {'prompt': kept.prompt, 'progress_a': kept.verdict.progress_a,
            'progress_b': kept.verdict.progress_b, 'explanation': kept.verdict.explanation}
    if (lost := {k: v for k, v in words.items() if k in mine and mine[k] != v}) and (
            kept.state == 'done'):
        tally.note('losses', f'{session_id} at its station: {lost}, kept is {mine}')
    if 'submitted' not in words:
        return
    if kept.state != 'done':
        tally.note('stuck', f'{session_id} is submitted and {kept.state}: {kept.notice}')
        return
    stored = made.sessions.get(session_id)
    for key in ('progress_a', 'progress_b', 'explanation'):
        if getattr(stored.verdict, key) != mine[key]:
            tally.note('losses', f'{session_id} at the server: {key}')
    for slot in 'AB':
        if not made.blobs.exists(FileId(session_id, slot, f'{slot}_0.mcap').key):
            tally.note('losses', f'{session_id}: no recording of {slot} at the server')


def check_once(made: ArenaServer, tally: Tally) -> None:
    """Note what is counted twice, or not at all: credits and log entries of what counts."""
    with made.database.read() as connection:
        counted = connection.execute(sa.text(
            'SELECT count(*) FROM sessions WHERE accepted_ns IS NOT NULL')).scalar_one()
        open_ones = connection.execute(sa.text(
            "SELECT count(*) FROM sessions WHERE state NOT IN "
            "('done', 'aborted', 'cancelled')")).scalar_one()
        earned = connection.execute(sa.text(
            "SELECT count(*) FROM entries WHERE transfer LIKE 'earn:%' AND amount > 0"
        )).scalar_one()
        entries = [json.loads(row[0]) for row in connection.execute(sa.text(
            'SELECT body FROM log'))]
    logged = [entry['session'] for entry in entries if entry.get('kind') == 'session']
    if not counted == earned == len(logged) == len(set(logged)):
        tally.note('wrong', f'{counted} sessions count, {earned} credits, {len(logged)} entries')
    if open_ones:
        tally.note('stuck', f'{open_ones} sessions are still open at the server')
    tally.remarks.append(f'{counted} sessions count')


def main() -> int:
    """Kill, and print the table."""
    parser = argparse.ArgumentParser(description='kill server, policies and stations')
    parser.add_argument('--kills', type=int, default=200)
    parser.add_argument('--full-disks', action='store_true')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--json', action='store_true', help='the tally as JSON, on one line')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = kills(Path(folder), args.kills, args.seed, args.full_disks)
    sys.stdout.write((json.dumps(dataclasses.asdict(tally)) if args.json else table([tally]))
                     + '\n')
    return 1 if tally.bad else 0


if __name__ == '__main__':
    sys.exit(main())
