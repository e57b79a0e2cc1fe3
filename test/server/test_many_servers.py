"""Servers on one PostgreSQL; test/attack/two_servers.py kills and pauses them."""

import threading

import sqlalchemy as sa
from arena_setting import fine

from arena_robot.core.clock import SystemClock
from arena_robot.server.app import ArenaServer
from arena_robot.server.config import ServerConfig
from arena_robot.server.store.database import Database, Turn


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
