"""Clients wait for a server that is still loading, and say so."""

import re
import socket
import threading

import pytest

from arena_robot.cli.policy.check import await_server
from arena_robot.core.errors import PolicyRefused, PolicyUnavailable
from arena_robot.policy.connect import connect
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.policy.options import CallOptions, ServeOptions

QUICK = CallOptions(connect_timeout_s=1.0)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr('arena_robot.policy.connect.PAUSE_S', 0.05)


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        return taken.getsockname()[1]


def test_a_server_that_comes_later_is_waited_for_and_each_attempt_is_told():
    port, told = free_port(), []
    server = OpenpiPolicyServer(Echo(), ServeOptions(port=port))

    def tell(waited_s, error):
        told.append(error)
        if len(told) == 2:
            server.open()

    with connect(f'openpi://127.0.0.1:{port}', QUICK, 20.0, tell) as policy:
        assert policy.spec.image_size == (224, 224)
    server.close()
    assert all('does not answer' in error for error in told)


def test_the_end_of_the_wait_says_how_long_and_why():
    with pytest.raises(PolicyUnavailable, match=r'waited \d s: .* does not answer'):
        connect(f'openpi://127.0.0.1:{free_port()}', QUICK, 0.2)
    with pytest.raises(PolicyUnavailable, match=r'^openpi://'):
        connect(f'openpi://127.0.0.1:{free_port()}', QUICK)


def test_a_server_that_refuses_is_not_waited_for():
    told = []
    with OpenpiPolicyServer(Echo(), ServeOptions(token='k')) as server, \
            pytest.raises(PolicyRefused, match='HTTP 401'):
        connect(server.address, QUICK, 20.0, lambda *what: told.append(what))
    assert told == []


def test_the_command_line_shows_progress_and_the_end(capsys):
    port = free_port()
    server = OpenpiPolicyServer(Echo(), ServeOptions(port=port))
    starting = threading.Timer(0.3, server.open)
    starting.start()
    await_server(f'openpi://127.0.0.1:{port}', QUICK, 20.0)
    starting.join()
    server.close()
    waited, *_, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f'waiting for openpi://127.0.0.1:{port}: \\d+ of 20 s', waited)
    assert last == f'openpi://127.0.0.1:{port} answers'
