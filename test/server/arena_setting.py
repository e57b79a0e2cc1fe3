"""A whole server with a pool, people and a station, for tests over real sockets."""

from pathlib import Path

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import EndReason, Episode, Slot
from arena_robot.core.pair import StationInfo
from arena_robot.core.verdict import Verdict
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.server.client import Calls, RemoteArena, ServerAddress
from arena_robot.server.config import ServerConfig
from arena_robot.server.store.policies import NewPolicy
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation

NAMES = ('crimson-7b', 'azure-fast', 'viridian')
STATION = StationInfo('bench', 'fr3')


def fine(address: str) -> str:
    return ''


class Setting:
    """A server with a pool, an owner, an evaluator 'ada' and a station, and their tokens."""

    def __init__(self, folder: Path, url: str, pool: dict[str, str], **config) -> None:
        self.config = ServerConfig(data=folder, database=url, port=0, site_port=0, seed=1,
                                   probe_period_s=3600.0, **config)
        self.server = ArenaServer(self.config, SystemClock(), fine, fine)
        self.server.open()
        accounts = self.server.accounts
        self.owner = accounts.add_account('olga', 'nyu', [Role.OWNER])
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

    def arena(self) -> RemoteArena:
        arena = RemoteArena(ServerAddress(self.target, self.tokens['station']), SystemClock())
        self.arenas.append(arena)
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
    return Episode(session_id, slot, PROMPT, 10, end, 1_000, 2_000)


def run(arena: RemoteArena, folder: Path, feedback: Verdict = VERDICT) -> str:
    """Run one session as a station does, and return its id."""
    pair = arena.assign(STATION, 'ada', PROMPT)
    for slot in Slot:
        arena.policy(pair.session_id, slot).infer(observation(), f'{pair.session_id}-{slot}')
        arena.upload(pair.session_id, episode(pair.session_id, slot), folder)
    arena.feedback(pair.session_id, feedback)
    return pair.session_id
