"""A connection that the other end has closed, seen from outside the process that has it."""

import socket
import subprocess
import sys
import time

from arena_robot.drivers.franka.process import closed_by_peer

CLIENT = """
import socket, sys
line = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print('connected', flush=True)
sys.stdin.read()
"""


def test_a_connection_that_only_the_other_end_has_closed_is_seen():
    with socket.create_server(('127.0.0.1', 0)) as server, subprocess.Popen(
            [sys.executable, '-c', CLIENT, str(server.getsockname()[1])], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        line, _ = server.accept()
        assert client.stdout.readline() == 'connected\n'
        assert not closed_by_peer(client.pid)
        line.close()
        end_s = time.monotonic() + 10.0
        while not closed_by_peer(client.pid):
            assert time.monotonic() < end_s
            time.sleep(0.001)
        client.stdin.close()
        client.wait(10.0)
        assert not closed_by_peer(client.pid)


def test_a_system_without_proc_says_nothing(tmp_path):
    assert not closed_by_peer(1, tmp_path)
