"""
Kills of the nodes of a simulated station in real time: session, recorder, simulation, page.

    python test/attack/node_kills.py --kills 110

Afterwards every entry that the session node took must be kept, every session must have ended, and
every recording must be whole.
"""

import argparse
import dataclasses
import importlib
import itertools
import json
import os
import random
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from kills import Victim, forks, free_port
from tally import Tally, table
from victims import begin

from arena_robot.core.errors import ArenaError
from arena_robot.nodes.executables import MODULES
from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.station.processes import SimulatedStation
from arena_robot.recording.bag.recover import is_complete
from arena_robot.records.session_file import read_session
from arena_robot.session.evaluator.desk import DeskState
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

BORDER = "kills of a station's nodes"
END_S, SETTLE_S, SETTLED_S = 120.0, 60.0, 6.0
PAGE = 'console'
POOL = {'policies': [{'name': 'walker', 'address': 'example:random_walk'},
                     {'name': 'sleeper', 'address': 'example:frozen'}]}


def node(log: Path, module: str, words: list[str]) -> None:
    """Run a node, or a verb of `arena`, until killed."""
    begin(log)
    sys.argv = ['node', *words]
    main = importlib.import_module(module).main
    sys.exit(main(words) if module.endswith('cli.main') else main(sys.argv))


class Station:
    """The processes of a station, and the evaluator who never gives up."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.data = folder, folder / 'data'
        self.namespace = f'attack_{os.getpid()}'
        self.context = forks('arena_robot.nodes.session.node', 'arena_robot.nodes.recorder.node',
                             'arena_robot.nodes.simulation.node', 'arena_robot.cli.main',
                             'arena_robot.web.console.app')
        self.port = free_port()
        self.told: list[tuple[str, str, Any]] = []
        self.over = threading.Event()
        self._rng = random.Random(seed)
        self.victims = self._victims()
        self.evaluator = threading.Thread(target=self._evaluate, daemon=True)

    def _victims(self) -> list[Victim]:
        files = self.folder / 'parameters'
        files.mkdir()
        pool = self.folder / 'pool.yaml'
        pool.write_text(json.dumps(POOL))
        station = SimulatedStation(pool, self.data, max_steps=20, namespace=self.namespace,
                                   sim={'image_width': 128, 'image_height': 72})
        commands = {node.name: (MODULES[node.executable], node.command()[3:])
                    for node in station.processes(files)}
        commands['session_node'][1].extend(['-p', 'max_image_age:=2.0'])
        commands[PAGE] = ('arena_robot.cli.main', [
            'console', '--port', str(self.port), '--namespace', self.namespace, '--wait', '60'])
        return [Victim(name, lambda name=name, what=what: self._run(name, *what))
                for name, what in commands.items()]

    def _run(self, name: str, module: str, words: list[str]) -> Any:
        process = self.context.Process(target=node, daemon=True, args=(
            self.folder / f'log_{name}', module, words))
        process.start()
        return process

    def _evaluate(self) -> None:
        for number in itertools.count():
            words = f'put cube {number} of {self._rng.randrange(10**9)} in the bowl'
            while not self._session(words):
                time.sleep(0.2)
            if self.over.is_set():
                return

    def _session(self, words: str) -> bool:
        """Run one session, or go on with it; False when something was killed meanwhile."""
        try:
            with RemoteDesk(namespace=self.namespace, patience_s=20.0) as desk:
                desk.take('ada')
                if self.over.is_set() and desk.state().state.is_final:
                    return True
                Evaluator(desk, words, self._rng, self.told).run()
                return True
        except ArenaError:
            return False

    def page(self) -> dict[str, Any]:
        """Return what the page shows."""
        with urllib.request.urlopen(f'http://127.0.0.1:{self.port}/api/state',
                                    timeout=10.0) as answer:
            return dict(json.load(answer))


class Evaluator(Scripted):
    """Scripted, with random scores, and with a note of each entry that was taken."""

    def __init__(self, desk: RemoteDesk, words: str, rng: random.Random,
                 told: list[tuple[str, str, Any]]) -> None:
        super().__init__(desk, Script('ada', words, self._score))
        self._rng, self._told, self._last, self._words = rng, told, 0.0, words

    def _score(self) -> float:
        self._last = self._rng.randrange(99) / 100.0
        return self._last

    def _settle(self, before: DeskState) -> None:
        """Wait for a change; a command of which nothing came is given again."""
        end_s = time.monotonic() + SETTLED_S
        while self._desk.state().state is before.state and time.monotonic() < end_s:
            self._desk.wait_change(self._desk.state(), 0.2)

    def _act(self, seen: DeskState) -> None:
        super()._act(seen)
        again = any(slot.again == 'fault' for slot in seen.slots)
        if seen.state in (State.SCORING_A, State.SCORING_B) and not again:
            key = 'progress_a' if seen.state is State.SCORING_A else 'progress_b'
            self._told.append((seen.session_id, key, self._last))
        elif seen.state is State.REVIEW:
            self._told.append((seen.session_id, 'submitted', True))
        elif seen.state is State.PREFLIGHT:
            self._told.append(('', 'prompt', self._words))


def node_kills(folder: Path, count: int, seed: int = 1) -> Tally:
    """Return what ``count`` kills at random instants did."""
    tally, rng = Tally(BORDER), random.Random(seed)
    station = Station(folder, seed)
    for victim in station.victims:
        victim.start()
    station.evaluator.start()
    try:
        time.sleep(5.0)
        while tally.tried < count:
            time.sleep(rng.uniform(0.2, 3.0))
            for victim in station.victims:
                if victim.died():
                    tally.note('crashes', f'{victim.name}: {victim.process.exitcode}')
                    victim.start()
            for victim in rng.sample(station.victims, rng.choice([1, 1, 2, 3])):
                victim.kill()
                tally.tried += 1
        station.over.set()
        station.evaluator.join(END_S)
        if station.evaluator.is_alive():
            tally.note('stuck', 'the session that was going on did not end')
        check(station, tally)
    finally:
        for victim in station.victims:
            victim.process.kill()
            victim.process.join(10.0)
    return tally


def check(station: Station, tally: Tally) -> None:
    """Note what is lost, what has not ended and what is not whole."""
    home, end_s = station.data / 'sessions', time.monotonic() + SETTLE_S
    while waiting(home) and time.monotonic() < end_s:
        time.sleep(0.5)
    for words in waiting(home):
        tally.note('stuck', words)
    kept = {path.parent.name: read_session(path.parent) for path in home.glob('*/session.json')}
    prompts = {session.prompt for session in kept.values()}
    for session_id, key, value in station.told:
        if key == 'prompt' and value not in prompts:
            tally.note('losses', f'no session is about {value!r}')
        elif key.startswith('progress') and getattr(
                kept[session_id].verdict, key, None) != value:
            tally.note('losses', f'{session_id}: {key} was {value}')
    done = [session for session in kept.values() if session.state == 'done']
    if any(not session.verified for session in done):
        tally.note('wrong', 'a pair was revealed and does not fit its commitment')
    try:
        station.page()
    except (OSError, ValueError) as error:
        tally.note('stuck', f'the page does not answer: {error}')
    for path in station.folder.glob('log_*'):
        for part in path.read_text(errors='replace').split('Traceback')[1:]:
            tally.note('crashes', f'{path.name}: {part[-500:]}')
    tally.remarks.append(f'{len(done)} sessions done of {len(kept)}, {len(station.told)} entries '
                         'told; kills: ' + ', '.join(f'{v.name} {v.kills}'
                                                     for v in station.victims))


def waiting(home: Path) -> list[str]:
    """Return the sessions that have not ended, and the recordings that are not whole."""
    waits = []
    for path in home.glob('*/session.json'):
        session = read_session(path.parent)
        if session.state not in ('done', 'aborted'):
            waits.append(f'{path.parent.name} is {session.state}: {session.notice}')
    return waits + [f'{path.parent} is not whole' for path in home.glob('*/[AB]/*.mcap')
                    if not is_complete(path.parent)]


def main() -> int:
    """Kill, and print the table."""
    parser = argparse.ArgumentParser(description="kill a station's nodes")
    parser.add_argument('--kills', type=int, default=110)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--json', action='store_true', help='the tally as JSON, on one line')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = node_kills(Path(folder), args.kills, args.seed)
    sys.stdout.write((json.dumps(dataclasses.asdict(tally)) if args.json else table([tally]))
                     + '\n')
    return 1 if tally.bad else 0


if __name__ == '__main__':
    sys.exit(main())
