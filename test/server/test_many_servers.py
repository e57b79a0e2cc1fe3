"""Three server processes on one PostgreSQL and one folder; one after another is killed."""

import contextlib
import dataclasses
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from arena_setting import NotingArena, episode, recorded
from test_server_process import Process

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.core.errors import Conflict, PolicyError, ServerUnavailable
from arena_robot.policy.examples.echo import Echo
from arena_robot.policy.examples.frozen import Frozen
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.server.client import Calls, ServerAddress
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.slot_tokens import TokensInMemory
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import Ledger
from arena_robot.server.store.turn import Turn
from arena_robot.session.arena.contract import PROMPT, VERDICT, observation

PATIENCE_S = 90.0


class OneOfThree(Process):
    """A server with a port of its own, and the data of all."""

    def configure(self):
        shared = self.folder.parent / 'data'
        self.config.write_text(self.config.read_text().replace(f'{self.folder}/data', str(shared)))


class Station:
    """A station that asks the next server when one does not answer."""

    def __init__(self, servers, token, evaluator, folder):
        self._evaluator, self._folder = evaluator, folder
        self._slots = TokensInMemory()
        addresses = [ServerAddress(one.target, token, timeout_s=5.0) for one in servers]
        self._arenas = [NotingArena(one, SystemClock(), tokens=self._slots) for one in addresses]
        self._calls = [Calls(one) for one in addresses]
        self._at = 0
        self.requests, self.retried, self.failures = [], 0, []

    def mended(self, work, also=()):
        """Repeat a call, at the next server each time, until it is answered."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return work(self._at)
            except (ServerUnavailable, PolicyError, *also):
                if time.monotonic() > end_s:
                    raise
                self.retried += 1
                self._at = (self._at + 1) % len(self._arenas)
                time.sleep(0.05)

    def session(self):
        request = pb.AssignRequest(request=uuid.uuid4().hex, evaluator='ada', prompt=PROMPT,
                                   evaluator_token=self._evaluator)
        self.requests.append(request.request)
        reply = self.mended(lambda k: self._calls[k]('Assign', request))
        name = reply.session_id
        self._slots.keep(name, {'A': reply.token_a, 'B': reply.token_b})
        for slot in Slot:
            for step in (0, 8):
                seen = dataclasses.replace(observation(), step=step)
                self.mended(lambda k, slot=slot, seen=seen: self._arenas[k].policy(
                    name, slot).infer(seen, 'e'))
            folder = recorded(self._folder / name / slot.value, name, slot)
            self.mended(lambda k, slot=slot, folder=folder: self._arenas[k].upload(
                name, episode(name, slot), folder))
        self.mended(lambda k: self._arenas[k].feedback(name, VERDICT))
        # The notes of a relay that was killed come with its next start.
        self.mended(lambda k: self._arenas[k].reveal(name), also=(Conflict,))

    def work(self, ending):
        try:
            while not ending.is_set():
                self.session()
        except Exception as error:
            self.failures.append(error)

    def close(self):
        for one in (*self._arenas, *self._calls):
            one.close()


@pytest.fixture
def servers(tmp_path, postgres_url):
    with GrpcPolicyServer(Echo()) as one, GrpcPolicyServer(Frozen()) as two, \
            contextlib.ExitStack() as stack:
        with ThreadPoolExecutor(3) as threads:    # all at once, on an empty database
            made = list(threads.map(lambda k: OneOfThree(tmp_path / f'server-{k}', postgres_url),
                                    range(3)))
        for server in made:
            stack.callback(server.kill)
        first, = (server for server in made if (server.folder / 'token').exists())
        first.tokens = first.fill({'crimson-7b': one.address, 'azure-fast': two.address})
        yield [first, *(server for server in made if server is not first)]


def test_what_a_killed_server_did_not_answer_is_mended_by_a_repeated_call(servers, tmp_path):
    ending = threading.Event()
    stations = [Station(servers, token, servers[0].evaluator, tmp_path / f'station-{k}')
                for k, token in enumerate(servers[0].tokens)]
    threads = [threading.Thread(target=one.work, args=(ending,)) for one in stations]
    for thread in threads:
        thread.start()
    for one in servers:
        done = sum(len(s.requests) for s in stations)
        while sum(len(s.requests) for s in stations) < done + 3 and all(
                thread.is_alive() for thread in threads):
            time.sleep(0.02)
        one.kill()
        one.start()
    ending.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert [one.failures for one in stations] == [[], []]
    assert sum(one.retried for one in stations) >= 1
    check_once(servers[0].url, [name for one in stations for name in one.requests])
    for one in stations:
        one.close()
    for one in servers:
        assert 'Traceback' not in (one.folder / 'log').read_text()


def check_once(url, requests):
    """Every session is there once, counts, is in the log once and was paid once."""
    with Database(url) as database:
        ledger = Ledger(database, SystemClock())
        ledger.check()
        assert ledger.balance('account:ada') == len(requests)
        with database.read() as connection:
            def one(text):
                return connection.execute(sa.text(text)).scalar()
            assert one('SELECT count(*) FROM sessions') == len(requests)
            assert one('SELECT count(*) FROM sessions WHERE accepted_ns IS NOT NULL') == len(
                requests)
            assert one('SELECT count(*) FROM episodes') == 2 * len(requests)
            assert one('SELECT count(*) FROM log') == len(requests)
            assert one('SELECT count(DISTINCT session_id) FROM log') == len(requests)
            assert one('SELECT max(number) + 1 FROM log') == len(requests)


def test_one_server_keeps_house_and_another_takes_over(postgres_url):
    with Database(postgres_url) as one, Database(postgres_url) as two:
        first, second = Turn(one, 'housekeeper'), Turn(two, 'housekeeper')
        assert first.held()
        assert first.held()
        assert not second.held()
        assert Turn(two, 'another').held()
        first.release()
        assert second.held()
        assert not first.held()
        with one.write() as connection:
            connection.execute(sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"))
        assert not second.held()    # it notices, and may take it again
        assert first.held() or second.held()


def test_servers_that_start_at_once_migrate_once(postgres_url):
    databases, failures = [Database(postgres_url) for _ in range(4)], []

    def open_one(database):
        try:
            database.open()
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=open_one, args=(one,)) for one in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for one in databases:
        one.close()
