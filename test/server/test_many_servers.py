"""Several servers on one PostgreSQL: their shared rates, one housekeeper, one first maintainer."""

import contextlib
import dataclasses
import threading
import time

import pytest
import sqlalchemy as sa
from arena_setting import Setting, fine

from arena_robot.core.clock import ManualClock, SystemClock
from arena_robot.core.errors import Unauthorised
from arena_robot.server.access import rates
from arena_robot.server.access import rates as rates_module
from arena_robot.server.access.rates import (
    EXCHANGE_S,
    MOST_TOLD,
    TOLD_FROM,
    RateLimit,
    Rates,
    SharedRates,
    rates_of,
)
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import TooManyCalls
from arena_robot.server.client import Calls, ServerAddress
from arena_robot.server.config import ServerConfig, ServerLimits
from arena_robot.server.proto import arena_server_pb2 as pb
from arena_robot.server.store.audit import KEPT, RateCounts
from arena_robot.server.store.database import Database, Turn

# No second passes on these clocks, so that a bucket has what was not taken from it.
LIMITS = ServerLimits(burst=8, wrong_tokens_burst=20)


class Server:
    """What a server has of its rates, with an exchange that a test calls."""

    def __init__(self, url):
        self.database = Database(url)
        self.database.open()
        self.clock = ManualClock(10**18)
        self.rates = rates_of(LIMITS, self.clock)
        self.shared = SharedRates(self.rates, RateCounts(self.database))

    def allowed(self, limit, caller, calls):
        return sum(taken(limit, caller) for _ in range(calls))

    def rows(self):
        with self.database.read() as connection:
            return connection.execute(sa.text('SELECT * FROM rate_counts')).all()


def taken(limit, caller):
    try:
        limit.take(caller)
    except TooManyCalls:
        return False
    return True


@pytest.fixture
def servers(postgres_url):
    with contextlib.ExitStack() as stack:
        made = [Server(postgres_url) for _ in range(3)]
        for server in made:
            stack.callback(server.database.close)
        yield made


@pytest.mark.parametrize('kind', list(Rates.__dataclass_fields__))
def test_a_caller_refused_at_one_server_is_refused_at_the_others(servers, kind):
    first, second, third = servers
    limits = [getattr(server.rates, kind) for server in servers]
    most = next(k for k in range(10_000) if not taken(limits[0], 'here'))
    for server in servers:
        server.shared.step()
    assert [taken(limit, 'here') for limit in limits] == [False] * 3
    assert [taken(limit, 'there') for limit in limits] == [True] * 3
    others = [getattr(server.rates, name) for server in servers for name in vars(server.rates)
              if name != kind]
    assert all(taken(limit, 'here') for limit in others), 'kinds have buckets of their own'
    assert first.rows()[0].count == most
    for server in servers:    # told once
        for _ in range(3):
            server.shared.step()
    second.clock.advance_ns(10**9)
    assert third.rows()[0].count == most


def test_what_was_taken_at_two_servers_adds_up(servers):
    first, second, _ = servers
    assert first.allowed(first.rates.calls, 't', 4) == 4
    assert second.allowed(second.rates.calls, 't', 3) == 3
    for _ in range(2):
        for server in servers:
            server.shared.step()
    assert [server.allowed(server.rates.calls, 't', 9) for server in servers] == [1, 1, 1]
    for _ in range(2):
        for server in servers:
            server.shared.step()
    # All have taken 10 of 8: the caller owes two, and gets 50 a second.
    for server in servers:
        server.clock.advance_ns(20_000_000)
        assert not taken(server.rates.calls, 't')
        server.clock.advance_ns(50_000_000)
        assert taken(server.rates.calls, 't')


def test_a_server_that_starts_knows_what_callers_took(servers, postgres_url):
    servers[0].allowed(servers[0].rates.wrong_tokens, '10.0.0.1', 100)
    servers[0].shared.step()
    late = Server(postgres_url)
    with late.database:
        late.shared.step()
        assert not taken(late.rates.wrong_tokens, '10.0.0.1')


def test_a_flood_costs_no_write_for_each_call_and_a_usual_caller_none(servers):
    first, *_ = servers
    statements = []
    sa.event.listen(first.database._engine, 'before_cursor_execute',
                    lambda connection, cursor, text, *rest: statements.append(text))
    for k in range(100):
        taken(first.rates.calls, f'station {k}')
    first.shared.step()
    assert first.rows() == []
    assert not any('INSERT' in text for text in statements)
    for _ in range(5000):
        taken(first.rates.wrong_tokens, '10.0.0.1')
    assert not any('INSERT' in text for text in statements)
    first.shared.step()
    first.shared.step()    # of a caller who is refused all the time nothing is new
    assert sum('INSERT' in text for text in statements) == 1
    assert [row.count for row in first.rows()] == [20]


def test_no_token_and_no_address_is_in_the_table(servers):
    servers[0].allowed(servers[0].rates.calls, 'arena_secret_10.0.0.1', 9)
    servers[0].shared.step()
    assert [len(row.caller) for row in servers[0].rows()] == [32]
    assert 'secret' not in str(servers[0].rows())


def test_the_table_stays_bounded_and_empties(servers, monkeypatch):
    monkeypatch.setattr(rates_module, 'MOST_ROWS', 500)
    first, second, _ = servers
    for turn in range(8):
        for k in range(300):
            for server in (first, second):
                server.allowed(server.rates.wrong_tokens, f'{turn} {k}', 6)
        for server in (first, second):
            server.shared.step()
    assert 500 <= len(first.rows()) <= 500 + 2 * MOST_TOLD
    first.shared.clean()
    assert len(first.rows()) >= 500, 'the running period was removed'
    with first.database.write() as connection:
        connection.execute(sa.text('UPDATE rate_counts SET period = period - :n'),
                           {'n': KEPT + 1})
    second.shared.clean()
    assert first.rows() == []
    first.shared.step()
    first.allowed(first.rates.wrong_tokens, 'later', 6)
    first.shared.step()
    assert len(first.rows()) > 0, 'after a flood callers are shared again'


def test_an_outage_opens_no_limit_and_holds_up_no_call(servers, caplog):
    first, second, _ = servers
    with first.database.write() as connection:
        connection.execute(sa.text('ALTER TABLE rate_counts RENAME TO away'))
    for _ in range(3):
        assert first.allowed(first.rates.calls, 't', 30) <= 8
        begin = time.monotonic()
        first.shared.step()
        assert time.monotonic() - begin < 5.0
    assert not taken(first.rates.calls, 't')
    assert sum('by this server alone' in record.message for record in caplog.records) == 1
    with first.database.write() as connection:
        connection.execute(sa.text('ALTER TABLE away RENAME TO rate_counts'))
    for server in (first, second):
        server.shared.step()
    assert taken(second.rates.calls, 't'), 'what was counted in the outage was told later'
    first.clock.advance_ns(10**9)
    assert first.allowed(first.rates.calls, 't', 9) == 8
    for server in (first, second):
        server.shared.step()
    assert not taken(second.rates.calls, 't')


def test_a_table_that_is_locked_holds_up_no_call(servers):
    first, second, _ = servers
    first.allowed(first.rates.calls, 't', 8)
    with second.database.write() as connection:
        connection.execute(sa.text('LOCK TABLE rate_counts IN ACCESS EXCLUSIVE MODE'))
        begin = time.monotonic()
        first.shared.step()    # gives up
        assert time.monotonic() - begin < 10.0
    assert not taken(first.rates.calls, 't')


def test_a_bucket_owes_at_most_one_burst():
    clock = ManualClock(10**18)
    limit = RateLimit(clock, 1.0, 4)
    key = next(iter(limit_after(limit, 'a', 4)))
    limit.charge({key: 10**9})
    clock.advance_ns(4_900_000_000)
    assert not taken(limit, 'a')
    clock.advance_ns(200_000_000)
    assert taken(limit, 'a')


def limit_after(limit, caller, calls):
    for _ in range(calls):
        limit.take(caller)
    untold = limit.take_untold(10)
    assert list(untold.values()) == [calls]
    return untold


def test_what_a_bucket_has_got_back_is_not_told():
    clock = ManualClock(10**18)
    limit = RateLimit(clock, 1.0, 8)
    for _ in range(int(8 * TOLD_FROM) - 1):
        limit.take('a')
    assert limit.take_untold(10) == {}
    clock.advance_ns(3600 * 10**9)
    limit.take('a')
    assert limit.take_untold(10) == {}
    limit.take('a')
    assert list(limit.take_untold(10).values()) == [2]
    assert limit.take_untold(10) == {}


def test_an_address_that_guesses_at_one_server_is_refused_at_another(tmp_path, postgres_url):
    first = Setting(tmp_path / 'one', postgres_url, {})
    second = ArenaServer(dataclasses.replace(first.config, data=tmp_path / 'two'), SystemClock(),
                         fine, fine)
    with contextlib.closing(first), second:
        here, there = (Calls(ServerAddress(f'127.0.0.1:{port}', 'arena_guess'))
                       for port in (first.server.port, second.port))
        assert sum(guessed(here) for _ in range(60)) < 30
        begin, guesses = time.monotonic(), 0
        while guessed(there):    # fewer than the server alone would take
            guesses += 1
            assert guesses < 15, 'the other server did not learn of it'
            time.sleep(0.2)
        assert time.monotonic() - begin < 2 * EXCHANGE_S + 2.0
        with contextlib.closing(Calls(ServerAddress(f'127.0.0.1:{second.port}',
                                                    first.tokens['owner']))) as good:
            good.once('ListPolicies', pb.Empty())
        here.close()
        there.close()


def guessed(calls):
    """Tell whether a call with a wrong token was looked at."""
    try:
        calls.once('ListPolicies', pb.Empty())
    except Unauthorised:
        return True
    except TooManyCalls:
        return False
    raise AssertionError('a wrong token was taken')


def test_one_server_keeps_house_and_another_takes_over(postgres_url):
    with Database(postgres_url) as here, Database(postgres_url) as there:
        first, second = Turn(here, 'housekeeper'), Turn(there, 'housekeeper')
        assert first.held()
        assert first.held()
        assert not second.held()
        assert Turn(there, 'another').held()
        first.release()
        assert second.held()
        assert not first.held()
        with here.write() as connection:
            connection.execute(sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"))
        assert not second.held()    # it notices, and may take it again
        assert first.held() or second.held()


def test_servers_that_start_at_once_migrate_once_and_make_one_maintainer(postgres_url, tmp_path):
    configs = [ServerConfig(data=tmp_path / str(k), database=postgres_url, port=0, site_port=-1)
               for k in range(3)]
    servers = [ArenaServer(config, SystemClock(), fine, fine) for config in configs]
    tokens, failures = [], []

    def start(server):
        try:
            server.open()
            tokens.append(server.first_token())
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=start, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()
    assert failures == []
    assert sorted(token is None for token in tokens) == [False, True, True]


def test_buckets_that_are_full_again_are_not_kept():
    clock = ManualClock()
    limit = RateLimit(clock, rate=1.0, burst=4)
    for k in range(1000):
        limit.take(f'session {k}')
        clock.advance_ns(10**9)
    assert len(limit._buckets) <= 3
    assert len(limit._to_tell) <= 3


def test_who_used_the_burst_waits_whoever_else_calls():
    clock = ManualClock()
    limit = RateLimit(clock, rate=1.0, burst=4)
    for _ in range(4):
        limit.take('busy')
    for k in range(100):
        limit.take(f'other {k}')
    with pytest.raises(TooManyCalls):
        limit.take('busy')
    clock.advance_ns(2 * 10**9)
    limit.take('busy')
    limit.take('busy')
    with pytest.raises(TooManyCalls):
        limit.take('busy')


def test_there_are_at_most_so_many_buckets(monkeypatch):
    monkeypatch.setattr(rates, 'BUCKETS', 10)
    limit = RateLimit(ManualClock(), rate=1.0, burst=4)
    for k in range(50):
        limit.take(f'address {k}')
    assert len(limit._buckets) == 10
