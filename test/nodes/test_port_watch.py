"""A process whose port in shared memory was deleted gets no requests: it ends, and says why."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_shm import OWN_SHM, needs_own_shm

from arena_robot.nodes.lib import shared_memory
from arena_robot.nodes.lib.shared_memory import LOCK, PortWatch

NODE = """
import sys
from rclpy.node import Node
from std_msgs.msg import Empty
from arena_robot.nodes.lib import spin as shipped

def make(spin):
    node = Node('one', context=spin.context)
    node.create_subscription(Empty, 'topic', print, 1)
    print('started', flush=True)
    return node

shipped.PORT_LOOK_S = 0.3    # so that a test takes less than the seconds of three looks
sys.exit(shipped.run_node(make))
"""


@pytest.fixture
def node():
    with subprocess.Popen([*OWN_SHM, sys.executable, '-c', NODE], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == 'started\n'
        process.home = Path(f'/proc/{process.pid}/root/dev/shm')
        yield process
        process.kill()


def a_port(node):
    """Return a port in which a process listens."""
    files = [os.readlink(file) for file in Path(f'/proc/{node.pid}/fd').iterdir()]
    return min(match[1] for file in files if (match := LOCK.search(file)))


@needs_own_shm
def test_a_node_whose_port_is_deleted_ends_with_an_error(node):
    lost, watch = a_port(node), PortWatch(node.home, Path(f'/proc/{node.pid}'))
    assert watch.lost() == set()
    (node.home / lost).unlink()
    assert watch.lost() == {lost}
    assert node.wait(30) == 1
    said = node.stderr.read()
    assert f'its {lost} in shared memory was deleted' in said
    assert 'Traceback' not in said


@needs_own_shm
def test_a_port_that_another_process_has_made_in_its_place_is_lost_too(node):
    path = node.home / a_port(node)
    before = path.read_bytes()
    path.unlink()
    path.write_bytes(before)
    assert node.wait(30) == 1
    assert 'gets no requests' in node.stderr.read()


@needs_own_shm
def test_a_node_with_its_ports_stays_until_a_signal(node):
    assert a_port(node)
    time.sleep(1.5)    # more looks than it takes
    assert node.poll() is None
    node.send_signal(signal.SIGTERM)
    assert node.wait(30) == 0


def test_a_port_that_is_found_again_is_not_lost(monkeypatch):
    seen = iter([{'a'}, {'a', 'b'}, {'b'}, {'a', 'b'}, {'a', 'b'}, {'a'}])
    watch = PortWatch()
    monkeypatch.setattr(watch, 'lost', lambda: next(seen))
    assert [watch.look() for _ in range(6)] == [[], [], [], ['b'], ['b'], ['a']]


@needs_own_shm
def test_what_is_mapped_is_read_only_when_a_port_has_changed(node, monkeypatch):
    watch, read = PortWatch(node.home, Path(f'/proc/{node.pid}')), []
    mapped = shared_memory._mapped
    monkeypatch.setattr(shared_memory, '_mapped',
                        lambda process: read.append(1) or mapped(process))
    assert [watch.lost() for _ in range(3)] == [set()] * 3
    assert len(read) == 1
    (node.home / a_port(node)).unlink()
    assert watch.lost()
    assert len(read) == 2
