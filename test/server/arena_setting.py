"""A whole server with a pool, people and a station, for tests over real sockets."""

import dataclasses
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from rollout_bags import read_here
from sample_episodes import SampleEpisode, SampleMaker

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.core.pair import StationInfo
from arena_robot.core.verdict import Verdict
from arena_robot.records.episode_file import EpisodeFile, write_episode
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import Calls, RemoteArena, ServerAddress
from arena_robot.server.config import ServerConfig
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation

NAMES = ('crimson-7b', 'azure-fast', 'viridian')
STATION = StationInfo('bench', 'fr3')
# A rollout of so many steps queries its policy at the first and at the last of these.
STEPS, FIRST, LAST = 10, 0, 8
MAKER, LOCK = SampleMaker(SampleEpisode()), threading.Lock()


def fine(address: str) -> str:
    return ''


def proven(home: Path) -> dict[str, str]:
    """Read no recording: for tests of other things, whose rollouts are made up."""
    return {slot.value: '' for slot in Slot}


SENT: dict[tuple[str, str, int], str] = {}


class NotingPolicy:
    """Notes the hashes of the observations of a slot, which its recording has too."""

    def __init__(self, policy, session_id: str, slot: Slot) -> None:
        self._policy, self._where = policy, (session_id, slot.value)

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def infer(self, observation, episode=''):
        chunk = self._policy.infer(observation, episode)
        SENT[(*self._where, observation.step)] = chunk.observation_sha256
        return chunk


class NotingArena(RemoteArena):
    """A station's arena whose recordings fit what was sent."""

    def policy(self, session_id, slot):
        return NotingPolicy(super().policy(session_id, slot), session_id, slot)


class Setting:
    """A server with a pool, an owner, an evaluator 'ada' and a station, and their tokens."""

    def __init__(self, folder: Path, url: str, pool: dict[str, str],
                 read: Callable[[Path], Mapping[str, str]] | None = read_here, **config) -> None:
        # The sessions of tests take no time.
        given = {'max_pace': 0.0, 'redraws_per_day': 1000, 'evaluator_sessions_per_day': 10_000,
                 'station_sessions_per_day': 10_000, 'probe_period_s': 3600.0, **config}
        self.config = ServerConfig(data=folder, database=url, port=0, site_port=0, seed=1,
                                   **given)
        self.server = ArenaServer(self.config, SystemClock(), fine, fine, read_recordings=read)
        self.server.open()
        accounts = self.server.accounts
        self.owner = accounts.add_account('olga', 'upenn', [Role.OWNER])
        evaluator = accounts.add_account('ada', 'nyu', [Role.EVALUATOR])
        station = accounts.add_station(Station(0, 'bench', 'nyu', 'fr3'))
        self.tokens = {'owner': accounts.issue(self.owner), 'ada': accounts.issue(evaluator),
                       'station': accounts.issue(station),
                       'maintainer': accounts.issue(accounts.add_account(
                           'maya', 'nyu', [Role.MAINTAINER]))}
        for name, address in pool.items():
            record = self.server.policies.add(NewPolicy(name, address), self.owner.id,
                                              PolicyState.POOL)
            self.server.policies.set_health(record.id, True)
        self.arenas = []

    @property
    def target(self) -> str:
        return f'127.0.0.1:{self.server.port}'

    def arena(self, station: str = 'station', evaluator: str = 'ada') -> RemoteArena:
        arena = NotingArena(ServerAddress(self.target, self.tokens[station]), SystemClock())
        self.arenas.append(arena)
        arena.sign_in(self.tokens[evaluator])
        return arena

    def calls(self, who: str) -> Calls:
        calls = Calls(ServerAddress(self.target, self.tokens.get(who, who)))
        self.arenas.append(calls)
        return calls

    def close(self) -> None:
        for arena in self.arenas:
            arena.close()
        self.server.close()


def episode(session_id: str, slot: Slot, end: EndReason = EndReason.DONE) -> Episode:
    return Episode(session_id, slot, PROMPT, STEPS, end, 1_000, 2_000)


def recorded(folder: Path, session_id: str, slot: Slot, steps: int = STEPS,
             start_ns: int = 1_790_000_000_000_000_000) -> Path:
    """
    Return ``folder`` with the recording of a rollout of its own and its numbers.

    The policies of the pool do nothing with the observation of these tests: nothing moves.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sample = SampleEpisode(steps=steps, state_hz=15, width=32, height=18, slot=slot.value,
                           session_id=session_id, start_ns=start_ns, still=True,
                           sent={step: sha for (*where, step), sha in SENT.items()
                                 if where == [session_id, slot.value]})
    shutil.rmtree(folder / 'A', ignore_errors=True)
    with LOCK:
        MAKER.sample = sample
        MAKER.write(folder / 'A')
    for file in (folder / 'A').iterdir():
        file.replace(folder / file.name)
    (folder / 'A').rmdir()
    write_episode(folder, EpisodeFile(session_id, slot.value, PROMPT, steps=steps))
    return folder


def query(arena: RemoteArena, session_id: str, slot: Slot, *steps: int) -> None:
    """Query the policy of a slot at some steps; without any, as a rollout of ten steps does."""
    policy = arena.policy(session_id, slot)
    for step in steps or (FIRST, LAST):
        policy.infer(dataclasses.replace(observation(), step=step), f'{session_id}-{slot.value}')


def roll(arena: RemoteArena, session_id: str, slot: Slot, folder: Path,
         end: EndReason = EndReason.DONE) -> None:
    """Roll out one slot through the relay and upload its episode."""
    query(arena, session_id, slot)
    arena.upload(session_id, episode(session_id, slot, end),
                 recorded(folder / session_id / slot.value, session_id, slot))


def run(arena: RemoteArena, folder: Path, feedback: Verdict = VERDICT) -> str:
    """Run one session as a station does, and return its id."""
    pair = arena.assign(STATION, 'ada', PROMPT)
    for slot in Slot:
        roll(arena, pair.session_id, slot, folder)
    arena.feedback(pair.session_id, feedback)
    return pair.session_id
